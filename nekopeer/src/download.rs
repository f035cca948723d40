//! Downloading: from a name to a verified file in its place.
//!
//! Owns the order of things; what it decides is in [`choice`](crate::state::choice) and
//! [`schedule`](crate::state::schedule), bytes come through [`fetch`](crate::fetch) and go
//! through [`assemble`](crate::assemble).

use std::{
    path::PathBuf,
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use nekoproto::{FileName, Freshness, Holder, Manifest, VerifiedRecord, Version, limits::TTL_DEFAULT};

use crate::{
    Progress,
    assemble::{Assembly, OldCopy},
    catalogue::{CatalogueError, Entry},
    clock,
    fetch::Source,
    locate::{self, Answer, LocateError, Scope},
    placing::{Standing, copy_entry, place_for, put_in_place, standing},
    shared::Shared,
    stamp::Stamp,
    state::{
        choice::{NoChoice, Target, choose},
        freshness::CopyState,
    },
    store::{Place, StoreError},
    swarm::{self, Report, Wanted},
    watch,
};

/// Searches for further sources when all that were found have failed.
const ROUNDS: u32 = 3;
/// Pause before each of them.
const ROUND_PAUSE: Duration = Duration::from_millis(500);

/// What the caller wants of a download.
#[derive(Clone, Debug)]
pub struct DownloadOptions {
    /// Where the file is to stand; under its name in the share folder unless told otherwise.
    pub output: Option<PathBuf>,
    /// Whose file, where several origins publish different ones under the same name: the first
    /// digits of the origin's id.
    pub origin: Option<String>,
    /// Replace a file that stands there and is no copy of ours.
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
    /// How many sources delivered something.
    pub sources: usize,
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
            let (entry, report) = fetch(shared, target, stamp, &options, progress).await?;
            keep(shared, &entry).await;
            (entry.record, entry.path, report)
        }
    };
    watch::ask_about(shared, &record).await;
    Ok(Downloaded {
        freshness: freshness(shared, &record),
        bytes_moved: report.bytes_moved,
        sources: report.delivered.len(),
        took: started.elapsed(),
        record,
        path,
    })
}

/// How fresh the copy of `record` is: fresh only if the origin itself has just said so.
fn freshness(shared: &Shared, record: &VerifiedRecord) -> Freshness {
    let copies = shared.copies();
    let copy = copies.get(&record.name).filter(|copy| copy.held() == record);
    copy.map_or(Freshness::Unverified, |copy| copy.freshness(clock::now()))
}

/// Agrees on what to download: never older than what is here, never another origin's unasked.
async fn find(
    shared: &Arc<Shared>,
    name: &FileName,
    options: &DownloadOptions,
) -> Result<Target, DownloadError> {
    let here = shared.catalogue.get(name);
    if here.as_ref().is_some_and(|entry| shared.catalogue.is_own(entry)) {
        return Err(DownloadError::Own(name.clone()));
    }
    let scope = Scope::Network { ttl_hops: options.ttl_hops };
    let Answer { candidates, complete } = locate::ask(shared, name, scope).await?;
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

/// Fetches the file, puts it in its place and enters it into the catalogue.
async fn fetch(
    shared: &Arc<Shared>,
    target: Target,
    replaceable: Option<Stamp>,
    options: &DownloadOptions,
    progress: &Arc<Progress>,
) -> Result<(Entry, Report), DownloadError> {
    let Target { record, mut sources } = target;
    let origin_addr = sources.iter().find(|source| source.node == record.origin).map(|source| source.addr);
    let (manifest, encoded) = fetch_manifest(shared, &record, &sources).await?;
    let wanted = Wanted { record: record.clone(), manifest: Arc::new(manifest) };
    let place = place_for(shared, &record.name, options).await?;
    let mut assembly = assemble(shared, &wanted, place, progress).await?;
    let mut report = Report::default();
    for round in 1.. {
        let fetched = swarm::fetch(&shared.endpoint, wanted.clone(), assembly, sources, progress).await?;
        report.add(fetched.report);
        assembly = fetched.assembly;
        if fetched.left == 0 {
            break;
        }
        if round == ROUNDS {
            return Err(exhausted(&record, report.last_failure));
        }
        sources = more_sources(shared, &record, options, &report).await;
    }
    let entry = copy_entry(record.clone(), origin_addr);
    let entry = put_in_place(shared, assembly, entry, record, encoded, replaceable).await?;
    Ok((entry, report))
}

async fn fetch_manifest(
    shared: &Arc<Shared>,
    record: &VerifiedRecord,
    sources: &[Holder],
) -> Result<(Manifest, Vec<u8>), DownloadError> {
    let mut last = None;
    for holder in sources {
        let fetching = async { Source::connect(&shared.endpoint, holder).await?.manifest(record).await };
        match fetching.await {
            Ok(manifest) => return Ok(manifest),
            Err(error) => last = Some(format!("source {} at {}: {error}", holder.node.short(), holder.addr)),
        }
    }
    Err(exhausted(record, last))
}

fn exhausted(record: &VerifiedRecord, why: Option<String>) -> DownloadError {
    let why = why.unwrap_or_else(|| "it has no source".to_owned());
    DownloadError::SourcesExhausted { name: record.name.clone(), why }
}

/// Opens the partial file and takes what is on disk already, of it and of an older copy.
async fn assemble(
    shared: &Arc<Shared>,
    wanted: &Wanted,
    place: Place,
    progress: &Arc<Progress>,
) -> Result<Assembly, DownloadError> {
    let (wanted, progress) = (wanted.clone(), Arc::clone(progress));
    shared
        .blocking(move |shared| {
            let old = old_copy(shared, &wanted, &place);
            let partial = place.partial(&wanted.record.content)?;
            let path = partial.path();
            let before = shared.catalogue.note_partial(&wanted.record.name, Some(&path))?;
            if let Some(before) = before.filter(|before| *before != path) {
                // That of an older version, which nobody will finish; it may be gone already.
                drop(std::fs::remove_file(before));
            }
            Ok(Assembly::open(wanted.manifest, partial, old.as_ref(), &progress)?)
        })
        .await
}

/// A file to take chunks from: the copy that is here, or one with the same bytes in its place.
fn old_copy(shared: &Shared, wanted: &Wanted, place: &Place) -> Option<OldCopy> {
    let from_catalogue = || {
        let entry = shared.catalogue.get(&wanted.record.name)?;
        let manifest = shared.catalogue.manifest(&entry.record.manifest).ok()??;
        let file = std::fs::File::open(&entry.path).ok()?;
        Some(OldCopy { file, manifest: Manifest::decode(&manifest).ok()? })
    };
    from_catalogue().or_else(|| {
        let file = place.open().ok()?;
        Some(OldCopy { file, manifest: Manifest::clone(&wanted.manifest) })
    })
}

/// Whoever else holds the same bytes by now, without those proved to lie.
async fn more_sources(
    shared: &Arc<Shared>,
    record: &VerifiedRecord,
    options: &DownloadOptions,
    report: &Report,
) -> Vec<Holder> {
    tokio::time::sleep(ROUND_PAUSE).await;
    let scope = Scope::Network { ttl_hops: options.ttl_hops };
    let answer = locate::ask(shared, &record.name, scope).await.unwrap_or_default();
    let same = answer.candidates.into_iter().filter(|found| found.record.content == record.content);
    let holders = same.flat_map(|found| found.holders);
    let own = shared.endpoint.node();
    holders.filter(|holder| holder.node != own && !report.liars.contains(&holder.node)).collect()
}

/// Begins to watch the copy, and becomes a holder of it.
async fn keep(shared: &Arc<Shared>, entry: &Entry) {
    let record = &entry.record;
    {
        let mut copies = shared.copies();
        // News may have come in since the commit. What the catalogue knows by now counts; what it
        // learns later is noted in `copies` after this.
        let newest = shared.catalogue.get(&record.name).and_then(|entry| entry.newest.clone());
        let copy = CopyState::new(record.clone(), newest, shared.config.ttr, clock::now());
        copies.insert(record.name.clone(), copy);
    }
    shared.watch_wake.notify_one();
    if shared.is_serving() {
        let offer = shared.sessions.iter().map(|session| {
            let record = std::slice::from_ref(record);
            async move { session.offer(shared, record, false).await }
        });
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
