//! Utilities without knowledge of peers: time, rates, progress, tasks, QR codes.

pub(crate) mod json;
pub(crate) mod progress;
pub(crate) mod qr;
pub(crate) mod rate;
pub(crate) mod reaping;
pub(crate) mod tasks;
pub(crate) mod throttle;

pub(crate) use nekoproto::clock;
