//! What a peer has done so far, in numbers.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::events::Event;

/// What a peer has done so far, in numbers.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Bytes of files and of their lists of chunks that other peers got from here.
    pub(crate) bytes_up: Counter,
    /// Useful file bytes that came from other peers.
    pub(crate) bytes_down: Counter,
    /// Requests for bytes that were answered.
    pub(crate) requests: Counter,
    /// Requests for bytes that were refused, as too many were waiting.
    pub(crate) requests_refused: Counter,
    /// Files that were downloaded, newer versions of copies among them.
    pub(crate) downloads: Counter,
    /// Newer versions of copies that others told of.
    pub(crate) invalidations: Counter,
    /// Outdated copies that were replaced by their newest version.
    pub(crate) refetches: Counter,
    /// Times that an origin turned out to be away.
    pub(crate) origins_away: Counter,
    /// Background operations that failed.
    pub(crate) failures: Counter,
    /// Leases on news of files published here that were given or renewed.
    pub(crate) leases: Counter,
    /// Times that a reader acknowledged a newer version that it was told of.
    pub(crate) acknowledged: Counter,
    /// New versions that the command of a follower refused.
    pub(crate) refused: Counter,
    /// Times that a user went back to an earlier version.
    pub(crate) rollbacks: Counter,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, many: u64) {
        self.0.fetch_add(many, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Counters {
    /// Counts what `event` tells of.
    pub(super) fn note(&self, event: &Event) {
        match event {
            Event::Invalidated { .. } => self.invalidations.add(1),
            Event::Refreshed { .. } => self.refetches.add(1),
            Event::OriginAway(_) => self.origins_away.add(1),
            Event::Failed { .. } => self.failures.add(1),
            Event::Refused { .. } => self.refused.add(1),
            Event::RolledBack { .. } => self.rollbacks.add(1),
            _ => {}
        }
    }
}
