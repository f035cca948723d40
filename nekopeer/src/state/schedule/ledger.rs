//! The ledger of one download: each chunk is missing, claimed, leased to streams, or had; and what is known
//! of the streams and sources. Bookkeeping only: [`picker`](super::picker) decides.

use std::{
    collections::{HashMap, VecDeque},
    ops::Range,
    time::Duration,
};

use nekoproto::{Manifest, NodeId};

use crate::content::bitfield::Bitfield;

/// Identifies a source.
pub(crate) type SourceId = NodeId;
/// Identifies a connection to a source.
pub(crate) type StreamId = u32;

/// Strikes after which a source is asked no more. A corrupt chunk counts as all of them.
pub(crate) const STRIKES_MAX: u32 = 3;
/// Weight of a new measurement in the average speed of a stream.
const NEW_SPEED_WEIGHT: f64 = 0.5;

/// Which chunks a source has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Availability {
    /// All of them.
    All,
    /// These; the source is still downloading.
    Some(Bitfield),
}

impl Availability {
    pub(super) fn contains(&self, index: usize) -> bool {
        match self {
            Self::All => true,
            Self::Some(bits) => bits.contains(index),
        }
    }

    /// The bit field of a source that is still downloading.
    fn part(&self) -> Option<&Bitfield> {
        match self {
            Self::All => None,
            Self::Some(bits) => Some(bits),
        }
    }
}

/// The ledger of one download.
///
/// Invariants:
/// - each chunk is had, missing, claimed (found on disk and being verified), or leased to one stream or, at
///   the end of the download, to two;
/// - a chunk leased to a stream that closed, or whose source struck out, is missing again unless another
///   stream has a lease for it;
/// - had chunks only increase, and only by verified ones.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) lens: Vec<u32>,
    pub(super) had: Bitfield,
    pub(super) missing: Bitfield,
    pub(super) left: usize,
    pub(super) leases: HashMap<usize, u8>,
    pub(super) streams: HashMap<StreamId, Stream>,
    pub(super) sources: HashMap<SourceId, Source>,
    /// For each chunk, the number of partial sources that have it.
    pub(super) copies: Vec<u8>,
    /// Number of sources that are still downloading.
    pub(super) partial_sources: usize,
}

/// A connection to a source.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) source: SourceId,
    /// The chunks leased to it, in the order of the requests.
    pub(super) leased: VecDeque<usize>,
    /// Their bytes.
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
    /// All chunks of `manifest` are missing except those `had` and those `claimed`.
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

    /// Adds a source, or updates its availability.
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

    /// A stream to `source` was opened.
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

    /// Chunk `index` is verified and written; `from` is its stream, or `None` if it came from disk.
    pub(super) fn had(&mut self, index: usize, from: Option<StreamId>, now: Duration) {
        if let Some(stream) = from.and_then(|from| self.streams.get_mut(&from)) {
            stream.moved_at = now;
            // A source that delivers loses its strikes. A banned source has no streams.
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

    /// The claimed chunk `index` is not on disk. It may have been received since.
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

    /// `stream` was refused a run that it requested: the leases of these chunks end.
    pub(super) fn refused(&mut self, stream: StreamId, run: Range<usize>) {
        let Some(known) = self.streams.get_mut(&stream) else { return };
        for index in run {
            if known.take(index, &self.lens) {
                Self::release(&mut self.leases, &mut self.missing, index);
            }
        }
    }

    /// `stream` is closed: its leases end.
    pub(super) fn closed(&mut self, stream: StreamId) {
        for index in self.streams.remove(&stream).into_iter().flat_map(|stream| stream.leased) {
            Self::release(&mut self.leases, &mut self.missing, index);
        }
    }

    /// Ends one lease of chunk `index`; after the last one it is missing.
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
    /// Ends the lease of chunk `index`; returns whether there was one.
    fn take(&mut self, index: usize, lens: &[u32]) -> bool {
        let place = self.leased.iter().position(|leased| *leased == index);
        if let Some(place) = place {
            self.leased.remove(place);
            self.bytes -= u64::from(lens[index]);
        }
        place.is_some()
    }
}
