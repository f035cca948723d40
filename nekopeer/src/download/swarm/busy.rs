//! How long a source that is busy is asked again.

use std::time::{Duration, Instant};

use nekoproto::transport::Backoff;

/// Minimum and maximum pause after a refusal.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Time after the first refusal at which a source that delivered nothing is given up. Others may wait for the same
/// slots, each for some seconds.
const BUSY_MAX: Duration = Duration::from_secs(60);

/// Consecutive refusals because of being busy.
#[derive(Debug)]
pub(crate) struct Busy {
    backoff: Backoff,
    since: Option<Instant>,
}

impl Default for Busy {
    fn default() -> Self {
        Self { backoff: Backoff::new(PAUSE_MIN, PAUSE_MAX), since: None }
    }
}

impl Busy {
    pub(crate) fn pause(&mut self) -> Duration {
        self.since.get_or_insert_with(Instant::now);
        self.backoff.pause(rand::random())
    }

    pub(crate) fn is_over(&self) -> bool {
        self.since.is_some_and(|since| since.elapsed() >= BUSY_MAX)
    }
}
