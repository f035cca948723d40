//! How busy a neighbor is with our queries, and whether it answers at all.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use nekoproto::limits::CALLS_IN_FLIGHT_MAX;

/// Queries under way to one neighbor beyond which it must show that it answers. Fewer than the calls that
/// a connection takes, so that one that is stuck leaves room for other calls.
pub const LINK_FORWARDS_MAX: usize = 900;
const _: () = assert!(LINK_FORWARDS_MAX < CALLS_IN_FLIGHT_MAX);
/// From so many queries on it is looked at when a neighbor answers.
const BUSY_FROM: usize = LINK_FORWARDS_MAX / 2;
/// A neighbor with so many queries that has answered none of them for so long is stuck.
pub const STUCK_AFTER: Duration = Duration::from_secs(1);

/// What is under way to one neighbor.
#[derive(Debug)]
pub struct Load {
    under_way: AtomicUsize,
    /// When it last answered, or became busy.
    answered: Mutex<Instant>,
}

/// A query under way; over when dropped.
#[derive(Debug)]
pub struct Asking<'a>(&'a Load);

impl Load {
    /// Nothing is under way.
    #[must_use]
    pub const fn new(now: Instant) -> Self {
        Self { under_way: AtomicUsize::new(0), answered: Mutex::new(now) }
    }

    /// One more query; `None` if the neighbor is stuck. One that merely has much to do is asked: then the
    /// query waits for a place among the calls of the connection.
    #[must_use]
    pub fn ask(&self, now: Instant) -> Option<Asking<'_>> {
        let asking = Asking(self);
        let before = self.under_way.fetch_add(1, Ordering::Relaxed);
        if before == BUSY_FROM {
            self.note(now); // from now on it has something to answer
        }
        let is_stuck = before >= LINK_FORWARDS_MAX && {
            let answered = *self.answered.lock().unwrap_or_else(PoisonError::into_inner);
            now.saturating_duration_since(answered) >= STUCK_AFTER
        };
        (!is_stuck).then_some(asking)
    }

    fn note(&self, now: Instant) {
        *self.answered.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }
}

impl Asking<'_> {
    /// The neighbor has answered, at `now`: only asked for when it has much to do.
    pub fn answered(self, now: impl FnOnce() -> Instant) {
        if self.0.under_way.load(Ordering::Relaxed) >= BUSY_FROM {
            self.0.note(now());
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
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
