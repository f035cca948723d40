//! A limit on bytes per second, shared by all threads.
//!
//! Each thread asks before it moves a small piece and is told how long to wait. Grants are queued, so that
//! all threads get an equal share.

use std::{
    num::NonZeroU64,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// Time whose bytes may be moved at once after a pause, so that threads that wake late catch up.
const BURST: Duration = Duration::from_millis(50);
/// Pieces per second that the rate is divided into.
const PIECES_PER_SECOND: u64 = 40;
/// Bounds of a piece, in bytes.
const PIECE_MIN: u64 = 1024;
const PIECE_MAX: u64 = 1024 * 1024;

/// Bytes per second.
#[derive(Debug)]
pub(crate) struct Rate {
    per_second: NonZeroU64,
    /// When the bytes granted so far are used up.
    free_at: Mutex<Option<Instant>>,
}

impl Rate {
    pub(crate) fn new(per_second: NonZeroU64) -> Self {
        Self { per_second, free_at: Mutex::new(None) }
    }

    /// Bytes that may be requested at once.
    pub(crate) fn piece(&self) -> u64 {
        (self.per_second.get() / PIECES_PER_SECOND).clamp(PIECE_MIN, PIECE_MAX)
    }

    /// How long to wait before `bytes` may be moved.
    fn reserve(&self, bytes: u64, now: Instant) -> Duration {
        let takes = Duration::from_secs_f64(bytes as f64 / self.per_second.get() as f64);
        let mut free_at = self.free_at.lock();
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        let begin = free_at.map_or(earliest, |free_at| free_at.max(earliest));
        *free_at = Some(begin + takes);
        begin.saturating_duration_since(now)
    }

    /// Blocks until `bytes` may be moved; returns the time waited.
    pub(crate) fn wait_for(&self, bytes: u64) -> Duration {
        let pause = self.reserve(bytes, Instant::now());
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
        pause
    }
}

/// Blocks until `bytes` may be moved and returns the time waited; without a limit, does not wait.
pub(crate) fn wait_for(rate: Option<&Rate>, bytes: u64) -> Duration {
    rate.map_or(Duration::ZERO, |rate| rate.wait_for(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_passes_as_many_bytes_as_it_may_and_one_burst() {
        let rate = Rate::new(NonZeroU64::new(1_000_000).unwrap());
        let begin = Instant::now();
        let (mut now, mut passed) = (begin, 0u64);
        while now < begin + Duration::from_secs(1) {
            now += rate.reserve(rate.piece(), now);
            passed += rate.piece();
        }
        assert!((1_000_000..1_000_000 + 50_000 + 2 * rate.piece()).contains(&passed), "{passed}");
    }

    #[test]
    fn two_who_ask_in_turns_get_the_same_share() {
        let rate = Rate::new(NonZeroU64::new(100_000).unwrap());
        let now = Instant::now();
        let waits: Vec<Duration> = (0..10).map(|_| rate.reserve(10_000, now)).collect();
        for pair in waits[1..].windows(2) {
            let step = pair[1] - pair[0];
            assert!(step.abs_diff(Duration::from_millis(100)) < Duration::from_millis(1), "{waits:?}");
        }
    }
}
