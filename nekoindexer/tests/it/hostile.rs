//! Nodes that forge, replay, lie or send garbage: what is true stays, and the others are served.

use std::net::SocketAddr;

use crate::common::{
    Fake, Peer, fake::Habit, forged, hits, identity, indexer, line, nodes, over_both, patient,
    peer::endpoint, query, record, registration,
};
use nekoproto::{
    Covered, Hit, InvalidateRequest, List, ListedHolder, MsgId, NodeId, Purpose, QueryReply, QueryRequest,
    Records, Refusal, Role, SignedRecord, codec,
    limits::{FRAME_BYTES_MAX, HITS_MAX, HOLDERS_MAX, HOLDERS_OF_NEIGHBOR_MAX},
    transport::Security,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// The seed of the peer that publishes.
const ORIGIN: u16 = 1;
/// The seed of who attacks.
const ATTACKER: u16 = 666;

fn invalidation(records: impl IntoIterator<Item = SignedRecord>) -> InvalidateRequest {
    let records = Records::first_of(records);
    InvalidateRequest { msg_id: MsgId::random(), records, ttl_hops: 16, covered: Covered::new() }
}

/// A hit with as many made-up holders as fit.
fn hit(record: SignedRecord) -> Hit {
    let addr = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let holder = |port| ListedHolder::new(identity(ATTACKER).fresh_reach([addr(port)]));
    Hit { record, holders: List::first_of((1..).map(holder).take(HOLDERS_MAX)) }
}

fn says(hits: impl IntoIterator<Item = SignedRecord>) -> Habit {
    let hits = List::first_of(hits.into_iter().map(hit));
    Habit::Says(QueryReply { hits, complete: true, messages: 0 })
}

/// Waits until the other end has closed the connection, whatever it says before.
async fn closes(io: &mut (impl AsyncReadExt + Unpin)) {
    while io.read(&mut [0; 1024]).await.is_ok_and(|read| read > 0) {}
}

#[testkit::test]
async fn forged_record_refuses_the_whole_registration() {
    over_both(async |security| {
        let indexer = indexer(security, &[]).await;
        let attacker = Peer::join(ATTACKER, indexer.local_addr(), security).await;
        let good = record(ATTACKER, "good", 1);
        for records in
            [vec![forged(ATTACKER, ORIGIN, "a", 1)], vec![good.clone(), forged(ATTACKER, ORIGIN, "a", 1)]]
        {
            let refused = attacker.client.register(patient(), registration(records)).await.unwrap();
            assert_eq!(refused, Err(Refusal::Forged));
        }
        assert_eq!(indexer.names(), 0);
        attacker.register([good]).await;
        assert_eq!(indexer.names(), 1);
    })
    .await;
}

#[testkit::test]
async fn replayed_older_record_replaces_nothing() {
    over_both(async |security| {
        let indexers = line(security, 2).await;
        let mut origin = Peer::join(ORIGIN, indexers[0].local_addr(), security).await;
        origin.register([record(ORIGIN, "a", 2)]).await;
        let attacker = Peer::join(ATTACKER, indexers[0].local_addr(), security).await;
        let reply = attacker.register([record(ORIGIN, "a", 1)]).await;
        assert_eq!((reply.newer.to_vec(), reply.lease.names), (vec![record(ORIGIN, "a", 2)], 0));
        let replayed = invalidation([record(ORIGIN, "a", 1)]);
        attacker.client.invalidate(patient(), replayed).await.unwrap().unwrap();
        assert_eq!(hits(&attacker.query("a", 3).await), [(2, nodes([ORIGIN]))]);

        // At the neighbor, which holds nothing, it may list the old version; who asks gets the new.
        let attacker = Peer::join(ATTACKER, indexers[1].local_addr(), security).await;
        attacker.register([record(ORIGIN, "a", 1)]).await;
        assert_eq!(hits(&attacker.query("a", 3).await), [(2, nodes([ORIGIN]))]);
        assert!(origin.invalidations.try_recv().is_err(), "the origin was told of an older version");
    })
    .await;
}

#[testkit::test]
async fn nobody_invalidates_the_file_of_another() {
    over_both(async |security| {
        let indexer = indexer(security, &[]).await;
        let mut origin = Peer::join(ORIGIN, indexer.local_addr(), security).await;
        let mut copy = Peer::join(2, indexer.local_addr(), security).await;
        for peer in [&origin, &copy] {
            peer.register([record(ORIGIN, "a", 1)]).await;
        }
        let attacker = Peer::join(ATTACKER, indexer.local_addr(), security).await;
        let forging = attacker.client.invalidate(patient(), invalidation([forged(ATTACKER, ORIGIN, "a", 9)]));
        assert_eq!(forging.await.unwrap(), Err(Refusal::Forged));
        let own = invalidation([record(ATTACKER, "a", 9)]);
        attacker.client.invalidate(patient(), own).await.unwrap().unwrap();
        attacker.register([record(ATTACKER, "a", 10)]).await;
        assert_eq!(hits(&copy.search("a").await), [(10, nodes([ATTACKER])), (1, nodes([ORIGIN, 2]))]);

        // What the origin says is the first thing that the holder hears.
        origin.register([record(ORIGIN, "a", 2)]).await;
        assert_eq!(copy.is_told().await, [("a".to_owned(), 2)]);
        assert!(origin.invalidations.try_recv().is_err());
    })
    .await;
}

#[testkit::test]
async fn lies_of_a_neighbor_are_left_out() {
    let junk = (0..HITS_MAX).map(|n| forged(ATTACKER + u16::try_from(n).unwrap(), ORIGIN, "a", 99));
    let cases = [
        ("forged", says([forged(ATTACKER, ORIGIN, "a", 99)]), true),
        ("another name", says([record(ATTACKER, "b", 99)]), false),
        ("nothing but junk", says(junk), true),
    ];
    for (case, habit, complete) in cases {
        over_both(async |security| {
            let liar = Fake::begin(ATTACKER, security, habit.clone());
            let honest = indexer(security, &[]).await;
            let asked = indexer(security, &[liar.addr, honest.local_addr()]).await;
            asked.neighbors_reach(2).await;
            let near = Peer::join(2, asked.local_addr(), security).await;
            let far = Peer::join(3, honest.local_addr(), security).await;
            for peer in [&near, &far] {
                peer.register([record(ORIGIN, "a", 1)]).await;
            }
            let reply = near.query("a", 1).await;
            assert_eq!((hits(&reply), reply.complete), (vec![(1, nodes([2, 3]))], complete), "{case}");
        })
        .await;
    }
}

#[testkit::test]
async fn origin_that_signs_wrongly_harms_its_own_file_alone() {
    over_both(async |security| {
        let far = indexer(security, &[]).await;
        let near = indexer(security, &[far.local_addr()]).await;
        near.neighbors_reach(1).await;
        let honest = Peer::join(ORIGIN, far.local_addr(), security).await;
        honest.register([record(ORIGIN, "a", 1)]).await;
        let wrong = Peer::join(ATTACKER, far.local_addr(), security).await;
        wrong.register([forged(ORIGIN, ATTACKER, "a", 1)]).await;
        let asker = Peer::join(2, near.local_addr(), security).await;
        let reply = asker.query("a", 1).await;
        assert_eq!((hits(&reply), reply.complete), (vec![(1, nodes([ORIGIN]))], true));
    })
    .await;
}

#[testkit::test]
async fn neighbor_that_lies_cannot_shadow_the_real_record() {
    let of_its_own = record(ATTACKER, "a", u64::MAX);
    let replayed = record(ORIGIN, "a", 1);
    let habit = says([of_its_own, replayed, forged(ATTACKER, ORIGIN, "a", u64::MAX)]);
    over_both(async |security| {
        let liar = Fake::begin(ATTACKER, security, habit.clone());
        let honest = indexer(security, &[]).await;
        let asked = indexer(security, &[liar.addr, honest.local_addr()]).await;
        asked.neighbors_reach(2).await;
        let origin = Peer::join(ORIGIN, honest.local_addr(), security).await;
        origin.register([record(ORIGIN, "a", 2)]).await;
        let asker = Peer::join(2, asked.local_addr(), security).await;
        let reply = asker.query("a", 1).await;
        let real = reply.hits.iter().find(|hit| hit.record.unverified().origin == identity(ORIGIN).id());
        let real = real.expect("the real record");
        assert_eq!(real.record, record(ORIGIN, "a", 2));
        assert_eq!(real.at(), [origin.holder.unwrap()], "with holders of another version");
        assert_eq!(reply.hits.len(), 2);
    })
    .await;
}

#[testkit::test]
async fn one_peer_cannot_fill_a_name_and_an_origin_is_found_among_many() {
    let indexer = indexer(Security::Tls, &[]).await;
    let asked = self::indexer(Security::Tls, &[indexer.local_addr()]).await;
    asked.neighbors_reach(1).await;
    let attacker = Peer::join(ATTACKER, indexer.local_addr(), Security::Tls).await;
    let origins = 1000..1003 + u16::try_from(HITS_MAX).unwrap();
    let reply = attacker.register(origins.clone().map(|origin| record(origin, "a", 1))).await;
    assert_eq!((reply.unlisted.len(), reply.lease.names), (0, 1));
    assert_eq!(attacker.search("a").await.hits.len(), 1, "a node holds one file under a name");
    let mut peers = Vec::new();
    for origin in origins.chain([ORIGIN]) {
        let peer = Peer::join(origin, indexer.local_addr(), Security::Tls).await;
        assert_eq!(peer.register([record(origin, "a", 1)]).await.unlisted.len(), 0);
        peers.push(peer);
    }
    let asker = Peer::join(2, asked.local_addr(), Security::Tls).await;
    for ttl_hops in [0, 1] {
        let [near, far] = [&attacker, &asker];
        let asker = if ttl_hops == 0 { near } else { far };
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
async fn neighbor_that_makes_up_holders_leaves_room_for_the_real_ones() {
    let real = record(ORIGIN, "a", 1);
    let made_up = hit_of_many(real.clone());
    over_both(async |security| {
        let hits = List::first_of([made_up.clone()]);
        let liar =
            Fake::begin(ATTACKER, security, Habit::Says(QueryReply { hits, complete: true, messages: 0 }));
        let honest = indexer(security, &[]).await;
        let asked = indexer(security, &[liar.addr, honest.local_addr()]).await;
        asked.neighbors_reach(2).await;
        let mut holders = Vec::new();
        for seed in 1..=10 {
            let peer = Peer::join(seed, honest.local_addr(), security).await;
            peer.register([real.clone()]).await;
            holders.push(peer);
        }
        let asker = Peer::join(99, asked.local_addr(), security).await;
        let reply = asker.query("a", 1).await;
        let is_real = |node: &NodeId| holders.iter().any(|peer| peer.holder.unwrap().node == *node);
        let found: Vec<NodeId> = reply.hits[0].at().iter().map(|holder| holder.node).collect();
        assert_eq!(found.iter().filter(|node| is_real(node)).count(), HOLDERS_OF_NEIGHBOR_MAX, "{found:?}");
        assert!(found.len() <= 2 * HOLDERS_OF_NEIGHBOR_MAX);
        assert!(found.iter().take(2).any(is_real), "{found:?}");
    })
    .await;
}

/// A hit with as many holders as fit, each a made-up node at the same address.
fn hit_of_many(record: SignedRecord) -> Hit {
    let third_party = SocketAddr::from(([127, 0, 0, 1], 9));
    let holder = |seed| ListedHolder::new(identity(seed).fresh_reach([third_party]));
    Hit { record, holders: List::first_of((2000..).map(holder).take(HOLDERS_MAX)) }
}

#[testkit::test]
async fn holders_in_the_words_of_others_are_left_out() {
    let real = record(ORIGIN, "a", 1);
    over_both(async |security| {
        let here = SocketAddr::from(([127, 0, 0, 1], 9));
        let honest = identity(ORIGIN).fresh_reach([here]);
        let expired = identity(3).sign_reach([here], nekoproto::clock::unix_ms() - 13 * 3600 * 1000);
        let mut forged = codec::encode(honest.signed()).unwrap();
        forged[1..33].copy_from_slice(identity(4).id().as_bytes()); // the node comes first, after its length
        let forged = ListedHolder { reach: codec::decode(&forged).unwrap(), addrs: 1, partial: false };
        let holders = [expired, honest].map(ListedHolder::new).into_iter();
        let behind = ListedHolder::new(identity(5).fresh_reach([here]));
        let hit = Hit { record: real.clone(), holders: List::first_of(holders.chain([forged, behind])) };
        let hits = List::first_of([hit]);
        let liar =
            Fake::begin(ATTACKER, security, Habit::Says(QueryReply { hits, complete: true, messages: 0 }));
        let asked = indexer(security, &[liar.addr]).await;
        asked.neighbors_reach(1).await;
        let asker = Peer::join(99, asked.local_addr(), security).await;
        assert_eq!(self::hits(&asker.query("a", 1).await), [(1, nodes([ORIGIN]))]);
    })
    .await;
}

/// Goal: a peer is listed only where its connection comes from, in its own words, and if the clocks agree.
#[testkit::test]
async fn peer_is_listed_where_its_connection_comes_from() {
    over_both(async |security| {
        let indexer = indexer(security, &[]).await;
        let mut peer = Peer::join(ORIGIN, indexer.local_addr(), security).await;
        peer.register([record(ORIGIN, "a", 1)]).await;
        let here = peer.holder.take().unwrap();
        let (origin, elsewhere) = (identity(ORIGIN), SocketAddr::from(([192, 0, 2, 1], 80)));
        let introduce = async |reach: nekoproto::VerifiedReach| {
            peer.client.introduce(patient(), reach.into_signed()).await.unwrap()
        };
        let introduction = introduce(origin.fresh_reach([elsewhere, here.addr])).await.unwrap();
        assert_eq!((introduction.listed_at, introduction.seen_at), (2, here.addr.ip()));
        assert_eq!(peer.search("a").await.hits[0].at(), [here]);
        let now_ms = nekoproto::clock::unix_ms();
        for hours in [11, 37] {
            let late = origin.sign_reach([here.addr], now_ms + hours * 3600 * 1000);
            assert_eq!(introduce(late).await, Err(Refusal::ClocksApart), "{hours} hours");
        }
        assert_eq!(introduce(identity(ATTACKER).fresh_reach([here.addr])).await, Err(Refusal::Forged));
        assert_eq!(introduce(origin.fresh_reach([elsewhere])).await.unwrap().listed_at, 0);
        assert!(peer.search("a").await.hits.is_empty(), "it cannot be reached");
    })
    .await;
}

#[testkit::test]
async fn garbage_and_silence_on_the_port_leave_the_others_served() {
    over_both(async |security| {
        let indexer = indexer(security, &[]).await;
        let addr = indexer.local_addr();
        let mut silent = Vec::new();
        for _ in 0..100 {
            silent.push(TcpStream::connect(addr).await.unwrap());
        }
        for garbage in [vec![0; 64], vec![0xff; 64 * 1024], b"GET / HTTP/1.1\r\n\r\n".to_vec()] {
            let mut stream = TcpStream::connect(addr).await.unwrap();
            let _ = stream.write_all(&garbage).await; // it may close before all is written
            closes(&mut stream).await;
        }
        let peer = Peer::join(ORIGIN, addr, security).await;
        peer.register([record(ORIGIN, "a", 1)]).await;
        assert_eq!(hits(&peer.query("a", 3).await), [(1, nodes([ORIGIN]))]);
        drop(silent);
    })
    .await;
}

#[testkit::test]
async fn frame_over_the_limit_or_without_sense_ends_only_its_connection() {
    over_both(async |security| {
        let indexer = indexer(security, &[]).await;
        let addr = indexer.local_addr();
        let peer = Peer::join(ORIGIN, addr, security).await;
        peer.register([record(ORIGIN, "a", 1)]).await;
        let too_long = u32::try_from(FRAME_BYTES_MAX + 1).unwrap();
        for (length, body) in [(too_long, vec![]), (u32::MAX, vec![0; 4096]), (5, vec![0xff; 5]), (0, vec![])]
        {
            for role in [Role::Peer, Role::Indexer] {
                let attacker = endpoint(ATTACKER, role, security);
                let mut io = attacker.dial(addr, Purpose::Control, None).await.unwrap().io;
                io.write_u32(length).await.unwrap();
                let _ = io.write_all(&body).await; // it may close before all is written
                let _ = io.flush().await; // likewise
                closes(&mut io).await;
                assert_eq!(hits(&peer.search("a").await), [(1, nodes([ORIGIN]))], "{length}");
            }
        }
        // One that announces a frame and never sends it holds up nobody either.
        let attacker = endpoint(ATTACKER, Role::Peer, security);
        let mut io = attacker.dial(addr, Purpose::Control, None).await.unwrap().io;
        io.write_u32(too_long - 1).await.unwrap();
        io.flush().await.unwrap();
        let refused = peer.client.query(patient(), query("a", 255)).await.unwrap();
        assert_eq!(refused, Err(Refusal::TtlTooLarge(255)));
    })
    .await;
}
