//! Downloads a file to a pipe: in order, each chunk once verified. It is assembled in the data folder, in
//! a file that is unlinked.

use std::{
    fs::File,
    io::Write,
    os::unix::fs::FileExt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use nekoproto::{FileName, Freshness, Manifest, VerifiedRecord};

use super::{
    DownloadOptions, Downloaded, Downloader, deliveries,
    error::{DownloadError, exhausted},
    file::{
        assembly::{AssembleError, Assembly},
        reuse::LocalChunks,
    },
    swarm::transfer::Transfer,
};
use crate::{
    content::{
        bitfield::{Bitfield, SharedBitfield},
        outboard::Segments,
    },
    library::Library,
    state::schedule::Order,
    storage::place::Place,
    util::{progress::Progress, tasks::blocking},
};

/// Interval between checks for the next chunk.
const LOOK_EVERY: Duration = Duration::from_millis(5);

impl Downloader {
    /// See [`PeerHandle::read`](crate::PeerHandle::read).
    pub(crate) async fn read(
        &self,
        name: &FileName,
        options: &DownloadOptions,
        out: impl Write + Send + 'static,
        progress: &Arc<Progress>,
    ) -> Result<Downloaded, DownloadError> {
        let started = Instant::now();
        let target = self.find(name, options).await?;
        let record = target.record;
        progress.set_total(record.size);
        let plan = self.find_manifest(&record, &target.sources).await?;
        let (assembly, local, file) = {
            let (record, manifest) = (record.clone(), Arc::clone(&plan.manifest));
            let outboard = plan.outboard.clone();
            self.library.blocking(move |library| open(library, &record, manifest, outboard)).await?
        };
        // Stops the writer, also if this future is dropped.
        let stop = scopeguard::guard(Arc::new(AtomicBool::new(false)), |stop| {
            stop.store(true, Ordering::Relaxed);
        });
        let writer = Writer {
            manifest: Arc::clone(&plan.manifest),
            file,
            have: Arc::clone(assembly.have()),
            stop: Arc::clone(&stop),
        };
        let transfer = Transfer::new(
            self,
            record.clone(),
            assembly,
            &local,
            Order::InOrder,
            (progress, progress.mark()),
        );
        let look = || self.look_for_sources(&record, options);
        let fetching = async {
            let fetched = self.fetch(transfer, local, plan.begin, look).await?;
            if fetched.left > 0 {
                stop.store(true, Ordering::Relaxed); // the missing chunks will not arrive
                return Err(exhausted(&record, fetched.report.last_failure));
            }
            Ok(fetched)
        };
        let writing = async {
            let written = blocking(move || writer.write(out)).await;
            written.map_err(|why| DownloadError::Pipe { name: name.clone(), why })
        };
        let (fetched, ()) = futures::future::try_join(fetching, writing).await?;
        let (wanted, token) = (record.clone(), self.library.tasks.stop.child_token());
        let _stop = token.clone().drop_guard();
        let checked = blocking(move || fetched.assembly.check(&wanted, &token)).await;
        checked.map_err(|error| match error {
            AssembleError::Store(error) => error.into(),
            _ => DownloadError::OriginLies(name.clone()),
        })?;
        Ok(Downloaded {
            path: "-".into(),
            bytes_moved: fetched.report.bytes_moved,
            was_here: false,
            took: started.elapsed(),
            freshness: Freshness::Unverified, // no copy is kept that could be fresh
            doubt: self.library.doubt(&record),
            sources: deliveries(progress, &fetched.report),
            record,
        })
    }
}

fn open(
    library: &Library,
    record: &VerifiedRecord,
    manifest: Arc<Manifest>,
    outboard: Option<Arc<Segments>>,
) -> Result<(Assembly, LocalChunks, Arc<File>), DownloadError> {
    let partial = Place::anywhere(&library.data_dir.join("pipe"))?.partial(&record.content)?;
    partial.clear()?;
    let file = partial.reopen()?;
    partial.unlink()?; // removed by the system when it is closed
    let had = Bitfield::with_capacity(manifest.chunks().len());
    let assembly = Assembly::open(manifest, outboard, partial, &had, Segments::new(record.size));
    let local = LocalChunks::find(&library.catalogue, record, None, &assembly, false, &library.tasks.stop);
    Ok((assembly, local, file))
}

/// Writes the chunks in order.
struct Writer {
    manifest: Arc<Manifest>,
    file: Arc<File>,
    have: Arc<SharedBitfield>,
    stop: Arc<AtomicBool>,
}

impl Writer {
    /// Writes all chunks. Blocking. Ends without an error when told to stop.
    fn write(&self, mut out: impl Write) -> std::io::Result<()> {
        let mut buffer = Vec::new();
        for (index, chunk) in self.manifest.chunks().iter().enumerate() {
            while !self.have.contains(index) {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                std::thread::sleep(LOOK_EVERY);
            }
            buffer.resize(chunk.len as usize, 0);
            self.file.read_exact_at(&mut buffer, self.manifest.range(index).start)?;
            out.write_all(&buffer)?;
        }
        out.flush()
    }
}
