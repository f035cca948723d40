//! Helpers for the tests of the peer: folders, files, indexers and peers on free ports, time limits.
#![allow(clippy::expect_used, reason = "a helper of tests fails by panicking")]

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use nekoindexer::{Indexer, IndexerHandle};
use nekopeer::{
    Condition, Config, DownloadError, DownloadOptions, Downloaded, Event, FileStatus, Peer, PeerHandle,
    Progress, PublishOptions, PublishOutcome,
};
use nekoproto::{FileName, Freshness, Identity, Mode, Policy, Staleness, VerifiedRecord};
use tempfile::TempDir;
use tokio::{
    net::TcpSocket,
    sync::broadcast::{self, error::RecvError},
    time::timeout,
};

pub(crate) mod fake_indexer;
pub(crate) mod goods;
pub(crate) mod holder;
pub(crate) mod http;
pub(crate) mod proxy;

pub(crate) use goods::Goods;
pub(crate) use holder::{Holder, ScriptedReply, Then};
pub(crate) use proxy::Proxy;

/// Time limit of a test; a test that exceeds it hangs, and fails.
pub(crate) const TEST_LIMIT: Duration = Duration::from_secs(60);
/// Interval between checks of a state that sends no event.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Loopback, a free port.
pub(crate) const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// One mebibyte.
pub(crate) const MIB: usize = 1024 * 1024;

/// Runs `case` within the time limit.
pub(crate) async fn in_time<T>(case: impl Future<Output = T>) -> T {
    timeout(TEST_LIMIT, case).await.unwrap_or_else(|_| panic!("hangs"))
}

/// Calls `sight` at intervals until it returns `Some`, for states that send no event. The time limit of the
/// test bounds it.
pub(crate) async fn eventually<T>(sight: impl AsyncFn() -> Option<T>) -> T {
    let mut looks = tokio::time::interval(LOOK_EVERY);
    loop {
        looks.tick().await;
        if let Some(seen) = sight().await {
            return seen;
        }
    }
}

/// Bytes that do not repeat; equal for equal seeds.
pub(crate) fn bytes(seed: u8, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().update(&[seed]).finalize_xof().fill(&mut bytes);
    bytes
}

/// The identity with this seed.
pub(crate) fn identity(seed: u8) -> Identity {
    Identity::from_seed(&[seed; 32])
}

/// A name.
pub(crate) fn name(text: &str) -> FileName {
    FileName::new(text).unwrap()
}

/// A policy with a bound of `secs` seconds in every mode.
pub(crate) fn policy(mode: Mode, secs: u32) -> Policy {
    Policy::new(mode, secs, secs, Staleness::ServeStale).unwrap()
}

/// A running indexer on a free port.
pub(crate) async fn indexer(neighbors: &[SocketAddr]) -> IndexerHandle {
    indexer_at(ANY_PORT, neighbors).await
}

/// A running indexer at this address.
pub(crate) async fn indexer_at(listen: SocketAddr, neighbors: &[SocketAddr]) -> IndexerHandle {
    let neighbors = neighbors.to_vec();
    Indexer::spawn(nekoindexer::Config { listen, neighbors, ..Default::default() }).await.unwrap()
}

/// A free port, reserved while the socket lives. Nothing answers there until an indexer or a peer of the
/// test listens on it.
pub(crate) fn kept_port() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(ANY_PORT).unwrap();
    let addr = socket.local_addr().unwrap();
    (socket, addr)
}

/// The folder of one peer; it outlives the peer.
#[derive(Clone)]
pub(crate) struct Folder(Arc<TempDir>);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(Arc::new(tempfile::tempdir().unwrap()))
    }

    pub(crate) fn path(&self, text: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(text)
    }

    /// Writes a file; creates its folders.
    pub(crate) fn write(&self, text: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(text);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }

    pub(crate) fn read(&self, text: &str) -> Vec<u8> {
        std::fs::read(self.path(text)).unwrap()
    }

    pub(crate) fn has(&self, text: &str) -> bool {
        self.path(text).symlink_metadata().is_ok()
    }

    /// The partial files directly in the folder.
    pub(crate) fn partials(&self) -> Vec<PathBuf> {
        let found = std::fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap().path());
        let is_partial = |path: &PathBuf| path.to_string_lossy().contains(nekopeer::PARTIAL_PREFIX);
        found.filter(is_partial).collect()
    }

    /// The configuration of a serving peer with this folder.
    pub(crate) fn config(&self, indexers: &[SocketAddr]) -> Config {
        Config { indexers: indexers.to_vec(), listen: Some(ANY_PORT), ..Config::new(self.0.path()) }
    }

    /// A peer with this folder, registered with all of these indexers.
    pub(crate) async fn peer(&self, indexers: &[SocketAddr]) -> Node {
        Node::registered(self.config(indexers)).await
    }
}

/// A peer with a folder of its own, registered with all of these indexers.
pub(crate) async fn peer(indexers: &[SocketAddr]) -> (Folder, Node) {
    let folder = Folder::new();
    let node = folder.peer(indexers).await;
    (folder, node)
}

/// A running peer, and its events that the test has not received.
pub(crate) struct Node {
    pub(crate) peer: PeerHandle,
    events: broadcast::Receiver<Event>,
}

impl Node {
    /// Starts a peer.
    pub(crate) async fn start(config: Config) -> Self {
        let peer = Peer::spawn(config).await.unwrap();
        let events = peer.events();
        Self { peer, events }
    }

    /// Starts a peer and waits until it is registered with all its indexers.
    pub(crate) async fn registered(config: Config) -> Self {
        let mut left = config.indexers.clone();
        let mut node = Self::start(config).await;
        while !left.is_empty() {
            let with = node.event(|event| match event {
                Event::Registered { indexer, .. } => Some(*indexer),
                _ => None,
            });
            let with = with.await;
            left.retain(|indexer| *indexer != with);
        }
        node
    }

    /// Waits for an event that `pick` accepts; skips the others.
    pub(crate) async fn event<T>(&mut self, pick: impl Fn(&Event) -> Option<T>) -> T {
        loop {
            match self.events.recv().await {
                Ok(event) => {
                    if let Some(picked) = pick(&event) {
                        return picked;
                    }
                }
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => panic!("the peer ended"),
            }
        }
    }

    /// Waits until this event happens.
    pub(crate) async fn sees(&mut self, expected: &Event) {
        self.event(|event| (event == expected).then_some(())).await;
    }

    /// The events not received yet.
    pub(crate) fn unseen(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.events.try_recv().ok()).collect()
    }

    /// Waits until the copy of `text` is outdated by version `newest`.
    pub(crate) async fn invalidated(&mut self, text: &str, newest: u64) {
        self.event(|event| match event {
            Event::Invalidated { name, newest: found, .. } => {
                (name.as_str() == text && found.get() == newest).then_some(())
            }
            _ => None,
        })
        .await;
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.peer.local_addr().unwrap()
    }

    pub(crate) async fn publish_all(&self, paths: &[&Path]) -> PublishOutcome {
        let paths = paths.iter().map(|path| path.to_path_buf()).collect();
        self.peer.publish(paths, PublishOptions::default(), &Arc::default()).await.unwrap()
    }

    /// Publishes one file with new bytes, and waits until all indexers acknowledged.
    pub(crate) async fn publish(&self, path: &Path) -> VerifiedRecord {
        let outcome = self.publish_all(&[path]).await;
        assert!(outcome.failed.is_empty(), "{outcome:?}");
        outcome.published.into_iter().next().expect("a new version")
    }

    pub(crate) async fn get(&self, text: &str) -> Result<Downloaded, DownloadError> {
        self.get_with(text, DownloadOptions::default()).await
    }

    pub(crate) async fn get_with(
        &self,
        text: &str,
        options: DownloadOptions,
    ) -> Result<Downloaded, DownloadError> {
        self.peer.download(&name(text), options, &Arc::new(Progress::default())).await
    }

    /// The status of `text`.
    pub(crate) async fn status(&self, text: &str) -> Option<FileStatus> {
        self.peer.files().await.into_iter().find(|file| file.record.name.as_str() == text)
    }

    /// Waits until the copy of `text` is intact and has this freshness.
    pub(crate) async fn becomes(&self, text: &str, freshness: Freshness) {
        let wanted = Condition::Good(freshness);
        eventually(async || self.status(text).await.filter(|file| file.condition == wanted).map(drop)).await;
    }

    /// Whether the copy of `text` is intact and has this freshness.
    pub(crate) async fn is(&self, text: &str, freshness: Freshness) -> bool {
        self.status(text).await.is_some_and(|file| file.condition == Condition::Good(freshness))
    }
}
