//! Nodes that forge, replay, lie or send garbage: what is true stays, and the others are served.

use std::net::SocketAddr;

use crate::common::{
    Fake, Peer, fake::Habit, forged, hits, identity, in_time, indexer, line, nodes, over_both, patient,
    peer::endpoint, query, record, registration,
};
use nekoproto::{
    Covered, Hit, InvalidateRequest, List, ListedHolder, MsgId, Purpose, QueryReply, Records, Refusal, Role,
    SignedRecord,
    limits::{FRAME_BYTES_MAX, HITS_MAX, HOLDERS_MAX},
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

#[tokio::test]
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

#[tokio::test]
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

#[tokio::test]
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

#[tokio::test]
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

#[tokio::test]
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

#[tokio::test]
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

#[tokio::test]
async fn one_peer_cannot_fill_a_name_and_many_are_counted() {
    in_time(async {
        let indexer = indexer(Security::Tls, &[]).await;
        let attacker = Peer::join(ATTACKER, indexer.local_addr(), Security::Tls).await;
        let origins = 1000..1003 + u16::try_from(HITS_MAX).unwrap();
        let reply = attacker.register(origins.clone().map(|origin| record(origin, "a", 1))).await;
        assert_eq!((reply.unlisted.len(), reply.lease.names), (0, 1));
        assert_eq!(attacker.search("a").await.hits.len(), 1, "a node holds one file under a name");
        let mut peers = Vec::new();
        let mut unlisted = 0;
        for origin in origins {
            let peer = Peer::join(origin, indexer.local_addr(), Security::Tls).await;
            unlisted += peer.register([record(origin, "a", 1)]).await.unlisted.len();
            peers.push(peer);
        }
        // The attacker still holds one of these names; all others are one each.
        assert_eq!((unlisted, attacker.search("a").await.hits.len()), (3, HITS_MAX));
        assert_eq!(attacker.register([record(ORIGIN, "b", 1)]).await.unlisted.len(), 0);
    })
    .await;
}

#[tokio::test]
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

#[tokio::test]
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
