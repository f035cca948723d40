//! Where each chunk of one download stands: missing, claimed, leased to streams, or had; and what is known
//! of the streams and sources that deliver them. Bookkeeping alone: [`picker`](super::picker) decides.

use std::{
    collections::{HashMap, VecDeque},
    ops::Range,
    time::Duration,
};

use nekoproto::{Manifest, NodeId};

use crate::content::bitfield::Bitfield;

/// Tells apart the sources of one download.
pub(crate) type SourceId = NodeId;
/// Tells apart the connections to them.
pub(crate) type StreamId = u32;

/// Failures of one source before it is left alone. A corrupt chunk counts as all of them.
pub(crate) const STRIKES_MAX: u32 = 3;
/// What a new measurement of a stream's speed counts for.
const NEW_SPEED_WEIGHT: f64 = 0.5;

/// Which chunks a source has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Availability {
    /// All of them.
    All,
    /// These; it is still downloading.
    Some(Bitfield),
}

impl Availability {
    pub(super) fn contains(&self, index: usize) -> bool {
        match self {
            Self::All => true,
            Self::Some(bits) => bits.contains(index),
        }
    }

    /// The chunks, of a source that is still downloading.
    fn part(&self) -> Option<&Bitfield> {
        match self {
            Self::All => None,
            Self::Some(bits) => Some(bits),
        }
    }
}

/// Where each chunk stands.
///
/// Invariants:
/// - each chunk is had, or missing, or claimed (found on disk and being checked), or leased to one or,
///   at the end, two streams;
/// - a chunk leased to a stream that ended, or whose source struck out, is missing again unless another
///   stream has it too;
/// - had only grows, and only by chunks whose hash matched.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) lens: Vec<u32>,
    pub(super) had: Bitfield,
    pub(super) missing: Bitfield,
    pub(super) left: usize,
    pub(super) leases: HashMap<usize, u8>,
    pub(super) streams: HashMap<StreamId, Stream>,
    pub(super) sources: HashMap<SourceId, Source>,
    /// How many sources that are still downloading have each chunk.
    pub(super) copies: Vec<u8>,
    /// How many of the sources are still downloading.
    pub(super) partial_sources: usize,
}

/// A connection to a source.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) source: SourceId,
    /// What it is to deliver, in the order in which it was asked.
    pub(super) leased: VecDeque<usize>,
    /// Bytes of that.
    pub(super) bytes: u64,
    /// Bytes per second.
    pub(super) speed: Option<f64>,
    pub(super) moved_at: Duration,
}

/// A source.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) available: Availability,
    pub(super) strikes: u32,
}

impl Ledger {
    /// All chunks of `manifest` but those that are `had`; those that are `claimed` are neither had nor missing.
    pub(super) fn new(manifest: &Manifest, had: Bitfield, claimed: &Bitfield) -> Self {
        let lens: Vec<u32> = manifest.chunks().iter().map(|chunk| chunk.len).collect();
        let mut missing = Bitfield::with_capacity(lens.len());
        missing.insert_range(..);
        missing.difference_with(&had);
        missing.difference_with(claimed);
        Self {
            left: lens.len() - had.count_ones(..),
            copies: vec![0; lens.len()],
            lens,
            had,
            missing,
            leases: HashMap::new(),
            streams: HashMap::new(),
            sources: HashMap::new(),
            partial_sources: 0,
        }
    }

    /// A source is known, or what it has is known anew.
    pub(super) fn offers(&mut self, source: SourceId, available: Availability) {
        let known = self.sources.get(&source);
        if let Some(before) = known.and_then(|known| known.available.part()) {
            before.ones().for_each(|index| self.copies[index] = self.copies[index].saturating_sub(1));
            self.partial_sources -= 1;
        }
        if let Some(now) = available.part() {
            now.ones().for_each(|index| self.copies[index] = self.copies[index].saturating_add(1));
            self.partial_sources += 1;
        }
        let strikes = known.map_or(0, |known| known.strikes);
        self.sources.insert(source, Source { available, strikes });
    }

    /// A stream to `source` is open.
    pub(super) fn opened(&mut self, stream: StreamId, source: SourceId, now: Duration) {
        let fresh = Stream { source, leased: VecDeque::new(), bytes: 0, speed: None, moved_at: now };
        self.streams.insert(stream, fresh);
    }

    /// Leases the chunks of `run` to `stream`.
    pub(super) fn lease(&mut self, stream: StreamId, run: Range<usize>, now: Duration) {
        let Some(known) = self.streams.get_mut(&stream) else { return };
        if known.leased.is_empty() {
            known.moved_at = now;
        }
        for index in run {
            self.missing.remove(index);
            *self.leases.entry(index).or_default() += 1;
            known.leased.push_back(index);
            known.bytes += u64::from(self.lens[index]);
        }
    }

    /// Chunk `index` is verified and written; `from` that stream, or from the disk.
    pub(super) fn had(&mut self, index: usize, from: Option<StreamId>, now: Duration) {
        if let Some(stream) = from.and_then(|from| self.streams.get_mut(&from)) {
            stream.moved_at = now;
            // It delivers: what failed before is forgotten. A source that is banned has no streams.
            if let Some(source) = self.sources.get_mut(&stream.source).filter(|s| s.strikes < STRIKES_MAX) {
                source.strikes = 0;
            }
        }
        if self.had.put(index) {
            return;
        }
        self.left -= 1;
        self.missing.remove(index);
        if self.leases.remove(&index).is_some() {
            for stream in self.streams.values_mut() {
                stream.take(index, &self.lens);
            }
        }
    }

    /// Chunk `index`, which was claimed, is not on disk after all. It may have come since.
    pub(super) fn unclaim(&mut self, index: usize) {
        if !self.had.contains(index) && !self.leases.contains_key(&index) {
            self.missing.insert(index);
        }
    }

    /// `stream` delivered `bytes` within `seconds`.
    pub(super) fn measured(&mut self, stream: StreamId, bytes: u64, seconds: f64) {
        if let Some(stream) = self.streams.get_mut(&stream).filter(|_| bytes > 0) {
            let speed = bytes as f64 / seconds.max(1e-6);
            let mixed = |before: f64| before + (speed - before) * NEW_SPEED_WEIGHT;
            stream.speed = Some(stream.speed.map_or(speed, mixed));
        }
    }

    /// `stream` was refused what it asked for last or before: these chunks are for others, or for later.
    pub(super) fn refused(&mut self, stream: StreamId, run: Range<usize>) {
        let Some(known) = self.streams.get_mut(&stream) else { return };
        for index in run {
            if known.take(index, &self.lens) {
                Self::release(&mut self.leases, &mut self.missing, index);
            }
        }
    }

    /// `stream` is closed: what only it was to deliver is missing again.
    pub(super) fn closed(&mut self, stream: StreamId) {
        for index in self.streams.remove(&stream).into_iter().flat_map(|stream| stream.leased) {
            Self::release(&mut self.leases, &mut self.missing, index);
        }
    }

    /// One lease of chunk `index` has ended; the last one leaves it missing.
    fn release(leases: &mut HashMap<usize, u8>, missing: &mut Bitfield, index: usize) {
        let Some(count) = leases.get_mut(&index) else { return };
        *count -= 1;
        if *count == 0 {
            leases.remove(&index);
            missing.insert(index);
        }
    }
}

impl Stream {
    /// Takes chunk `index` from what is leased; whether it was.
    fn take(&mut self, index: usize, lens: &[u32]) -> bool {
        let place = self.leased.iter().position(|leased| *leased == index);
        if let Some(place) = place {
            self.leased.remove(place);
            self.bytes -= u64::from(lens[index]);
        }
        place.is_some()
    }
}
