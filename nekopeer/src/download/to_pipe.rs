//! Downloads a file to a pipe: in order, each chunk once verified. It is assembled in the data folder, in
//! a file that is unlinked.

use std::{
    fs::File,
    io::Write,
    ops::Range,
    os::unix::fs::FileExt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use nekoproto::{FileName, Manifest, VerifiedRecord};

use super::{
    DownloadOptions, Downloaded, Downloader, deliveries,
    error::{PASSED_ON, origin_lies, pipe_broke},
    file::{assembly::Assembly, reuse::LocalChunks, room::refuse_too_large},
    manifest::Prefetch,
    plan::{Plan, begin_with},
    swarm::{LOOK_AFTER, transfer::Transfer},
};
use crate::{
    content::{
        bitfield::{Bitfield, SharedBitfield},
        outboard::Segments,
    },
    failure::Failure,
    library::Library,
    sets::is_folder,
    state::{choice::Target, schedule::Order},
    storage::place::Place,
    util::{progress::Progress, tasks::blocking},
};

const LOOK_EVERY: Duration = Duration::from_millis(5);

impl Downloader {
    /// See [`PeerHandle::read`](crate::PeerHandle::read).
    pub(crate) async fn read(
        &self,
        name: &FileName,
        options: &DownloadOptions,
        out: impl Write + Send + 'static,
        progress: &Arc<Progress>,
    ) -> Result<Downloaded, Failure> {
        let plan = self.plan(name, options).await?;
        if plan.target.record.policy.is_set() {
            return Err(is_folder(name));
        }
        let whole = 0..plan.target.record.size;
        self.read_planned(plan, whole, options, out, progress).await
    }

    /// As [`read`](Self::read), of a version that was found, the bytes in `range` only: no others are fetched but those of
    /// the same chunks.
    ///
    /// A part is verified by the hashes of its chunks, which the record's signature covers. That the whole file has
    /// the content hash of the record is verified only if all of it is read, after its last byte was written.
    pub(crate) async fn read_planned(
        &self,
        plan: Plan,
        range: Range<u64>,
        options: &DownloadOptions,
        out: impl Write + Send + 'static,
        progress: &Arc<Progress>,
    ) -> Result<Downloaded, Failure> {
        let began = Instant::now();
        let Plan { target: Target { record, sources, others }, layout, .. } = plan;
        let is_whole = range == (0..record.size);
        progress.set_total(record.size);
        let takes = range.end.saturating_sub(range.start);
        if !options.force {
            let folder = self.library.data_dir.join("pipe");
            blocking(move || refuse_too_large(&folder, &folder, takes)).await?;
        }
        let layout = match layout {
            Some(layout) => layout,
            None => {
                self.find_layout(&record, begin_with(&sources, None), Prefetch::Nothing, progress).await?
            }
        };
        let (assembly, local, file) = {
            let (record, manifest) = (record.clone(), Arc::clone(&layout.manifest));
            let (outboard, range) = (layout.outboard.clone(), range.clone());
            self.library.blocking(move |library| open(library, &record, manifest, outboard, &range)).await?
        };
        // Stops the writer, also if this future is dropped.
        let stop = scopeguard::guard(Arc::new(AtomicBool::new(false)), |stop| {
            stop.store(true, Ordering::Relaxed);
        });
        let (manifest, have) = (Arc::clone(&layout.manifest), Arc::clone(assembly.have()));
        let stopped = Arc::clone(&stop);
        let write = move || write_range(&manifest, &range, &file, &have, &stopped, out);
        let transfer =
            Transfer::new(self, record.clone(), assembly, &local, Order::InOrder, progress, progress.mark());
        let look = || self.look_for_sources(&record, options);
        let fetching = async {
            let fetched = self.fetch(transfer, local, layout.begin, look, LOOK_AFTER).await?;
            if fetched.left > 0 {
                stop.store(true, Ordering::Relaxed); // the missing chunks will not arrive
                return Err(fetched.cut_short(&record, PASSED_ON));
            }
            Ok(fetched)
        };
        let writing = async {
            let written = blocking(write).await;
            written.map_err(|error| pipe_broke(&record.name, &error))
        };
        let (fetched, ()) = futures::future::try_join(fetching, writing).await?;
        if is_whole {
            let (wanted, token) = (record.clone(), self.library.tasks.stop.child_token());
            let _stop = token.clone().drop_guard();
            let damaged = blocking(move || fetched.assembly.check(&wanted, &token)).await?;
            if !damaged.is_empty() {
                return Err(origin_lies(&record.name));
            }
        }
        let mut done = Downloaded::new(record, others, "-".into(), fetched.report.bytes_moved, began);
        done.is_unshared = self.library.is_withdrawn(&done.record); // no copy is kept that could be fresh
        done.sources = deliveries(progress, &fetched.report);
        Ok(done)
    }
}

/// Opens an unlinked file for the chunks in `range`; the others count as had.
fn open(
    library: &Library,
    record: &VerifiedRecord,
    manifest: Arc<Manifest>,
    outboard: Option<Arc<Segments>>,
    range: &Range<u64>,
) -> Result<(Assembly, LocalChunks, Arc<File>), Failure> {
    let partial = Place::anywhere(&library.data_dir.join("pipe"))?.unnamed_partial(&library.data_dir)?;
    let file = partial.file();
    let (chunks, wanted) = (manifest.chunks().len(), manifest.chunks_in(range.clone()));
    let mut had = Bitfield::with_capacity(chunks);
    (0..wanted.start).chain(wanted.end..chunks).for_each(|index| had.insert(index));
    let assembly = Assembly::open(manifest, outboard, partial, &had, Segments::new(record.size));
    let local = LocalChunks::find(&library.catalogue, record, None, &assembly, false, &library.tasks.stop);
    Ok((assembly, local, file))
}

/// Writes the bytes in the range. Blocking. Ends without an error when told to stop.
fn write_range(
    manifest: &Manifest,
    range: &Range<u64>,
    file: &File,
    have: &SharedBitfield,
    stop: &AtomicBool,
    mut out: impl Write,
) -> std::io::Result<()> {
    let mut buffer = Vec::new();
    for index in manifest.chunks_in(range.clone()) {
        while !have.contains(index) {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let chunk = manifest.range(index);
        let (start, end) = (chunk.start.max(range.start), chunk.end.min(range.end));
        buffer.resize(usize::try_from(end - start).unwrap_or(usize::MAX), 0);
        file.read_exact_at(&mut buffer, start)?;
        out.write_all(&buffer)?;
    }
    out.flush()
}
