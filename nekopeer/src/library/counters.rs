//! What a peer has done so far, in numbers.

use prometheus_client::metrics::counter::Counter;

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

impl Counters {
    pub(super) fn note(&self, event: &Event) {
        let counter = match event {
            Event::Invalidated { .. } => &self.invalidations,
            Event::Refreshed { .. } => &self.refetches,
            Event::OriginAway(_) => &self.origins_away,
            Event::Failed { .. } => &self.failures,
            Event::Refused { .. } => &self.refused,
            Event::RolledBack { .. } => &self.rollbacks,
            _ => return,
        };
        counter.inc();
    }
}
