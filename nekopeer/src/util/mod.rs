//! Utilities without knowledge of peers: time, rates, progress, tasks, places of readers, QR codes.

pub(crate) mod json;
pub(crate) mod places;
pub(crate) mod progress;
pub(crate) mod qr;
pub(crate) mod rate;
pub(crate) mod tasks;
pub(crate) mod throttle;

pub(crate) use nekoproto::clock;
