//! [`Order`]: who works next, and when others have to be looked at first. Pure.
//!
//! Start-time fair queueing: each flow has a tag, the virtual time up to which it has had its share. The smallest goes
//! first, and who has had less than its share does not wait. The first work of all that are new is that of one flow: so
//! however many come, those that are there share with one more. All that a round may take is counted together; those who
//! wait go on in the next, as many as it has time for.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// A debug build takes this many times as long for each message, and gets as much more time for each.
pub(super) const SCALE: u64 = if cfg!(debug_assertions) { 10 } else { 1 };
/// Work of one thread until the runtime looks for new arrivals.
const ROUND_NS: u64 = 2_000_000 * SCALE;
/// What one that waits is expected to take, until it is known.
const EXPECTED_NS: u64 = 400_000 * SCALE;
/// The least that one is expected to take.
const EXPECTED_MIN_NS: u64 = 5_000 * SCALE;
/// What a flow takes next is expected to be as much as before, of which the last time is one of this many parts.
const EXPECTED_PARTS: u64 = 4;
/// The first work of all that are new gets the share of one more than this many others.
const NEW_WEIGHT: u64 = 7;
/// How far beyond its share a flow goes on while others wait: who does little never waits.
const AHEAD_NS: u64 = 100_000 * SCALE;
/// The most that one piece of work counts: beyond it the thread was taken from this process.
const COUNTED_NS_MAX: u64 = 1_000_000 * SCALE;
/// Those who waited get one of this many parts of a round. The rest is for whoever comes and goes first.
const GRANTED_PARTS: u64 = 2;
/// Where the work of a round was one of this many parts of its time, all begin anew.
const IDLE_PARTS: u64 = 2;

/// Work that shares one part of the time. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    shared: Arc<Shared>,
    /// Work counts one part of this many, less one.
    weight: u64,
}

#[derive(Debug)]
struct Shared {
    tag: AtomicU64,
    /// What it takes at a time.
    expected_ns: AtomicU64,
}

impl Default for Flow {
    fn default() -> Self {
        Self::weighted(0)
    }
}

impl Flow {
    /// One that gets the share of `1 + weight` others.
    pub(crate) fn weighted(weight: u64) -> Self {
        let shared = Shared { tag: AtomicU64::new(0), expected_ns: AtomicU64::new(EXPECTED_NS) };
        Self { shared: Arc::new(shared), weight }
    }

    fn tag(&self) -> u64 {
        self.shared.tag.load(Relaxed)
    }

    fn set_tag(&self, tag: u64) {
        self.shared.tag.store(tag, Relaxed);
    }

    fn expected_ns(&self) -> u64 {
        self.shared.expected_ns.load(Relaxed)
    }

    /// Its work took `ns` this time.
    fn took(&self, ns: u64) {
        let expected = (self.expected_ns() * (EXPECTED_PARTS - 1) + ns) / EXPECTED_PARTS;
        self.shared.expected_ns.store(expected.max(EXPECTED_MIN_NS), Relaxed);
    }

    fn counted(&self, ns: u64) -> u64 {
        ns / (1 + self.weight)
    }
}

/// A place in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    tag: u64,
    number: u64,
    expected_ns: u64,
    is_new: bool,
}

/// Those who wait, each with what wakes it.
#[derive(Debug)]
pub(super) struct Order<W> {
    /// Threads that work.
    threads: u64,
    /// The first work of all flows.
    new: Flow,
    /// Virtual time, in nanoseconds of one flow's work.
    now: u64,
    /// The largest tag.
    latest: u64,
    began: Instant,
    /// Work of this round.
    spent_ns: u64,
    waiting: BTreeMap<Place, W>,
    /// [`renew`](Self::renew) will be called.
    is_renewing: bool,
    places: u64,
}

impl<W: Clone> Order<W> {
    pub(super) fn new(threads: usize, now: Instant) -> Self {
        Self {
            threads: threads as u64,
            new: Flow::weighted(NEW_WEIGHT),
            now: 0,
            latest: 0,
            began: now,
            spent_ns: 0,
            waiting: BTreeMap::new(),
            is_renewing: false,
            places: 0,
        }
    }

    const fn round_ns(&self) -> u64 {
        ROUND_NS * self.threads
    }

    /// Whether the round is over.
    const fn is_spent(&self) -> bool {
        self.spent_ns >= self.round_ns()
    }

    /// Whether somebody may have to wait.
    pub(super) fn is_crowded(&self) -> bool {
        self.is_spent() || !self.waiting.is_empty()
    }

    /// Whether [`renew`](Self::renew) has to be called, which nobody has begun.
    pub(super) fn begins_to_renew(&mut self) -> bool {
        !self.waiting.is_empty() && !std::mem::replace(&mut self.is_renewing, true)
    }

    /// Whether [`renew`](Self::renew) has to be called again.
    pub(super) const fn is_renewing(&self) -> bool {
        self.is_renewing
    }

    /// Adds work of `ns` to `flow`, which began at `from` or begins as soon as it may. Returns when it began.
    fn charge(&mut self, flow: &Flow, from: Option<u64>, ns: u64) -> u64 {
        let begins = match (from, flow.tag()) {
            (Some(from), _) => from,
            (None, 0) => {
                let first = self.new.tag().max(self.now);
                self.new.set_tag(first + self.new.counted(ns));
                first
            }
            (None, tag) => tag.max(self.now),
        };
        flow.set_tag(begins + flow.counted(ns));
        self.latest = self.latest.max(flow.tag());
        begins
    }

    /// Begins a round if the threads had little to do since the last one did.
    fn rest(&mut self, now: Instant) {
        let idle = IDLE_PARTS * self.spent_ns / self.threads;
        if self.waiting.is_empty() && now.saturating_duration_since(self.began) >= Duration::from_nanos(idle)
        {
            (self.began, self.spent_ns, self.now) = (now, 0, self.latest);
        }
    }

    /// One of `flow` has work, and may have waited at `place`. None if it may work at once, otherwise where it waits.
    pub(super) fn enter(
        &mut self,
        flow: &Flow,
        place: Option<Place>,
        wakes: &W,
        now: Instant,
    ) -> Option<Place> {
        if let Some(known) = place.and_then(|place| self.waiting.get_mut(&place)) {
            known.clone_from(wakes);
            return place;
        }
        self.rest(now);
        let goes_first = match (self.waiting.first_key_value(), flow.tag()) {
            (None, _) => true,
            (Some(_), 0) => place.is_some(),
            (Some((first, _)), tag) => {
                place.is_some() || tag <= self.now + AHEAD_NS || tag.max(self.now) < first.tag
            }
        };
        if goes_first && !self.is_spent() {
            return None;
        }
        let place = place.unwrap_or_else(|| self.place(flow));
        self.waiting.insert(place, wakes.clone());
        Some(place)
    }

    /// A place for the next work of `flow`.
    fn place(&mut self, flow: &Flow) -> Place {
        let is_new = flow.tag() == 0;
        let expected_ns = if is_new { self.new.expected_ns() } else { flow.expected_ns() };
        let tag = self.charge(flow, None, expected_ns);
        self.places += 1;
        Place { tag, number: self.places, expected_ns, is_new }
    }

    /// `flow` has worked for `elapsed` until `now`, and so `times` in all, after it had waited at `place`.
    pub(super) fn worked(
        &mut self,
        flow: &Flow,
        place: Option<Place>,
        (elapsed, times): (Duration, u32),
        now: Instant,
    ) {
        let ns = u64::try_from(elapsed.as_nanos()).map_or(COUNTED_NS_MAX, |ns| ns.min(COUNTED_NS_MAX));
        flow.took(ns);
        if place.map_or(flow.tag() == 0, |place| place.is_new) {
            self.new.took(ns);
        }
        let all_ns = ns * u64::from(times);
        self.spent_ns += all_ns;
        // What was expected is replaced by what it was.
        let from = place.map(|place| flow.tag().saturating_sub(flow.counted(place.expected_ns)));
        self.charge(flow, from, all_ns);
        self.rest(now);
    }

    /// The one of `flow` at `place` does not work any more.
    pub(super) fn leave(&mut self, flow: &Flow, place: Place) {
        self.waiting.remove(&place);
        flow.set_tag(flow.tag().saturating_sub(flow.counted(place.expected_ns)));
    }

    /// The runtime has looked for new arrivals: the next round begins. Returns who works in it, first who goes first.
    pub(super) fn renew(&mut self, now: Instant) -> Vec<W> {
        (self.spent_ns, self.began) = (0, now);
        let (mut next, mut expected_ns) = (Vec::new(), 0);
        while expected_ns < self.round_ns() / GRANTED_PARTS
            && let Some((place, wakes)) = self.waiting.pop_first()
        {
            self.now = self.now.max(place.tag);
            expected_ns += place.expected_ns;
            next.push(wakes);
        }
        self.is_renewing = !self.waiting.is_empty();
        next
    }

    /// There is no other round: all work.
    pub(super) fn end(&mut self) -> Vec<W> {
        (self.spent_ns, self.is_renewing) = (0, false);
        std::mem::take(&mut self.waiting).into_values().collect()
    }
}

#[cfg(test)]
mod tests;
