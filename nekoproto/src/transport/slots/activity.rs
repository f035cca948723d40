//! [`Activity`]: whether what has a slot is used, and whether it has to end.

use std::{
    sync::{
        Arc, LazyLock,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;

/// Times are counted from here.
static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
/// Not idle.
const BUSY: u64 = u64::MAX;

/// Whether a connection, or what else has a slot, is used, and whether it has to end. Clones are the same.
#[derive(Clone, Debug)]
pub struct Activity(Arc<Flags>);

#[derive(Debug)]
struct Flags {
    /// Since the last comparison.
    was_used: AtomicBool,
    ever_used: AtomicBool,
    /// Since when it is idle, in milliseconds; 0 if that does not matter.
    idle_since: AtomicU64,
    ended: CancellationToken,
}

impl Default for Activity {
    fn default() -> Self {
        Self::new(CancellationToken::new())
    }
}

impl Activity {
    /// Of what ends with `ended`; idle.
    #[must_use]
    pub fn new(ended: CancellationToken) -> Self {
        let (was_used, ever_used, idle_since) = <_>::default();
        Self(Arc::new(Flags { was_used, ever_used, idle_since, ended }))
    }

    /// One that is busy.
    #[must_use]
    pub fn busy() -> Self {
        let busy = Self::default();
        busy.set_busy(true);
        busy
    }

    /// Something came from the other end.
    pub fn used(&self) {
        self.0.was_used.store(true, Relaxed);
        self.0.ever_used.store(true, Relaxed);
    }

    /// Whether work for the other end is under way.
    pub fn set_busy(&self, is_busy: bool) {
        self.0.idle_since.store(if is_busy { BUSY } else { 0 }, SeqCst);
    }

    /// It is idle since then.
    pub fn idle_since(&self, since: Instant) {
        self.0.idle_since.store(millis(since), SeqCst);
    }

    /// Cancelled when it has to end.
    #[must_use]
    pub fn ended(&self) -> &CancellationToken {
        &self.0.ended
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(super) fn was_used_since_last(&self) -> bool {
        self.0.was_used.load(Relaxed) && self.0.was_used.swap(false, Relaxed)
    }

    pub(super) fn was_ever_used(&self) -> bool {
        self.0.ever_used.load(Relaxed)
    }

    /// Since when it is idle, if it is, and was so for `at_least`.
    pub(super) fn idle(&self, at_least: Duration, now: Instant) -> Option<u64> {
        let since = self.0.idle_since.load(SeqCst);
        let is_idle = since != BUSY && (at_least.is_zero() || long(since, now) >= at_least);
        is_idle.then_some(since)
    }
}

/// From the first time that was asked for.
fn millis(at: Instant) -> u64 {
    u64::try_from(at.saturating_duration_since(*BEGAN).as_millis()).unwrap_or(BUSY - 1)
}

fn long(since: u64, now: Instant) -> Duration {
    Duration::from_millis(millis(now).saturating_sub(since))
}
