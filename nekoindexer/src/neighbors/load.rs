//! How busy a neighbor is with our queries, and whether it answers at all.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use nekoproto::limits::CALLS_IN_FLIGHT_MAX;
use parking_lot::Mutex;

/// Queries in flight to one neighbor beyond which it must answer to get more. Fewer than the calls that
/// a connection takes, so that a stuck neighbor leaves room for other calls.
pub const LINK_FORWARDS_MAX: usize = 900;
const _: () = assert!(LINK_FORWARDS_MAX < CALLS_IN_FLIGHT_MAX);
/// Queries in flight from which on the time of a neighbor's answers is noted.
const BUSY_FROM: usize = LINK_FORWARDS_MAX / 2;
/// A neighbor with [`LINK_FORWARDS_MAX`] queries in flight that has answered none for this long is stuck.
pub const STUCK_AFTER: Duration = Duration::from_secs(1);

/// Our queries in flight to one neighbor.
#[derive(Debug)]
pub struct Load {
    in_flight: AtomicUsize,
    /// When it last answered, or became busy.
    answered: Mutex<Instant>,
}

/// A query in flight, until dropped.
#[derive(Debug)]
pub struct Asking<'a>(&'a Load);

impl Load {
    /// No query is in flight.
    #[must_use]
    pub const fn new(now: Instant) -> Self {
        Self { in_flight: AtomicUsize::new(0), answered: Mutex::new(now) }
    }

    /// One more query; `None` if the neighbor is stuck. A busy one is asked: the query waits until the
    /// connection has room for one more call.
    #[must_use]
    pub fn ask(&self, now: Instant) -> Option<Asking<'_>> {
        let asking = Asking(self);
        let before = self.in_flight.fetch_add(1, Ordering::Relaxed);
        if before == BUSY_FROM {
            self.note(now); // from now on it has something to answer
        }
        let is_stuck = before >= LINK_FORWARDS_MAX && self.is_silent(now);
        (!is_stuck).then_some(asking)
    }

    /// Queries in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Whether it is not asked any more, as it does not answer.
    #[must_use]
    pub fn is_stuck(&self, now: Instant) -> bool {
        self.in_flight() >= LINK_FORWARDS_MAX && self.is_silent(now)
    }

    fn is_silent(&self, now: Instant) -> bool {
        now.saturating_duration_since(*self.answered.lock()) >= STUCK_AFTER
    }

    fn note(&self, now: Instant) {
        *self.answered.lock() = now;
    }
}

impl Asking<'_> {
    /// The neighbor has answered, at `now`, which is called only when the neighbor is busy.
    pub fn answered(self, now: impl FnOnce() -> Instant) {
        if self.0.in_flight.load(Ordering::Relaxed) >= BUSY_FROM {
            self.0.note(now());
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_neighbor_with_many_queries_that_says_nothing_is_stuck() {
        let now = Instant::now();
        let later = now + STUCK_AFTER;
        let load = Load::new(now.checked_sub(STUCK_AFTER * 9).unwrap()); // idle for long is not stuck
        let mut asking: Vec<Asking<'_>> = (0..LINK_FORWARDS_MAX).map(|_| load.ask(now).unwrap()).collect();
        assert!(load.ask(later).is_none(), "many, and no answer for a second");
        assert!(load.ask(now).is_some(), "many, but not for long");
        asking.pop().unwrap().answered(|| later);
        asking.push(load.ask(later).unwrap());
        assert!(load.ask(later).is_some(), "it answers");
        let much_later = later + STUCK_AFTER;
        assert!(load.ask(much_later).is_none());
        asking.clear();
        assert!(load.ask(much_later).is_some(), "few");
    }
}
