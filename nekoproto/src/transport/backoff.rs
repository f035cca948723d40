//! [`Backoff`]: how long to wait before the next attempt.

use std::time::Duration;

/// Exponential back-off with full jitter: the n-th pause is random in `base/2 .. base * 2^n`,
/// at most `max`. Without jitter, nodes that lost the same indexer would all reconnect at once.
#[derive(Clone, Debug)]
pub struct Backoff {
    base: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    /// Pauses that start around `base` and never exceed `max`.
    #[must_use]
    pub const fn new(base: Duration, max: Duration) -> Self {
        Self { base, max, failures: 0 }
    }

    /// The next pause. `random` is uniform in 0..1.
    pub fn pause(&mut self, random: f64) -> Duration {
        let ceiling = self.base.saturating_mul(2u32.saturating_pow(self.failures)).min(self.max);
        self.failures = self.failures.saturating_add(1);
        let floor = self.base / 2;
        floor + ceiling.saturating_sub(floor).mul_f64(random.clamp(0.0, 1.0))
    }

    /// Whether further pauses are no longer than the last one.
    #[must_use]
    pub fn is_at_its_longest(&self) -> bool {
        self.base.saturating_mul(2u32.saturating_pow(self.failures)) >= self.max
    }

    /// After a success: the next pause is short again.
    pub const fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_limit_and_shrink_after_success() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));
        let pauses: Vec<_> = (0..7).map(|_| backoff.pause(1.0).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 2000, 2000]);
        assert!(backoff.is_at_its_longest());
        assert_eq!(backoff.pause(0.0).as_millis(), 50);
        backoff.reset();
        assert!(!backoff.is_at_its_longest());
        assert_eq!(backoff.pause(1.0).as_millis(), 100);
    }

    #[test]
    fn endless_failures_do_not_overflow() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(5));
        assert!((0..10_000).all(|_| backoff.pause(1.0) <= Duration::from_secs(5)));
    }
}
