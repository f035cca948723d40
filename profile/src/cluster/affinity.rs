//! Which core a thread runs on. Where two threads that talk to each other are is not left to the
//! system where it matters: on one core a message costs some microseconds, between two many more.

use std::{sync::OnceLock, thread};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores this process may use. A thread inherits the cores of its maker, so they are asked for
/// before the first thread is kept on one.
fn allowed() -> Option<CpuSet> {
    static ALLOWED: OnceLock<Option<CpuSet>> = OnceLock::new();
    *ALLOWED.get_or_init(|| sched_getaffinity(None).ok())
}

/// Keeps the calling thread on the `n`-th of the cores this process may use; with fewer cores, on any.
pub fn keep_on_core(n: usize) {
    let Some(allowed) = allowed() else { return };
    let Some(core) = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).nth(n) else { return };
    let mut only = CpuSet::new();
    only.set(core);
    let _ = sched_setaffinity(None, &only); // refused, it is measured with more noise
}

/// Lets the calling thread run on every core again, wherever its maker is kept.
pub fn on_any_core() {
    if let Some(allowed) = allowed() {
        let _ = sched_setaffinity(None, &allowed); // as above
    }
}

/// The number of cores this process may use.
pub fn cores() -> usize {
    let all = |allowed: CpuSet| usize::try_from(allowed.count()).unwrap_or(1);
    allowed().map_or_else(|| thread::available_parallelism().map_or(1, std::num::NonZero::get), all)
}

/// Runs `work` on a thread of its own, which may be kept on a core without consequences for others.
pub fn on_own_thread<T: Send>(work: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
    thread::scope(|scope| scope.spawn(work).join())
        .map_err(|_| anyhow::anyhow!("a measuring thread panicked"))
}
