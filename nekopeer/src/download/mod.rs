//! Downloading: from a name to a verified file in its place.
//!
//! Here is decided what to download, whether it may stand where it is wanted, and what follows once it
//! is there. [`version`] obtains one version, [`many`] many small files, [`to_pipe`] one in order.

mod error;
mod file;
mod manifest;
mod many;
mod swarm;
mod to_pipe;
mod version;

use std::{
    net::SocketAddr,
    num::NonZeroU64,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use nekoproto::{
    FileName, Freshness, Holder, NodeId, VerifiedRecord, limits::TTL_DEFAULT, transport::Endpoint,
};

pub use self::error::DownloadError;
pub(crate) use self::file::look_alikes::LookAlikes;
use self::{file::destination::Destination, swarm::Report};
use crate::{
    indexers::{Answer, Indexers, Scope},
    library::Library,
    peers::Peers,
    serve::partial_files::PartialFiles,
    state::choice::{Candidate, NoChoice, Target, choose},
    storage::catalogue::Entry,
    util::{progress::Progress, rate::Rate},
};

/// What the caller wants of a download.
#[derive(Clone, Debug)]
pub struct DownloadOptions {
    /// Where the file is to stand; under its name in the share folder unless told otherwise.
    pub output: Option<PathBuf>,
    /// Whose file, where several origins publish different ones under the same name: the first
    /// digits of the origin's id.
    pub origin: Option<String>,
    /// Replace a file that stands there and is no copy of ours; stand beside one whose name other
    /// systems take for the same.
    pub force: bool,
    /// Hops the query travels.
    pub ttl_hops: u8,
}

impl Default for DownloadOptions {
    fn default() -> Self {
        Self { output: None, origin: None, force: false, ttl_hops: TTL_DEFAULT }
    }
}

/// A finished download.
#[derive(Clone, Debug)]
pub struct Downloaded {
    /// What is on disk now.
    pub record: VerifiedRecord,
    /// Where.
    pub path: PathBuf,
    /// File bytes that came over the network; the rest was there already.
    pub bytes_moved: u64,
    /// How long it took.
    pub took: Duration,
    /// Fresh if the origin itself has just confirmed that this is the newest version.
    pub freshness: Freshness,
    /// Who delivered something, or was found out.
    pub sources: Vec<Delivery>,
}

/// What one source did for a download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Who it is.
    pub node: NodeId,
    /// Where it is.
    pub addr: SocketAddr,
    /// File bytes received from it, useless ones included.
    pub bytes: u64,
    /// It is proved to lie, and was asked no more.
    pub banned: bool,
}

/// Downloads for one peer.
#[derive(Debug)]
pub(crate) struct Downloader {
    library: Arc<Library>,
    indexers: Arc<Indexers>,
    peers: Arc<Peers>,
    endpoint: Arc<Endpoint>,
    /// Where others see what is downloaded so far.
    partial_files: Arc<PartialFiles>,
    limit: Option<Arc<Rate>>,
}

impl Downloader {
    pub(crate) fn new(
        library: &Arc<Library>,
        indexers: &Arc<Indexers>,
        peers: &Arc<Peers>,
        endpoint: &Arc<Endpoint>,
        partial_files: &Arc<PartialFiles>,
        limit: Option<NonZeroU64>,
    ) -> Arc<Self> {
        Arc::new(Self {
            library: Arc::clone(library),
            indexers: Arc::clone(indexers),
            peers: Arc::clone(peers),
            endpoint: Arc::clone(endpoint),
            partial_files: Arc::clone(partial_files),
            limit: limit.map(|limit| Arc::new(Rate::new(limit))),
        })
    }

    /// See [`PeerHandle::download`](crate::PeerHandle::download).
    pub(crate) async fn download(
        &self,
        name: &FileName,
        options: DownloadOptions,
        progress: &Arc<Progress>,
    ) -> Result<Downloaded, DownloadError> {
        let started = Instant::now();
        let running = self.library.reserve(name);
        let _running = running.ok_or_else(|| DownloadError::AlreadyRunning(name.clone()))?;
        let target = self.find(name, &options).await?;
        progress.set_total(target.record.size);
        let (record, path, report) = match self.destination(&target.record, &options).await? {
            Destination::UpToDate(path) => {
                progress.add_done(target.record.size);
                (target.record, path, Report::default())
            }
            Destination::Replaceable(stamp) => {
                let (entry, report) = self.obtain(target, stamp, &options, progress).await?;
                self.keep(std::slice::from_ref(&entry)).await;
                (entry.record, entry.path, report)
            }
        };
        self.peers.confirm(vec![record.clone()]).await;
        Ok(Downloaded {
            freshness: self.library.freshness(&record),
            bytes_moved: report.bytes_moved,
            sources: deliveries(progress, &report),
            took: started.elapsed(),
            record,
            path,
        })
    }

    /// Agrees on what to download: never older than what is here, never another origin's unasked.
    async fn find(&self, name: &FileName, options: &DownloadOptions) -> Result<Target, DownloadError> {
        self.refuse_own(name)?;
        let scope = Scope::Network { ttl_hops: options.ttl_hops };
        let Answer { candidates, complete } = self.indexers.search(name, scope).await?;
        self.choose(name, options, candidates, complete)
    }

    fn refuse_own(&self, name: &FileName) -> Result<(), DownloadError> {
        let catalogue = &self.library.catalogue;
        let own = catalogue.get(name).filter(|entry| catalogue.is_own(entry));
        own.map_or(Ok(()), |_| Err(DownloadError::Own(name.clone())))
    }

    /// Chooses among what was found: never older than what is here, never another origin's unasked.
    fn choose(
        &self,
        name: &FileName,
        options: &DownloadOptions,
        candidates: Vec<Candidate>,
        complete: bool,
    ) -> Result<Target, DownloadError> {
        self.refuse_own(name)?;
        let here = self.library.catalogue.get(name);
        let of_copy = || here.as_ref().map(|entry| entry.record.origin.to_string());
        let origin = options.origin.clone().or_else(of_copy);
        let mut target = choose(candidates, origin.as_deref()).map_err(|why| match why {
            NoChoice::NoHit => DownloadError::NotFound { name: name.clone(), complete },
            NoChoice::Ambiguous(origins) => DownloadError::Ambiguous { name: name.clone(), origins },
        })?;
        target.sources.retain(|source| source.node != self.library.node);
        match here {
            Some(entry) if entry.record.replaces(&target.record) => Err(DownloadError::Older {
                name: name.clone(),
                found: target.record.version,
                held: entry.record.version,
            }),
            _ => Ok(target),
        }
    }

    /// Whoever else holds the bytes of `record` by now.
    fn look_for_sources(
        &self,
        record: &VerifiedRecord,
        ttl_hops: u8,
    ) -> impl Future<Output = Vec<Holder>> + Send + 'static {
        let (indexers, record, own) = (Arc::clone(&self.indexers), record.clone(), self.library.node);
        async move {
            let answer = indexers.search(&record.name, Scope::Network { ttl_hops }).await.unwrap_or_default();
            let same = answer.candidates.into_iter().filter(|found| found.record.content == record.content);
            same.flat_map(|found| found.holders).filter(|holder| holder.node != own).collect()
        }
    }

    /// Begins to watch copies, and becomes a holder of them.
    async fn keep(&self, entries: &[Entry]) {
        if entries.is_empty() {
            return;
        }
        self.library.keep(entries);
        let records: Vec<VerifiedRecord> = entries.iter().map(|entry| entry.record.clone()).collect();
        self.indexers.offer(&records).await;
    }
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
