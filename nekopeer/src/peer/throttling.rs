//! How fast a running peer sends and fetches, and whether it fetches: changed until it ends.

use std::num::NonZeroU64;

use super::PeerHandle;

/// Bytes a second at most; `None`: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Sent to all readers together.
    pub up: Option<NonZeroU64>,
    /// Fetched from all sources together.
    pub down: Option<NonZeroU64>,
}

impl PeerHandle {
    /// The limits now.
    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits { up: self.throttle.up.limit(), down: self.throttle.down.limit() }
    }

    /// Changes the limits, also of what is under way.
    pub fn set_limits(&self, Limits { up, down }: Limits) {
        self.throttle.up.set(up);
        self.throttle.down.set(down);
    }

    /// Pauses all downloads: what came is kept, no source is to blame for the time, and new ones wait. Small files of several
    /// that are under way come to their end. Uploads go on.
    pub fn pause(&self) {
        self.throttle.set_paused(true);
    }

    /// Has downloads go on.
    pub fn resume(&self) {
        self.throttle.set_paused(false);
    }

    /// Whether downloads are paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.throttle.is_paused()
    }
}
