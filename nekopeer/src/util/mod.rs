//! Utilities without knowledge of peers: time, rates, progress, tasks.

pub(crate) mod progress;
pub(crate) mod rate;
pub(crate) mod tasks;

pub(crate) use nekoproto::clock;
