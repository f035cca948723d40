//! What watches a run and may end it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::bail;
use tokio_util::sync::CancellationToken;

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
