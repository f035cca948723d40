//! Queries over real sockets: how far they reach, what they cost, and many of them at once.

use crate::common::*;

/// Named on one side or on both, neighbors are asked in both directions.
#[testkit::test]
async fn query_on_a_line_reaches_exactly_as_far_as_its_ttl(security: Security) {
    let indexers = line(security, 4).await;
    let peers = holders_everywhere(&indexers, security).await;
    for ttl in 0..4u8 {
        for (asker, reached) in [(0, 0..=ttl.into()), (3, 3 - u16::from(ttl)..=3)] {
            let reply = peers[asker].query("a", ttl).await;
            assert_eq!(hits(&reply), [(1, nodes(reached))], "TTL {ttl} from {asker}");
            assert_eq!((reply.complete, reply.messages), (true, ttl.into()), "TTL {ttl} from {asker}");
        }
    }
    for ttl in [TTL_MAX + 1, 255] {
        let refused = peers[0].client.query(patient(), query("a", ttl)).await.unwrap();
        assert_eq!(refused, Err(Refusal::TtlTooLarge(ttl)), "and is not cut");
    }
    assert_eq!(hits(&peers[0].query("a", TTL_MAX).await), [(1, nodes(0..4))]);
}

#[testkit::test]
async fn part_of_a_file_is_found_from_anywhere_as_a_part_until_it_is_the_whole(security: Security) {
    let indexers = line(security, 2).await;
    let asker = Peer::join(1, indexers[0].local_addr(), security).await;
    let reader = Peer::join(2, indexers[1].local_addr(), security).await;
    let holders = async |ttl_hops| asker.query("a", ttl_hops).await.hits.first().map_or(vec![], Hit::at);
    let whole = reader.holder.unwrap();
    let part = Holder { partial: true, ..whole };
    let request = registration([record(ORIGIN, "a", 1)]);
    let request = RegisterRequest { announce: false, partial: true, ..request };
    let reply = reader.client.register(patient(), request).await.unwrap().unwrap();
    assert_eq!((reply.lease.names, reply.unlisted.len()), (1, 0));
    assert_eq!((holders(1).await, holders(0).await), (vec![part], vec![]));
    asker.register([record(ORIGIN, "a", 1)]).await;
    assert_eq!(holders(1).await, [asker.holder.unwrap(), part]);
    let reply = reader.register([record(ORIGIN, "a", 1)]).await;
    assert_eq!((reply.lease.names, reply.unlisted.len()), (1, 0), "it stays one name");
    assert_eq!(holders(1).await, [asker.holder.unwrap(), whole]);
}

#[testkit::test]
async fn many_names_in_one_call_are_answered_as_one_by_one(security: Security) {
    let indexers = mesh(security, 4).await;
    let peers = holders_everywhere(&indexers, security).await;
    for (n, peer) in (0..).zip(&peers) {
        peer.register([record(n, &format!("only-{n}"), 1)]).await;
    }
    let text = |n: usize| match n % 3 {
        0 => "a".to_owned(),
        1 => format!("only-{}", n % 4),
        _ => format!("nobody-{n}"),
    };
    let texts: Vec<String> = (0..BATCH_MAX).map(text).collect();
    let names = || Names::first_of(texts.iter().map(|text| name(text)));
    let request = |ttl_hops| QueryAllRequest::new(names(), ttl_hops);
    for ttl_hops in [0, 3] {
        let found = peers[0].client.query_all(patient(), request(ttl_hops)).await.unwrap().unwrap();
        assert_eq!(found.len(), BATCH_MAX);
        for (text, found) in texts.iter().zip(found) {
            let (found, alone) = (found.unwrap(), peers[0].query(text, ttl_hops).await);
            assert_eq!((hits(&found), found.complete), (hits(&alone), alone.complete), "{text}");
            assert_eq!(found.messages, alone.messages, "{text}");
        }
    }
    let refused = peers[0].client.query_all(patient(), request(TTL_MAX + 1)).await.unwrap();
    assert_eq!(refused, Err(Refusal::TtlTooLarge(TTL_MAX + 1)));
}

/// Goal: who cannot use IPv6 reaches a holder that its indexer sees over IPv4, though that listens for both.
#[testkit::test]
async fn holder_that_comes_by_ipv4_to_all_addresses_is_listed_by_ipv4(security: Security) {
    let all = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    let near = Indexer::spawn(Config { listen: all, ..config(security, &[]) }).await.unwrap();
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, near.local_addr().port()));
    let far = connected(security, &[at]).await;
    let peer = Peer::join(1, at, security).await;
    peer.register([record(ORIGIN, "a", 1)]).await;
    let listens_at = peer.holder.unwrap().addr;
    let other = Peer::join(2, far.local_addr(), security).await;
    for reply in [peer.query("a", 0).await, other.query("a", 1).await] {
        assert_eq!(reply.hits[0].holders[0].node.addrs(), [listens_at], "at 127.0.0.1");
    }
}

#[testkit::test]
async fn at_its_last_hop_a_query_goes_only_to_who_may_have_the_name(security: Security) {
    let indexers = line(security, 5).await;
    let mut peers = Vec::new();
    for (seed, indexer) in (0u16..).zip(&indexers) {
        let peer = Peer::join(seed, indexer.local_addr(), security).await;
        peer.register([record(seed, &format!("only-{seed}"), 1)]).await;
        peers.push(peer);
    }
    // Nothing is known of who is two hops away: he is asked, unless it is the last hop and his summary says no.
    for (text, messages) in [("only-0", 2), ("only-1", 2), ("only-2", 2), ("only-3", 3)] {
        let asked = async || Some(peers[0].query(text, 3).await).filter(|reply| reply.messages == messages);
        let reply = eventually(asked).await;
        assert_eq!((reply.hits.len(), reply.complete), (1, true), "{text}");
    }
    let beyond = peers[0].query("only-4", 3).await;
    assert_eq!((beyond.hits.len(), beyond.messages), (0, 2));
    for (text, found) in [("only-1", (1, 1, true)), ("nobody has it", (0, 0, true))] {
        let reply = peers[0].query(text, 1).await;
        assert_eq!((reply.hits.len(), reply.messages, reply.complete), found, "{text}");
    }
    peers[3].register([record(9, "late", 1)]).await;
    assert_eq!(peers[0].query("late", 3).await.hits.len(), 1, "at once, whatever was told by then");
}

/// Fifty clients, forty queries each, all at once: the system that this one replaces stops here
/// forever, since every indexer holds a slot while it waits for another.
#[testkit::test(multi_thread)]
async fn mesh_of_10_serves_50_clients_at_once() {
    const CLIENTS: u16 = 50;
    let indexers = mesh(CLEAR, 10).await;
    let mut clients = Vec::new();
    for seed in 0..CLIENTS {
        let at = &indexers[usize::from(seed) % 10];
        let client = Peer::join(seed, at.local_addr(), CLEAR).await;
        client.register([record(seed, &format!("file-{seed}"), 1)]).await;
        clients.push(client);
    }
    // Where a summary does not name a file yet, more indexers are asked for it.
    for client in &clients[..10] {
        for n in 0..CLIENTS {
            let asked = async || Some(client.query(&format!("file-{n}"), 3).await);
            eventually(async || asked().await.filter(|reply| reply.messages <= 3)).await;
        }
    }
    let mut working = JoinSet::new();
    for (seed, client) in (0..CLIENTS).zip(clients) {
        working.spawn(async move {
            for n in 0..40 {
                let case = format!("client {seed}, query {n}");
                let wanted = (seed * 7 + n * 11) % CLIENTS;
                let reply = client.query(&format!("file-{wanted}"), 3).await;
                assert_eq!(hits(&reply), [(1, nodes([wanted]))], "{case}");
                assert!(reply.complete && reply.messages <= 3, "{case}: {}", reply.messages);
                let reply = client.query(&format!("nobody-{n}"), 3).await;
                assert_eq!((reply.complete, reply.messages), (true, 9), "{case}");
            }
            client // stays connected, and so a holder, until all are done
        });
    }
    assert_eq!(working.join_all().await.len(), usize::from(CLIENTS));
}

#[testkit::test]
async fn query_of_no_hops_asks_no_neighbor_and_a_deadline_of_an_hour_is_cut_and_the_query_served() {
    let mut neighbor = Fake::begin(500, Security::Tls, Habit::nothing());
    let indexer = connected(Security::Tls, &[neighbor.addr]).await;
    let peer = holder(1, &indexer, Security::Tls).await;
    peer.register([record(ORIGIN, "b", 1)]).await;
    assert_eq!(hits(&peer.query("a", 0).await), [(1, nodes([1]))]);
    let hour = within(Duration::from_secs(3600));
    let reply = peer.client.query(hour, query("b", 1)).await.unwrap().unwrap();
    assert_eq!((hits(&reply), reply.complete), (vec![(1, nodes([1]))], true));
    let (context, request) = neighbor.asked.recv().await.unwrap();
    assert_eq!(request.name.as_str(), "b", "what may go no hop did not go to the neighbor");
    let left = context.deadline.saturating_duration_since(Instant::now());
    assert!(left < DEADLINE_MAX && left > DEADLINE_MAX / 2, "the neighbor has {left:?}");
}

#[testkit::test]
async fn tiny_deadline_gives_a_right_answer_or_none_and_harms_nobody(security: Security) {
    let indexers = line(security, 2).await;
    let peers = holders_everywhere(&indexers, security).await;
    for micros in (0..4000).step_by(40) {
        let tiny = within(Duration::from_micros(micros));
        match peers[0].client.query(tiny, query("a", 1)).await {
            Ok(reply) => {
                let reply = reply.unwrap();
                let expected = if reply.complete { nodes(0..2) } else { nodes([0]) };
                assert_eq!(hits(&reply), [(1, expected)]);
            }
            Err(error) => assert!(matches!(error, RpcError::DeadlineExceeded), "{error}"),
        }
    }
    assert_eq!(asked(&peers[0], 1).await, (vec![(1, nodes(0..2))], true));
}

/// As at its last hop: in a mesh no other copy comes, whatever hops are left. What travels on is remembered.
#[testkit::test]
async fn query_that_comes_from_where_it_began_and_goes_nowhere_is_not_remembered(security: Security) {
    let indexer = indexer(security, &[]).await;
    let _holder = holder(1, &indexer, security).await;
    let (asker, other) =
        (dial(9, indexer.local_addr(), security, Habit::NeverAnswers).await, identity(10).id().tag());
    let mine = identity(9).id().tag();
    let found = async |began_at: NodeTag, id: u128| {
        let covered = Covered::first_of([began_at, mine, indexer.node().tag()]);
        let request = QueryRequest { covered, ..QueryRequest::new(MsgId::from_u128(id), name("a"), 7) };
        asker.client.query(patient(), request).await.unwrap().unwrap().hits.len()
    };
    assert_eq!([found(mine, 1).await, found(mine, 1).await], [1, 1]);
    assert_eq!([found(other, 2).await, found(other, 2).await], [1, 0]);
}

/// Who knows of none beyond it that is left to be asked is not asked, unless one of these is away: only it can say so.
#[testkit::test]
async fn one_that_is_away_two_hops_off_is_missed(security: Security) {
    let mut indexers = line(security, 3).await;
    let peer = holder(0, &indexers[0], security).await;
    assert_eq!(asked(&peer, 2).await, (vec![(1, nodes([0]))], true));
    indexers.pop().unwrap().abort().await;
    let missed = async || (!asked(&peer, 2).await.1).then_some(());
    eventually(missed).await;
}
