//! A download that goes to a pipe: in order, each chunk as soon as it and all before it are verified.
//!
//! The chunks that come out of order wait in a file in the data folder, not in memory.

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

use nekoproto::{FileName, Freshness, Manifest};

use crate::{
    DownloadError, DownloadOptions, Downloaded, Progress,
    assemble::{AssembleError, Assembly},
    bits::{Bits, Have},
    download::{self, deliveries},
    local::LocalChunks,
    obtain::{exhausted, find_manifest, look},
    shared::{Shared, blocking},
    state::schedule::Order,
    store::Place,
    swarm::{self, Job},
    treehash::Segments,
};

/// How often a chunk that has not come yet is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// See [`PeerHandle::read`](crate::PeerHandle::read).
pub(crate) async fn read(
    shared: &Arc<Shared>,
    name: &FileName,
    options: &DownloadOptions,
    out: impl Write + Send + 'static,
    progress: &Arc<Progress>,
) -> Result<Downloaded, DownloadError> {
    let started = Instant::now();
    let target = download::find(shared, name, options).await?;
    let record = target.record;
    progress.set_total(record.size);
    let plan = find_manifest(shared, &record, &target.sources).await?;
    let (assembly, local, file) = {
        let (record, manifest) = (record.clone(), Arc::clone(&plan.manifest));
        let outline = plan.outline.clone();
        shared.blocking(move |shared| open(shared, &record, manifest, outline)).await?
    };
    let ends_with_this = StopOnDrop(Arc::new(AtomicBool::new(false)));
    let writer = Writer {
        manifest: Arc::clone(&plan.manifest),
        file,
        have: Arc::clone(assembly.have()),
        stop: Arc::clone(&ends_with_this.0),
    };
    let job = Job::new(shared, record.clone(), assembly, &local, Order::InOrder, progress);
    let look = || look(Arc::clone(shared), record.clone(), options.ttl_hops);
    let fetching = async {
        let fetched = swarm::fetch(shared, job, local, plan.begin, look).await?;
        if fetched.left > 0 {
            ends_with_this.0.store(true, Ordering::Relaxed); // what is missing will not come
            return Err(exhausted(&record, fetched.report.last_failure));
        }
        Ok(fetched)
    };
    let writing = async {
        let written = blocking(move || writer.write(out)).await;
        written.map_err(|why| DownloadError::Pipe { name: name.clone(), why })
    };
    let (fetched, ()) = futures::future::try_join(fetching, writing).await?;
    let wanted = record.clone();
    let checked = blocking(move || fetched.assembly.check(&wanted)).await;
    checked.map_err(|error| match error {
        AssembleError::Store(error) => error.into(),
        _ => DownloadError::OriginLies(name.clone()),
    })?;
    Ok(Downloaded {
        path: "-".into(),
        bytes_moved: fetched.report.bytes_moved,
        took: started.elapsed(),
        freshness: Freshness::Unverified, // nothing is kept that could be called fresh
        sources: deliveries(progress, &fetched.report),
        record,
    })
}

fn open(
    shared: &Shared,
    record: &nekoproto::VerifiedRecord,
    manifest: Arc<Manifest>,
    outline: Option<Arc<Segments>>,
) -> Result<(Assembly, LocalChunks, Arc<File>), DownloadError> {
    let partial = Place::anywhere(&shared.data_dir.join("pipe"))?.partial(&record.content)?;
    partial.clear()?;
    let file = partial.reopen()?;
    partial.unlink()?; // whatever happens, it is gone with us
    let chunks = manifest.chunks().len();
    let assembly =
        Assembly::open(manifest, outline, partial, &Bits::none(chunks), Segments::new(record.size));
    let local = LocalChunks::find(shared, record, None, &assembly, false);
    Ok((assembly, local, file))
}

/// Tells the writer that nobody waits for it any more.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Writes chunk after chunk.
struct Writer {
    manifest: Arc<Manifest>,
    file: Arc<File>,
    have: Arc<Have>,
    stop: Arc<AtomicBool>,
}

impl Writer {
    /// Until all is written. Blocking. When it is told to stop it ends without an error.
    fn write(&self, mut out: impl Write) -> std::io::Result<()> {
        let mut buffer = Vec::new();
        for (index, chunk) in self.manifest.chunks().iter().enumerate() {
            while !self.have.has(index) {
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
