//! The demo's nodes: indexers in a line, and peers with a folder each.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use nekoindexer::{Indexer, IndexerHandle};
use nekoproto::Policy;
use tempfile::TempDir;
use tokio::{sync::broadcast, time::timeout};

use crate::{
    config::Config,
    library::{events::Event, status::FileStatus},
    peer::{Peer, PeerHandle},
    publish::{PolicyChange, PublishOptions, PublishOutcome},
    state::freshness::OnStale,
};

/// Time limit for the indexers to connect to each other.
const LINKED_WITHIN: Duration = Duration::from_secs(10);

/// Three indexers in a line.
pub(super) struct Stage {
    folder: TempDir,
    indexers: Vec<IndexerHandle>,
}

/// A peer, its folder, and its events.
pub(super) struct Actor {
    pub(super) name: &'static str,
    pub(super) peer: PeerHandle,
    folder: PathBuf,
    pub(super) events: broadcast::Receiver<Event>,
}

impl Stage {
    pub(super) const WEST: usize = 0;
    pub(super) const MIDDLE: usize = 1;
    pub(super) const EAST: usize = 2;

    pub(super) async fn set() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("nekop2p-demo-").tempdir()?;
        let mut indexers: Vec<IndexerHandle> = Vec::new();
        for place in [Self::WEST, Self::MIDDLE, Self::EAST] {
            // Each indexer names the one before it; one side of a pair is enough.
            let neighbors = place.checked_sub(1).map(|before| indexers[before].local_addr());
            let config = nekoindexer::Config {
                listen: SocketAddr::from(([127, 0, 0, 1], 0)),
                neighbors: neighbors.into_iter().collect(),
                ..nekoindexer::Config::default()
            };
            indexers.push(Indexer::spawn(config).await?);
        }
        for (indexer, neighbors) in indexers.iter().zip([1, 2, 1]) {
            within(LINKED_WITHIN, "the indexers' links", indexer.neighbors_reach(neighbors)).await?;
        }
        Ok(Self { folder, indexers })
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) async fn peer(
        &self,
        name: &'static str,
        indexer: usize,
        on_stale: OnStale,
    ) -> anyhow::Result<Actor> {
        let folder = self.folder().join(name);
        let config = Config {
            indexers: vec![self.indexers[indexer].local_addr()],
            listen: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
            on_stale,
            ..Config::new(&folder)
        };
        let peer = Peer::spawn(config).await.with_context(|| format!("{name} does not start"))?;
        let mut actor = Actor { name, events: peer.events(), peer, folder };
        let registered = |event: &Event| matches!(event, Event::Registered { .. });
        within(LINKED_WITHIN, "the registration", next_event(&mut actor, registered)).await?;
        Ok(actor)
    }

    /// Shuts the indexers down and removes every file.
    pub(super) async fn strike(self) {
        for indexer in self.indexers {
            indexer.shutdown().await;
        }
    }
}

impl Actor {
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(super) async fn publish(&self, path: &str, policy: Option<Policy>) -> anyhow::Result<PublishOutcome> {
        let options = PublishOptions {
            policy: policy.map(PolicyChange::from).unwrap_or_default(),
            ..PublishOptions::default()
        };
        Ok(self.peer.publish(vec![self.file(path)], options, &std::sync::Arc::default()).await?)
    }

    pub(super) async fn status(&self, name: &str) -> anyhow::Result<FileStatus> {
        let files = self.peer.files().await;
        let file = files.into_iter().find(|file| file.record.name.as_str() == name);
        file.with_context(|| format!("{} does not hold {name}", self.name))
    }
}

/// Waits for an event of the wanted kind.
pub(super) async fn next_event(actor: &mut Actor, wanted: impl Fn(&Event) -> bool) -> Event {
    next_event_in(&mut actor.events, wanted).await
}

/// The same, where the peer is in use.
pub(super) async fn next_event_in(
    events: &mut broadcast::Receiver<Event>,
    wanted: impl Fn(&Event) -> bool,
) -> Event {
    loop {
        match events.recv().await {
            Ok(event) if wanted(&event) => return event,
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// Waits for `what`, up to the given limit.
pub(super) async fn within<T>(
    time: Duration,
    what: &str,
    waiting: impl Future<Output = T>,
) -> anyhow::Result<T> {
    timeout(time, waiting).await.with_context(|| format!("{what} did not come within {time:?}"))
}
