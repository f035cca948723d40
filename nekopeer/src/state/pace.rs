//! The least speed of a source.

use std::time::Duration;

/// Minimum speed of a source, in bytes per second of waiting for its bytes.
pub(crate) const SLOWEST_SOURCE: u64 = 4 * 1024;
/// Time over which the speed is measured; a slower source is given up after it.
pub(crate) const PACE_WINDOW: Duration = Duration::from_secs(10);

/// What came from one source, and for how long it was waited for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    bytes: u64,
    waited: Duration,
}

impl Pace {
    /// How long the next bytes may be waited for.
    pub(crate) const fn patience(&self) -> Duration {
        PACE_WINDOW.saturating_sub(self.waited)
    }

    /// `bytes` came after a wait. `Some(true)` at the end of a window in which the source was fast enough,
    /// `Some(false)` at the end of one in which it was not.
    pub(crate) fn came(&mut self, bytes: u64, after: Duration) -> Option<bool> {
        self.bytes += bytes;
        self.waited += after;
        if self.waited < PACE_WINDOW {
            return None;
        }
        let was_fast = self.bytes >= SLOWEST_SOURCE * PACE_WINDOW.as_secs();
        *self = Self::default();
        Some(was_fast)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_secs(1);

    fn windows(bytes_per_second: u64, seconds: u64) -> Vec<bool> {
        let mut pace = Pace::default();
        (0..seconds).filter_map(|_| pace.came(bytes_per_second, TICK)).collect()
    }

    #[test]
    fn each_window_is_judged_by_itself() {
        assert_eq!(windows(1, 25), [false, false]);
        assert_eq!(windows(SLOWEST_SOURCE, 25), [true, true]);
        let mut pace = Pace::default();
        assert_eq!(pace.came(u64::from(u32::MAX), PACE_WINDOW), Some(true));
        assert_eq!(pace.patience(), PACE_WINDOW);
        assert_eq!(pace.came(1, PACE_WINDOW), Some(false), "what came before does not count");
    }
}
