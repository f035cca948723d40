//! Who keeps a node busy, and what that costs others: slices of connections, handshakes, and dials that were reset.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::io::copy_bidirectional;

use crate::common::*;

/// Nodes that keep an indexer busy, and the requests that each sends at once.
const GREEDY: u16 = 8;
const REQUESTS: u64 = if cfg!(debug_assertions) { 100 } else { 400 };
/// Requests of others that may be answered before an honest one: a round on its way in, one on its way out, and what those
/// that have not had anything yet get.
const BEFORE_MAX: usize = 100;

#[testkit::test]
async fn who_asks_little_waits_for_some_slices_of_those_who_ask_much(security: Security) {
    let mut site = Site::indexer(security);
    let (service, mut worked) = Indexer::new();
    let mut honest = site.by_hand(1, service.clone()).await;
    let mut greedy = Vec::new();
    for seed in 0..GREEDY {
        let mut wire = site.by_hand(3 + seed, service.clone()).await;
        wire.asks(0..REQUESTS, "work").await;
        greedy.push(wire);
    }
    worked.recv().await.unwrap();
    for id in 0..5 {
        let before = count(&mut worked);
        honest.is_served(id).await;
        let meanwhile = count(&mut worked);
        assert!(meanwhile <= BEFORE_MAX, "{meanwhile} requests went first, {before} before");
    }
    // Nothing is forgotten: all of them are answered.
    for wire in &mut greedy {
        for id in 0..REQUESTS {
            wire.answers(id, 4).await;
        }
    }
}

/// More than have their handshakes at once.
const SILENT: usize = 600;

#[testkit::test]
async fn silent_connections_neither_take_places_of_handshakes_nor_give_way_for_them(security: Security) {
    let mut site = Site::indexer(security);
    let mut silent = Vec::new();
    for n in 0..=SILENT {
        if n % 100 == 0 {
            site.admits_first(&endpoint(1, Role::Peer, security)).await;
        }
        silent.push(TcpStream::connect(site.addr).await.unwrap());
    }
    let is_open = |stream: &TcpStream| {
        stream.try_read(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    };
    assert!(silent.iter().all(is_open));
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
    let site = Site::of(endpoint(2, Role::Peer, Security::Tls), Security::Tls);
    let (resets, seen) = (Arc::new(AtomicUsize::new(1)), Arc::default());
    let addr = resetting(site.addr, Arc::clone(&resets), Arc::clone(&seen)).await;
    let dial =
        async |reader: &Arc<Endpoint>| reader.dial_node(addr, Purpose::Data, site.endpoint.node()).await;
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
