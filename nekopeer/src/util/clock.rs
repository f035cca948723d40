//! The clock that freshness is measured by: it goes on while the machine sleeps.
//!
//! [`Instant`] stands still during suspend on Linux, and a copy confirmed before the lid was closed
//! would be called fresh after it is opened. This clock adds the time slept.

use std::{
    sync::LazyLock,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

/// Both clocks at the first look.
static START: LazyLock<(Instant, Duration)> = LazyLock::new(|| (Instant::now(), since_boot()));

/// The time, sleep included. Only for comparing with other times from here.
pub(crate) fn now() -> Instant {
    let (instant, booted) = *START;
    instant + since_boot().saturating_sub(booted)
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
