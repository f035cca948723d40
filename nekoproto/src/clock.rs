//! The clock for freshness and trust: it continues while the machine is suspended.
//!
//! On Linux [`Instant`] stops during suspend, so a copy confirmed before it would still count as fresh
//! afterwards, and a neighbor's summary as trusted. This clock adds the time suspended.

use std::{
    sync::LazyLock,
    time::{Duration, Instant, SystemTime},
};

use rustix::time::{ClockId, clock_gettime};

/// Both clocks at the first call.
static START: LazyLock<(Instant, Duration)> = LazyLock::new(|| (Instant::now(), since_boot()));

/// The time, including suspend. Compare it only with other times from here.
#[must_use]
pub fn now() -> Instant {
    let (instant, booted) = *START;
    instant + since_boot().saturating_sub(booted)
}

/// Milliseconds since 1970 by the clock on the wall, for what nodes sign for each other.
#[must_use]
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn since_boot() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_goes_on_with_the_systems_own() {
        let (before, instant) = (now(), Instant::now());
        while instant.elapsed() < Duration::from_millis(5) {
            std::hint::spin_loop();
        }
        assert!(now() - before >= Duration::from_millis(5));
    }
}
