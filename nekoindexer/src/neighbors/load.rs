//! How busy a neighbor is with our queries, and whether it answers enough of them.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use nekoproto::limits::CALLS_IN_FLIGHT_MAX;
use parking_lot::Mutex;

use crate::state::caller::FORWARDS_OF_PEER_MAX;

/// Queries in flight to one neighbor beyond which it must answer to get more. Fewer than the calls that
/// a connection takes, so that a stuck neighbor leaves room for other calls.
pub const LINK_FORWARDS_MAX: usize = 900;
const _: () = assert!(LINK_FORWARDS_MAX < CALLS_IN_FLIGHT_MAX);
const _: () = assert!(FORWARDS_OF_PEER_MAX <= LINK_FORWARDS_MAX / 8);
/// Queries in flight from which on a neighbor's answers are counted.
const BUSY_FROM: usize = LINK_FORWARDS_MAX / 2;
/// A neighbor with [`LINK_FORWARDS_MAX`] queries in flight is stuck if in this time it answered fewer than
/// [`ANSWERS_MIN`] of them.
pub const STUCK_AFTER: Duration = Duration::from_secs(1);
/// One in eight: at that pace most of what waits for it is too late.
pub const ANSWERS_MIN: usize = LINK_FORWARDS_MAX / 8;

/// Our queries in flight to one neighbor.
#[derive(Debug)]
pub struct Load {
    in_flight: AtomicUsize,
    /// Answers, while it is busy.
    pace: Mutex<Pace>,
}

/// Answers since a moment, at most [`STUCK_AFTER`] ago or else the last time one was counted.
#[derive(Debug)]
struct Pace {
    since: Instant,
    answers: usize,
    /// Whether there were enough in the time before.
    was_enough: bool,
}

/// A query in flight, until dropped.
#[derive(Debug)]
pub struct Asking<'a>(&'a Load);

impl Load {
    /// No query is in flight to a neighbor.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        let pace = Mutex::new(Pace { since: now, answers: 0, was_enough: true });
        Self { in_flight: AtomicUsize::new(0), pace }
    }

    /// One more query; `None` if the neighbor is stuck. A busy one is asked: the query waits until the
    /// connection has room for one more call.
    #[must_use]
    pub fn ask(&self, now: Instant) -> Option<Asking<'_>> {
        let asking = Asking(self);
        let before = self.in_flight.fetch_add(1, Ordering::Relaxed);
        if before == BUSY_FROM {
            // From now on it has something to answer.
            *self.pace.lock() = Pace { since: now, answers: 0, was_enough: true };
        }
        let is_stuck = before >= LINK_FORWARDS_MAX && !self.pace.lock().is_enough(now);
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
        self.in_flight() >= LINK_FORWARDS_MAX && !self.pace.lock().is_enough(now)
    }
}

impl Pace {
    /// Begins to count anew once the time is over.
    fn turn(&mut self, now: Instant) {
        let past = now.saturating_duration_since(self.since);
        if past >= STUCK_AFTER {
            self.was_enough = self.answers >= ANSWERS_MIN && past < 2 * STUCK_AFTER;
            (self.since, self.answers) = (now, 0);
        }
    }

    fn is_enough(&mut self, now: Instant) -> bool {
        self.turn(now);
        self.was_enough || self.answers >= ANSWERS_MIN
    }
}

impl Asking<'_> {
    /// The neighbor has answered, at `now`, which is called only when the neighbor is busy.
    pub fn answered(self, now: impl FnOnce() -> Instant) {
        if self.0.in_flight.load(Ordering::Relaxed) >= BUSY_FROM {
            let mut pace = self.0.pace.lock();
            pace.turn(now());
            pace.answers += 1;
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

    fn full(now: Instant) -> Load {
        let load = Load::new(now);
        (0..LINK_FORWARDS_MAX).for_each(|_| std::mem::forget(load.ask(now).unwrap()));
        load
    }

    #[test]
    fn only_a_neighbor_with_many_queries_that_says_nothing_is_stuck() {
        let now = Instant::now();
        let later = now + STUCK_AFTER;
        let load = Load::new(now.checked_sub(STUCK_AFTER * 9).unwrap()); // idle is not stuck
        let asking: Vec<Asking<'_>> = (0..LINK_FORWARDS_MAX).map(|_| load.ask(now).unwrap()).collect();
        assert!(load.ask(now).is_some(), "many, but not for long");
        assert!(load.ask(later).is_none(), "many, and no answer for a second");
        drop(asking);
        assert!(load.ask(later).is_some(), "few");
    }

    /// A sign of life each 0.4 s keeps nobody in play that many wait for.
    #[test]
    fn whoever_answers_one_in_a_hundred_is_stuck_and_whoever_keeps_pace_is_not() {
        for (per_step, is_stuck) in [(1, true), (ANSWERS_MIN, false)] {
            let begin = Instant::now();
            let load = full(begin);
            for step in 1..=20 {
                let now = begin + Duration::from_millis(400) * step;
                for _ in 0..per_step {
                    Asking(&load).answered(|| now);
                    load.in_flight.fetch_add(1, Ordering::Relaxed); // one more takes its place
                }
                assert_eq!(load.ask(now).is_none(), is_stuck && step > 2, "{per_step} answers, step {step}");
            }
        }
    }
}
