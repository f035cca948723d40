//! Helpers for the tests of the peer: folders, files, indexers and peers on free ports.
#![allow(clippy::expect_used, reason = "a helper of tests fails by panicking")]

pub(crate) use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

pub(crate) use futures::future::join_all;
pub(crate) use nekoindexer::{Indexer, IndexerHandle};
pub(crate) use nekopeer::*;
pub(crate) use nekoproto::{
    limits::{STALL_TIMEOUT, TTL_DEFAULT},
    transport::Security,
    *,
};
use tempfile::TempDir;
pub(crate) use tokio::sync::Notify;
use tokio::sync::broadcast::{self, error::RecvError};

pub(crate) mod http;

pub(crate) use testkit::{
    eventually,
    fake::{Fake, Habit, hit},
    goods::{CHUNK_BYTES, Goods, MIB, bytes},
    holder::{Holder, Question, blocking},
    network::{ANY_PORT, kept_port},
    proxy::Proxy,
    rogue::{ScriptedReply, Then},
    values::{forged, identity, name},
};

pub(crate) fn policy(mode: Mode, secs: u32) -> Policy {
    Policy::new(mode, secs, secs, Staleness::ServeStale).unwrap()
}

pub(crate) async fn indexer(neighbors: &[SocketAddr]) -> IndexerHandle {
    indexer_at(ANY_PORT, neighbors).await
}

pub(crate) async fn indexer_at(listen: SocketAddr, neighbors: &[SocketAddr]) -> IndexerHandle {
    let neighbors = neighbors.iter().copied().map(Into::into).collect();
    Indexer::spawn(nekoindexer::Config { listen, neighbors, ..Default::default() }).await.unwrap()
}

#[derive(Clone)]
pub(crate) struct Folder(Arc<TempDir>);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(Arc::new(tempfile::tempdir().unwrap()))
    }

    pub(crate) fn path(&self, text: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(text)
    }

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

    /// The partial files of downloads, without their checkpoints.
    pub(crate) fn partials(&self) -> Vec<PathBuf> {
        let found = std::fs::read_dir(self.path(".neko/parts")).into_iter().flatten();
        found.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_none()).collect()
    }

    pub(crate) fn config(&self, indexers: &[SocketAddr]) -> Config {
        Config {
            indexers: indexers.iter().copied().map(Into::into).collect(),
            listen: Some(ANY_PORT),
            ..Config::new(self.0.path())
        }
    }

    pub(crate) async fn peer(&self, indexers: &[SocketAddr]) -> Node {
        self.peer_with(indexers, |_| {}).await
    }

    pub(crate) async fn peer_with(&self, indexers: &[SocketAddr], change: impl FnOnce(&mut Config)) -> Node {
        let mut config = self.config(indexers);
        change(&mut config);
        Node::registered(config).await
    }
}

/// An indexer, and peers that are registered with it, each with a folder of its own.
pub(crate) async fn network<const N: usize>() -> (IndexerHandle, [(Folder, Node); N]) {
    let indexer = indexer(&[]).await;
    let mut peers = Vec::new();
    for _ in 0..N {
        peers.push(peer(&[indexer.local_addr()]).await);
    }
    (indexer, peers.try_into().ok().unwrap())
}

pub(crate) async fn peer(indexers: &[SocketAddr]) -> (Folder, Node) {
    let folder = Folder::new();
    let node = folder.peer(indexers).await;
    (folder, node)
}

pub(crate) struct Node {
    pub(crate) peer: PeerHandle,
    events: broadcast::Receiver<Event>,
}

impl Node {
    pub(crate) async fn start(config: Config) -> Self {
        let peer = Peer::spawn(config).await.unwrap();
        let events = peer.events();
        Self { peer, events }
    }

    pub(crate) async fn registered(config: Config) -> Self {
        let mut left = config.indexers.clone();
        let mut node = Self::start(config).await;
        while !left.is_empty() {
            let with = node.event(|event| match event {
                Event::Registered { indexer, .. } => Some(*indexer),
                _ => None,
            });
            let with = with.await;
            left.retain(|indexer| indexer.addr != with);
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

    pub(crate) async fn sees(&mut self, expected: &Event) {
        self.event(|event| (event == expected).then_some(())).await;
    }

    pub(crate) fn unseen(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.events.try_recv().ok()).collect()
    }

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

    pub(crate) async fn versions(&self, text: &str) -> (u64, Option<u64>) {
        let file = self.status(text).await.unwrap();
        (file.record.version.get(), file.newest.map(Version::get))
    }

    /// Publishes one file with new bytes, and waits until all indexers acknowledged.
    pub(crate) async fn publish(&self, path: &Path) -> VerifiedRecord {
        let outcome = self.publish_all(&[path]).await;
        assert!(outcome.failed.is_empty(), "{outcome:?}");
        outcome.published.into_iter().next().expect("a new version")
    }

    pub(crate) async fn get(&self, text: &str) -> Result<Downloaded, Failure> {
        self.get_with(text, DownloadOptions::default()).await
    }

    pub(crate) async fn get_with(&self, text: &str, options: DownloadOptions) -> Result<Downloaded, Failure> {
        self.peer.download(&name(text), options, &Arc::new(Progress::default())).await
    }

    pub(crate) async fn get_all(&self, names: &[FileName]) -> Vec<(FileName, Result<Downloaded, Failure>)> {
        self.peer.download_all(names, &DownloadOptions::default(), &Arc::default()).await
    }

    /// Downloads it, and expects these bytes in `to`.
    pub(crate) async fn gets(&self, to: &Folder, text: &str, bytes: impl AsRef<[u8]>) -> Downloaded {
        let done = self.get(text).await.unwrap();
        assert!(to.read(text) == bytes.as_ref(), "other bytes of {text}");
        done
    }

    pub(crate) async fn status(&self, text: &str) -> Option<FileStatus> {
        self.peer.files().await.into_iter().find(|file| file.record.name.as_str() == text)
    }

    pub(crate) async fn becomes(&self, text: &str, freshness: Freshness) {
        let wanted = Condition::Good(freshness);
        eventually(async || self.status(text).await.filter(|file| file.condition == wanted).map(drop)).await;
    }

    pub(crate) async fn is(&self, text: &str, freshness: Freshness) -> bool {
        self.status(text).await.is_some_and(|file| file.condition == Condition::Good(freshness))
    }
}
