//! Utilities without knowledge of peers: time, rates, progress, tasks.

pub(crate) mod clock;
pub(crate) mod progress;
pub(crate) mod rate;
pub(crate) mod tasks;
