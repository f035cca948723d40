//! What watches a run and may end it, and what waits for a state that sends no event.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{bail, ensure};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// How long nodes may take to find each other, and each other's files.
pub(crate) const LINKED_WITHIN: Duration = Duration::from_secs(30);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Looks until nothing is amiss; what is amiss when the time is over is the error.
pub(crate) async fn until(
    within: Duration,
    look: impl AsyncFn() -> anyhow::Result<Option<String>>,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + within;
    while let Some(amiss) = look().await? {
        ensure!(Instant::now() < deadline, "{amiss}");
        sleep(LOOK_AGAIN_AFTER).await;
    }
    Ok(())
}

/// How far a run has come, and whether it should go on.
#[derive(Debug, Default)]
pub struct Watch {
    done: AtomicU64,
    /// The same as `stopped`, for loops that must not take a lock to look.
    stop: AtomicBool,
    stopped: CancellationToken,
}

impl Watch {
    /// Requests or names that are done with, in what is going on now.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    pub(crate) fn begin(&self) {
        self.done.store(0, Ordering::Relaxed);
    }

    /// So many more are done with.
    pub fn add_done(&self, more: u64) {
        self.done.fetch_add(more, Ordering::Relaxed);
    }

    /// Ends the run early: what was measured by then is kept.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.stopped.cancel();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// What `work` gives, unless the run is stopped before; then `work` is dropped.
    pub async fn unless_stopped<T>(
        &self,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        tokio::select! {
            done = work => done,
            () = self.stopped.cancelled() => bail!("interrupted before anything was measured"),
        }
    }
}
