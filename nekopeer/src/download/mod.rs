//! Downloads: from a name to a verified file in its place.
//!
//! Whoever wants a file makes a [`plan`]; this file carries it out. [`version`] obtains one version, [`many`] many small
//! files, [`to_pipe`] one in order.

mod earlier;
mod error;
mod file;
mod finding;
pub(crate) mod idle_sources;
mod manifest;
mod many;
pub(crate) mod membership;
mod origins;
pub(crate) mod plan;
mod strict;
mod swarm;
mod to_pipe;
mod version;

use std::{
    collections::HashMap,
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use nekoproto::{
    FileName, Freshness, NodeId, Record, VerifiedRecord, Version, limits::TTL_DEFAULT, transport::Endpoint,
};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use self::{
    earlier::kept,
    file::destination::Destination,
    idle_sources::IdleSources,
    membership::Membership,
    plan::{DownloadRun, Plan},
    swarm::{SwarmReport, source::Source},
};
pub(crate) use self::{
    error::{already_running, own, pipe_broke},
    file::room::free_in,
    many::{Downloads, Located},
};
use crate::{
    failure::{Failure, Reason},
    indexers::{Indexers, Wishes, via::Via},
    library::{Library, events::Event},
    peers::Peers,
    serve::partial_files::PartialFiles,
    sets,
    state::{choice::Target, freshness::OnStale},
    storage::{
        catalogue::{Entry, Why, overtaken},
        stopped,
    },
    util::{clock, progress::Progress, throttle::Throttle},
};

/// Later versions that a download goes on with, one after the other, where the one before is not sent any more.
const OVERTAKEN_MAX: usize = 8;

/// Options of a download.
#[derive(Clone, Debug)]
pub struct DownloadOptions {
    /// Destination path, or a folder to put it into; `None`: under its name in the share folder.
    pub output: Option<PathBuf>,
    /// The first digits of the id of the wanted origin. Without it a copy stays that of its origin; if there is none and
    /// several origins publish different files, the download fails.
    pub origin: Option<String>,
    /// Nobody looks at whose file it is: the download fails also if several origins publish the same bytes.
    pub unattended: bool,
    /// Replace an existing file that is not a copy of this peer's; fetch one that is larger than what the disk has free.
    pub force: bool,
    /// This version instead of the newest, as long as somebody holds or keeps it. It takes its place as
    /// `nekopeer rollback` does. Of a single file, and without `output`.
    pub version: Option<Version>,
    /// Hops the query travels.
    pub ttl_hops: u8,
    /// The same as `origin` for single names; the others go by `origin`.
    pub origins: Arc<HashMap<FileName, String>>,
    /// Indexers that are asked besides the peer's own.
    pub via: Via,
}

impl DownloadOptions {
    pub(crate) fn origin_of(&self, name: &FileName) -> Option<&str> {
        self.origins.get(name).or(self.origin.as_ref()).map(String::as_str)
    }

    /// Whether they leave the origin of `record` open, or name it.
    pub(crate) fn takes(&self, record: &Record) -> bool {
        self.origin_of(&record.name).is_none_or(|digits| record.origin.to_string().starts_with(digits))
    }

    fn wishes(&self, name: &FileName) -> Wishes {
        let digits = self.origin_of(name);
        Wishes { origin: digits.and_then(|digits| digits.to_owned().try_into().ok()), without: Vec::new() }
    }
}

impl Default for DownloadOptions {
    fn default() -> Self {
        let (output, origin, unattended, force, version, origins, via) = Default::default();
        Self { output, origin, unattended, force, version, ttl_hops: TTL_DEFAULT, origins, via }
    }
}

/// A finished download.
#[derive(Clone, Debug)]
pub struct Downloaded {
    /// The version on disk.
    pub record: VerifiedRecord,
    /// Other origins of the same bytes, if nobody said which of them is meant.
    pub others: Vec<NodeId>,
    /// Its path.
    pub path: PathBuf,
    /// File bytes received over the network; the others were on disk.
    pub bytes_moved: u64,
    /// Whether this version stood in its place before.
    pub was_here: bool,
    /// Duration of the download.
    pub took: Duration,
    /// Fresh if the origin has just confirmed that this is the newest version.
    pub freshness: Freshness,
    /// Its origin no longer shares it, although no newer version is known.
    pub is_unshared: bool,
    /// Sources that delivered bytes or were banned.
    pub sources: Vec<Delivery>,
}

impl Downloaded {
    fn new(
        record: VerifiedRecord,
        others: Vec<NodeId>,
        path: PathBuf,
        bytes_moved: u64,
        began: Instant,
    ) -> Self {
        let (freshness, took) = (Freshness::Unverified, began.elapsed());
        Self {
            record,
            others,
            path,
            bytes_moved,
            was_here: false,
            took,
            freshness,
            is_unshared: false,
            sources: Vec::new(),
        }
    }

    fn look_again(&mut self, library: &Library) {
        self.freshness = library.freshness(&self.record);
        self.is_unshared = library.is_withdrawn(&self.record);
    }
}

/// One source's part in a download.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// Its id.
    pub node: NodeId,
    /// Its address.
    pub addr: SocketAddr,
    /// Useful file bytes received from it; those of all sources together are the bytes moved.
    pub bytes: u64,
    /// Whether it was banned for sending bytes that are not the file's.
    pub banned: bool,
}

#[derive(Debug)]
pub(crate) struct Downloader {
    pub(crate) library: Arc<Library>,
    pub(crate) indexers: Arc<Indexers>,
    pub(crate) peers: Arc<Peers>,
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) partial_files: Arc<PartialFiles>,
    pub(crate) throttle: Arc<Throttle>,
    /// What makes a peer that serves nothing else serve what it downloads.
    pub(crate) membership: Option<Arc<Membership>>,
    pub(crate) idle_sources: IdleSources,
    /// What is done with outdated copies, unless the reader says otherwise of one.
    pub(crate) on_stale: OnStale,
}

impl Downloader {
    /// See [`PeerHandle::download`](crate::PeerHandle::download).
    pub(crate) async fn download(
        &self,
        name: &FileName,
        options: DownloadOptions,
        progress: &Arc<Progress>,
    ) -> Result<Downloaded, Failure> {
        self.run_planned(name, &options, progress, self.plan(name, &options)).await
    }

    /// As [`download`](Self::download); a version that is `known` to be later than the copy here is not searched for, unless
    /// nobody delivers it. Further holders of it are looked for meanwhile.
    pub(crate) async fn refetch(
        &self,
        name: &FileName,
        known: Option<Target>,
        options: DownloadOptions,
    ) -> Result<Downloaded, Failure> {
        let progress = Arc::default();
        if let Some(target) = known.filter(|known| !known.record.policy.is_strict()) {
            let origin = target.record.origin;
            let ready = self.idle_sources.take(&origin, clock::now()).map(|source| (origin, source));
            let plan =
                Plan { look_after: Duration::ZERO, ready, ..Plan::new(target, options.output.clone()) };
            match self.run_planned(name, &options, &progress, async { Ok(plan) }).await {
                Err(Failure { reason: Reason::NoSource, .. }) => {}
                ended => return ended,
            }
        }
        self.download(name, options, &progress).await
    }

    /// Puts `version` of `name`, or the last one that was replaced, back in its place. Recorded with it, in one
    /// transaction: if the user went back, those up to the newest one that is known do not take its place by themselves any
    /// more. If `refused`, that one does not, and what is put back takes the place of no other.
    pub(crate) async fn restore(
        &self,
        name: &FileName,
        version: Option<Version>,
        refused: Option<&VerifiedRecord>,
        progress: &Arc<Progress>,
    ) -> Result<Downloaded, Failure> {
        let (wanted, refused) = (name.clone(), refused.cloned());
        let find = move |library: &Arc<Library>| kept(library, &wanted, version, refused.as_ref());
        self.run_planned(name, &DownloadOptions::default(), progress, self.library.blocking(find)).await
    }

    /// Reserves `name`, carries out what is planned then, and asks the origin of the newest version whether it still is.
    async fn run_planned(
        &self,
        name: &FileName,
        options: &DownloadOptions,
        progress: &Arc<Progress>,
        planning: impl Future<Output = Result<Plan, Failure>>,
    ) -> Result<Downloaded, Failure> {
        let running = self.library.reserve(name, progress);
        let running = running.ok_or_else(|| already_running(name))?;
        let work = DownloadRun { options, progress, stop: &running.stop, began: Instant::now() };
        let downloading = async {
            let plan = planning.await?;
            let (mut done, origin) = self.carry_out_newest(plan, &work).await?;
            tokio::join!(self.listed([&done]), self.confirm(&done.record, origin));
            done.look_again(&self.library);
            Ok(done)
        };
        unless_ended(&self.library, name, work.stop, downloading).await
    }

    /// Waits until the indexers list what was not here before, if this peer serves: one that serves what it downloads may end now.
    async fn listed(&self, done: impl IntoIterator<Item = &Downloaded>) {
        if self.library.is_serving {
            let new = done.into_iter().filter(|done| !done.was_here).map(|done| done.record.name.clone());
            self.indexers.told(&new.collect::<Vec<_>>()).await;
        }
    }

    /// As [`carry_out`](Self::carry_out), unless no source sends that version any more because a later one was shared
    /// meanwhile: then that one.
    async fn carry_out_newest(
        &self,
        mut plan: Plan,
        work: &DownloadRun<'_>,
    ) -> Result<(Downloaded, Option<Source>), Failure> {
        let is_newest = plan.landing.passed_over.is_none() && work.options.version.is_none();
        for _ in 0..OVERTAKEN_MAX {
            let record = plan.target.record.clone();
            let failure = match Box::pin(self.carry_out(plan, work)).await {
                Err(failure) if is_newest && failure.reason == Reason::NoSource => failure,
                ended => return ended, // in a box, as it is large
            };
            match self.find(&record.name, work.options).await {
                Ok(later) if later.record.origin == record.origin && later.record.replaces(&record) => {
                    plan = Plan::new(later, work.options.output.clone());
                }
                Err(later) if later.reason == Reason::Withdrawn => return Err(later),
                _ => return Err(failure),
            }
        }
        Box::pin(self.carry_out(plan, work)).await
    }

    /// Fetches the version of `plan`, unless it is there, and puts it in its place, and offers it in the background. Returned with
    /// it, if it came from its origin: the connection to that.
    async fn carry_out(
        &self,
        mut plan: Plan,
        work: &DownloadRun<'_>,
    ) -> Result<(Downloaded, Option<Source>), Failure> {
        let (name, others) = (plan.target.record.name.clone(), plan.target.others.clone());
        let is_told = plan.landing.passed_over.is_some_and(|passed| passed.why == Why::RolledBack);
        self.library.may_go_back(&name, plan.landing.passed_over)?;
        let Plan { target: Target { record, .. }, landing, .. } = &plan;
        work.progress.set_total(record.size);
        let output = landing.output.clone();
        let (record, path, report, was_here) = match self.destination(record, landing, work).await? {
            Destination::UpToDate(path) => {
                work.progress.add_kept(record.size);
                (record.clone(), path, SwarmReport::default(), true)
            }
            there => {
                if let Destination::Replaceable(stamp) = there {
                    plan.landing.replaceable = stamp;
                }
                let (entry, report) = self.obtain(plan, work).await?;
                if is_told {
                    self.library.tell(Event::RolledBack { name, version: entry.record.version });
                }
                (entry.record, entry.path, report, false)
            }
        };
        let (path, is_changed) = self.unfolded(&record, path, output, work).await?;
        let mut done = Downloaded::new(record, others, path, report.bytes_moved, work.began);
        (done.was_here, done.sources) = (was_here && !is_changed, deliveries(work.progress, &report));
        Ok((done, report.origin))
    }

    /// Where the user finds what is held at `path`: a set's folder, which is brought to its version; whether it was another.
    async fn unfolded(
        &self,
        record: &Record,
        path: PathBuf,
        output: Option<PathBuf>,
        work: &DownloadRun<'_>,
    ) -> Result<(PathBuf, bool), Failure> {
        if !record.policy.is_set() {
            return Ok((path, false));
        }
        sets::bring_to_place(&self.library, &record.name, output, work.options.force, work.stop).await
    }
}

/// Starts to watch copies, and offers them in the background.
fn keep(library: &Library, indexers: &Indexers, entries: &[Entry]) {
    library.counters.downloads.inc_by(entries.len() as u64);
    library.keep(entries);
    library.note_intact(entries.iter().map(|entry| &entry.record));
    let records: Vec<VerifiedRecord> = entries.iter().map(|entry| entry.record.clone()).collect();
    indexers.offer_soon(&records);
}

/// Downloads the file of `name` unless `stop` ends that before.
async fn unless_ended<T>(
    library: &Library,
    name: &FileName,
    stop: &CancellationToken,
    downloading: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let ended = || {
        let is_stopping = library.tasks.stop.is_cancelled();
        Err(if is_stopping { stopped(name.as_path()) } else { overtaken(name) })
    };
    stop.run_until_cancelled(downloading).await.unwrap_or_else(ended)
}

fn deliveries(progress: &Progress, report: &SwarmReport) -> Vec<Delivery> {
    let sources = progress.sources().into_iter().map(|source| Delivery {
        node: source.node,
        addr: source.addr,
        bytes: source.bytes(),
        banned: report.corrupt_sources.contains(&source.node),
    });
    sources.filter(|source| source.bytes > 0 || source.banned).collect()
}
