//! [`Scans`]: how many searches look through all names at once.

use tokio::sync::Semaphore;

/// Scans of all names at once: more would take the processor from lookups and from each other.
const SCANS_MAX: usize = 2;
/// Scans that wait for their turn; further ones are refused as `Busy`.
const SCANS_WAITING_MAX: usize = 64;

/// Places for scans.
#[derive(Debug)]
pub(crate) struct Scans {
    /// A permit for each that runs.
    pub(crate) running: Semaphore,
    /// A permit for each that runs or waits.
    pub(crate) taken: Semaphore,
}

impl Default for Scans {
    fn default() -> Self {
        Self { running: Semaphore::new(SCANS_MAX), taken: Semaphore::new(SCANS_MAX + SCANS_WAITING_MAX) }
    }
}
