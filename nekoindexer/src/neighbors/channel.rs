//! What the two ends of one connection told each other of names, and how far that is acknowledged and trusted.

use std::time::{Duration, Instant};

use nekoproto::NodeTag;
use parking_lot::{Mutex, RwLock};

use crate::state::summary::{Position, TRUSTED_FOR, TheirSummary, Told};

/// Time for a node that begins to make its connections, and to tell of them with a heartbeat.
const YOUNG_FOR: Duration = Duration::from_secs(2);

/// What the two ends of one connection told each other of names.
#[derive(Debug)]
pub(crate) struct Channel {
    /// Who is at the other end.
    pub(crate) to: NodeTag,
    /// This end opened the connection, and sends the heartbeats.
    pub(super) leads: bool,
    /// When the connection began.
    since: Instant,
    /// What the other end advertises.
    pub(crate) theirs: RwLock<TheirSummary>,
    /// What was advertised to the other end.
    pub(super) told: Mutex<Told>,
    pub(super) progress: Mutex<Progress>,
}

/// How far a neighbor follows.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// What it has acknowledged: a position of our own summary, and a version of our links.
    pub(super) acknowledged: Option<(Position, u64)>,
    /// When the latest message of it arrived. What it was told is trusted until [`TRUSTED_FOR`] after that at most:
    /// it counts from a moment before it sent a message that we had when we confirmed.
    pub(super) heard: Option<Instant>,
    /// The time stamp of its latest answer; 0: none.
    pub(super) their_clock_ms: u64,
    /// The version of what is passed on that it was told, and when that was looked at.
    pub(super) relays_seen: u64,
    pub(super) looked_at: Option<Instant>,
}

impl Channel {
    /// Of a connection to `to` that was just opened, by this end if it `leads`.
    pub(crate) fn new(to: NodeTag, leads: bool) -> Self {
        let (theirs, told, progress) = <_>::default();
        Self { to, leads, since: Instant::now(), theirs, told, progress }
    }

    /// Whether the other end may still be making its connections, and does not know its neighbors yet.
    pub(super) fn is_young(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) < YOUNG_FOR
    }
}

impl Progress {
    pub(super) fn reaches(&self, needed: Position, links: u64) -> bool {
        self.acknowledged.is_some_and(|(position, version)| position.reaches(needed) && version >= links)
    }

    /// Until when it may trust what it was told so far.
    pub(super) fn trusts_until(&self) -> Option<Instant> {
        self.heard.map(|heard| heard + TRUSTED_FOR)
    }
}
