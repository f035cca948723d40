//! Data streams: messages with raw file bytes between them, moved by blocking threads.

pub(super) mod hang_up;
pub(super) mod stream;
mod wire;
