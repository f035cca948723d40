//! Nodes that take what belongs to all: memory, places for connections. The program bounds each of them, and the
//! others notice nothing.

use std::{fs, net::SocketAddr};

use futures::{StreamExt, stream};
use nekoproto::{
    FileName, List, MsgId, Purpose, QueryAllRequest, Role, codec,
    indexer::IndexerServiceRequest,
    limits::{BATCH_MAX, FRAME_BYTES_MAX},
    peer::PeerServiceResponse,
    transport::{Connection, Envelope, Security},
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{
    common::{
        Peer, eventually, hits, indexer, long_name, nodes, peer::endpoint, record, registration, verified,
    },
    program::Running,
};

/// The seed of the peer that publishes.
const ORIGIN: u16 = 1;
/// The seed of who attacks; further ones follow.
const ATTACKER: u16 = 1000;
/// Most bytes of memory that the program may ever have taken.
const MEMORY_MAX: u64 = 256 << 20;

/// The most memory a process ever had, in bytes.
fn memory_peak(running: &Running) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", running.child.id().unwrap())).unwrap();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    kib.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

async fn attack(seed: u16, addr: SocketAddr) -> Connection {
    endpoint(seed, Role::Peer, Security::Tls).dial(addr, Purpose::Control, None).await.unwrap()
}

/// A peer whose one name must be found whatever others do.
async fn honest(addr: SocketAddr) -> Peer {
    let peer = Peer::join(ORIGIN, addr, Security::Tls).await;
    peer.register([record(ORIGIN, "a", 1)]).await;
    peer
}

async fn is_served(peer: &Peer) {
    assert_eq!(hits(&peer.search("a").await), [(1, nodes([ORIGIN]))]);
}

/// Goal: frames that are begun and not finished take a bounded memory. Method: twice what is allowed, by as many nodes.
#[testkit::test]
async fn frames_that_are_not_finished_take_a_bounded_memory() {
    const FRAMES: u16 = 1000;
    nekoproto::transport::raise_file_limit();
    let running = Running::begin(&[]).await;
    let peer = honest(running.addr).await;
    let open: Vec<_> = stream::iter(0..FRAMES)
        .map(async |n| {
            let mut io = attack(ATTACKER + n, running.addr).await.io;
            io.write_u32(u32::try_from(FRAME_BYTES_MAX).unwrap()).await.unwrap();
            // It may be closed before all is written.
            let written = io.write_all(&vec![0; FRAME_BYTES_MAX - 1]).await;
            let _ = written.and(io.flush().await);
            io
        })
        .buffer_unordered(16)
        .collect()
        .await;
    is_served(&peer).await;
    let peak = memory_peak(&running);
    assert!(peak < MEMORY_MAX, "{} MiB", peak >> 20);
    drop(open);
    honest(running.addr).await;
}

/// Goal: answers that are not read take a bounded memory. Method: queries for many long names, each of which waits for a
/// neighbor, as many as may be in flight on each of some connections; nothing is read.
#[testkit::test]
async fn answers_that_are_not_read_take_a_bounded_memory() {
    let neighbor = indexer(Security::Tls, &[]).await;
    let running = Running::begin(&["--neighbors", &neighbor.local_addr().to_string()]).await;
    let peer = honest(running.addr).await;
    let names: Vec<FileName> = (0..BATCH_MAX).map(long_name).collect();
    let records = names.iter().map(|name| verified(ORIGIN, name.clone(), 1).to_signed()).collect::<Vec<_>>();
    let there = Peer::join(2, neighbor.local_addr(), Security::Tls).await;
    for holder in [&peer, &there] {
        let all = registration(records.clone());
        holder.client.register(crate::common::patient(), all).await.unwrap().unwrap();
    }
    let asking = (0..8).map(async |n| {
        let mut io = attack(ATTACKER + n, running.addr).await.io;
        for id in 0..400 {
            let call = IndexerServiceRequest::QueryAll {
                request: QueryAllRequest {
                    msg_id: MsgId::random(),
                    names: List::first_of(names.clone()),
                    ttl_hops: 1,
                },
            };
            let envelope = Envelope::<_, PeerServiceResponse>::Request { id, deadline_ms: 60_000, call };
            let body = codec::encode(&envelope).unwrap();
            io.write_u32(u32::try_from(body.len()).unwrap()).await.unwrap();
            if io.write_all(&body).await.is_err() {
                break; // it is closed
            }
        }
        let _ = io.flush().await; // likewise
        io
    });
    let open = futures::future::join_all(asking).await;
    is_served(&peer).await;
    let peak = memory_peak(&running);
    assert!(peak < MEMORY_MAX, "{} MiB", peak >> 20);
    drop(open);
}

/// Goal: who opens all connections there are keeps nobody out. Method: more idle connections of one node than the
/// program may have descriptors.
#[testkit::test]
async fn who_takes_all_connections_keeps_nobody_out() {
    let running = Running::begin_with_files(256).await;
    let peer = honest(running.addr).await;
    let mut open = Vec::new();
    for _ in 0..300 {
        open.push(attack(ATTACKER, running.addr).await);
    }
    is_served(&peer).await;
    let newcomer = Peer::join(2, running.addr, Security::Tls).await;
    is_served(&newcomer).await;
    is_served(&peer).await;
    let (mut closed, mut buf) = (0, [0; 1]);
    for connection in &mut open {
        let ended = async { connection.io.read(&mut buf).await };
        closed += usize::from(tokio::time::timeout(std::time::Duration::from_millis(1), ended).await.is_ok());
    }
    assert!(closed > 44, "{closed} of them closed");
}

/// The same before the handshake.
#[testkit::test]
async fn who_connects_and_says_nothing_keeps_nobody_out() {
    let running = Running::begin_with_files(256).await;
    let peer = honest(running.addr).await;
    let mut silent = Vec::new();
    for _ in 0..400 {
        silent.push(tokio::net::TcpStream::connect(running.addr).await.unwrap());
    }
    let newcomer = eventually(async || Some(Peer::join(2, running.addr, Security::Tls).await)).await;
    is_served(&newcomer).await;
    is_served(&peer).await;
    drop(silent);
}
