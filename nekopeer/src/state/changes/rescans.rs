//! When all files are looked at again: from time to time, as events may be lost, and soon after one was.

use std::time::{Duration, Instant};

use super::QUIET;

/// Interval between two rescans where events come.
pub(crate) const EVERY: Duration = Duration::from_secs(60);
/// The same where none come, or not all.
pub(crate) const EVERY_BLIND: Duration = Duration::from_secs(5);
/// Minimum pause between two rescans.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// A rescan is followed by a pause of at least this many times what it took.
const PAUSE_SHARE: u32 = 10;

#[derive(Debug)]
pub(crate) struct Rescans {
    at: Instant,
    earliest: Instant,
    is_blind: bool,
}

impl Rescans {
    /// The first one is now.
    pub(crate) const fn new(now: Instant) -> Self {
        Self { at: now, earliest: now, is_blind: false }
    }

    /// Events do not come, or not all.
    pub(crate) fn set_blind(&mut self, now: Instant) {
        self.is_blind = true;
        self.at = self.at.min(now + EVERY_BLIND).max(self.earliest);
    }

    /// Something happened that only a rescan makes clear.
    pub(crate) fn soon(&mut self, now: Instant) {
        self.at = self.at.min(now + QUIET).max(self.earliest);
    }

    pub(crate) const fn next_at(&self) -> Instant {
        self.at
    }

    pub(crate) fn ended(&mut self, began: Instant, now: Instant) {
        let pause = PAUSE_MIN.max(now.saturating_duration_since(began) * PAUSE_SHARE);
        self.earliest = now + pause;
        self.at = now + pause.max(if self.is_blind { EVERY_BLIND } else { EVERY });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rescans_are_frequent_where_they_are_needed_and_take_a_tenth_of_the_time_at_most() {
        let ms = Duration::from_millis;
        let start = Instant::now();
        let mut rescans = Rescans::new(start);
        assert_eq!(rescans.next_at(), start);
        rescans.ended(start, start + ms(5));
        assert_eq!(rescans.next_at(), start + ms(5) + EVERY);
        rescans.soon(start + ms(10));
        assert_eq!(rescans.next_at(), start + ms(5) + PAUSE_MIN, "not twice within a second");
        let later = start + ms(20_000);
        rescans.ended(later, later);
        rescans.soon(later + ms(5000));
        assert_eq!(rescans.next_at(), later + ms(5000) + QUIET);
        rescans.ended(later, later + ms(100));
        rescans.set_blind(later + ms(100));
        assert_eq!(rescans.next_at(), later + ms(100) + EVERY_BLIND);
        rescans.ended(later, later + ms(30_000));
        assert_eq!(rescans.next_at(), later + ms(30_000) + ms(300_000), "it took half a minute");
    }
}
