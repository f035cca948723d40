//! [`Scans`]: how many searches look through all names at once, and for how long.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use nekoproto::Refusal;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout_at,
};

/// Scans of all names at once: more would take the processor from lookups and from each other.
pub(crate) const SCANS_MAX: usize = 2;
/// Scans that wait for their turn; further ones are refused as `Busy`.
const SCANS_WAITING_MAX: usize = 64;
/// Scans that run or wait.
pub(crate) const SCANS_TAKEN_MAX: usize = SCANS_MAX + SCANS_WAITING_MAX;
/// How long one scan runs at most. A million names take a tenth of it; what takes longer is a pattern that is made to.
const SCAN_TIME_MAX: Duration = Duration::from_secs(1);

/// Places for scans.
#[derive(Debug)]
pub(crate) struct Scans {
    running: Arc<Semaphore>,
    /// A permit for each that runs or waits.
    taken: Arc<Semaphore>,
}

/// The place of one scan, until dropped. It belongs to the thread that scans: a scan whose caller has gone runs on, and
/// its place is taken as long.
#[derive(Debug)]
pub(crate) struct Turn {
    _permits: [OwnedSemaphorePermit; 3],
    until: Instant,
}

impl Turn {
    /// Whether the scan must end.
    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }
}

impl Default for Scans {
    fn default() -> Self {
        Self {
            running: Arc::new(Semaphore::new(SCANS_MAX)),
            taken: Arc::new(Semaphore::new(SCANS_TAKEN_MAX)),
        }
    }
}

impl Scans {
    /// A turn for a scan whose caller, who has so many places `of_caller` left, waits `until` then; `None` if others
    /// took all the time.
    ///
    /// # Errors
    /// `Busy`: too many are waiting.
    pub(crate) async fn turn(
        &self,
        of_caller: &Arc<Semaphore>,
        until: Instant,
    ) -> Result<Option<Turn>, Refusal> {
        let own = Arc::clone(of_caller).try_acquire_owned().map_err(|_| Refusal::Busy)?;
        let taken = Arc::clone(&self.taken).try_acquire_owned().map_err(|_| Refusal::Busy)?;
        let running = timeout_at(until.into(), Arc::clone(&self.running).acquire_owned()).await;
        let Ok(Ok(running)) = running else { return Ok(None) };
        let until = until.min(Instant::now() + SCAN_TIME_MAX);
        Ok(Some(Turn { _permits: [own, taken, running], until }))
    }

    /// How many run or wait.
    pub(crate) fn taken(&self) -> usize {
        SCANS_TAKEN_MAX - self.taken.available_permits()
    }
}
