//! Obtaining one version of a file: its manifest, what is on disk of it, the rest from everyone who has
//! it, and then its place. Meanwhile others may have what is there.

use std::sync::Arc;

use nekoproto::{Holder, Manifest, VerifiedRecord, limits::CHUNK_AVERAGE_MIN};

use crate::{
    DownloadError, DownloadOptions, Progress,
    assemble::Assembly,
    catalogue::Entry,
    clock,
    fetch::{FetchError, Source},
    local::LocalChunks,
    locate::{self, Scope},
    partials::{PartialFile, Shown},
    placing::{copy_entry, place_for, put_in_place},
    resume,
    shared::{Shared, blocking},
    stamp::Stamp,
    state::{choice::Target, schedule::Order},
    store::Place,
    swarm::{self, Begin, Job, Report},
    treehash::Segments,
};

/// Tries with a partial file that something damages while it is being written.
const TRIES: u32 = 3;
/// Files smaller than this are complete before anybody could ask for a part of them.
const SHOWN_FROM: u64 = 128 * CHUNK_AVERAGE_MIN;

/// Fetches the file, puts it in its place and enters it into the catalogue.
pub(crate) async fn obtain(
    shared: &Arc<Shared>,
    target: Target,
    replaceable: Option<Stamp>,
    options: &DownloadOptions,
    progress: &Arc<Progress>,
) -> Result<(Entry, Report), DownloadError> {
    let Target { record, sources } = target;
    let origin_addr = sources.iter().find(|source| source.node == record.origin).map(|source| source.addr);
    let plan = find_manifest(shared, &record, &sources).await?;
    let place = place_for(shared, &record.name, options).await?;
    let (mut assembly, mut local) = open(shared, &record, &plan, place).await?;
    let _shown = show(shared, &record, &plan, &assembly).await;
    let (mut report, mut begin) = (Report::default(), plan.begin);
    for attempt in 1.. {
        let order = order(shared, &record, plan.manifest.chunks().len());
        let job = Job::new(shared, record.clone(), assembly, &local, order, progress);
        let look = || look(Arc::clone(shared), record.clone(), options.ttl_hops);
        let fetched = swarm::fetch(shared, job, local, begin, look).await?;
        report.add(fetched.report);
        if fetched.left > 0 {
            return Err(exhausted(&record, report.last_failure));
        }
        let entry = copy_entry(record.clone(), origin_addr);
        let manifest = plan.encoded.to_vec();
        match put_in_place(shared, fetched.assembly, entry, record.clone(), manifest, replaceable).await? {
            Ok(entry) => return Ok((entry, report)),
            Err(damaged) if attempt < TRIES => {
                assembly = *damaged;
                local = find_again(shared, &record, &assembly);
                let honest = sources.iter().filter(|source| !report.liars.contains(&source.node));
                begin = honest.map(|source| (*source, None)).collect();
            }
            Err(_) => break,
        }
    }
    Err(exhausted(&record, Some("the partial file is damaged again and again".to_owned())))
}

/// What of a damaged file is there at another of its places.
fn find_again(shared: &Shared, record: &VerifiedRecord, assembly: &Assembly) -> LocalChunks {
    LocalChunks::find(shared, record, None, assembly, false)
}

/// What is to be fetched, and whom to begin with.
pub(crate) struct Plan {
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) encoded: Arc<[u8]>,
    /// The segments that the file is to have, where a holder knows them: bytes are verified by these, and
    /// so the whole file on the way.
    pub(crate) outline: Option<Arc<Segments>>,
    pub(crate) begin: Begin,
}

/// The manifest: from the record alone where that says it all, else from the first source that has it.
pub(crate) async fn find_manifest(
    shared: &Arc<Shared>,
    record: &VerifiedRecord,
    sources: &[Holder],
) -> Result<Plan, DownloadError> {
    let mut begin: Begin = sources.iter().map(|holder| (*holder, None)).collect();
    if let Some((manifest, encoded)) = Manifest::implied_by(record) {
        return Ok(Plan { manifest: Arc::new(manifest), encoded: encoded.into(), outline: None, begin });
    }
    let mut last = None;
    for place in 0..begin.len() {
        let holder = begin[place].0;
        let wanted = record.clone();
        let fetched = match Source::connect(&shared.endpoint, &holder).await {
            Ok(source) => {
                let guard = source.hang_up().on_drop();
                let found = blocking(move || manifest_of(source, &wanted)).await;
                guard.disarm();
                found
            }
            Err(error) => Err(error),
        };
        match fetched {
            Ok((source, (manifest, encoded), outline)) => {
                begin[place].1 = source;
                let (manifest, outline) = (Arc::new(manifest), outline.map(Arc::new));
                return Ok(Plan { manifest, encoded: encoded.into(), outline, begin });
            }
            Err(error) => last = Some(format!("source {} at {}: {error}", holder.node.short(), holder.addr)),
        }
    }
    Err(exhausted(record, last))
}

type Found = (Option<Source>, (Manifest, Vec<u8>), Option<Segments>);

/// The manifest and the outline that `source` has; it is given back if it is still good.
fn manifest_of(mut source: Source, record: &VerifiedRecord) -> Result<Found, FetchError> {
    let manifest = source.manifest(record)?;
    match source.outline(record) {
        Ok(outline) => Ok((Some(source), manifest, outline)),
        Err(_) => Ok((None, manifest, None)), // it is asked again over another connection
    }
}

pub(crate) fn exhausted(record: &VerifiedRecord, why: Option<String>) -> DownloadError {
    let why = why.unwrap_or_else(|| "it has no source".to_owned());
    DownloadError::SourcesExhausted { name: record.name.clone(), why }
}

/// Opens the partial file and finds out what is on disk already.
async fn open(
    shared: &Arc<Shared>,
    record: &VerifiedRecord,
    plan: &Plan,
    place: Place,
) -> Result<(Assembly, LocalChunks), DownloadError> {
    let (record, manifest, outline) = (record.clone(), Arc::clone(&plan.manifest), plan.outline.clone());
    shared
        .blocking(move |shared| {
            let standing = place.open().ok();
            let partial = place.partial(&record.content)?;
            let path = partial.path();
            let before = shared.catalogue.note_partial(&record.name, Some(&path))?;
            if let Some(before) = before.filter(|before| *before != path) {
                // That of an older version, which nobody will finish; it may be gone already.
                drop(std::fs::remove_file(before));
            }
            let (had, whole, maybe_more) = resume::recall(&shared.catalogue, &manifest, &partial)?;
            let assembly = Assembly::open(manifest, outline, partial, &had, whole);
            let local = LocalChunks::find(shared, &record, standing, &assembly, maybe_more);
            Ok((assembly, local))
        })
        .await
}

/// Where to begin: those who download at the same time and serve each other begin at different places.
fn order(shared: &Shared, record: &VerifiedRecord, chunks: usize) -> Order {
    let anywhere = shared.is_serving() && record.size >= SHOWN_FROM;
    Order::RarestFrom(if anywhere { rand::random_range(0..chunks) } else { 0 })
}

/// Lets others have what comes in, and says so to the indexers.
async fn show(
    shared: &Arc<Shared>,
    record: &VerifiedRecord,
    plan: &Plan,
    assembly: &Assembly,
) -> Option<ShownAndListed> {
    if !shared.is_serving() || record.size < SHOWN_FROM {
        return None;
    }
    let shown = shared.partials.show(PartialFile {
        record: record.clone(),
        manifest: Arc::clone(&plan.manifest),
        encoded: Arc::clone(&plan.encoded),
        outline: plan.outline.clone(),
        file: assembly.partial().reopen().ok()?,
        have: Arc::clone(assembly.have()),
        since: clock::now(),
    });
    let listed = ShownAndListed { shared: Arc::clone(shared), record: record.clone(), _shown: shown };
    let telling = shared.sessions.iter().map(|session| session.offer_partial(shared, record));
    // An indexer that is away is told when it is back.
    drop(futures::future::join_all(telling).await);
    Some(listed)
}

/// Shows and lists a partial download until it is dropped.
struct ShownAndListed {
    shared: Arc<Shared>,
    record: VerifiedRecord,
    _shown: Shown,
}

impl Drop for ShownAndListed {
    fn drop(&mut self) {
        let name = self.record.name.clone();
        self.shared.spawn_until_stop(|shared| async move {
            let telling = shared.sessions.iter().map(|session| session.end_partial(&shared, &name));
            drop(futures::future::join_all(telling).await); // the lease ends it otherwise
        });
    }
}

/// Whoever else holds the same bytes by now.
pub(crate) async fn look(shared: Arc<Shared>, record: VerifiedRecord, ttl_hops: u8) -> Vec<Holder> {
    let answer = locate::ask(&shared, &record.name, Scope::Network { ttl_hops }).await.unwrap_or_default();
    let same = answer.candidates.into_iter().filter(|found| found.record.content == record.content);
    let own = shared.endpoint.node();
    same.flat_map(|found| found.holders).filter(|holder| holder.node != own).collect()
}
