//! The clock for freshness and trust: it continues while the machine is suspended, paused or restored from a snapshot.
//!
//! On Linux [`Instant`] stops during suspend, and the time since boot stops while a virtual machine is paused and goes back
//! with its memory, so a copy confirmed before would still count as fresh afterwards, and a neighbor's summary as trusted.
//! This clock adds the time suspended, and each step forward of the clock on the wall, by which such a machine is set right.
//! So a time by either clock has passed by this one too.

use std::{
    sync::LazyLock,
    time::{Duration, Instant, SystemTime},
};

use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};

/// The beginning, and the steps since.
static CLOCK: LazyLock<(Instant, Mutex<Steps>)> =
    LazyLock::new(|| (Instant::now(), Mutex::new(Steps::new(readings()))));

/// The time, including suspend. Compare it only with other times from here.
#[must_use]
pub fn now() -> Instant {
    let (start, steps) = &*CLOCK;
    *start + steps.lock().passed(readings())
}

/// Milliseconds since 1970 by the clock on the wall, for what nodes sign for each other.
#[must_use]
pub fn unix_ms() -> u64 {
    u64::try_from(since_1970().as_millis()).unwrap_or(u64::MAX)
}

/// The clock on the wall, read between two readings of the time since boot.
#[derive(Clone, Copy)]
struct Readings {
    boot: [Duration; 2],
    wall: Duration,
}

fn readings() -> Readings {
    let boot = || Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default();
    let (before, wall, after) = (boot(), since_1970(), boot());
    Readings { boot: [before, after], wall }
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// The steps of the clock on the wall.
struct Steps {
    /// The time since boot at the beginning.
    booted: Duration,
    /// How far the clock on the wall is ahead of the time since boot, in nanoseconds. Both run at one speed: it changes when
    /// one of them is set.
    ahead_ns: i128,
    /// The sum of the steps forward.
    forward: Duration,
}

impl Steps {
    fn new(readings: Readings) -> Self {
        let [booted, _] = readings.boot;
        Self { booted, ahead_ns: readings.ahead_ns()[0], forward: Duration::ZERO }
    }

    /// The time since the beginning.
    fn passed(&mut self, readings: Readings) -> Duration {
        // What is between both bounds may be no step, but the time between the readings.
        let [least, most] = readings.ahead_ns();
        if least > self.ahead_ns {
            let step = u64::try_from(least - self.ahead_ns).unwrap_or(u64::MAX);
            self.forward += Duration::from_nanos(step);
        }
        self.ahead_ns = self.ahead_ns.clamp(least, most.max(least));
        readings.boot[0].saturating_sub(self.booted) + self.forward
    }
}

impl Readings {
    /// At least and at most.
    fn ahead_ns(self) -> [i128; 2] {
        let ns = |time: Duration| i128::try_from(time.as_nanos()).unwrap_or(i128::MAX);
        let [before, after] = self.boot.map(ns);
        [ns(self.wall) - after, ns(self.wall) - before]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 24 * 60 * 60;

    #[test]
    fn the_clock_goes_on_with_the_systems_own() {
        let (before, instant) = (now(), Instant::now());
        while instant.elapsed() < Duration::from_millis(5) {
            std::hint::spin_loop();
        }
        assert!(now() - before >= Duration::from_millis(5));
    }

    #[test]
    fn time_that_passed_by_either_clock_has_passed() {
        let at = |boot, wall| {
            let [boot, wall] = [boot, wall].map(Duration::from_secs);
            Readings { boot: [boot; 2], wall }
        };
        let mut steps = Steps::new(at(100, 20 * DAY));
        let mut passed = |boot, wall| steps.passed(at(boot, wall)).as_secs();
        assert_eq!(passed(110, 20 * DAY + 10), 10);
        assert_eq!(passed(110 + DAY, 21 * DAY + 10), 10 + DAY, "suspended: both went on");
        assert_eq!(passed(111 + DAY, 23 * DAY + 11), 11 + 3 * DAY, "paused: the wall alone went on");
        assert_eq!(passed(112 + DAY, 5 * DAY), 12 + 3 * DAY, "set back");
        assert_eq!(passed(113 + DAY, 5 * DAY + 1), 13 + 3 * DAY);
        assert_eq!(passed(113 + DAY, 6 * DAY + 1), 13 + 4 * DAY, "set right again");
        assert_eq!(passed(50, 7 * DAY), 5 * DAY + 62, "the time since boot went back");
    }

    #[test]
    fn time_between_the_readings_is_no_step() {
        let ms = Duration::from_millis;
        let mut steps = Steps::new(Readings { boot: [ms(0), ms(0)], wall: ms(1000) });
        for (n, late) in (0..1000).zip([0, 9, 4].into_iter().cycle()) {
            let before = 10 * n;
            let wall = 1000 + before + if n % 2 == 0 { late } else { 0 };
            let readings = Readings { boot: [ms(before), ms(before + late)], wall: ms(wall) };
            assert_eq!(steps.passed(readings), ms(before));
        }
    }
}
