//! Obtains one version of a file: its manifest, the chunks on disk, the others from all sources; then puts
//! it in its place. The chunks that are present are served to others during the download.

use std::sync::Arc;

use nekoproto::{Manifest, VerifiedRecord, limits::CHUNK_AVERAGE_MIN};
use tokio_util::sync::CancellationToken;

use super::{
    DownloadOptions, Downloader,
    error::{DownloadError, exhausted},
    file::{
        assembly::Assembly,
        checkpoint,
        destination::place_for,
        placement::{NewCopy, put_in_place},
        reuse::LocalChunks,
        room::{ASKED_FROM, refuse_too_large},
    },
    keep,
    manifest::Plan,
    swarm::{Report, transfer::Transfer},
};
use crate::{
    content::{outboard::Segments, stamp::Stamp},
    library::Library,
    serve::partial_files::PartialFile,
    state::{choice::Target, schedule::Order},
    storage::{
        catalogue::{Entry, PassedOver},
        place::Place,
    },
    util::{clock, progress::Progress},
};

/// Attempts at a partial file that another program damages.
const TRIES: u32 = 3;
/// Minimum size of a file that is served during its download, in bytes; smaller ones complete too soon.
const SHOWN_FROM: u64 = 128 * CHUNK_AVERAGE_MIN;

impl Downloader {
    /// Fetches the file, puts it in its place, catalogues it and offers it, unless `stop` is cancelled before.
    pub(super) async fn obtain(
        &self,
        target: Target,
        replaceable: Option<Stamp>,
        options: &DownloadOptions,
        progress: &Arc<Progress>,
        stop: &CancellationToken,
    ) -> Result<(Entry, Report), DownloadError> {
        if target.record.size >= ASKED_FROM && !options.force {
            let (record, options) = (target.record.clone(), options.clone());
            let ask = move |library: &Arc<Library>| {
                let place = place_for(library, &record, &options)?;
                refuse_too_large(place.path(), &place.partial_path(&record.content), record.size)
            };
            self.library.blocking(ask).await?;
        }
        let plan = self.find_plan(&target.record, &target.sources, progress).await?;
        self.obtain_by(plan, target, (replaceable, None), options, progress, stop).await
    }

    /// As [`obtain`](Self::obtain), with a manifest that is known, and what is passed over from then on.
    pub(super) async fn obtain_by(
        &self,
        plan: Plan,
        Target { record, sources, .. }: Target,
        (replaceable, passed_over): (Option<Stamp>, Option<PassedOver>),
        options: &DownloadOptions,
        progress: &Arc<Progress>,
        stop: &CancellationToken,
    ) -> Result<(Entry, Report), DownloadError> {
        let origin_addr =
            sources.iter().find(|source| source.node == record.origin).map(|origin| origin.addr);
        // Ends the work on the disk soon after this future is dropped too.
        let stop = stop.child_token();
        let _stop = stop.clone().drop_guard();
        let (mut assembly, mut local) = {
            let (record, options, stop) = (record.clone(), options.clone(), stop.clone());
            let (manifest, outboard) = (Arc::clone(&plan.manifest), plan.outboard.clone());
            let open = move |library: &Arc<Library>| {
                let place = place_for(library, &record, &options)?;
                open(library, &record, manifest, outboard, place, &stop)
            };
            self.library.blocking(open).await?
        };
        let _shown = self.show(&record, &plan, &assembly).await;
        let mark = progress.mark();
        let (mut report, mut begin) = (Report::default(), plan.begin);
        for attempt in 1.. {
            let order = self.order(&record, plan.manifest.chunks().len());
            let transfer = Transfer::new(self, record.clone(), assembly, &local, order, (progress, mark));
            let look = || self.look_for_sources(&record, options);
            let fetched = self.fetch(transfer, local, begin, look).await?;
            report.add(fetched.report);
            if fetched.left > 0 {
                return Err(exhausted(&record, report.last_failure));
            }
            let (placed, encoded, stop_placing) = (record.clone(), plan.encoded.to_vec(), stop.clone());
            let indexers = Arc::clone(&self.indexers);
            let place = move |library: &Arc<Library>| {
                let (catalogue, stop) = (&library.catalogue, stop_placing);
                let (record, manifest) = (placed.clone(), encoded);
                let copy = NewCopy { record, origin_addr, manifest, replaceable, passed_over };
                Ok::<_, DownloadError>(match put_in_place(catalogue, fetched.assembly, copy, &stop)? {
                    Ok(entry) => {
                        keep(library, &indexers, std::slice::from_ref(&entry));
                        Ok(entry)
                    }
                    Err(damaged) => {
                        // A damaged chunk may be intact at another position of the file.
                        let local = LocalChunks::find(catalogue, &placed, None, &damaged, false, &stop);
                        Err((damaged, local))
                    }
                })
            };
            match self.library.blocking(place).await? {
                Ok(entry) => return Ok((entry, report)),
                Err((damaged, found)) if attempt < TRIES => {
                    (assembly, local) = (*damaged, found);
                    let honest =
                        sources.iter().filter(|source| !report.corrupt_sources.contains(&source.node));
                    begin = honest.map(|source| (*source, None)).collect();
                }
                Err(_) => break,
            }
        }
        Err(exhausted(&record, Some("the partial file is damaged again and again".to_owned())))
    }

    /// Order of the chunks: concurrent readers, who serve each other, start at different chunks.
    fn order(&self, record: &VerifiedRecord, chunks: usize) -> Order {
        let anywhere = self.library.is_serving && record.size >= SHOWN_FROM;
        Order::RarestFirst { from: if anywhere { rand::random_range(0..chunks) } else { 0 } }
    }

    /// Serves and offers what has been received, until the guard is dropped.
    async fn show(
        &self,
        record: &VerifiedRecord,
        plan: &Plan,
        assembly: &Assembly,
    ) -> Option<impl Drop + use<>> {
        if !self.library.is_serving || record.size < SHOWN_FROM {
            return None;
        }
        let shown = self.partial_files.show(PartialFile {
            record: record.clone(),
            manifest: Arc::clone(&plan.manifest),
            encoded: Arc::clone(&plan.encoded),
            outboard: plan.outboard.clone(),
            file: assembly.partial().reopen().ok()?,
            have: Arc::clone(assembly.have()),
            since: clock::now(),
        });
        let (indexers, tasks, name) =
            (Arc::clone(&self.indexers), self.library.tasks.clone(), record.name.clone());
        let listed = scopeguard::guard(shown, move |_shown| {
            // If this does not run, the lease expires.
            tasks.spawn_until_stop(async move { indexers.end_part(&name).await });
        });
        self.indexers.offer_part(record).await;
        Some(listed)
    }
}

/// Opens the partial file and finds the chunks already on disk. Blocking.
fn open(
    library: &Library,
    record: &VerifiedRecord,
    manifest: Arc<Manifest>,
    outboard: Option<Arc<Segments>>,
    place: Place,
    stop: &CancellationToken,
) -> Result<(Assembly, LocalChunks), DownloadError> {
    let catalogue = &library.catalogue;
    let before = place.open().ok();
    let path = place.partial_path(&record.content);
    catalogue.begin_partials(&[(&record.name, path)])?;
    let partial = place.partial(&record.content)?;
    let (had, segments, maybe_more) = checkpoint::recall(catalogue, &manifest, &partial)?;
    let assembly = Assembly::open(manifest, outboard, partial, &had, segments);
    let local = LocalChunks::find(catalogue, record, before, &assembly, maybe_more, stop);
    Ok((assembly, local))
}
