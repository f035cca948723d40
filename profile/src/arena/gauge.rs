//! What processes take: memory, descriptors and threads, from moment to moment.

use std::fs;

use serde::Serialize;

use crate::report::{machine, mib};

/// What one process takes at a moment.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Taken {
    /// Seconds since the beginning.
    pub(crate) at_s: f64,
    pub(crate) memory_mib: f64,
    pub(crate) descriptors: f64,
    pub(crate) threads: f64,
}

/// What process `pid` takes; `None` if it is gone.
pub(crate) fn taken(pid: u32, at_s: f64) -> Option<Taken> {
    let entries = |what: &str| fs::read_dir(format!("/proc/{pid}/{what}")).ok().map(Iterator::count);
    Some(Taken {
        at_s,
        memory_mib: mib(machine::rss_bytes(pid)?),
        descriptors: crate::report::count(entries("fd")?),
        threads: crate::report::count(entries("task")?),
    })
}

/// Makes the system forget the peak of memory of process `pid` so far.
pub(crate) fn forget_peak(pid: u32) {
    // Where this is not allowed the peak is that of the whole life of the process, which is no less.
    let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
}
