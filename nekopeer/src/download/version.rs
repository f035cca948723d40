//! Obtains one version of a file: its manifest, the chunks on disk, the others from all sources; then puts
//! it in its place. The chunks that are present are served to others during the download.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use futures::FutureExt;
use nekoproto::{VerifiedRecord, limits::CHUNK_AVERAGE_MIN};
use tokio_util::sync::CancellationToken;

use super::{
    Downloader,
    error::{KEPT, exhausted},
    file::{
        assembly::Assembly,
        bases::Bases,
        checkpoint,
        destination::place_for,
        placement::{Complete, copy_entry, put_in_place},
        reuse::LocalChunks,
    },
    keep,
    manifest::Prefetch,
    plan::{DownloadRun, Landing, Layout, Plan, begin_with},
    swarm::{LOOK_AFTER, SwarmReport, transfer::Transfer},
};
use crate::{
    failure::{Failure, Reason},
    library::Library,
    serve::partial_files::PartialFile,
    sets,
    state::{choice::Target, schedule::Order},
    storage::catalogue::{Entry, StoredCopy},
    util::clock,
};

/// How often others are searched for where none of the sources found delivers.
const SEARCHES_MAX: usize = 3;
/// Attempts at a partial file in which chunks turn out to be damaged.
const TRIES: u32 = 3;
/// Minimum size of a file that is served during its download, in bytes; smaller ones complete too soon.
const SHOWN_FROM: u64 = 128 * CHUNK_AVERAGE_MIN;

impl Downloader {
    /// Fetches the file, puts it in its place, catalogues it and offers it, unless the work is stopped before. If none of
    /// its sources delivers it, others are searched for, at most [`SEARCHES_MAX`] times.
    pub(super) async fn obtain(
        &self,
        plan: Plan,
        work: &DownloadRun<'_>,
    ) -> Result<(Entry, SwarmReport), Failure> {
        let Plan { mut target, mut layout, landing, look_after, mut ready } = plan;
        let record = target.record.clone();
        let mut wishes = work.options.wishes(&record.name);
        let (mut searches, mut origin_failed) = (0, None);
        loop {
            let found = match layout.take() {
                Some(layout) => Ok(layout),
                None => {
                    let record = &target.record;
                    let second = if ready.is_some() { None } else { self.connect_second(&target) };
                    let sources = begin_with(&target.sources, ready.take());
                    let found = self.find_layout(record, sources, Prefetch::Bytes, work.progress).await;
                    let second = second.and_then(FutureExt::now_or_never).and_then(Result::ok).flatten();
                    found.map(|layout| layout.with(second))
                }
            };
            let obtained = match found {
                Ok(layout) => {
                    let failed = &mut origin_failed;
                    Box::pin(self.obtain_by(layout, &target, &landing, look_after, work, failed)).await
                }
                Err(error) => Err(error),
            };
            let failure = match obtained {
                Err(failure) if failure.reason == Reason::NoSource && searches < SEARCHES_MAX => failure,
                ended => return ended,
            };
            searches += 1;
            wishes.without.extend(target.sources.iter().map(|source| source.node.tag()));
            match self.search_again(&record.name, work.options, &wishes).await {
                Some(Ok(other)) if other.record.content == record.content => target = other,
                _ => return Err(failure),
            }
            // Those that are still downloading were looked for while chunks were fetched; asked again, readers whose source is gone
            // would wait for each other.
            target.sources.retain(|source| !source.partial && !wishes.without.contains(&source.node.tag()));
            if !target.record.same_file(&record) {
                target.record = record.clone(); // that of the origin that was chosen
            }
            if target.sources.is_empty() {
                return Err(failure);
            }
        }
    }

    /// As [`obtain`](Self::obtain), put together as `layout` says. How its origin failed is noted, and told after further searches,
    /// which leave that out.
    async fn obtain_by(
        &self,
        layout: Layout,
        target: &Target,
        landing: &Landing,
        look_after: Duration,
        work: &DownloadRun<'_>,
        origin_failed: &mut Option<String>,
    ) -> Result<(Entry, SwarmReport), Failure> {
        let look_after = if target.record.size < SHOWN_FROM { LOOK_AFTER } else { look_after };
        let Target { record, sources, .. } = target;
        // Ends the work on the disk soon after this future is dropped too.
        let stop = work.stop.child_token();
        let _stop = stop.clone().drop_guard();
        let (mut assembly, mut local) = {
            let (record, output, stop) = (record.clone(), landing.output.clone(), stop.clone());
            let (manifest, outboard) = (Arc::clone(&layout.manifest), layout.outboard.clone());
            let open = move |library: &Arc<Library>| {
                let place = place_for(library, &record, output.as_deref())?;
                let before = place.open().ok();
                let partial = place.partial(&library.data_dir, &record.name)?;
                let (had, segments, maybe_more) = checkpoint::recall(record.manifest, &manifest, &partial)?;
                let catalogue = &library.catalogue;
                let bases = Bases::find(catalogue, &record);
                let assembly = Assembly::open(manifest, outboard, partial, &had, segments).after(bases);
                let local = LocalChunks::find(catalogue, &record, before, &assembly, maybe_more, &stop);
                Ok::<_, Failure>((assembly, local))
            };
            self.library.blocking(open).await?
        };
        let _shown = self.show(record, &layout, &assembly);
        let mark = work.progress.mark();
        let (mut report, mut begin) = (SwarmReport::default(), layout.begin);
        for attempt in 1.. {
            let order = self.order(record, layout.manifest.chunks().len());
            let transfer = Transfer::new(self, record.clone(), assembly, &local, order, work.progress, mark);
            let look = || self.look_for_sources(record, work.options);
            let mut fetched = self.fetch(transfer, local, begin, look, look_after).await?;
            if fetched.left > 0 {
                if fetched.report.is_origins_failure {
                    origin_failed.clone_from(&fetched.report.last_failure);
                } else if origin_failed.is_some() {
                    fetched.report.last_failure.clone_from(origin_failed);
                }
                return Err(fetched.cut_short(record, KEPT));
            }
            report.add(fetched.report);
            let origin = sources.iter().find(|source| source.node == record.origin);
            let (origin_addr, indexers) = (origin.map(|origin| origin.addr), Arc::clone(&self.indexers));
            let (record, encoded) = (record.clone(), Arc::clone(&layout.encoded));
            let (landing, stop, whole) = (landing.clone(), stop.clone(), fetched.assembly);
            let place = move |library: &Arc<Library>| {
                let placed = finish(library, whole, &record, origin_addr, &encoded, &landing, &stop)?;
                if let Ok(entry) = &placed {
                    keep(library, &indexers, std::slice::from_ref(entry));
                }
                Ok::<_, Failure>(placed)
            };
            match self.library.blocking(place).await? {
                Ok(entry) => return Ok((entry, report)),
                Err(damaged) if attempt < TRIES => {
                    (assembly, local) = *damaged;
                    let honest =
                        sources.iter().filter(|source| !report.corrupt_sources.contains(&source.node));
                    begin = honest.map(|source| (*source, None)).collect();
                }
                Err(_) => break,
            }
        }
        Err(exhausted(record, Some("the partial file is damaged again and again".to_owned())))
    }

    /// Whether what comes of it is served to others during its download.
    fn is_shown(&self, record: &VerifiedRecord) -> bool {
        record.size >= SHOWN_FROM && (self.library.is_serving || self.membership.is_some())
    }

    /// Order of the chunks: concurrent readers, who serve each other, start at different chunks.
    fn order(&self, record: &VerifiedRecord, chunks: usize) -> Order {
        let anywhere = self.is_shown(record);
        let from = if anywhere { rand::random_range(0..chunks) } else { 0 };
        Order::RarestFirst { from }
    }

    /// Serves and offers what has been received, until the guards are dropped. No chunk waits for the indexers.
    fn show(
        &self,
        record: &VerifiedRecord,
        layout: &Layout,
        assembly: &Assembly,
    ) -> Option<impl Sized + use<>> {
        if !self.is_shown(record) {
            return None;
        }
        let shown = self.partial_files.show(PartialFile {
            record: record.clone(),
            manifest: Arc::clone(&layout.manifest),
            encoded: Arc::clone(&layout.encoded),
            outboard: layout.outboard.clone(),
            file: assembly.partial().reopen().ok()?,
            have: Arc::clone(assembly.have()),
            since: clock::now(),
        });
        if let Some(membership) = &self.membership {
            membership.begin(record);
        }
        let (indexers, record, ended) =
            (Arc::clone(&self.indexers), record.clone(), CancellationToken::new());
        let until = ended.clone();
        self.library.tasks.spawn_until_stop(async move {
            indexers.offer_part(&record).await;
            until.cancelled().await;
            indexers.end_part(&record.name).await; // if this does not run, the lease expires
        });
        Some((shown, ended.drop_guard()))
    }
}

/// Verifies a whole file, all of whose chunks are there, and puts it in its place. What turns out to be damaged is returned, with
/// the chunks that are elsewhere on this disk, so that it can be repaired. Blocking.
fn finish(
    library: &Library,
    assembly: Assembly,
    record: &VerifiedRecord,
    origin_addr: Option<SocketAddr>,
    encoded: &[u8],
    landing: &Landing,
    stop: &CancellationToken,
) -> Result<Result<Entry, Box<(Assembly, LocalChunks)>>, Failure> {
    let catalogue = &library.catalogue;
    catalogue.may_put(record, landing.passed_over)?;
    let chunks = Arc::clone(assembly.manifest());
    if !assembly.check(record, stop)?.is_empty() {
        // A damaged chunk may be intact at another position of the file.
        let local = LocalChunks::find(catalogue, record, None, &assembly, false, stop);
        return Ok(Err(Box::new((assembly, local))));
    }
    library.may_go_back(&record.name, landing.passed_over)?;
    let (partial, outboard) = assembly.into_complete();
    let (stamp, path) = (partial.complete(record.size)?, partial.target().to_owned());
    let entry = copy_entry(record.clone(), origin_addr, stamp, path);
    let copy = StoredCopy { entry, manifest: encoded.to_vec(), outboard };
    let complete = vec![Complete { copy, partial, manifest: &chunks, landing, stop }];
    let put = || put_in_place(catalogue, complete).remove(0).map(Ok);
    sets::put_where_other_kind_was(library, record, landing.output.as_deref(), put)
}
