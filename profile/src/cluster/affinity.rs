//! Which core a thread runs on. Where two threads that talk to each other are is not left to the
//! system where it matters: on one core a message costs some microseconds, between two many more.

use std::thread;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Keeps the calling thread on the `n`-th of the cores it may use; with fewer cores, on any.
/// Where the system refuses, the thread stays as it is.
pub fn keep_on_core(n: usize) {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let Some(core) = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).nth(n) else { return };
    let mut only = CpuSet::new();
    only.set(core);
    let _ = sched_setaffinity(None, &only); // measured all the same, with more noise
}

/// Runs `work` on a thread of its own, which may be kept on a core without consequences for others.
///
/// # Errors
/// `work` panicked.
pub fn on_own_thread<T: Send>(work: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
    thread::scope(|scope| scope.spawn(work).join())
        .map_err(|_| anyhow::anyhow!("a measuring thread panicked"))
}
