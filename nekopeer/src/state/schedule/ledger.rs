//! The ledger of one download: each chunk is missing, claimed, leased to streams, or had; and what is known
//! of the streams and sources. Bookkeeping only: [`picker`](super::picker) decides.

use std::{collections::HashMap, ops::Range, time::Duration};

use nekoproto::{Manifest, Portion};

use super::{
    Schedule,
    stream::{SourceId, Stream},
};
use crate::content::bitfield::Bitfield;

/// Identifies a connection to a source.
pub(crate) type StreamId = u32;

/// Strikes after which a source is asked no more. A corrupt chunk counts as all of them.
pub(crate) const STRIKES_MAX: u32 = 3;
/// Parts of the file; one of them may be fetched twice because a source was late that then delivered.
const PARTS: u64 = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Availability {
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
///   the end of the download, to several;
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
    pub(super) sources: HashMap<SourceId, SourceState>,
    /// For each chunk, the number of partial sources that have it.
    pub(super) copies: Vec<u8>,
    pub(super) partial_sources: u32,
    /// Chunks that were taken over from a late stream, and by which.
    pub(super) hedged: HashMap<usize, StreamId>,
    /// Bytes that were taken over and came from the late stream all the same.
    pub(super) hedged_in_vain: u64,
    pub(super) bytes: u64,
}

#[derive(Debug)]
pub(super) struct SourceState {
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
            hedged: HashMap::new(),
            hedged_in_vain: 0,
            bytes: manifest.size(),
        }
    }

    /// Whether what a late stream was asked for may be asked of another one too.
    pub(super) fn may_hedge(&self, now: Duration) -> bool {
        let waits = |taker| self.streams.get(taker).is_some_and(|taker| !taker.is_stuck(now));
        self.hedged_in_vain <= self.hedge_bytes() && !self.hedged.values().any(waits)
    }

    /// How many bytes may be fetched twice in vain.
    pub(super) const fn hedge_bytes(&self) -> u64 {
        self.bytes / PARTS
    }

    /// Whether chunk `index` is leased to one stream, or only to such of which nothing is to be expected.
    pub(super) fn may_be_leased_again(&self, index: usize, now: Duration) -> bool {
        let leases = self.leases.get(&index).map_or(0, |leases| usize::from(*leases));
        let stuck =
            self.streams.values().filter(|stream| stream.is_stuck(now) && stream.leased.contains(&index));
        leases == 1 || (leases > 1 && stuck.count() == leases)
    }

    pub(super) fn lease(&mut self, stream: StreamId, run: Range<usize>, now: Duration) {
        let Some(known) = self.streams.get_mut(&stream) else { return };
        if known.leased.is_empty() {
            known.moved_at = now;
            known.asked(now);
        }
        for index in run {
            self.missing.remove(index);
            if *self.leases.entry(index).and_modify(|leases| *leases += 1).or_insert(1) > 1 {
                self.hedged.insert(index, stream);
            }
            known.leased.push_back(index);
            known.bytes += u64::from(self.lens[index]);
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

impl Schedule {
    /// Adds a source, or updates its availability.
    pub(crate) fn offers(&mut self, source: SourceId, available: Availability) {
        let known = self.ledger.sources.get(&source);
        if let Some(before) = known.and_then(|known| known.available.part()) {
            before
                .ones()
                .for_each(|index| self.ledger.copies[index] = self.ledger.copies[index].saturating_sub(1));
            self.ledger.partial_sources -= 1;
        }
        if let Some(part) = available.part() {
            part.ones()
                .for_each(|index| self.ledger.copies[index] = self.ledger.copies[index].saturating_add(1));
            self.ledger.partial_sources += 1;
        }
        let strikes = known.map_or(0, |known| known.strikes);
        self.ledger.sources.insert(source, SourceState { available, strikes });
    }

    /// A stream to `source` was opened, which took `round_trips`.
    pub(crate) fn opened(
        &mut self,
        stream: StreamId,
        source: SourceId,
        round_trips: Duration,
        now: Duration,
    ) {
        self.ledger.streams.insert(stream, Stream::new(source, round_trips, now));
    }

    /// The source of `stream` is to be asked for this first.
    pub(crate) fn has_portion(&mut self, stream: StreamId, portion: Portion) {
        if let Some(stream) = self.ledger.streams.get_mut(&stream) {
            stream.portion = portion;
        }
    }

    pub(crate) fn came(&mut self, stream: StreamId, bytes: u64) {
        if let Some(stream) = self.ledger.streams.get_mut(&stream) {
            stream.came += bytes;
        }
    }

    /// Chunk `index` is verified and written; `from` is its stream, or `None` if it came from disk. False if it was had
    /// before: a chunk that is leased to two streams may come twice.
    pub(crate) fn had(&mut self, index: usize, from: Option<StreamId>, now: Duration) -> bool {
        if let Some(stream) = from.and_then(|from| self.ledger.streams.get_mut(&from)) {
            stream.moved_at = now;
            stream.kept += u64::from(self.ledger.lens[index]);
            // A source that delivers loses its strikes. A banned source has no streams.
            if let Some(source) =
                self.ledger.sources.get_mut(&stream.source).filter(|s| s.strikes < STRIKES_MAX)
            {
                source.strikes = 0;
            }
        }
        if self.ledger.had.put(index) {
            return false;
        }
        self.ledger.left -= 1;
        if let Some(taker) = self.ledger.hedged.remove(&index)
            && from.is_some_and(|from| from != taker)
        {
            self.ledger.hedged_in_vain += u64::from(self.ledger.lens[index]);
        }
        self.ledger.missing.remove(index);
        if self.ledger.leases.remove(&index).is_some() {
            for stream in self.ledger.streams.values_mut() {
                stream.take(index, &self.ledger.lens);
            }
        }
        true
    }

    /// The claimed chunk `index` is not on disk. It may have been received since.
    pub(crate) fn unclaim(&mut self, index: usize) {
        if !self.ledger.had.contains(index) && !self.ledger.leases.contains_key(&index) {
            self.ledger.missing.insert(index);
        }
    }

    /// `stream` delivered `bytes`, one request, within `seconds`.
    pub(crate) fn measured(&mut self, stream: StreamId, bytes: u64, seconds: f64, now: Duration) {
        if let Some(stream) = self.ledger.streams.get_mut(&stream).filter(|_| bytes > 0) {
            stream.measured(bytes, seconds, now);
        }
    }

    /// `stream` was refused a run that it requested: the leases of these chunks end.
    pub(crate) fn refused(&mut self, stream: StreamId, run: Range<usize>) {
        self.ledger.hedged.retain(|index, taker| *taker != stream || !run.contains(index));
        let Some(known) = self.ledger.streams.get_mut(&stream) else { return };
        for index in run {
            if known.take(index, &self.ledger.lens) {
                Ledger::release(&mut self.ledger.leases, &mut self.ledger.missing, index);
            }
        }
    }

    /// `stream` is closed: its leases end.
    pub(crate) fn closed(&mut self, stream: StreamId) {
        self.ledger.hedged.retain(|_, taker| *taker != stream);
        for index in self.ledger.streams.remove(&stream).into_iter().flat_map(|stream| stream.leased) {
            Ledger::release(&mut self.ledger.leases, &mut self.ledger.missing, index);
        }
    }
}
