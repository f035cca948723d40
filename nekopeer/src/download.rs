//! Downloading: from a name to a verified file in its place.
//!
//! What is to be had, whether it may stand where it is wanted, and what follows when it is there. How
//! it is had is in [`obtain`](crate::obtain).

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use nekoproto::{FileName, Freshness, NodeId, VerifiedRecord, Version, limits::TTL_DEFAULT};

use crate::{
    Progress,
    catalogue::{CatalogueError, Entry},
    clock,
    locate::{self, Answer, LocateError, Scope},
    obtain::obtain,
    placing::{Standing, standing},
    shared::Shared,
    state::{
        choice::{Candidate, NoChoice, Target, choose},
        freshness::CopyState,
    },
    store::StoreError,
    swarm::Report,
    watch,
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

/// Why a download failed. What stood in the file's place still stands there, and what came of
/// the new file is kept for the next try.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// Nobody was asked.
    #[error(transparent)]
    Locate(#[from] LocateError),
    /// Nobody offers the file.
    #[error("nobody offers {name}{}", if *.complete { "" } else { " (but not every indexer answered)" })]
    NotFound {
        /// The name.
        name: FileName,
        /// Whether everybody in reach was asked.
        complete: bool,
    },
    /// Several origins publish different files under the name.
    #[error("{} origins publish different files as {name}: choose one with --origin {}", .origins.len(),
        .origins.iter().map(|record| record.origin.short()).collect::<Vec<_>>().join(" or "))]
    Ambiguous {
        /// The name.
        name: FileName,
        /// Their records.
        origins: Vec<VerifiedRecord>,
    },
    /// It is this peer's own file.
    #[error("{0} is published by this peer itself")]
    Own(FileName),
    /// The name is being downloaded already.
    #[error("{0} is being downloaded already")]
    AlreadyRunning(FileName),
    /// A file stands there that is no copy of ours.
    #[error("{0} exists and is not a copy from here: move it away, or replace it with --force")]
    Exists(PathBuf),
    /// What stands there is the same name to file systems that do not tell case, or one Unicode form
    /// of a letter from another.
    #[error("{name} and {} are one name on many systems, which tell neither case nor the form of letters: \
        choose another place with -o, or keep both with --force", .existing.display())]
    Collides {
        /// The name.
        name: FileName,
        /// What stands there.
        existing: PathBuf,
    },
    /// What was found is older than what is here.
    #[error("only version {found} of {name} can be found, and version {held} is here")]
    Older {
        /// The name.
        name: FileName,
        /// The newest version found.
        found: Version,
        /// The version here.
        held: Version,
    },
    /// No source delivered all of it.
    #[error("no source delivers {name} to its end: {why}; what came is kept, run it again to go on")]
    SourcesExhausted {
        /// The name.
        name: FileName,
        /// What the last one did.
        why: String,
    },
    /// The origin's record contradicts itself.
    #[error("{0}: the origin signed a content hash that its own chunks do not have")]
    OriginLies(FileName),
    /// Nobody could be asked for any of several names.
    #[error("{name} cannot be looked for: {why}")]
    NobodyAsked {
        /// The name.
        name: FileName,
        /// Why.
        why: String,
    },
    /// It came with others, which could not be made durable together.
    #[error("{name} cannot be stored: {why}")]
    NotStored {
        /// The name.
        name: FileName,
        /// Why.
        why: String,
    },
    /// The pipe that it goes to, or comes from, broke.
    #[error("{name}: the pipe broke: {why}")]
    Pipe {
        /// The name.
        name: FileName,
        /// What the system said.
        why: std::io::Error,
    },
    /// The file cannot be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The catalogue cannot store it.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
}

impl DownloadError {
    /// Whether trying again later may help.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Locate(_) | Self::NotFound { .. } | Self::AlreadyRunning(_) | Self::SourcesExhausted { .. }
        )
    }
}

/// See [`PeerHandle::download`](crate::PeerHandle::download).
pub(crate) async fn download(
    shared: &Arc<Shared>,
    name: &FileName,
    options: DownloadOptions,
    progress: &Arc<Progress>,
) -> Result<Downloaded, DownloadError> {
    let started = Instant::now();
    let _running = Running::begin(shared, name)?;
    let target = find(shared, name, &options).await?;
    progress.set_total(target.record.size);
    let (record, path, report) = match standing(shared, &target.record, &options).await? {
        Standing::Wanted(path) => {
            progress.add_done(target.record.size);
            (target.record, path, Report::default())
        }
        Standing::Replaceable(stamp) => {
            let (entry, report) = obtain(shared, target, stamp, &options, progress).await?;
            keep(shared, std::slice::from_ref(&entry)).await;
            (entry.record, entry.path, report)
        }
    };
    watch::ask_about(shared, &record).await;
    Ok(Downloaded {
        freshness: freshness(shared, &record),
        bytes_moved: report.bytes_moved,
        sources: deliveries(progress, &report),
        took: started.elapsed(),
        record,
        path,
    })
}

pub(crate) fn deliveries(progress: &Progress, report: &Report) -> Vec<Delivery> {
    let sources = progress.sources().into_iter().map(|source| Delivery {
        node: source.node,
        addr: source.addr,
        bytes: source.bytes(),
        banned: report.liars.contains(&source.node),
    });
    sources.filter(|source| source.bytes > 0 || source.banned).collect()
}

/// How fresh the copy of `record` is: fresh only if the origin itself has just said so.
pub(crate) fn freshness(shared: &Shared, record: &VerifiedRecord) -> Freshness {
    let copies = shared.copies();
    let copy = copies.get(&record.name).filter(|copy| copy.held() == record);
    copy.map_or(Freshness::Unverified, |copy| copy.freshness(clock::now()))
}

/// Agrees on what to download: never older than what is here, never another origin's unasked.
pub(crate) async fn find(
    shared: &Arc<Shared>,
    name: &FileName,
    options: &DownloadOptions,
) -> Result<Target, DownloadError> {
    let scope = Scope::Network { ttl_hops: options.ttl_hops };
    refuse_own(shared, name)?;
    let Answer { candidates, complete } = locate::ask(shared, name, scope).await?;
    choose_target(shared, name, options, candidates, complete)
}

fn refuse_own(shared: &Shared, name: &FileName) -> Result<(), DownloadError> {
    let own = shared.catalogue.get(name).filter(|entry| shared.catalogue.is_own(entry));
    own.map_or(Ok(()), |_| Err(DownloadError::Own(name.clone())))
}

/// Chooses among what was found: never older than what is here, never another origin's unasked.
pub(crate) fn choose_target(
    shared: &Shared,
    name: &FileName,
    options: &DownloadOptions,
    candidates: Vec<Candidate>,
    complete: bool,
) -> Result<Target, DownloadError> {
    refuse_own(shared, name)?;
    let here = shared.catalogue.get(name);
    let of_copy = || here.as_ref().map(|entry| entry.record.origin.to_string());
    let origin = options.origin.clone().or_else(of_copy);
    let mut target = choose(candidates, origin.as_deref()).map_err(|why| match why {
        NoChoice::NoHit => DownloadError::NotFound { name: name.clone(), complete },
        NoChoice::Ambiguous(origins) => DownloadError::Ambiguous { name: name.clone(), origins },
    })?;
    target.sources.retain(|source| source.node != shared.endpoint.node());
    match here {
        Some(entry) if entry.record.replaces(&target.record) => Err(DownloadError::Older {
            name: name.clone(),
            found: target.record.version,
            held: entry.record.version,
        }),
        _ => Ok(target),
    }
}

/// Begins to watch copies, and becomes a holder of them.
pub(crate) async fn keep(shared: &Arc<Shared>, entries: &[Entry]) {
    if entries.is_empty() {
        return;
    }
    {
        let mut copies = shared.copies();
        for Entry { record, .. } in entries {
            // News may have come in since the commit. What the catalogue knows by now counts; what it
            // learns later is noted in `copies` after this.
            let newest = shared.catalogue.get(&record.name).and_then(|entry| entry.newest.clone());
            let copy = CopyState::new(record.clone(), newest, shared.config.ttr, clock::now());
            copies.insert(record.name.clone(), copy);
        }
    }
    shared.watch_wake.notify_one();
    if shared.is_serving() {
        let records: Vec<VerifiedRecord> = entries.iter().map(|entry| entry.record.clone()).collect();
        let offer = shared.sessions.iter().map(|session| session.offer(shared, &records, false));
        // An indexer that is away is told when it is back.
        drop(futures::future::join_all(offer).await);
    }
}

/// Marks a name as being downloaded until dropped.
pub(crate) struct Running<'a> {
    shared: &'a Shared,
    name: FileName,
}

impl<'a> Running<'a> {
    pub(crate) fn begin(shared: &'a Shared, name: &FileName) -> Result<Self, DownloadError> {
        let mut running = shared.downloading.lock().unwrap_or_else(PoisonError::into_inner);
        if running.insert(name.clone()) {
            Ok(Self { shared, name: name.clone() })
        } else {
            Err(DownloadError::AlreadyRunning(name.clone()))
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.shared.downloading.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name);
    }
}
