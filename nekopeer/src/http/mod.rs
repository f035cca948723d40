//! The peer's HTTP door.

pub(crate) mod files;
