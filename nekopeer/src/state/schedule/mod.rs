//! Which chunk comes from whom: missing, leased to streams, or had.
//!
//! A stream is one connection to a source. It takes short runs of chunks, as many bytes as it moves
//! in a moment, so that fast sources get more and a slow one holds little. What fewest others have
//! is taken first. At the end, when nothing is missing but much is leased, a stream without work takes
//! over what the latest of the others would deliver last; the first to deliver it wins.

use std::{
    collections::{HashMap, VecDeque},
    ops::Range,
    time::Duration,
};

use nekoproto::{Manifest, NodeId};

use crate::content::bitfield::Bitfield;

/// Tells apart the sources of one download.
pub type SourceId = NodeId;
/// Tells apart the connections to them.
pub type StreamId = u32;

/// Failures of one source before it is left alone. A corrupt chunk counts as all of them.
pub const STRIKES_MAX: u32 = 3;
/// A stream is leased what it moves in this time, in seconds.
const LEASE_SECS: f64 = 0.2;
/// Bytes of a lease to a stream whose speed is not known yet.
const LEASE_BYTES_FIRST: u64 = 1024 * 1024;
/// Bounds of a lease, in bytes.
const LEASE_BYTES_MIN: u64 = 128 * 1024;
const LEASE_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Chunks looked at for the rarest: choosing stays cheap however many there are.
const LOOKED_AT_MAX: usize = 32 * 1024;
/// A stream that has leases and moved nothing for so long stands still.
const STANDS_STILL_AFTER: Duration = Duration::from_secs(1);
/// A chunk is fetched a second time if that saves at least so much time, in seconds.
const WORTH_SECS: f64 = 0.1;
/// What a new measurement of a stream's speed counts for.
const NEW_SPEED_WEIGHT: f64 = 0.5;

/// Where the choice of chunks begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The rarest first, among equals from this chunk on.
    RarestFirst(usize),
    /// By their place in the file.
    InOrder,
}

/// Which chunks a source has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Availability {
    /// All of them.
    All,
    /// These; it is still downloading.
    Some(Bitfield),
}

impl Availability {
    fn has(&self, index: usize) -> bool {
        match self {
            Self::All => true,
            Self::Some(bits) => bits.has(index),
        }
    }
}

/// What a stream is to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Fetch these chunks, which follow each other in the file.
    Fetch(Range<usize>),
    /// Nothing at the moment: others fetch the rest, or this source does not have it. That may change.
    Wait,
    /// Every chunk is there.
    Done,
    /// This source struck out.
    StruckOut,
}

/// Invariants:
/// - each chunk is had, or missing, or claimed (found on disk and being checked), or leased to one or,
///   at the end, two streams;
/// - a chunk leased to a stream that ended, or whose source struck out, is missing again unless another
///   stream has it too;
/// - had only grows, and only by chunks whose hash matched.
#[derive(Debug)]
pub struct Schedule {
    lens: Vec<u32>,
    had: Bitfield,
    missing: Bitfield,
    missing_count: usize,
    left: usize,
    leases: HashMap<usize, u8>,
    streams: HashMap<StreamId, Stream>,
    sources: HashMap<SourceId, SourceState>,
    /// How many sources that are still downloading have each chunk.
    copies: Vec<u8>,
    /// How many of the sources are still downloading.
    partial_sources: usize,
    order: Order,
    dice: Dice,
}

/// Numbers without a pattern, the same for the same seed (xorshift64).
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn index(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % below.max(1) as u64).unwrap_or(0)
    }
}

#[derive(Debug)]
struct Stream {
    source: SourceId,
    /// What it is to deliver, in the order in which it was asked.
    leased: VecDeque<usize>,
    bytes: u64,
    /// Bytes per second.
    speed: Option<f64>,
    moved_at: Duration,
}

#[derive(Debug)]
struct SourceState {
    offer: Availability,
    strikes: u32,
}

impl Schedule {
    /// All chunks of `manifest` but those that `had` has; those in `claimed` are not leased before
    /// [`unclaim`](Self::unclaim) says that they must be.
    #[must_use]
    pub fn new(manifest: &Manifest, had: Bitfield, claimed: &Bitfield, order: Order) -> Self {
        let lens: Vec<u32> = manifest.chunks().iter().map(|chunk| chunk.len).collect();
        let mut missing = Bitfield::none(lens.len());
        for index in (0..lens.len()).filter(|index| !had.has(*index) && !claimed.has(*index)) {
            missing.set(index);
        }
        Self {
            left: lens.len() - had.count(),
            missing_count: missing.count(),
            copies: vec![0; lens.len()],
            lens,
            had,
            missing,
            leases: HashMap::new(),
            streams: HashMap::new(),
            sources: HashMap::new(),
            partial_sources: 0,
            dice: Dice(match order {
                Order::InOrder => 1,
                Order::RarestFirst(start) => start as u64 + 1,
            }),
            order,
        }
    }

    /// A source may be asked; or what it has is known anew.
    pub fn offers(&mut self, source: SourceId, offer: Availability) {
        if let Some(SourceState { offer: Availability::Some(before), .. }) = self.sources.get(&source) {
            before.iter().for_each(|index| self.copies[index] = self.copies[index].saturating_sub(1));
        }
        if let Availability::Some(now) = &offer {
            now.iter().for_each(|index| self.copies[index] = self.copies[index].saturating_add(1));
        }
        let was_partial =
            matches!(self.sources.get(&source), Some(SourceState { offer: Availability::Some(_), .. }));
        self.partial_sources += usize::from(matches!(offer, Availability::Some(_)));
        self.partial_sources -= usize::from(was_partial);
        let strikes = self.sources.get(&source).map_or(0, |known| known.strikes);
        self.sources.insert(source, SourceState { offer, strikes });
    }

    /// A stream to `source` is open.
    pub fn opened(&mut self, stream: StreamId, source: SourceId, now: Duration) {
        let fresh = Stream { source, leased: VecDeque::new(), bytes: 0, speed: None, moved_at: now };
        self.streams.insert(stream, fresh);
    }

    /// Leases to `stream` what it is to fetch next.
    pub fn next(&mut self, stream: StreamId, now: Duration) -> Next {
        if self.left == 0 {
            return Next::Done;
        }
        let Some(known) = self.streams.get(&stream) else { return Next::StruckOut };
        let Some(source) = self.sources.get(&known.source).filter(|source| source.strikes < STRIKES_MAX)
        else {
            return Next::StruckOut;
        };
        let bytes = known.lease_bytes();
        let start = match self.order {
            Order::InOrder => 0,
            Order::RarestFirst(start) if self.partial_sources == 0 => start,
            // Those who download together follow each other's news: were each to go on from there, all
            // would ask the complete sources for the same next. Each begins anywhere.
            Order::RarestFirst(_) => self.dice.index(self.lens.len()),
        };
        let run = match self.first_missing(&source.offer, start) {
            Some(first) => self.run_of_missing(first, bytes, &source.offer),
            None => match self.to_take_over(stream, known, &source.offer, now) {
                Some(run) => run,
                None => return Next::Wait,
            },
        };
        for index in run.clone() {
            if self.missing.has(index) {
                self.missing.clear(index);
                self.missing_count -= 1;
            }
            *self.leases.entry(index).or_default() += 1;
        }
        if let Order::RarestFirst(_) = self.order {
            self.order = Order::RarestFirst(run.end % self.lens.len());
        }
        let bytes = run.clone().map(|index| u64::from(self.lens[index])).sum::<u64>();
        if let Some(known) = self.streams.get_mut(&stream) {
            if known.leased.is_empty() {
                known.moved_at = now;
            }
            known.leased.extend(run.clone());
            known.bytes += bytes;
        }
        Next::Fetch(run)
    }

    fn first_missing(&self, offer: &Availability, start: usize) -> Option<usize> {
        if self.missing_count == 0 {
            return None;
        }
        let wanted = |index: &usize| self.missing.has(*index) && offer.has(*index);
        let count = self.lens.len();
        match self.order {
            Order::InOrder => (0..count).find(wanted),
            Order::RarestFirst(_) => {
                let mut best: Option<(u8, usize)> = None;
                let mut looked_at = 0;
                for index in (start..count).chain(0..start).filter(wanted) {
                    if best.is_none_or(|(copies, _)| self.copies[index] < copies) {
                        best = Some((self.copies[index], index));
                    }
                    looked_at += 1;
                    if best.is_some_and(|(copies, _)| copies == 0) || looked_at == LOOKED_AT_MAX {
                        break;
                    }
                }
                best.map(|(_, index)| index)
            }
        }
    }

    /// From `first` on, as long as the next is as rare and there is room in `bytes`.
    fn run_of_missing(&self, first: usize, bytes: u64, offer: &Availability) -> Range<usize> {
        let mut end = first + 1;
        let mut sum = u64::from(self.lens[first]);
        // What others can have from each other is not asked of a complete source in passing.
        let as_rare = |index: usize| *offer != Availability::All || self.copies[index] == self.copies[first];
        let same = |index: usize| self.missing.has(index) && offer.has(index) && as_rare(index);
        while end < self.lens.len() && same(end) && sum + u64::from(self.lens[end]) <= bytes {
            sum += u64::from(self.lens[end]);
            end += 1;
        }
        first..end
    }

    /// The last half of what the latest other stream has to deliver, if this one has it and is sooner.
    fn to_take_over(
        &self,
        own_id: StreamId,
        own: &Stream,
        offer: &Availability,
        now: Duration,
    ) -> Option<Range<usize>> {
        if self.missing_count > 0 || !own.leased.is_empty() {
            return None; // it is not the end: others have what this source has not
        }
        let own_speed = own.speed.unwrap_or(LEASE_BYTES_FIRST as f64);
        let may_take = |index: &usize| offer.has(*index) && self.leases.get(index) == Some(&1);
        let others = self.streams.iter().filter(|(id, other)| **id != own_id && !other.leased.is_empty());
        let mut late: Vec<(f64, &Stream)> = others
            .map(|(_, other)| (other.seconds_left(now, own_speed), other))
            // Another connection to the same source is no faster, unless that one stands still.
            .filter(|(seconds, other)| other.source != own.source || seconds.is_infinite())
            .collect();
        late.sort_by(|a, b| b.0.total_cmp(&a.0));
        late.into_iter().find_map(|(seconds, other)| {
            let end = other.leased.iter().rev().copied().find(may_take)? + 1;
            let mut start = end - 1;
            let mut bytes = u64::from(self.lens[start]);
            while start > 0
                && may_take(&(start - 1))
                && other.leased.contains(&(start - 1))
                && bytes + u64::from(self.lens[start - 1]) <= other.bytes / 2
            {
                start -= 1;
                bytes += u64::from(self.lens[start]);
            }
            let own_seconds = bytes as f64 / own_speed;
            (own_seconds + WORTH_SECS < seconds).then_some(start..end)
        })
    }

    /// Whether chunk `index` is still of use.
    #[must_use]
    pub fn wants(&self, index: usize) -> bool {
        !self.had.has(index)
    }

    /// Chunk `index` is verified and written; `from` that stream, or from the disk.
    pub fn had(&mut self, index: usize, from: Option<StreamId>, now: Duration) {
        if let Some(stream) = from.and_then(|from| self.streams.get_mut(&from)) {
            stream.moved_at = now;
            // It delivers: what failed before is forgotten. A source that is banned has no streams.
            if let Some(source) = self.sources.get_mut(&stream.source).filter(|s| s.strikes < STRIKES_MAX) {
                source.strikes = 0;
            }
        }
        if !self.had.set(index) {
            return;
        }
        self.left -= 1;
        if self.missing.has(index) {
            self.missing.clear(index);
            self.missing_count -= 1;
        }
        if self.leases.remove(&index).is_some() {
            let len = u64::from(self.lens[index]);
            for stream in self.streams.values_mut() {
                if let Some(place) = stream.leased.iter().position(|leased| *leased == index) {
                    stream.leased.remove(place);
                    stream.bytes -= len;
                }
            }
        }
    }

    /// Chunk `index`, which was claimed, is not on disk after all. It may have come meanwhile.
    pub fn unclaim(&mut self, index: usize) {
        if !self.had.has(index) && !self.leases.contains_key(&index) && self.missing.set(index) {
            self.missing_count += 1;
        }
    }

    /// `stream` delivered `bytes` within `seconds`.
    pub fn measured(&mut self, stream: StreamId, bytes: u64, seconds: f64) {
        if let Some(stream) = self.streams.get_mut(&stream).filter(|_| bytes > 0) {
            let speed = bytes as f64 / seconds.max(1e-6);
            let mixed = |before: f64| before + (speed - before) * NEW_SPEED_WEIGHT;
            stream.speed = Some(stream.speed.map_or(speed, mixed));
        }
    }

    /// `stream` was refused what it asked for last or before: these chunks are for others, or for later.
    pub fn refused(&mut self, stream: StreamId, run: Range<usize>) {
        let Some(known) = self.streams.get_mut(&stream) else { return };
        for index in run {
            if let Some(place) = known.leased.iter().position(|leased| *leased == index) {
                known.leased.remove(place);
                known.bytes -= u64::from(self.lens[index]);
                if let Some(count) = self.leases.get_mut(&index) {
                    *count -= 1;
                    if *count == 0 {
                        self.leases.remove(&index);
                        self.missing.set(index);
                        self.missing_count += 1;
                    }
                }
            }
        }
    }

    /// `stream` is closed: what only it was to deliver is missing again.
    pub fn closed(&mut self, stream: StreamId) {
        let Some(stream) = self.streams.remove(&stream) else { return };
        for index in stream.leased {
            let Some(count) = self.leases.get_mut(&index) else { continue };
            *count -= 1;
            if *count == 0 {
                self.leases.remove(&index);
                self.missing.set(index);
                self.missing_count += 1;
            }
        }
    }

    /// `source` failed in a way that may pass; true if that was once too often.
    pub fn strike(&mut self, source: SourceId) -> bool {
        let Some(known) = self.sources.get_mut(&source) else { return true };
        known.strikes += 1;
        known.strikes >= STRIKES_MAX
    }

    /// `source` is proved to lie, or cannot serve this: it is asked no more.
    pub fn ban(&mut self, source: SourceId) {
        if let Some(known) = self.sources.get_mut(&source) {
            known.strikes = STRIKES_MAX;
        }
    }

    /// Sources that struck out may be asked again, if `may` says so.
    pub fn forgive(&mut self, may: impl Fn(SourceId) -> bool) {
        for (source, state) in &mut self.sources {
            if may(*source) {
                state.strikes = 0;
            }
        }
    }

    /// Chunks still to come.
    #[must_use]
    pub const fn left(&self) -> usize {
        self.left
    }
}

impl Stream {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and clamped")]
    fn lease_bytes(&self) -> u64 {
        self.speed.map_or(LEASE_BYTES_FIRST, |speed| {
            ((speed * LEASE_SECS) as u64).clamp(LEASE_BYTES_MIN, LEASE_BYTES_MAX)
        })
    }

    /// Seconds until it has delivered all that is leased to it; as fast as `usual` while its speed is
    /// not known.
    fn seconds_left(&self, now: Duration, usual: f64) -> f64 {
        if now.saturating_sub(self.moved_at) > STANDS_STILL_AFTER {
            return f64::INFINITY;
        }
        self.bytes as f64 / self.speed.unwrap_or(usual)
    }
}

#[cfg(test)]
mod tests;
