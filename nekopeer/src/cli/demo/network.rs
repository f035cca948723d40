//! The demo's nodes: indexers in a line, and peers with a folder each, which carry out what users type.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, bail};
use nekoindexer::{Indexer, IndexerHandle};
use tempfile::TempDir;
use tokio::{sync::broadcast, time::timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    api::{Command, Ending, Host, Row, Saying},
    cli::repl::{Line, Words, parse},
    config::Config,
    door::{Caller, Facts},
    library::events::{Event, until_event},
    peer::Peer,
    publish::PolicyChange,
    state::freshness::OnStale,
    terminal::Output,
};

/// Results go to stdout, and no notes to stderr.
pub(super) const QUIET: Output = Output::new(false, true);
const NEWS_WITHIN: Duration = Duration::from_secs(10);
const LINKED_WITHIN: Duration = Duration::from_secs(10);

/// Three indexers in a line.
pub(super) struct DemoNetwork {
    folder: TempDir,
    indexers: Vec<IndexerHandle>,
}

pub(super) struct Actor {
    pub(super) name: &'static str,
    pub(super) host: Arc<Host>,
    facts: Facts,
    folder: PathBuf,
}

impl DemoNetwork {
    pub(super) const WEST: usize = 0;
    pub(super) const MIDDLE: usize = 1;
    pub(super) const EAST: usize = 2;

    pub(super) async fn start() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("nekop2p-demo-").tempdir()?;
        let mut indexers: Vec<IndexerHandle> = Vec::new();
        for _ in [Self::WEST, Self::MIDDLE, Self::EAST] {
            let listen = SocketAddr::from(([127, 0, 0, 1], 0));
            let config = nekoindexer::Config { listen, ..nekoindexer::Config::default() };
            indexers.push(Indexer::spawn(config).await?);
        }
        // Those beside each other name each other: then they trust each other.
        let addrs: Vec<_> = indexers.iter().map(IndexerHandle::local_addr).collect();
        let beside = [&addrs[1..2], &[addrs[0], addrs[2]], &addrs[1..2]];
        for (indexer, neighbors) in indexers.iter().zip(beside) {
            indexer.reload(neighbors, None).map_err(anyhow::Error::msg)?;
        }
        for (indexer, neighbors) in indexers.iter().zip(beside) {
            within(LINKED_WITHIN, "the indexers' links", indexer.neighbors_reach(neighbors.len())).await?;
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
    ) -> anyhow::Result<Arc<Actor>> {
        let folder = self.folder().join(name);
        let config = Config {
            indexers: vec![self.indexers[indexer].local_addr().into()],
            listen: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
            on_stale,
            ..Config::new(&folder)
        };
        let peer = Peer::spawn(config.clone()).await.with_context(|| format!("{name} does not start"))?;
        within(LINKED_WITHIN, "the indexer", peer.indexers_tried()).await?;
        let (facts, host) = (Facts::of(&peer, &config, None), Host::new(peer));
        Ok(Arc::new(Actor { name, host, facts, folder }))
    }

    pub(super) async fn stop(self) {
        for indexer in self.indexers {
            indexer.shutdown().await;
        }
    }
}

impl Actor {
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The command that `line` means here. What it shares is in the actor's folder.
    fn command(&self, line: &str) -> anyhow::Result<Command> {
        let here = |word: &str| match self.file(word) {
            file if line.starts_with("share") && file.exists() => format!("'{}'", file.display()),
            _ => word.to_owned(),
        };
        let whole = match line.contains('\'') {
            true => line.to_owned(),
            false => line.split(' ').map(here).collect::<Vec<_>>().join(" "),
        };
        let Some(Words { policy, line: Line::Verb(verb) }) = parse(&whole).map_err(anyhow::Error::msg)?
        else {
            bail!("{line} is no command");
        };
        let saying =
            Saying { dir: &self.folder, policy: PolicyChange::default(), line: Some(policy.change()) };
        verb.command(saying, QUIET)?.with_context(|| format!("{line} is wrong usage"))
    }

    /// Has a line of a user carried out, prints it with the rows of its answer, and returns these.
    pub(super) async fn types(&self, line: &str) -> anyhow::Result<Vec<Row>> {
        QUIET.line(&format!("{}$ nekopeer {line}", self.name))?;
        let (command, rows) = self.done(line).await?;
        command.api().view().rows(&rows, QUIET)?;
        Ok(rows)
    }

    /// The same without a word.
    pub(super) async fn done(&self, line: &str) -> anyhow::Result<(Command, Vec<Row>)> {
        let command = self.command(line)?;
        let (done, rows) = Caller::here(&self.host, self.facts.clone()).rows(command.clone()).await;
        done.with_context(|| format!("{}: {line}", self.name))?;
        Ok((command, rows))
    }

    /// Has a line carried out until the handle is dropped.
    pub(super) fn goes_on(self: &Arc<Self>, line: &'static str) -> AbortOnDropHandle<()> {
        let actor = Arc::clone(self);
        AbortOnDropHandle::new(tokio::spawn(async move { drop(actor.done(line).await) }))
    }

    pub(super) fn events(&self) -> broadcast::Receiver<Event> {
        self.host.peer.events()
    }

    /// Ends the peer; its files stay.
    pub(super) async fn leaves(&self) {
        self.host.close(Ending::Left).await;
        self.host.ended().await;
        self.host.jobs.close().await;
        self.host.peer.end().await;
    }
}

pub(super) async fn heard(
    events: &mut broadcast::Receiver<Event>,
    wanted: impl Fn(&Event) -> bool,
) -> anyhow::Result<Event> {
    let event = within(NEWS_WITHIN, "news", until_event(events, wanted)).await?.context("news was missed")?;
    QUIET.line(&event.to_string())?;
    Ok(event)
}

pub(super) async fn within<T>(
    time: Duration,
    what: &str,
    waiting: impl Future<Output = T>,
) -> anyhow::Result<T> {
    timeout(time, waiting).await.with_context(|| format!("{what} did not come within {time:?}"))
}
