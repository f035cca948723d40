//! Nodes that forge, replay, lie or send garbage: what is true stays, and the others are served.

use crate::common::*;

const ATTACKER: u16 = 666;
fn says(records: impl IntoIterator<Item = SignedRecord>, holders: &[ListedHolder]) -> Habit {
    let hit = |record| Hit { record, holders: List::first_of(holders.iter().cloned()) };
    Habit::says(records.into_iter().map(hit))
}

fn made_up(seeds: impl Iterator<Item = u16>) -> Vec<ListedHolder> {
    let holder = |(seed, port)| listed(seed, SocketAddr::from(([127, 0, 0, 1], port)));
    seeds.zip(1..).map(holder).take(HOLDERS_MAX).collect()
}

fn attackers() -> Vec<ListedHolder> {
    made_up(std::iter::repeat(ATTACKER))
}

/// An indexer between one whose answers are made up and an honest one, and this other one.
async fn between(security: Security, lies: Habit) -> (IndexerHandle, IndexerHandle, Fake) {
    let liar = Fake::begin(ATTACKER, security, lies);
    let honest = indexer(security, &[]).await;
    (connected(security, &[liar.addr, honest.local_addr()]).await, honest, liar)
}

#[testkit::test]
async fn forged_record_refuses_the_whole_registration(security: Security) {
    let indexer = indexer(security, &[]).await;
    let attacker = Peer::join(ATTACKER, indexer.local_addr(), security).await;
    let (good, forged) = (record(ATTACKER, "good", 1), forged(ATTACKER, ORIGIN, "a", 1));
    for records in [vec![forged.clone()], vec![good.clone(), forged]] {
        let refused = attacker.client.register(patient(), registration(records)).await.unwrap();
        assert_eq!(refused, Err(Refusal::Forged));
    }
    assert_eq!(indexer.names(), 0);
    attacker.register([good]).await;
    assert_eq!(indexer.names(), 1);
}

#[testkit::test]
async fn replayed_older_record_replaces_nothing(security: Security) {
    let indexers = line(security, 2).await;
    let mut origin = Peer::join(ORIGIN, indexers[0].local_addr(), security).await;
    origin.register([record(ORIGIN, "a", 2)]).await;
    let attacker = Peer::join(ATTACKER, indexers[0].local_addr(), security).await;
    let reply = attacker.register([record(ORIGIN, "a", 1)]).await;
    assert_eq!((reply.newer.to_vec(), reply.lease.names), (vec![record(ORIGIN, "a", 2)], 0));
    let replayed = invalidation([record(ORIGIN, "a", 1)], TTL_MAX);
    attacker.client.invalidate(patient(), replayed).await.unwrap().unwrap();
    assert_eq!(asked(&attacker, 3).await, (vec![(2, nodes([ORIGIN]))], true));

    // At the neighbor, which holds nothing, it may list the old version; who asks gets the new.
    let attacker = holder(ATTACKER, &indexers[1], security).await;
    assert_eq!(asked(&attacker, 3).await, (vec![(2, nodes([ORIGIN]))], true));
    assert!(origin.invalidations.try_recv().is_err(), "the origin was told of an older version");
}

#[testkit::test]
async fn nobody_invalidates_the_file_of_another(security: Security) {
    let indexer = indexer(security, &[]).await;
    let mut origin = holder(ORIGIN, &indexer, security).await;
    let mut copy = holder(2, &indexer, security).await;
    let attacker = Peer::join(ATTACKER, indexer.local_addr(), security).await;
    let invalidate =
        async |record| attacker.client.invalidate(patient(), invalidation([record], TTL_MAX)).await.unwrap();
    assert_eq!(invalidate(forged(ATTACKER, ORIGIN, "a", 9)).await, Err(Refusal::Forged));
    invalidate(record(ATTACKER, "a", 9)).await.unwrap();
    attacker.register([record(ATTACKER, "a", 10)]).await;
    assert_eq!(hits(&copy.query("a", 0).await), [(10, nodes([ATTACKER])), (1, nodes([ORIGIN, 2]))]);

    // What the origin says is the first thing that the holder hears.
    origin.register([record(ORIGIN, "a", 2)]).await;
    assert_eq!(copy.is_told().await, [("a".to_owned(), 2)]);
    assert!(origin.invalidations.try_recv().is_err());
}

#[testkit::test]
async fn lies_of_a_neighbor_are_left_out(security: Security) {
    let junk = (0..HITS_MAX).map(|n| forged(ATTACKER + u16::try_from(n).unwrap(), ORIGIN, "a", 99));
    let cases = [
        ("forged", vec![forged(ATTACKER, ORIGIN, "a", 99)], true),
        ("another name", vec![record(ATTACKER, "b", 99)], false),
        ("nothing but junk", junk.collect(), true),
    ];
    for (case, lies, complete) in cases {
        let (near, far, _liar) = between(security, says(lies, &attackers())).await;
        let (asker, _other) = (holder(2, &near, security).await, holder(3, &far, security).await);
        assert_eq!(asked(&asker, 1).await, (vec![(1, nodes([2, 3]))], complete), "{case}");
    }
}

#[testkit::test]
async fn origin_that_signs_wrongly_harms_its_own_file_alone(security: Security) {
    let far = indexer(security, &[]).await;
    let near = connected(security, &[far.local_addr()]).await;
    let _honest = holder(ORIGIN, &far, security).await;
    let wrong = Peer::join(ATTACKER, far.local_addr(), security).await;
    wrong.register([forged(ORIGIN, ATTACKER, "a", 1)]).await;
    let asker = Peer::join(2, near.local_addr(), security).await;
    assert_eq!(asked(&asker, 1).await, (vec![(1, nodes([ORIGIN]))], true));
}

#[testkit::test]
async fn neighbor_that_lies_cannot_shadow_the_real_record(security: Security) {
    let of_its_own = record(ATTACKER, "a", u64::MAX);
    let lies = [of_its_own, record(ORIGIN, "a", 1), forged(ATTACKER, ORIGIN, "a", u64::MAX)];
    let (near, far, _liar) = between(security, says(lies, &attackers())).await;
    let origin = Peer::join(ORIGIN, far.local_addr(), security).await;
    origin.register([record(ORIGIN, "a", 2)]).await;
    let asker = Peer::join(2, near.local_addr(), security).await;
    let reply = asker.query("a", 1).await;
    let real = reply.hits.iter().find(|hit| hit.record.unverified().origin == identity(ORIGIN).id());
    let real = real.expect("the real record");
    assert_eq!(real.record, record(ORIGIN, "a", 2));
    assert_eq!(real.at(), [origin.holder.unwrap()], "with holders of another version");
    assert_eq!(reply.hits.len(), 2);
}

#[testkit::test]
async fn one_peer_cannot_fill_a_name_and_an_origin_is_found_among_many() {
    let indexer = indexer(Security::Tls, &[]).await;
    let next = connected(Security::Tls, &[indexer.local_addr()]).await;
    let attacker = Peer::join(ATTACKER, indexer.local_addr(), Security::Tls).await;
    let origins = 2000..2003 + u16::try_from(HITS_MAX).unwrap();
    let reply = attacker.register(origins.clone().map(|origin| record(origin, "a", 1))).await;
    assert_eq!((reply.unlisted.len(), reply.lease.names), (0, 1));
    assert_eq!(attacker.query("a", 0).await.hits.len(), 1, "a node holds one file under a name");
    let mut peers = Vec::new();
    for origin in origins.chain([ORIGIN]) {
        let peer = Peer::join(origin, indexer.local_addr(), Security::Tls).await;
        assert_eq!(peer.register([record(origin, "a", 1)]).await.unlisted.len(), 0);
        peers.push(peer);
    }
    let asker = Peer::join(2, next.local_addr(), Security::Tls).await;
    for (asker, ttl_hops) in [(&attacker, 0), (&asker, 1)] {
        let reply = asker.query("a", ttl_hops).await;
        assert_eq!((reply.hits.len(), reply.complete), (HITS_MAX, false), "not all have room");
        let origin = identity(ORIGIN).id().to_string()[..8].to_owned().try_into().ok();
        let wanted = QueryRequest { origin, ..query("a", ttl_hops) };
        let reply = asker.client.query(patient(), wanted).await.unwrap().unwrap();
        assert_eq!((hits(&reply), reply.complete), (vec![(1, nodes([ORIGIN]))], true));
    }
}

/// Goal: a neighbor that names many holders of its making fills half of the places at most, and the real holders behind
/// the honest one are among the first. What is not signed by the holder itself does not count.
#[testkit::test]
async fn neighbor_that_makes_up_holders_leaves_room_for_the_real_ones(security: Security) {
    let lies = says([record(ORIGIN, "a", 1)], &made_up(2000..));
    let (near, far, _liar) = between(security, lies).await;
    let mut holders = Vec::new();
    for seed in 1..=10 {
        holders.push(holder(seed, &far, security).await);
    }
    let asker = Peer::join(99, near.local_addr(), security).await;
    let reply = asker.query("a", 1).await;
    let is_real = |node: &NodeId| holders.iter().any(|peer| peer.holder.unwrap().node == *node);
    let found: Vec<NodeId> = reply.hits[0].at().iter().map(|holder| holder.node).collect();
    assert_eq!(found.iter().filter(|node| is_real(node)).count(), HOLDERS_OF_NEIGHBOR_MAX, "{found:?}");
    assert!(found.len() <= 2 * HOLDERS_OF_NEIGHBOR_MAX);
    assert!(found.iter().take(2).any(is_real), "{found:?}");
}

#[testkit::test]
async fn garbage_and_silence_leave_the_others_served(security: Security) {
    let indexer = indexer(security, &[]).await;
    let addr = indexer.local_addr();
    let _silent = join_all((0..100).map(|_| TcpStream::connect(addr))).await;
    for garbage in [vec![0; 64], vec![0xff; 64 * 1024], b"GET / HTTP/1.1\r\n\r\n".to_vec()] {
        let mut stream = TcpStream::connect(addr).await.unwrap();
        let _ = stream.write_all(&garbage).await; // it may close before all is written
        discard(&mut stream).await;
    }
    let peer = holder(ORIGIN, &indexer, security).await;
    let attack = async |role, frame: &[u8]| {
        let connection = endpoint(ATTACKER, role, security).dial(addr, Purpose::Control, None).await;
        let mut io = connection.unwrap().io;
        let _ = io.write_all(frame).await; // it may close before all is written
        let _ = io.flush().await; // likewise
        io
    };
    let too_long = u32::try_from(FRAME_BYTES_MAX + 1).unwrap();
    for (length, body) in [(too_long, vec![]), (u32::MAX, vec![0; 4096]), (5, vec![0xff; 5]), (0, vec![])] {
        for role in [Role::Peer, Role::Indexer] {
            discard(attack(role, &[&length.to_be_bytes(), &body[..]].concat()).await).await;
            assert_eq!(hits(&peer.query("a", 0).await), [(1, nodes([ORIGIN]))], "{length}");
        }
    }
    // One that announces a frame and never sends it holds up nobody either.
    let _open = attack(Role::Peer, &(too_long - 1).to_be_bytes()).await;
    assert_eq!(asked(&peer, 3).await, (vec![(1, nodes([ORIGIN]))], true));
}
