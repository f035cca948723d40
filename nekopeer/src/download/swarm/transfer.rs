//! The state that the threads of one download share.

mod report;
mod sources;

use std::{
    collections::{HashMap, HashSet},
    net::SocketAddr,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use nekoproto::{
    NodeId, Portion, VerifiedRecord,
    transport::{Endpoint, HangUp},
};
use parking_lot::{Condvar, Mutex};
use tokio_util::sync::CancellationToken;

pub(super) use self::report::WireRatio;
pub(crate) use self::report::{SwarmReport, Transferred};
use super::source::Source;
use crate::{
    content::bitfield::Bitfield,
    download::{
        Downloader,
        file::{assembly::Assembly, reuse::LocalChunks},
    },
    failure::Failure,
    library::events::Counters,
    state::{
        schedule::{Next, Order, Schedule, StreamId},
        silence::Silence,
    },
    util::{
        progress::{Mark, Progress},
        rate::Rate,
        throttle::Throttle,
    },
};

/// One download's file, schedule and report.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) record: VerifiedRecord,
    pub(super) assembly: Assembly,
    pub(super) progress: Arc<Progress>,
    throttle: Arc<Throttle>,
    counters: Arc<Counters>,
    began: Instant,
    streams: AtomicU32,
    /// Threads that write to the disk.
    writing: AtomicU32,
    moved: AtomicU64,
    state: Mutex<TransferState>,
    /// Notified when a waiting thread may have something to do.
    changed: Condvar,
    /// Cancelled when the download ends, for tasks that wait.
    pub(super) over: CancellationToken,
    /// Whether the verified chunks are kept for the next attempt.
    pub(super) is_resumable: bool,
}

#[derive(Debug)]
struct TransferState {
    schedule: Schedule,
    report: SwarmReport,
    open: HashMap<StreamId, HangUp>,
    failure: Option<Failure>,
    ended: bool,
    /// It is paused: nothing is fetched.
    suspended: bool,
    silence: Silence,
    /// Sources that refused a request, as who shares the file no more: one that an indexer lists again is asked again.
    refused: HashSet<NodeId>,
    /// All addresses of sources, and whether a source was named at another one since that was looked at.
    addrs: HashMap<NodeId, Vec<SocketAddr>>,
    has_elsewhere: bool,
}

impl Transfer {
    /// A download of what `assembly` lacks. Chunks in `local` are read from disk first. The progress is marked where
    /// it stood before this file.
    pub(crate) fn new(
        downloader: &Downloader,
        record: VerifiedRecord,
        assembly: Assembly,
        local: &LocalChunks,
        order: Order,
        progress: &Arc<Progress>,
        mark: Mark,
    ) -> Self {
        let had = assembly.have().snapshot();
        let mut claimed = Bitfield::with_capacity(assembly.manifest().chunks().len());
        for index in local.indices().chain(assembly.repeated()) {
            claimed.insert(index);
        }
        let had_bytes = had.ones().map(|index| u64::from(assembly.manifest().chunks()[index].len));
        progress.start_at(mark, had_bytes.sum());
        let schedule = Schedule::new(assembly.manifest(), had, &claimed, order);
        let is_resumable = order != Order::InOrder;
        Self {
            endpoint: Arc::clone(&downloader.endpoint),
            record,
            assembly,
            progress: Arc::clone(progress),
            throttle: Arc::clone(&downloader.throttle),
            counters: Arc::clone(&downloader.library.counters),
            began: Instant::now(),
            streams: AtomicU32::new(0),
            writing: AtomicU32::new(0),
            moved: AtomicU64::new(0),
            state: Mutex::new(TransferState {
                schedule,
                report: SwarmReport::default(),
                open: HashMap::new(),
                failure: None,
                ended: false,
                suspended: false,
                silence: Silence::default(),
                refused: HashSet::new(),
                addrs: HashMap::new(),
                has_elsewhere: false,
            }),
            changed: Condvar::new(),
            over: CancellationToken::new(),
            is_resumable, // a pipe's partial file is unlinked, and no copy is kept
        }
    }

    pub(super) fn limit(&self) -> &Rate {
        &self.throttle.down
    }

    pub(super) fn size(&self) -> u64 {
        self.assembly.manifest().size()
    }

    /// Number of chunks still missing.
    pub(super) fn left(&self) -> usize {
        self.state.lock().schedule.left()
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Whether the download has ended: complete or given up.
    pub(super) fn is_over(&self) -> bool {
        let state = self.state.lock();
        state.ended || state.schedule.left() == 0
    }

    /// No source is to blame for what did not come until now.
    pub(super) fn is_alive(&self) {
        let now = self.now();
        self.state.lock().silence.came(now);
    }

    /// Runs `write`, for whose time no source is to blame.
    pub(super) fn writing<T>(&self, write: impl FnOnce() -> T) -> T {
        self.writing.fetch_add(1, Ordering::Relaxed);
        let written = write();
        self.is_alive();
        self.writing.fetch_sub(1, Ordering::Relaxed);
        written
    }

    /// How long no source has done what it can, the limit of that if it is reached, and what the last one that failed said.
    pub(super) fn silence(&self) -> (Duration, Option<Duration>, Option<String>) {
        let now = self.now();
        if self.writing.load(Ordering::Relaxed) > 0 {
            return (Duration::ZERO, None, None);
        }
        let TransferState { silence, report, .. } = &mut *self.state.lock();
        let over = silence.over(now);
        (silence.lasts(now), over, report.last_failure.clone())
    }

    /// Gives up: `why` is told with the last source's failure.
    pub(super) fn give_up(&self, why: &str) {
        let mut state = self.state.lock();
        let last = state.report.last_failure.take();
        state.report.last_failure =
            Some(last.map_or_else(|| why.to_owned(), |last| format!("{why} ({last})")));
    }

    /// Ends all threads, and closes their connections.
    pub(super) fn end(&self) {
        let open = {
            let mut state = self.state.lock();
            state.ended = true;
            std::mem::take(&mut state.open)
        };
        self.over.cancel();
        open.values().for_each(HangUp::now);
        self.changed.notify_all();
    }

    /// Closes all connections, for which no source is to blame, and opens none until it is [resumed](Self::resume).
    pub(super) fn suspend(&self) {
        let open = {
            let mut state = self.state.lock();
            state.suspended = true;
            std::mem::take(&mut state.open)
        };
        open.values().for_each(HangUp::now);
        self.changed.notify_all();
    }

    pub(super) fn is_suspended(&self) -> bool {
        self.state.lock().suspended
    }

    /// Goes on. For the time until now no source is to blame.
    pub(super) fn resume(&self) {
        self.state.lock().suspended = false;
        self.is_alive();
        self.forgive();
    }

    fn fail(&self, error: Failure) {
        self.state.lock().failure.get_or_insert(error);
        self.end();
    }

    pub(super) fn next(&self, stream: StreamId) -> Next {
        let now = self.now();
        let mut state = self.state.lock();
        if state.ended || state.suspended { Next::Done } else { state.schedule.next(stream, now) }
    }

    /// Whether all that is missing was requested of some source.
    pub(super) fn is_all_leased(&self) -> bool {
        self.state.lock().schedule.is_all_leased()
    }

    /// Leases what is missing of `chunks`, which were requested already.
    pub(super) fn lease(&self, stream: StreamId, chunks: Range<usize>) {
        let now = self.now();
        self.state.lock().schedule.lease(stream, chunks, now);
    }

    /// Waits for a change, at most `patience`.
    pub(super) fn wait(&self, patience: Duration) {
        let mut state = self.state.lock();
        if !state.ended && state.schedule.left() > 0 {
            self.changed.wait_for(&mut state, patience);
        }
    }

    /// Pauses for `time`, or until the download ends.
    pub(super) fn pause(&self, time: Duration) {
        let until = Instant::now() + time;
        while !self.is_over() && Instant::now() < until {
            self.wait(until.saturating_duration_since(Instant::now()));
        }
    }

    pub(super) fn wants_any(&self, mut chunks: impl Iterator<Item = usize>) -> bool {
        let state = self.state.lock();
        chunks.any(|index| state.schedule.wants(index))
    }

    pub(super) fn wants(&self, chunk: usize) -> bool {
        self.state.lock().schedule.wants(chunk)
    }

    pub(super) fn measured(&self, stream: StreamId, bytes: u64, took: Duration) {
        let now = self.now();
        self.state.lock().schedule.measured(stream, bytes, took.as_secs_f64(), now);
    }

    pub(super) fn has_portion(&self, stream: StreamId, portion: Portion) {
        self.state.lock().schedule.has_portion(stream, portion);
    }

    /// Counts bytes received, verified or not; the source may have kept the least speed for some time.
    pub(super) fn came(&self, stream: StreamId, bytes: u64, keeps_pace: bool) {
        let now = self.now();
        let mut state = self.state.lock();
        state.schedule.came(stream, bytes);
        if keeps_pace {
            state.silence.came(now);
        }
    }

    /// Records that chunk `index` is on disk. Returns the bytes in which it came from a source, 0 if it was there before.
    pub(super) fn had(&self, index: usize, from: Option<(StreamId, WireRatio)>) -> u64 {
        let now = self.now();
        let (is_new, left) = {
            let mut state = self.state.lock();
            (state.schedule.had(index, from.map(|(stream, _)| stream), now), state.schedule.left())
        };
        if !is_new {
            return 0;
        }
        let len = u64::from(self.assembly.manifest().chunks()[index].len);
        let moved = from.map(|(_, came)| came.of(len));
        match moved {
            Some(moved) => {
                self.moved.fetch_add(moved, Ordering::Relaxed);
                self.counters.bytes_down.inc_by(moved);
                self.progress.add_done(len);
            }
            None => self.progress.add_kept(len),
        }
        if left == 0 {
            self.changed.notify_all();
        }
        moved.unwrap_or_default()
    }

    /// Keeps a connection to the origin for the question whether this is the newest version.
    pub(super) fn keeps(&self, origin: Source) {
        self.state.lock().report.origin = Some(origin);
    }

    /// Ends the download if `result` is a disk error.
    pub(super) fn stored<T>(&self, result: Result<T, Failure>) -> Option<T> {
        result.map_err(|error| self.fail(error)).ok()
    }

    /// Verifies the chunks found on disk; those that do not match are left to the sources. Blocking.
    pub(super) fn take_local(&self, chunks: LocalChunks) {
        let lost = |index| {
            self.state.lock().schedule.unclaim(index);
            self.changed.notify_all();
        };
        let is_over = || self.state.lock().ended;
        let had = |index| {
            self.had(index, None);
        };
        let taken = chunks.take(&self.assembly, is_over, had, lost);
        self.stored(taken);
    }

    /// Returns the file and the report, once all threads have ended.
    pub(super) fn into_fetched(transfer: Arc<Self>) -> Result<Transferred, Failure> {
        let Some(transfer) = Arc::into_inner(transfer) else {
            unreachable!("all threads of the download were waited for");
        };
        let state = transfer.state.into_inner();
        if let Some(failure) = state.failure {
            return Err(failure);
        }
        let mut report = state.report;
        report.bytes_moved = transfer.moved.into_inner();
        Ok(Transferred { assembly: transfer.assembly, left: state.schedule.left(), report })
    }
}
