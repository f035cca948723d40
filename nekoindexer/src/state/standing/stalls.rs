//! [`Stalls`]: how long answers waited in vain for guests.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// Time that answers wait in vain for guests, before less time is given to those of which little is known; and one of how
/// many parts of all time that is in the long run.
const STALLS_MAX: Duration = Duration::from_millis(500);
const STALLS_PARTS: u32 = 200;

/// The time that answers waited in vain for guests, whichever they were: with a key for each, every one of them would
/// be the first that does not answer. Relaxed, as [`Record`](super::Record) is.
#[derive(Debug)]
pub struct Stalls {
    made: Instant,
    /// Until when the latest wait lasted, and when all of them are paid off, in microseconds since `made`.
    ended_us: AtomicU64,
    paid_us: AtomicU64,
}

impl Stalls {
    /// Nobody has waited yet.
    #[must_use]
    pub const fn new(made: Instant) -> Self {
        Self { made, ended_us: AtomicU64::new(0), paid_us: AtomicU64::new(0) }
    }

    /// An answer has waited in vain from `began` until `now`. What several wait at the same time counts once.
    pub fn note(&self, began: Instant, now: Instant) {
        let (began, now) = (self.micros(began), self.micros(now));
        let waited = now.saturating_sub(began.max(self.ended_us.fetch_max(now, Relaxed)));
        let paid = self.paid_us.load(Relaxed).max(now);
        self.paid_us.store(paid.saturating_add(waited.saturating_mul(STALLS_PARTS.into())), Relaxed);
    }

    /// Whether it was more than `STALLS_MAX`.
    #[must_use]
    pub fn are_used_up(&self, now: Instant) -> bool {
        let debt = self.paid_us.load(Relaxed).saturating_sub(self.micros(now));
        u128::from(debt) >= (STALLS_MAX * STALLS_PARTS).as_micros()
    }

    fn micros(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.made).as_micros()).unwrap_or(u64::MAX)
    }
}
