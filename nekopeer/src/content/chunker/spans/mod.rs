//! Cuts and hashes one file on all cores, with the same result as one thread.
//!
//! Where a chunk ends depends only on where it begins. Each thread cuts a span of the file as if a chunk
//! began at the start of the span, so its first cuts may be wrong. [`Joined`] continues from the true end
//! of the previous span: from the first cut that both agree on, all further cuts of the span are right.

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use nekoproto::{Chunk, ContentHash, Cut};
use parking_lot::Mutex;

use super::{
    Halt, hash,
    window::{Cutter, ReadAt, Window},
};
use crate::content::outboard::{SegmentHash, SegmentHasher, Segments, of_nothing, segment_bytes};

/// Minimum length of a span in bytes; a file up to this length is cut by one thread.
const SPAN_BYTES_MIN: u64 = 16 * 1024 * 1024;
/// Minimum length of a span in average chunks. The first chunks of a span are cut twice; this bounds their
/// share.
const SPAN_CHUNKS_MIN: u64 = 128;
/// Maximum number of threads per file: more would wait for memory.
const WORKERS_MAX: usize = 16;
/// Maximum size of all buffers together, in bytes.
const BUFFERS_BYTES_MAX: usize = 40 * 1024 * 1024;

#[derive(Clone, Copy, Debug)]
pub(super) struct SpanPlan {
    pub(super) size: u64,
    pub(super) cut: Cut,
    /// A multiple of [`segment_bytes`].
    pub(super) span_bytes: u64,
    pub(super) workers: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct FoundCuts {
    pub(super) chunks: Vec<Chunk>,
    pub(super) content: ContentHash,
    pub(super) outboard: Vec<u8>,
}

/// The span length for a file of `size` bytes and this cut. All three lengths are powers of two.
fn span_bytes(size: u64, cut: Cut) -> u64 {
    SPAN_BYTES_MIN.max(u64::from(cut.average) * SPAN_CHUNKS_MIN).max(segment_bytes(size))
}

/// Whether [`Plan::new`] divides a file of `size` bytes among several threads.
pub(crate) fn takes_all_cores(size: u64) -> bool {
    size > span_bytes(size, Cut::for_size(size))
}

impl SpanPlan {
    pub(super) fn new(size: u64, cut: Cut) -> Self {
        let span_bytes = span_bytes(size, cut);
        let mut plan = Self { size, cut, span_bytes, workers: 1 };
        if plan.spans() > 1 {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            let buffers = BUFFERS_BYTES_MAX / Cutter::new(cut).buffer_bytes();
            plan.workers = cores.min(WORKERS_MAX).min(buffers).min(plan.spans()).max(1);
        }
        plan
    }

    /// Number of spans; an empty file has one.
    fn spans(&self) -> usize {
        usize::try_from(self.size.div_ceil(self.span_bytes).max(1)).unwrap_or(usize::MAX)
    }

    fn span(&self, index: usize) -> Range<u64> {
        let start = index as u64 * self.span_bytes;
        start..start.saturating_add(self.span_bytes).min(self.size)
    }
}

/// The part of the file, from its beginning, whose chunks are known.
///
/// Invariants:
/// - `chunks` cover the bytes before `at`, which is a chunk boundary;
/// - `chunks` include all spans before `next`; no span in `waiting` is among them;
/// - at most one thread joins at a time; `joining` is true while it does.
struct Joined {
    chunks: Vec<Chunk>,
    at: u64,
    next: usize,
    joining: bool,
    /// Results of later spans. They are small compared with the file.
    waiting: BTreeMap<usize, Vec<Chunk>>,
    segments: Segments,
}

/// The result of one span.
struct Guess {
    /// The chunks that begin in it.
    chunks: Vec<Chunk>,
    hashes: Vec<(usize, SegmentHash)>,
}

struct SpanWork<'a, S> {
    source: &'a S,
    plan: SpanPlan,
    cutter: Cutter,
    /// Takes the number of bytes read; returns an error to stop.
    go_on: &'a (dyn Fn(u64) -> Result<(), Halt> + Sync),
    next_span: AtomicUsize,
    /// A thread failed; the other threads stop.
    failed: AtomicBool,
    joined: Mutex<Joined>,
}

/// Cuts and hashes `source`. `go_on` takes the number of bytes just read and returns an error to stop.
pub(super) fn cut_all<S: ReadAt>(
    source: &S,
    plan: SpanPlan,
    go_on: &(dyn Fn(u64) -> Result<(), Halt> + Sync),
) -> Result<FoundCuts, Halt> {
    let mut segments = Segments::new(plan.size);
    if plan.size == 0 {
        segments.put(0, of_nothing());
    }
    let joined =
        Joined { chunks: Vec::new(), at: 0, next: 0, joining: false, waiting: BTreeMap::new(), segments };
    let work = SpanWork {
        source,
        plan,
        cutter: Cutter::new(plan.cut),
        go_on,
        next_span: AtomicUsize::new(0),
        failed: AtomicBool::new(false),
        joined: Mutex::new(joined),
    };
    std::thread::scope(|scope| {
        let helpers: Vec<_> = (1..plan.workers).map(|_| scope.spawn(|| work.run())).collect();
        let mut result = work.run();
        for helper in helpers {
            let other = helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            result = result.and(other);
        }
        result
    })?;
    let joined = work.joined.into_inner();
    let content = joined.segments.whole().filter(|_| joined.at == plan.size).ok_or(Halt::Changed)?;
    Ok(FoundCuts { chunks: joined.chunks, content, outboard: joined.segments.to_outboard() })
}

impl<S: ReadAt> SpanWork<'_, S> {
    fn run(&self) -> Result<(), Halt> {
        let mut buffer = Vec::new();
        let mut rounds = || {
            while !self.failed.load(Ordering::Relaxed) {
                let index = self.next_span.fetch_add(1, Ordering::Relaxed);
                if index >= self.plan.spans() {
                    break;
                }
                let Guess { chunks, hashes } = self.guess(self.plan.span(index), &mut buffer)?;
                let mut joined = self.joined.lock();
                hashes.into_iter().for_each(|(index, hash)| joined.segments.put(index, hash));
                joined.waiting.insert(index, chunks);
                drop(joined);
                self.join_waiting(&mut buffer)?;
            }
            Ok(())
        };
        let result = rounds();
        if result.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        result
    }

    /// Cuts and hashes `span` as if a chunk began at its start.
    fn guess(&self, span: Range<u64>, buffer: &mut Vec<u8>) -> Result<Guess, Halt> {
        let (mut chunks, mut hashes) = (Vec::new(), Vec::new());
        let mut hasher = SegmentHasher::new(self.plan.size, span.start);
        let mut window = Window::new(self.source, self.plan.size, self.cutter, span.clone(), buffer);
        while window.at() < span.end {
            let bytes = window.next(|fresh| {
                let left = usize::try_from(span.end - hasher.at()).unwrap_or(usize::MAX);
                let fresh = &fresh[..left.min(fresh.len())]; // the rest belongs to the next span
                hasher.update(fresh, |index, hash| hashes.push((index, hash)));
                (self.go_on)(fresh.len() as u64)
            })?;
            chunks.push(Chunk { len: len_u32(bytes), hash: hash(bytes) });
        }
        Ok(Guess { chunks, hashes })
    }

    /// Joins waiting spans whose predecessor is joined, unless another thread is joining.
    fn join_waiting(&self, buffer: &mut Vec<u8>) -> Result<(), Halt> {
        let mut joined = self.joined.lock();
        while !joined.joining {
            let index = joined.next;
            let Some(guessed) = joined.waiting.remove(&index) else { break };
            joined.joining = true;
            let at = joined.at;
            drop(joined);
            let (chunks, at) = self.correct(at, self.plan.span(index), guessed, buffer)?;
            joined = self.joined.lock();
            joined.chunks.extend(chunks);
            joined.at = at;
            joined.next += 1;
            joined.joining = false;
        }
        Ok(())
    }

    /// The chunks that begin in `span`, given that one begins at `at`, which is inside or after it; and the
    /// end of the last of them.
    fn correct(
        &self,
        at: u64,
        span: Range<u64>,
        guessed: Vec<Chunk>,
        buffer: &mut Vec<u8>,
    ) -> Result<(Vec<Chunk>, u64), Halt> {
        let mut chunks = Vec::new();
        let mut window = Window::new(self.source, self.plan.size, self.cutter, at..span.end, buffer);
        let (mut guessed, mut guessed_at) = (guessed.into_iter(), span.start);
        loop {
            while guessed_at < window.at()
                && let Some(chunk) = guessed.next()
            {
                guessed_at += u64::from(chunk.len);
            }
            if guessed_at == window.at() {
                for chunk in guessed {
                    guessed_at += u64::from(chunk.len);
                    chunks.push(chunk);
                }
                return Ok((chunks, guessed_at));
            }
            if window.at() >= span.end {
                return Ok((chunks, window.at()));
            }
            let bytes = window.next(|_| (self.go_on)(0))?; // counted when first read
            chunks.push(Chunk { len: len_u32(bytes), hash: hash(bytes) });
        }
    }
}

fn len_u32(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX) // a chunk has at most CHUNK_BYTES_MAX bytes
}

#[cfg(test)]
mod tests;
