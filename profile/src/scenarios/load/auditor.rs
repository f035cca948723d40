//! The auditor: a reader in a process of its own that follows all names, and an indexer's figures beside it.

use tokio::time::Instant;

use super::{judge::Acknowledged, judge::Arrived, judge::Held, work::Names};
use crate::node::{reader::Arrivals, reader::Versions};
use crate::scenarios::prelude::*;

/// How long names may take until all of them can be downloaded.
const LISTED_WITHIN: Duration = Duration::from_secs(20);
/// How long the reader may take to answer, for all of its copies: one that hangs is killed.
const ANSWERS_WITHIN: Duration = Duration::from_secs(120);
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// A reader that follows, and what it has told so far.
pub(crate) struct Auditor {
    pub(crate) names: Names,
    follow: Request,
    pub(crate) process: Process,
    pub(crate) arrived: Vec<Arrived>,
    pub(crate) missed: u64,
    /// Names that are none of this network's.
    pub(crate) strange: usize,
    pub(crate) peak_bytes: u64,
}

impl Auditor {
    /// Starts it with copies of all names; it takes so long for each message.
    pub(crate) async fn start(
        on: &Deployment,
        peer: PeerOptions,
        pause_ms: u64,
        names: Names,
    ) -> Result<Self> {
        let process = on.process("reader", Role::Peer(peer)).await?;
        let (arrived, missed, strange, peak_bytes) = Default::default();
        let follow = Request::Follow { pause_ms };
        let mut auditor = Self { names, follow, process, arrived, missed, strange, peak_bytes };
        let downloaded = auditor.download_until(Instant::now() + LISTED_WITHIN, None).await;
        downloaded.context("a reader does not get its copies")?;
        auditor.call::<()>(&auditor.follow.clone()).await?;
        Ok(auditor)
    }

    pub(crate) async fn come_back(&mut self) -> Result<()> {
        self.process.again().await?;
        self.call::<()>(&self.follow.clone()).await
    }

    async fn call<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T> {
        ensure!(self.process.id().is_some(), "the reader is dead");
        self.process.tells_within(ANSWERS_WITHIN, request).await
    }

    /// Downloads whatever is newer than its copies, but for the name that is `dropped`, again until all of it came or there
    /// is no time left.
    pub(crate) async fn download_until(&mut self, until: Instant, dropped: Option<usize>) -> Result<()> {
        let mut names = self.names.all();
        if let Some(dropped) = dropped {
            names.remove(dropped);
        }
        loop {
            match self.download(names.clone()).await {
                Err(_) if Instant::now() < until => sleep(AGAIN_AFTER).await,
                done => return done,
            }
        }
    }

    async fn download(&mut self, names: Vec<String>) -> Result<()> {
        let request = Request::Download { names, at_s: 0.0 };
        let Downloads { failed, .. } = self.call(&request).await?;
        ensure!(failed.is_empty(), "{} downloads failed, such as {}", failed.len(), failed[0]);
        Ok(())
    }

    /// Takes what arrived, if it lives.
    pub(crate) async fn look(&mut self) -> Result<()> {
        let Some(pid) = self.process.id() else { return Ok(()) };
        let Arrivals { arrived, missed } = self.call(&Request::Arrived).await?;
        self.peak_bytes = self.peak_bytes.max(machine::peak_bytes(pid).unwrap_or(0));
        self.missed += missed;
        for (name, version, at_s) in arrived {
            match self.names.index(&name) {
                Some(name) => self.arrived.push(Arrived { name, version, at_s }),
                None => self.strange += 1,
            }
        }
        Ok(())
    }

    pub(crate) async fn knows(&mut self, acknowledged: &[Acknowledged]) -> Result<bool> {
        let versions = self.versions().await?;
        Ok(acknowledged.iter().all(|one| versions[one.name].known >= one.version))
    }

    async fn versions(&mut self) -> Result<Vec<Versions>> {
        let request = Request::Held(self.names.all());
        self.call(&request).await
    }

    /// What it has of each name, bytes and all.
    pub(crate) async fn held(&mut self) -> Result<Vec<Held>> {
        let versions = self.versions().await?;
        let dir = self.process.dir.clone();
        let held = versions.into_iter().enumerate().map(|(name, Versions { held: version, .. })| {
            let bytes = fs::read_to_string(dir.join(self.names.text(name))).unwrap_or_default();
            Held { version, number: self.names.number(name, &bytes) }
        });
        Ok(held.collect())
    }
}

/// The figures of an indexer, by `/status` and `/metrics`.
pub(crate) struct Status(pub(crate) Http);

impl Status {
    /// Reads both; an error if they contradict each other. Names, and records registered since its start.
    pub(crate) async fn read(&self) -> Result<(u64, u64)> {
        let (_, before) = self.status().await?;
        let metrics = self.0.text("/metrics").await?;
        let (names, after) = self.status().await?;
        let line = metrics.lines().find_map(|line| line.strip_prefix("nekop2p_indexer_records_total "));
        let records: u64 = line.context("/metrics does not count records")?.trim().parse()?;
        let agree = (before..=after).contains(&records);
        ensure!(agree, "/metrics counts {records} records, /status {before} before and {after} after");
        Ok((names, after))
    }

    async fn status(&self) -> Result<(u64, u64)> {
        let status = self.0.json("/status").await?;
        let figure = |key: &str| status[key].as_u64().with_context(|| format!("/status does not say {key}"));
        Ok((figure("names")?, figure("registered")?))
    }

    /// An error unless the figures agree with `names` that were published, and `acknowledged` versions of them.
    pub(crate) async fn agree(&self, names: usize, acknowledged: usize) -> Result<()> {
        let (listed, records) = self.read().await?;
        ensure!(listed == names as u64, "/status counts {listed} names of {names}");
        ensure!(records >= acknowledged as u64, "/status counts {records} records of {acknowledged}");
        Ok(())
    }
}
