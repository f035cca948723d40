//! Fetches the missing chunks of one file from several sources at once.
//!
//! Each source has a task that leases runs of chunks, receives and verifies them; one writer, on
//! a thread of its own, puts them on disk. What is in memory between them is bounded in bytes.

use std::{
    collections::{HashSet, VecDeque},
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use nekoproto::{
    FetchRefusal, Holder, Manifest, NodeId, VerifiedRecord, limits::CHUNK_BYTES_MAX, transport::Endpoint,
};
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc},
    task::JoinSet,
};
use tracing::debug;

use crate::{
    Progress,
    assemble::Assembly,
    fetch::{FetchError, Source},
    shared::blocking,
    state::schedule::{Next, Schedule},
    store::StoreError,
};

/// Sources asked at once.
const SOURCES_MAX: usize = 4;
/// Bytes leased to a source at once.
const LEASE_BYTES: u64 = 16 * 1024 * 1024;
/// Bytes received but not yet written.
const UNWRITTEN_BYTES_MAX: u32 = 16 * 1024 * 1024;
const _: () = assert!(CHUNK_BYTES_MAX <= UNWRITTEN_BYTES_MAX as u64);
/// Chunks received but not yet written.
const UNWRITTEN_CHUNKS_MAX: usize = 1024;
/// Times a source may say that it is busy before it is left alone.
const BUSY_MAX: u32 = 100;
/// Pause before a source that is busy, or failed, is asked again.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// What is to be fetched.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) record: VerifiedRecord,
    pub(crate) manifest: Arc<Manifest>,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Fetched {
    /// The file, complete if `left` is 0.
    pub(crate) assembly: Assembly,
    /// Chunks that no source delivered.
    pub(crate) left: usize,
    pub(crate) report: Report,
}

/// What the sources did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    /// File bytes received.
    pub(crate) bytes_moved: u64,
    /// Who delivered something.
    pub(crate) delivered: HashSet<NodeId>,
    /// Who is proved to lie.
    pub(crate) liars: HashSet<NodeId>,
    /// What the last failing source did.
    pub(crate) last_failure: Option<String>,
}

impl Report {
    /// Adds what a further round brought.
    pub(crate) fn add(&mut self, round: Self) {
        self.bytes_moved += round.bytes_moved;
        self.delivered.extend(round.delivered);
        self.liars.extend(round.liars);
        self.last_failure = round.last_failure.or(self.last_failure.take());
    }
}

/// What the tasks of one swarm share.
struct Job {
    endpoint: Arc<Endpoint>,
    wanted: Wanted,
    schedule: Mutex<Schedule>,
    report: Mutex<Report>,
    moved: AtomicU64,
    /// Something changed that a waiting source may act on.
    changed: Notify,
    unwritten: Arc<Semaphore>,
    progress: Arc<Progress>,
}

/// A verified chunk on its way to disk.
struct Piece {
    index: usize,
    bytes: Vec<u8>,
    _room: OwnedSemaphorePermit,
}

/// Fetches what `assembly` lacks from `sources`, in the order given.
///
/// # Errors
/// The disk failed. Failing sources are no error: see [`Fetched::left`].
///
/// # Cancel safety
/// Safe: the tasks end, and what was written stays in the partial file.
pub(crate) async fn fetch(
    endpoint: &Arc<Endpoint>,
    wanted: Wanted,
    assembly: Assembly,
    sources: Vec<Holder>,
    progress: &Arc<Progress>,
) -> Result<Fetched, StoreError> {
    let schedule = Schedule::new(&wanted.manifest, |index| assembly.has(index));
    let job = Arc::new(Job {
        endpoint: Arc::clone(endpoint),
        wanted,
        schedule: Mutex::new(schedule),
        report: Mutex::default(),
        moved: AtomicU64::new(0),
        changed: Notify::new(),
        unwritten: Arc::new(Semaphore::new(UNWRITTEN_BYTES_MAX as usize)),
        progress: Arc::clone(progress),
    });
    let (to_writer, pieces) = mpsc::channel(UNWRITTEN_CHUNKS_MAX);
    let writing = blocking(move || write_all(assembly, pieces));
    let fetching = run_sources(&job, sources, to_writer);
    let ((), written) = tokio::join!(fetching, writing);
    let assembly = written?;
    let left = job.schedule().left();
    let mut report = job.report().clone();
    report.bytes_moved = job.moved.load(Ordering::Relaxed);
    Ok(Fetched { assembly, left, report })
}

/// Runs a few sources at a time; when one gives up, the next takes its turn.
async fn run_sources(job: &Arc<Job>, sources: Vec<Holder>, to_writer: mpsc::Sender<Piece>) {
    let mut waiting: VecDeque<Holder> = sources.into();
    let mut running = JoinSet::new();
    loop {
        while running.len() < SOURCES_MAX {
            let Some(holder) = waiting.pop_front() else { break };
            running.spawn(run_source(Arc::clone(job), holder, to_writer.clone()));
        }
        match running.join_next().await {
            Some(Ok(())) => {}
            Some(Err(error)) => std::panic::resume_unwind(error.into_panic()), // never cancelled here
            None => return,
        }
        if job.schedule().left() == 0 {
            return;
        }
    }
}

/// Works for one source until all is fetched, or the source is done with.
async fn run_source(job: Arc<Job>, holder: Holder, to_writer: mpsc::Sender<Piece>) {
    let mut source = None;
    let mut busy = 0;
    loop {
        // Listening begins before looking, so that no change in between is missed.
        let changed = job.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        let next = job.schedule().next(holder.node, LEASE_BYTES);
        match next {
            Next::Fetch(run) => match fetch_run(&job, &holder, &mut source, run, &to_writer).await {
                Ok(()) => {}
                Err(Stop::Source(error)) => {
                    if matches!(error, FetchError::Refused(FetchRefusal::Busy)) {
                        busy += 1; // the stream is still good: it is asked again over the same one
                    } else {
                        source = None;
                    }
                    job.source_failed(&holder, &error);
                    if busy == BUSY_MAX {
                        return;
                    }
                    if !error.is_final() {
                        tokio::time::sleep(RETRY_AFTER).await;
                    }
                }
                Err(Stop::Writer) => return,
            },
            Next::Wait => tokio::select! {
                () = changed => {}
                () = to_writer.closed() => return, // the disk failed: nobody needs more
            },
            Next::Done => {
                job.changed.notify_waiters();
                return;
            }
            Next::StruckOut => return,
        }
    }
}

/// Why a run of chunks was not fetched to its end.
enum Stop {
    /// The source failed.
    Source(FetchError),
    /// The writer failed: the whole download ends.
    Writer,
}

impl<E: Into<FetchError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Source(error.into())
    }
}

async fn fetch_run(
    job: &Job,
    holder: &Holder,
    source: &mut Option<Source>,
    run: Range<usize>,
    to_writer: &mpsc::Sender<Piece>,
) -> Result<(), Stop> {
    let Wanted { record, manifest } = &job.wanted;
    let source = match source {
        Some(source) => source,
        None => source.insert(Source::connect(&job.endpoint, holder).await?),
    };
    source.begin(record, manifest, &run).await?;
    job.note_delivering(holder);
    for index in run {
        let len = manifest.chunks()[index].len;
        let room = Arc::clone(&job.unwritten).acquire_many_owned(len).await.map_err(|_| Stop::Writer)?;
        let bytes = source.chunk(manifest, index).await?;
        job.moved.fetch_add(u64::from(len), Ordering::Relaxed);
        to_writer.send(Piece { index, bytes, _room: room }).await.map_err(|_| Stop::Writer)?;
        let left = {
            let mut schedule = job.schedule();
            schedule.had(index);
            schedule.left()
        };
        job.progress.add_done(u64::from(len));
        if left == 0 {
            job.changed.notify_waiters();
        }
    }
    Ok(())
}

/// Writes pieces until no source is left to send one.
fn write_all(mut assembly: Assembly, mut pieces: mpsc::Receiver<Piece>) -> Result<Assembly, StoreError> {
    while let Some(piece) = pieces.blocking_recv() {
        assembly.write(piece.index, &piece.bytes)?; // dropping the receiver stops the sources
    }
    Ok(assembly)
}

impl Job {
    fn source_failed(&self, holder: &Holder, error: &FetchError) {
        debug!(source = %holder.node.short(), %error, "a source failed");
        {
            let mut report = self.report();
            report.last_failure = Some(format!("source {} at {}: {error}", holder.node.short(), holder.addr));
            if error.is_lie() {
                report.liars.insert(holder.node);
            }
        }
        {
            let mut schedule = self.schedule();
            match error {
                error if error.is_final() => schedule.ban(holder.node),
                FetchError::Refused(FetchRefusal::Busy) => schedule.give_back(holder.node),
                _ => schedule.strike(holder.node),
            }
        }
        self.changed.notify_waiters();
    }

    fn note_delivering(&self, holder: &Holder) {
        self.report().delivered.insert(holder.node);
    }

    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
