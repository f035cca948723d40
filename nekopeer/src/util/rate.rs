//! A limit on bytes per second, shared by all threads, which may be changed while they wait.
//!
//! Each thread asks before it moves a small piece and is told how long to wait. Grants are queued, so that
//! all threads get an equal share.

use std::{
    num::NonZeroU64,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

/// Time whose bytes may be moved at once after a pause, so that threads that wake late catch up.
const BURST: Duration = Duration::from_millis(50);
/// Pieces per second that the rate is divided into.
const PIECES_PER_SECOND: u64 = 40;
/// Bounds of a piece, in bytes.
const PIECE_MIN: u64 = 1024;
const PIECE_MAX: u64 = 1024 * 1024;

/// Bytes per second, or no limit.
#[derive(Debug, Default)]
pub(crate) struct Rate {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    per_second: Option<NonZeroU64>,
    /// When the bytes granted so far are used up.
    free_at: Option<Instant>,
    /// How often the limit was changed.
    changes: u64,
}

impl Queue {
    /// When `bytes` may be moved; `None`: at once, as there is no limit.
    fn reserve(&mut self, bytes: u64, now: Instant) -> Option<Instant> {
        let takes = Duration::from_secs_f64(bytes as f64 / self.per_second?.get() as f64);
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        let begin = self.free_at.map_or(earliest, |free_at| free_at.max(earliest));
        self.free_at = Some(begin + takes);
        Some(begin)
    }

    fn give_back(&mut self, bytes: u64) {
        if let (Some(per_second), Some(free_at)) = (self.per_second, self.free_at) {
            let takes = Duration::from_secs_f64(bytes as f64 / per_second.get() as f64);
            self.free_at = free_at.checked_sub(takes);
        }
    }
}

impl Rate {
    pub(crate) fn new(per_second: Option<NonZeroU64>) -> Self {
        Self { queue: Mutex::new(Queue { per_second, ..Queue::default() }), changed: Condvar::new() }
    }

    /// Bytes a second; `None`: no limit.
    pub(crate) fn limit(&self) -> Option<NonZeroU64> {
        self.queue.lock().per_second
    }

    /// Changes the limit, also for those who wait: what the one before made them wait for is granted.
    pub(crate) fn set(&self, per_second: Option<NonZeroU64>) {
        {
            let mut queue = self.queue.lock();
            *queue = Queue { per_second, free_at: None, changes: queue.changes + 1 };
        }
        self.changed.notify_all();
    }

    /// Bytes that may be requested at once; `None`: any number, as there is no limit.
    pub(crate) fn piece(&self) -> Option<u64> {
        self.limit().map(|limit| (limit.get() / PIECES_PER_SECOND).clamp(PIECE_MIN, PIECE_MAX))
    }

    /// Blocks until `bytes` may be moved; returns whether it had to wait.
    pub(crate) fn wait_for(&self, bytes: u64) -> bool {
        let now = Instant::now();
        let mut queue = self.queue.lock();
        let Some(begin) = queue.reserve(bytes, now).filter(|begin| *begin > now) else { return false };
        let changes = queue.changes;
        while queue.changes == changes && !self.changed.wait_until(&mut queue, begin).timed_out() {}
        true
    }

    /// Takes back `bytes` that were granted and not moved.
    pub(crate) fn give_back(&self, bytes: u64) {
        if bytes > 0 {
            self.queue.lock().give_back(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn queue(per_second: u64) -> Queue {
        Queue { per_second: NonZeroU64::new(per_second), ..Queue::default() }
    }

    #[test]
    fn a_second_passes_as_many_bytes_as_it_may_and_one_burst() {
        let (mut queue, piece) = (queue(1_000_000), Rate::new(NonZeroU64::new(1_000_000)).piece().unwrap());
        let begin = Instant::now();
        let (mut now, mut passed) = (begin, 0u64);
        while now < begin + Duration::from_secs(1) {
            now = queue.reserve(piece, now).unwrap().max(now);
            passed += piece;
        }
        assert!((1_000_000..1_000_000 + 50_000 + 2 * piece).contains(&passed), "{passed}");
    }

    #[test]
    fn what_is_given_back_makes_nobody_wait() {
        let (mut queue, now) = (queue(1000), Instant::now());
        let free_at = queue.reserve(100, now).map(|_| queue.free_at);
        queue.reserve(500, now);
        queue.give_back(500);
        assert_eq!(Some(queue.free_at), free_at);
    }

    #[test]
    fn two_who_ask_in_turns_get_the_same_share() {
        let mut queue = queue(100_000);
        let now = Instant::now();
        let waits: Vec<Instant> = (0..10).map(|_| queue.reserve(10_000, now).unwrap()).collect();
        for pair in waits[1..].windows(2) {
            let step = pair[1] - pair[0];
            assert!(step.abs_diff(Duration::from_millis(100)) < Duration::from_millis(1), "{waits:?}");
        }
    }

    /// One that was set too low by mistake would else hold up its threads for hours.
    #[test]
    fn who_waits_goes_on_at_once_when_the_limit_is_changed() {
        let (slow, mebibyte) = (NonZeroU64::new(1), 1024 * 1024);
        let rate = Arc::new(Rate::new(slow));
        let waiting = {
            let rate = Arc::clone(&rate);
            // The first is free, and makes the next one wait for days.
            std::thread::spawn(move || while !rate.wait_for(mebibyte) {})
        };
        while !waiting.is_finished() {
            rate.set(slow);
            std::thread::yield_now();
        }
        waiting.join().unwrap();
        rate.set(None);
        assert_eq!((rate.limit(), rate.piece(), rate.wait_for(u64::MAX)), (None, None, false));
    }
}
