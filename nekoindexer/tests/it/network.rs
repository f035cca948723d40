//! Queries over real sockets: how far they reach, what they cost, and many of them at once.

use std::time::{Duration, Instant};

use crate::common::{
    Fake, Peer, eventually, fake::Habit, hits, indexer, line, mesh, name, network, nodes, over_both, patient,
    query, record, registration, within,
};
use nekoindexer::IndexerHandle;
use nekoproto::{
    Holder, MsgId, Names, QueryAllRequest, QueryReply, Refusal, RegisterRequest,
    limits::{BATCH_MAX, DEADLINE_MAX, TTL_MAX},
    transport::Security,
};
use tarpc::client::RpcError;
use tokio::task::JoinSet;

/// The origin of the file that everybody holds.
const ORIGIN: u16 = 1000;

/// One peer at each indexer, the n-th with seed n, all holding `a`.
async fn holders_everywhere(indexers: &[IndexerHandle], security: Security) -> Vec<Peer> {
    let mut peers = Vec::new();
    for (seed, indexer) in (0u16..).zip(indexers) {
        let peer = Peer::join(seed, indexer.local_addr(), security).await;
        peer.register([record(ORIGIN, "a", 1)]).await;
        peers.push(peer);
    }
    peers
}

#[testkit::test]
async fn query_on_a_line_reaches_exactly_as_far_as_its_ttl() {
    over_both(async |security| {
        let indexers = line(security, 4).await;
        let peers = holders_everywhere(&indexers, security).await;
        for ttl in 0..4u8 {
            let reply = peers[0].query("a", ttl).await;
            assert_eq!(hits(&reply), [(1, nodes(0..=ttl.into()))], "TTL {ttl}");
            assert_eq!((reply.complete, reply.messages), (true, ttl.into()), "TTL {ttl}");
        }
    })
    .await;
}

#[testkit::test]
async fn part_of_a_file_is_found_from_anywhere_as_a_part_until_it_is_the_whole() {
    over_both(async |security| {
        let indexers = line(security, 2).await;
        let [asker, reader] = [&indexers[0], &indexers[1]].map(|indexer| indexer.local_addr());
        let asker = Peer::join(1, asker, security).await;
        let reader = Peer::join(2, reader, security).await;
        let holders = async |ttl_hops| {
            let reply = asker.query("a", ttl_hops).await;
            reply.hits.first().map_or_else(Vec::new, nekoproto::Hit::at)
        };
        let whole = reader.holder.unwrap();
        let part = Holder { partial: true, ..whole };
        let request = registration([record(ORIGIN, "a", 1)]);
        let request = RegisterRequest { announce: false, partial: true, ..request };
        let reply = reader.client.register(patient(), request).await.unwrap().unwrap();
        assert_eq!((reply.lease.names, reply.unlisted.len()), (1, 0));
        assert_eq!(holders(1).await, [part]);
        assert_eq!(holders(0).await, []);
        asker.register([record(ORIGIN, "a", 1)]).await;
        assert_eq!(holders(1).await, [asker.holder.unwrap(), part]);
        let reply = reader.register([record(ORIGIN, "a", 1)]).await;
        assert_eq!((reply.lease.names, reply.unlisted.len()), (1, 0), "it stays one name");
        assert_eq!(holders(1).await, [asker.holder.unwrap(), whole]);
    })
    .await;
}

#[testkit::test]
async fn many_names_in_one_call_are_answered_as_one_by_one() {
    over_both(async |security| {
        let indexers = mesh(security, 4).await;
        let peers = holders_everywhere(&indexers, security).await;
        for (n, peer) in (0..).zip(&peers) {
            peer.register([record(n, &format!("only-{n}"), 1)]).await;
        }
        let texts: Vec<String> = (0..BATCH_MAX)
            .map(|n| match n % 3 {
                0 => "a".to_owned(),
                1 => format!("only-{}", n % 4),
                _ => format!("nobody-{n}"),
            })
            .collect();
        let names = || Names::first_of(texts.iter().map(|text| name(text)));
        for ttl_hops in [0, 3] {
            let request = QueryAllRequest { msg_id: MsgId::random(), names: names(), ttl_hops };
            let found = peers[0].client.query_all(patient(), request).await.unwrap().unwrap();
            let own = peers[0].client.search_all(patient(), names()).await.unwrap().unwrap();
            assert_eq!((found.len(), own.len()), (BATCH_MAX, BATCH_MAX));
            for ((text, found), own) in texts.iter().zip(found).zip(own) {
                let (found, own) = (found.unwrap(), own.unwrap());
                let (alone, search) = (peers[0].query(text, ttl_hops).await, peers[0].search(text).await);
                assert_eq!((hits(&found), found.complete), (hits(&alone), alone.complete), "{text}");
                assert_eq!(found.messages, alone.messages, "{text}");
                assert_eq!((hits(&own), own.complete), (hits(&search), search.complete), "{text}");
            }
        }
        let request = QueryAllRequest { msg_id: MsgId::random(), names: names(), ttl_hops: TTL_MAX + 1 };
        let refused = peers[0].client.query_all(patient(), request).await.unwrap();
        assert_eq!(refused, Err(Refusal::TtlTooLarge(TTL_MAX + 1)));
    })
    .await;
}

#[testkit::test]
async fn a_query_goes_only_as_far_as_somebody_may_have_the_name() {
    over_both(async |security| {
        let indexers = line(security, 5).await;
        let mut peers = Vec::new();
        for (seed, indexer) in (0u16..).zip(&indexers) {
            let peer = Peer::join(seed, indexer.local_addr(), security).await;
            peer.register([record(seed, &format!("only-{seed}"), 1)]).await;
            peers.push(peer);
        }
        // What is told over several hops takes a moment; until then more are asked than need be.
        for (text, ttl, messages) in [("only-1", 3, 1), ("only-2", 3, 2), ("only-3", 3, 3), ("only-0", 3, 0)]
        {
            let reply = eventually(async || {
                Some(peers[0].query(text, ttl).await).filter(|reply| reply.messages == messages)
            })
            .await;
            assert_eq!((reply.hits.len(), reply.complete), (1, true), "{text}");
        }
        let beyond = peers[0].query("only-4", 3).await;
        assert_eq!(
            (beyond.hits.len(), beyond.messages),
            (0, 2),
            "nobody had it, so everybody was asked but the last, of whom it is known"
        );
        peers[3].register([record(9, "late", 1)]).await;
        assert_eq!(peers[0].query("late", 3).await.hits.len(), 1, "at once, whatever was told by then");
    })
    .await;
}

#[testkit::test]
async fn query_on_a_ring_goes_both_ways_round() {
    over_both(async |security| {
        let links = |n: usize| if n == 4 { vec![3, 0] } else { n.checked_sub(1).into_iter().collect() };
        let indexers = network(security, 5, links).await;
        let peers = holders_everywhere(&indexers, security).await;
        for (ttl, reached) in
            [(0, vec![2]), (1, vec![1, 2, 3]), (2, vec![0, 1, 2, 3, 4]), (16, vec![0, 1, 2, 3, 4])]
        {
            let reply = peers[2].query("a", ttl).await;
            assert_eq!(hits(&reply), [(1, nodes(reached))], "TTL {ttl}");
            assert!(reply.complete, "TTL {ttl}");
        }
    })
    .await;
}

#[testkit::test]
async fn mesh_of_10_costs_9_messages_at_any_ttl() {
    over_both(async |security| {
        let indexers = mesh(security, 10).await;
        let peers = holders_everywhere(&indexers, security).await;
        for ttl in 1..=TTL_MAX {
            let reply = peers[usize::from(ttl) % 10].query("a", ttl).await;
            assert_eq!(hits(&reply), [(1, nodes(0..10))], "TTL {ttl}");
            assert_eq!((reply.complete, reply.messages), (true, 9), "TTL {ttl}");
        }
    })
    .await;
}

#[testkit::test]
async fn query_without_a_holder_anywhere_is_empty_and_complete() {
    let indexers = mesh(Security::Tls, 3).await;
    let peers = holders_everywhere(&indexers, Security::Tls).await;
    let reply = peers[0].query("nowhere", 3).await;
    assert_eq!(reply, QueryReply { complete: true, messages: 2, ..QueryReply::default() });
}

#[testkit::test]
async fn search_asks_no_neighbor() {
    let mut neighbor = Fake::begin(500, Security::Insecure, Habit::Says(QueryReply::default()));
    let indexer = indexer(Security::Insecure, &[neighbor.addr]).await;
    indexer.neighbors_reach(1).await;
    let peer = Peer::join(1, indexer.local_addr(), Security::Insecure).await;
    peer.register([record(ORIGIN, "a", 1)]).await;
    assert_eq!(hits(&peer.search("a").await), [(1, nodes([1]))]);
    assert_eq!(hits(&peer.query("b", 1).await), []);
    let (_, request) = neighbor.asked.recv().await.unwrap();
    assert_eq!(request.name.as_str(), "b", "the search went to the neighbor");
}

/// Fifty clients, forty queries each, all at once: the system that this one replaces stops here
/// forever, since every indexer holds a slot while it waits for another.
#[testkit::test(multi_thread)]
async fn mesh_of_10_serves_50_clients_at_once() {
    const CLIENTS: u16 = 50;
    let indexers = mesh(Security::Insecure, 10).await;
    let mut clients = Vec::new();
    for seed in 0..CLIENTS {
        let at = &indexers[usize::from(seed) % 10];
        let client = Peer::join(seed, at.local_addr(), Security::Insecure).await;
        client.register([record(seed, &format!("file-{seed}"), 1)]).await;
        clients.push(client);
    }
    let mut working = JoinSet::new();
    for (seed, client) in (0..CLIENTS).zip(clients) {
        working.spawn(async move {
            for n in 0..40 {
                let wanted = (seed * 7 + n * 11) % CLIENTS;
                let reply = client.query(&format!("file-{wanted}"), 3).await;
                assert_eq!(hits(&reply), [(1, nodes([wanted]))], "client {seed}, query {n}");
                assert!(
                    reply.complete && reply.messages <= 3,
                    "client {seed}, query {n}: {}",
                    reply.messages
                );
                let reply = client.query(&format!("nobody-{n}"), 3).await;
                assert_eq!((reply.complete, reply.messages), (true, 9), "client {seed}, query {n}");
            }
            client // stays connected, and so a holder, until all are done
        });
    }
    assert_eq!(working.join_all().await.len(), usize::from(CLIENTS));
}

#[testkit::test]
async fn ttl_past_the_limit_is_refused_and_not_cut() {
    over_both(async |security| {
        let indexers = line(security, 2).await;
        let peers = holders_everywhere(&indexers, security).await;
        for ttl in [TTL_MAX + 1, 255] {
            let refused = peers[0].client.query(patient(), query("a", ttl)).await.unwrap();
            assert_eq!(refused, Err(Refusal::TtlTooLarge(ttl)));
        }
        assert_eq!(hits(&peers[0].query("a", TTL_MAX).await), [(1, nodes(0..2))]);
    })
    .await;
}

#[testkit::test]
async fn deadline_of_an_hour_is_cut_and_the_query_served() {
    let answer = QueryReply { complete: true, ..QueryReply::default() };
    let mut neighbor = Fake::begin(500, Security::Tls, Habit::Says(answer));
    let indexer = indexer(Security::Tls, &[neighbor.addr]).await;
    indexer.neighbors_reach(1).await;
    let peer = Peer::join(1, indexer.local_addr(), Security::Tls).await;
    peer.register([record(ORIGIN, "a", 1)]).await;
    let hour = within(Duration::from_secs(3600));
    let reply = peer.client.query(hour, query("a", 1)).await.unwrap().unwrap();
    assert_eq!((hits(&reply), reply.complete), (vec![(1, nodes([1]))], true));
    let (context, _) = neighbor.asked.recv().await.unwrap();
    let left = context.deadline.saturating_duration_since(Instant::now());
    assert!(left < DEADLINE_MAX && left > DEADLINE_MAX / 2, "the neighbor has {left:?}");
}

#[testkit::test]
async fn tiny_deadline_gives_a_right_answer_or_none_and_harms_nobody() {
    over_both(async |security| {
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
        let reply = peers[0].query("a", 1).await;
        assert_eq!((hits(&reply), reply.complete), (vec![(1, nodes(0..2))], true));
    })
    .await;
}
