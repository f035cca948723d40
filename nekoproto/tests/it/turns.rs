//! Who keeps a node busy, and what that costs others: turns of connections and handshakes, and dials that were reset.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use nekoproto::{
    Purpose, Role,
    indexer::{IndexerServiceRequest, IndexerServiceResponse},
    peer::PeerServiceResponse,
    transport::{ConnectError, Endpoint, Envelope, NodeIo, Security},
};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

use crate::common::{
    ANY_PORT, Listening, endpoint, name, over_both, reads,
    services::{Indexer, open_as_indexer, reply},
    write_frame, write_frames,
};

type ToIndexer = Envelope<IndexerServiceRequest, PeerServiceResponse>;

/// Nodes that keep an indexer busy, and the requests that each sends at once.
const GREEDY: u16 = 8;
const REQUESTS: u64 = if cfg!(debug_assertions) { 100 } else { 400 };
/// Requests of others that may be answered before an honest one: a round on its way in, one on its way out, and what those
/// that have not had anything yet get.
const BEFORE_MAX: usize = 100;

fn search(id: u64, text: &str) -> ToIndexer {
    let call = IndexerServiceRequest::Search { name: name(text) };
    ToIndexer::Request { id, deadline_ms: 60_000, call }
}

async fn connect(listening: &mut Listening, seed: u16, security: Security, service: &Indexer) -> NodeIo {
    let peer = endpoint(seed, Role::Peer, security);
    let dialed = peer.dial(listening.addr, Purpose::Control, None).await.unwrap();
    let (_, driver) = open_as_indexer(listening.next().await, service.clone());
    tokio::spawn(driver);
    dialed.io
}

/// Goal: a request is answered after some slices of others, not after all that they have asked for.
#[testkit::test]
async fn who_asks_little_waits_for_some_slices_of_those_who_ask_much() {
    over_both(async |security| {
        let mut listening = Listening::begin(&endpoint(2, Role::Indexer, security));
        let (service, mut worked) = Indexer::new();
        let mut honest = connect(&mut listening, 1, security, &service).await;
        let mut greedy = Vec::new();
        for seed in 0..GREEDY {
            let mut io = connect(&mut listening, 3 + seed, security, &service).await;
            write_frames(&mut io, (0..REQUESTS).map(|id| search(id, "work"))).await;
            greedy.push(io);
        }
        worked.recv().await.unwrap();
        for id in 0..5 {
            let before = count(&mut worked);
            write_frame(&mut honest, &search(id, "abc")).await;
            let answer = Ok(IndexerServiceResponse::Search(Ok(reply(3))));
            reads(&mut honest, &Envelope::<IndexerServiceRequest, _>::Response { id, answer }).await;
            let meanwhile = count(&mut worked);
            assert!(meanwhile <= BEFORE_MAX, "{meanwhile} requests went first, {before} before");
        }
        // Nothing is forgotten: all of them are answered.
        for io in &mut greedy {
            for id in 0..REQUESTS {
                let answer = Ok(IndexerServiceResponse::Search(Ok(reply(4))));
                reads(io, &Envelope::<IndexerServiceRequest, _>::Response { id, answer }).await;
            }
        }
    })
    .await;
}

/// More than have their handshakes at once.
const SILENT: usize = 600;

/// Goal: who says nothing takes nothing that others need, and is not closed while there is room.
#[testkit::test]
async fn silent_connections_neither_take_places_of_handshakes_nor_give_way_for_them() {
    over_both(async |security| {
        let mut listening = Listening::begin(&endpoint(2, Role::Indexer, security));
        let mut silent = Vec::new();
        for n in 0..SILENT {
            silent.push(TcpStream::connect(listening.addr).await.unwrap());
            if n % 100 == 0 {
                listening.admits_first(&endpoint(1, Role::Peer, security)).await;
            }
        }
        listening.admits_first(&endpoint(1, Role::Peer, security)).await;
        let is_open = |stream: &TcpStream| {
            stream.try_read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
        };
        assert_eq!(silent.iter().filter(|stream| is_open(stream)).count(), SILENT);
    })
    .await;
}

fn count<T>(events: &mut mpsc::UnboundedReceiver<T>) -> usize {
    std::iter::from_fn(|| events.try_recv().ok()).count()
}

/// A way to `to` that resets connections as long as `resets` says so.
async fn resetting(to: SocketAddr, resets: Arc<AtomicUsize>, seen: Arc<AtomicUsize>) -> SocketAddr {
    let socket = TcpListener::bind(ANY_PORT).await.unwrap();
    let addr = socket.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut from, _) = socket.accept().await.unwrap();
            seen.fetch_add(1, Relaxed);
            if resets.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
                from.set_zero_linger().unwrap();
                continue;
            }
            let mut to = TcpStream::connect(to).await.unwrap();
            tokio::spawn(async move { copy_bidirectional(&mut from, &mut to).await });
        }
    });
    addr
}

/// Goal: a reader of a peer that many connect to gets its stream in the end; an address that proved nothing is connected
/// to twice, and no more.
#[testkit::test]
async fn streams_are_dialed_again_after_a_reset() {
    let seeder = endpoint(2, Role::Peer, Security::Tls);
    let listening = Listening::begin(&seeder);
    let (resets, seen) = (Arc::new(AtomicUsize::new(1)), Arc::default());
    let addr = resetting(listening.addr, Arc::clone(&resets), Arc::clone(&seen)).await;
    let dial = async |reader: &Endpoint| reader.dial_node(addr, Purpose::Data, seeder.node()).await;
    let reader = endpoint(1, Role::Peer, Security::Tls);
    dial(&reader).await.unwrap();
    resets.store(4, Relaxed);
    dial(&reader).await.unwrap();
    assert_eq!(seen.swap(0, Relaxed), 2 + 5);
    resets.store(usize::MAX, Relaxed);
    let stranger = endpoint(3, Role::Peer, Security::Tls);
    let error = dial(&stranger).await.unwrap_err();
    assert!(matches!(error, ConnectError::Handshake(_)), "{error}");
    assert!(matches!(dial(&stranger).await, Err(ConnectError::LeftAlone(_))));
    assert_eq!(seen.load(Relaxed), 2);
}
