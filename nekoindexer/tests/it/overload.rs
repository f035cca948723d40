//! Nodes that take what belongs to all: memory, places for connections. The program bounds each of them, and the
//! others notice nothing.

use nekoproto::{
    indexer::IndexerServiceRequest,
    transport::{Connection, Envelope, raise_file_limit},
};
use testkit::frames::{frame, prefixed};

use crate::{common::*, program::Running};

const ORIGIN: u16 = 1;
const ATTACKER: u16 = 1000;
const MEMORY_MAX: u64 = 256 << 20;

async fn attack(seed: u16, addr: SocketAddr) -> Connection {
    endpoint(seed, Role::Peer, Security::Tls).dial(addr, Purpose::Control, None).await.unwrap()
}

async fn honest(addr: SocketAddr) -> Peer {
    let peer = Peer::join(ORIGIN, addr, Security::Tls).await;
    peer.register([record(ORIGIN, "a", 1)]).await;
    peer
}

async fn is_served(peer: &Peer) {
    assert_eq!(hits(&peer.query("a", 0).await), [(1, nodes([ORIGIN]))]);
}

fn memory_is_bounded(running: &Running) {
    let peak = running.memory("VmHWM:");
    assert!(peak < MEMORY_MAX, "{} MiB", peak >> 20);
}

/// Goal: frames that are begun and not finished take a bounded memory. Method: twice what is allowed, by as many nodes.
#[testkit::test]
async fn frames_that_are_not_finished_take_a_bounded_memory() {
    const FRAMES: u16 = 1000;
    raise_file_limit();
    let running = Running::begin(&["--lease-secs", "300"]);
    let peer = honest(running.addr).await;
    let unfinished = &prefixed(&vec![0; FRAME_BYTES_MAX])[..FRAME_BYTES_MAX];
    let open: Vec<_> = stream::iter(0..FRAMES)
        .map(async |n| {
            let mut io = attack(ATTACKER + n, running.addr).await.io;
            // It may be closed before all is written.
            let written = io.write_all(unfinished).await;
            let _ = written.and(io.flush().await);
            io
        })
        .buffer_unordered(16)
        .collect()
        .await;
    is_served(&peer).await;
    memory_is_bounded(&running);
    drop((open, peer));
    honest(running.addr).await;
}

/// Goal: answers that are not read take a bounded memory. Method: queries for many long names, each of which waits for a
/// neighbor, as many as may be in flight on each of some connections; nothing is read.
#[testkit::test]
async fn answers_that_are_not_read_take_a_bounded_memory() {
    let neighbor = indexer(Security::Tls, &[]).await;
    let neighbors = neighbor.local_addr().to_string();
    let running = Running::begin(&["--neighbors", &neighbors, "--lease-secs", "300"]);
    let peer = honest(running.addr).await;
    let names: Names = List::first_of((0..BATCH_MAX).map(long_name));
    let records = || (0..BATCH_MAX).map(|n| verified(ORIGIN, long_name(n), 1).to_signed());
    let there = Peer::join(2, neighbor.local_addr(), Security::Tls).await;
    for holder in [&peer, &there] {
        holder.register(records()).await;
    }
    // One frame does for all of them: only its numbers differ.
    let request = QueryAllRequest { msg_id: MsgId::from_u128(u128::MAX), names, ttl_hops: 1 };
    let call = IndexerServiceRequest::QueryAll { request };
    let one = frame(&Envelope::<_, ()>::Request { id: 0xfefe, deadline_ms: 60_000, call }).unwrap();
    let place = |what: &[u8]| one.windows(what.len()).position(|bytes| bytes == what).unwrap();
    let (id_at, msg_id_at) = (place(&[0xfe, 0xfe]), place(&[0xff; 16]));
    let asking = (0..8).map(async |n| {
        let (mut io, mut one) = (attack(ATTACKER + n, running.addr).await.io, one.clone());
        for id in 1000..1400_u16 {
            one[id_at..id_at + 2].copy_from_slice(&id.to_le_bytes());
            one[msg_id_at..msg_id_at + 4].copy_from_slice(&[id.to_le_bytes(), n.to_le_bytes()].concat());
            if io.write_all(&one).await.is_err() {
                break; // it is closed
            }
        }
        let _ = io.flush().await; // likewise
        io
    });
    let _open = join_all(asking).await;
    is_served(&peer).await;
    memory_is_bounded(&running);
}

/// Goal: who opens all connections there are keeps nobody out. Method: more idle connections of one node than the
/// program may have descriptors.
#[testkit::test]
async fn who_takes_all_connections_keeps_nobody_out() {
    let running = Running::begin_with_files(256);
    let peer = honest(running.addr).await;
    let mut open = Vec::new();
    for _ in 0..300 {
        open.push(attack(ATTACKER, running.addr).await);
    }
    is_served(&peer).await;
    is_served(&Peer::join(2, running.addr, Security::Tls).await).await;
    is_served(&peer).await;
    let (mut closed, mut buf) = (0, [0; 1]);
    for connection in &mut open {
        let ended = async { connection.io.read(&mut buf).await };
        closed += usize::from(tokio::time::timeout(Duration::from_millis(1), ended).await.is_ok());
    }
    assert!(closed > 44, "{closed} of them closed");
}

/// The same before the handshake.
#[testkit::test]
async fn who_connects_and_says_nothing_keeps_nobody_out() {
    let running = Running::begin_with_files(256);
    let peer = honest(running.addr).await;
    let _silent = join_all((0..400).map(|_| TcpStream::connect(running.addr))).await;
    let newcomer = eventually(async || Some(Peer::join(2, running.addr, Security::Tls).await)).await;
    is_served(&newcomer).await;
    is_served(&peer).await;
}
