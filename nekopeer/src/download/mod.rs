//! Downloads: from a name to a verified file in its place.
//!
//! This file decides which version to download, whether its destination is free, and what follows when it
//! is complete. [`version`] obtains one version, [`many`] many small files, [`to_pipe`] one in order.

mod earlier;
mod error;
mod file;
mod manifest;
mod many;
mod origins;
mod restore;
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
    FileName, Freshness, Holder, NodeId, Record, VerifiedRecord, Version, limits::TTL_DEFAULT,
    transport::Endpoint,
};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

pub use self::error::DownloadError;
pub(crate) use self::many::Downloads;
use self::{earlier::ByNumber, file::destination::Destination, swarm::Report};
use crate::{
    content::stamp::Stamp,
    indexers::{Answer, Indexers, Scope, Wishes, via::Via},
    library::Library,
    peers::Peers,
    serve::partial_files::PartialFiles,
    sets,
    state::{
        choice::{NoChoice, Target, choose},
        freshness::{Doubt, OnStale},
    },
    storage::{
        StoreError,
        catalogue::{CatalogueError, Entry},
    },
    util::{progress::Progress, throttle::Throttle},
};

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

/// How often others are searched for where none of the sources found delivers.
const SEARCHES_MAX: usize = 3;

impl DownloadOptions {
    fn origin_of(&self, name: &FileName) -> Option<&str> {
        self.origins.get(name).or(self.origin.as_ref()).map(String::as_str)
    }

    /// What a search for this name alone leaves out.
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
    /// What speaks against it although no newer version is known.
    pub doubt: Option<Doubt>,
    /// Sources that delivered bytes or were banned.
    pub sources: Vec<Delivery>,
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
    library: Arc<Library>,
    indexers: Arc<Indexers>,
    peers: Arc<Peers>,
    endpoint: Arc<Endpoint>,
    /// Where unfinished downloads are served from.
    partial_files: Arc<PartialFiles>,
    throttle: Arc<Throttle>,
    /// What is done with outdated copies, unless the reader says otherwise of one.
    pub(crate) on_stale: OnStale,
}

impl Downloader {
    pub(crate) fn new(
        library: &Arc<Library>,
        indexers: &Arc<Indexers>,
        peers: &Arc<Peers>,
        endpoint: &Arc<Endpoint>,
        partial_files: &Arc<PartialFiles>,
        throttle: &Arc<Throttle>,
        on_stale: OnStale,
    ) -> Arc<Self> {
        let (library, indexers, peers) = (Arc::clone(library), Arc::clone(indexers), Arc::clone(peers));
        let (endpoint, throttle) = (Arc::clone(endpoint), Arc::clone(throttle));
        let partial_files = Arc::clone(partial_files);
        Arc::new(Self { library, indexers, peers, endpoint, partial_files, throttle, on_stale })
    }

    /// See [`PeerHandle::download`](crate::PeerHandle::download).
    pub(crate) async fn download(
        &self,
        name: &FileName,
        options: DownloadOptions,
        progress: &Arc<Progress>,
    ) -> Result<Downloaded, DownloadError> {
        let running = self.library.reserve(name, progress);
        let running = running.ok_or_else(|| DownloadError::AlreadyRunning(name.clone()))?;
        let downloading = self.download_until(&running.stop, name, &options, progress);
        unless_ended(&self.library, name, &running.stop, downloading).await
    }

    async fn download_until(
        &self,
        stop: &CancellationToken,
        name: &FileName,
        options: &DownloadOptions,
        progress: &Arc<Progress>,
    ) -> Result<Downloaded, DownloadError> {
        let started = Instant::now();
        let target = match options.version {
            None => self.find(name, options).await?,
            Some(version) => match self.find_version(name, version, options).await? {
                ByNumber::Newest(target) => target,
                ByNumber::Earlier(earlier) => {
                    return self.restore_found(stop, *earlier, true, (progress, started)).await;
                }
            },
        };
        self.download_found(stop, target, options, (progress, started)).await
    }

    async fn download_found(
        &self,
        stop: &CancellationToken,
        target: Target,
        options: &DownloadOptions,
        (progress, started): (&Arc<Progress>, Instant),
    ) -> Result<Downloaded, DownloadError> {
        progress.set_total(target.record.size);
        let others = target.others.clone();
        let (record, path, report, was_here) = match self.destination(&target.record, options).await? {
            Destination::UpToDate(path) => {
                progress.add_kept(target.record.size);
                (target.record, path, Report::default(), true)
            }
            Destination::Replaceable(stamp) => {
                let (entry, report) = self.obtain_anywhere(target, stamp, options, progress, stop).await?;
                self.indexers.offer([&entry.record]).await;
                (entry.record, entry.path, report, false)
            }
        };
        let path = self.unfolded(&record, path, options, stop).await?;
        self.peers.confirm(vec![record.clone()]).await;
        Ok(Downloaded {
            freshness: self.library.freshness(&record),
            doubt: self.library.doubt(&record),
            bytes_moved: report.bytes_moved,
            was_here,
            sources: deliveries(progress, &report),
            took: started.elapsed(),
            record,
            others,
            path,
        })
    }

    /// Where the user finds what is held at `path`: a set's folder, which is brought to its version.
    async fn unfolded(
        &self,
        record: &Record,
        path: PathBuf,
        options: &DownloadOptions,
        stop: &CancellationToken,
    ) -> Result<PathBuf, DownloadError> {
        if !record.policy.is_set() {
            return Ok(path);
        }
        let (output, force) = (options.output.clone(), options.force);
        Ok(sets::bring_to_place(&self.library, &record.name, output, (force, stop)).await?)
    }

    /// Searches, and chooses as [`choose`](Self::choose) does.
    pub(crate) async fn find(
        &self,
        name: &FileName,
        options: &DownloadOptions,
    ) -> Result<Target, DownloadError> {
        self.refuse_own(name)?;
        let scope = Scope::Network { ttl_hops: options.ttl_hops };
        let mut found = match self.indexers.search(name, scope, &options.via).await {
            Ok(answer) => self.choose(name, options, answer),
            Err(error) => Err(error.into()),
        };
        found = self.find_wished(name, options, found).await;
        self.ask_further(vec![(name.clone(), found)], options).await.remove(0).1
    }

    /// `found`; or, if the origin that is wanted was not in an answer that had no room for all, what is found of it by
    /// its id.
    async fn find_wished(
        &self,
        name: &FileName,
        options: &DownloadOptions,
        mut found: Result<Target, DownloadError>,
    ) -> Result<Target, DownloadError> {
        let wishes = options.wishes(name);
        if wishes.origin.is_none() || !found.as_ref().is_err_and(DownloadError::is_incomplete) {
            return found;
        }
        match self.search_again(name, options, &wishes).await {
            Some(Err(DownloadError::NotOfOrigin { complete: true, .. })) => {
                if let Err(DownloadError::NotOfOrigin { complete, .. }) = &mut found {
                    *complete = true;
                }
                found
            }
            Some(again) => again,
            None => found,
        }
    }

    /// Searches for what meets `wishes`; none if nobody answered.
    async fn search_again(
        &self,
        name: &FileName,
        options: &DownloadOptions,
        wishes: &Wishes,
    ) -> Option<Result<Target, DownloadError>> {
        let scope = Scope::Network { ttl_hops: options.ttl_hops };
        let answer = self.indexers.search_again(name, scope, &options.via, wishes).await.ok()?;
        Some(self.choose(name, options, answer))
    }

    /// Obtains `target` as [`obtain`](Self::obtain) does; if none of its sources delivers it, asks for others, at most
    /// [`SEARCHES_MAX`] times.
    async fn obtain_anywhere(
        &self,
        mut target: Target,
        replaceable: Option<Stamp>,
        options: &DownloadOptions,
        progress: &Arc<Progress>,
        stop: &CancellationToken,
    ) -> Result<(Entry, Report), DownloadError> {
        let mut wishes = options.wishes(&target.record.name);
        for _ in 0..SEARCHES_MAX {
            let (record, tried) = (target.record.clone(), target.sources.clone());
            let failure = match self.obtain(target, replaceable, options, progress, stop).await {
                Err(failure @ DownloadError::SourcesExhausted { .. }) => failure,
                ended => return ended,
            };
            wishes.without.extend(tried.iter().map(|source| source.node.tag()));
            target = match self.search_again(&record.name, options, &wishes).await {
                Some(Ok(mut other)) if other.record.content == record.content => {
                    other.sources.retain(|source| !wishes.without.contains(&source.node.tag()));
                    if !other.record.same_file(&record) {
                        other.record = record; // that of the origin that was chosen
                    }
                    other
                }
                _ => return Err(failure),
            };
            if target.sources.is_empty() {
                return Err(failure);
            }
        }
        self.obtain(target, replaceable, options, progress, stop).await
    }

    fn refuse_own(&self, name: &FileName) -> Result<(), DownloadError> {
        let catalogue = &self.library.catalogue;
        let own = catalogue.get(name).filter(|entry| catalogue.is_own(entry));
        own.map_or(Ok(()), |_| Err(DownloadError::Own(name.clone())))
    }

    /// Chooses a version: never older than one that is or was held, and of the same origin unless another is given.
    fn choose(
        &self,
        name: &FileName,
        options: &DownloadOptions,
        Answer { mut candidates, withdrawn, complete, .. }: Answer,
    ) -> Result<Target, DownloadError> {
        self.refuse_own(name)?;
        let here = self.library.catalogue.get(name);
        let said = options.origin_of(name);
        // What goes on by itself takes no other origin's file in the place of a copy that was dropped.
        let dropped = match (&here, options.unattended) {
            (None, true) => self.library.catalogue.floors(name)?,
            _ => Vec::new(),
        };
        let held = here.as_deref().or(dropped.first()).map(|entry| entry.record.origin);
        let origin = said.map(str::to_owned).or(here.as_ref().map(|here| here.record.origin.to_string()));
        let is_wanted = |record: &Record| {
            origin.as_ref().is_none_or(|digits| record.origin.to_string().starts_with(digits.as_str()))
        };
        let withdrawn = withdrawn.into_iter().find(|withdrawal| is_wanted(withdrawal));
        let mut others: Vec<NodeId> = candidates.iter().map(|candidate| candidate.record.origin).collect();
        others.sort_unstable();
        others.dedup();
        if let ([other], None, false) = (&others[..], said, dropped.is_empty())
            && dropped.iter().all(|dropped| dropped.record.origin != *other)
        {
            candidates.clear();
        }
        let is_refetched =
            || self.library.preference(name).on_stale.unwrap_or(self.on_stale) == OnStale::Refetch;
        let unattended = options.unattended || candidates.len() > 1 && is_refetched();
        let listed = |origin| self.endpoint.access().allowed.admits(origin);
        let chosen = choose(candidates, origin.as_deref(), listed, unattended);
        let mut target = chosen.map_err(|why| match (why, &withdrawn, said) {
            (NoChoice::Ambiguous(origins), ..) => DownloadError::Ambiguous { name: name.clone(), origins },
            (NoChoice::NoHit, Some(withdrawal), _) if others.is_empty() => {
                DownloadError::withdrawn(withdrawal)
            }
            (NoChoice::NoHit, _, Some(origin)) => {
                DownloadError::NotOfOrigin { name: name.clone(), origin: origin.to_owned(), others, complete }
            }
            (NoChoice::NoHit, _, None) => match held.filter(|_| !others.is_empty()) {
                Some(origin) => DownloadError::OriginGone { name: name.clone(), origin, others },
                None => DownloadError::NotFound { name: name.clone(), complete },
            },
        })?;
        target.sources.retain(|source| source.node != self.library.node);
        let was_here = self.library.catalogue.floor(name, &target.record.origin)?.map(Arc::new);
        let known = || here.iter().chain(&was_here).filter_map(|known| known.newest.as_ref());
        if let Some(later) = known().find(|later| later.is_withdrawal() && later.replaces(&target.record)) {
            return Err(DownloadError::withdrawn(later));
        }
        let later =
            [here, was_here].into_iter().flatten().find(|known| known.record.replaces(&target.record));
        match later {
            Some(known) => Err(DownloadError::Older {
                name: name.clone(),
                found: target.record.version,
                held: known.record.version,
            }),
            None => Ok(target),
        }
    }

    /// Searches for further holders of the bytes of `record`.
    fn look_for_sources(
        &self,
        record: &VerifiedRecord,
        options: &DownloadOptions,
    ) -> impl Future<Output = Vec<Holder>> + Send + 'static {
        let (indexers, record, own) = (Arc::clone(&self.indexers), record.clone(), self.library.node);
        let (scope, via) = (Scope::Network { ttl_hops: options.ttl_hops }, options.via.clone());
        let wishes = options.wishes(&record.name);
        async move {
            let answer = indexers.search_again(&record.name, scope, &via, &wishes).await;
            let found = answer.unwrap_or_default().candidates.into_iter();
            let same = found.filter(|found| found.record.content == record.content);
            same.flat_map(|found| found.holders).filter(|holder| holder.node != own).collect()
        }
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
    downloading: impl Future<Output = Result<T, DownloadError>>,
) -> Result<T, DownloadError> {
    let ended = || {
        let is_stopping = library.tasks.stop.is_cancelled();
        let stopped = || StoreError::stopped(name.as_path()).into();
        Err(if is_stopping { stopped() } else { CatalogueError::Overtaken(name.clone()).into() })
    };
    stop.run_until_cancelled(downloading).await.unwrap_or_else(ended)
}

fn deliveries(progress: &Progress, report: &Report) -> Vec<Delivery> {
    let sources = progress.sources().into_iter().map(|source| Delivery {
        node: source.node,
        addr: source.addr,
        bytes: source.bytes(),
        banned: report.corrupt_sources.contains(&source.node),
    });
    sources.filter(|source| source.bytes > 0 || source.banned).collect()
}
