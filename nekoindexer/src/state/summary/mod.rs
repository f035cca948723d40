//! Summaries of names: what we advertise to our neighbors, and what they advertise to us.
//!
//! The rule: **what was registered before a query began is found by it.** Two things see to that.
//! A registration is answered when each neighbor has acknowledged the news, or cannot trust our summary any more.
//! And a summary only says whom to ask first: if nobody finds anything, the remaining neighbors are asked, so that
//! news of those behind them may be late or lost without an answer being lost. A neighbor that is to answer for itself
//! alone, at the last hop, is not: what it has told is the rule's.
//!
//! **How long a summary is trusted** is counted by the clock of the one who trusts, from a moment before the other
//! end confirmed it: from when it sent the heartbeat that was answered, or the time stamp that was returned. So it
//! does not matter how long a message was under way, or how long a process stood still. The other end knows that
//! bound without knowing that clock: [`TRUSTED_FOR`] after it last heard from the neighbor, nothing that it told is
//! trusted. One confirmation is for all that was told over a connection, so it costs the same whatever that is.
//!
//! A neighbor also passes on the summaries of others, over [`RELAYED_HOPS`] hops, so that where the network
//! is no mesh a query does not go to a neighbor behind whom nobody has the name either. No registration
//! waits for that news to arrive. It takes some milliseconds for each hop; where a node or a link on the way hangs,
//! at most [`TRUSTED_FOR`] for each hop, as a summary is withdrawn that is not confirmed any more. Within that time
//! an answer with hits may lack what was just registered several hops away. An answer without hits lacks nothing whose
//! registration was answered.

mod own;
mod relay;
mod theirs;
mod told;

use std::{collections::VecDeque, time::Duration};

use nekoproto::summary::{Filter, NameKey};

pub use own::{Fresh, OwnSummary};
pub use relay::{RELAYED_MAX, Relayed, relays};
pub use theirs::{KnownSummary, TheirSummary, Took};
pub use told::Told;

/// How long a summary is used after its sender last confirmed it; a registration waits as long for a neighbor that
/// hangs.
pub const TRUSTED_FOR: Duration = Duration::from_secs(3);
/// Hops over which summaries are passed on: with the neighbor itself, all that a query with the default
/// TTL reaches.
pub const RELAYED_HOPS: u8 = nekoproto::limits::TTL_DEFAULT - 1;

/// A position in the history of one summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    epoch: u64,
    count: u64,
}

impl Position {
    /// Whether this is at `needed` or later.
    #[must_use]
    pub const fn reaches(self, needed: Self) -> bool {
        match self.epoch.wrapping_sub(needed.epoch) {
            0 => self.count >= needed.count,
            later => later < u64::MAX / 2, // an epoch has all names of earlier ones
        }
    }
}

/// The names of one indexer, and the latest of them.
///
/// Invariant: `log` has the latest of the names that were added in this epoch.
#[derive(Clone, Debug)]
struct Source {
    position: Position,
    filter: Filter,
    log: VecDeque<NameKey>,
    /// Names remembered; a neighbor that is further behind is sent the whole filter.
    log_max: usize,
}

impl Source {
    const fn new(position: Position, filter: Filter, log_max: usize) -> Self {
        Self { position, filter, log: VecDeque::new(), log_max }
    }

    fn add(&mut self, key: NameKey) {
        self.filter.insert(key);
        self.position.count = self.position.count.wrapping_add(1); // others may begin at any number
        self.log.push_back(key);
        if self.log.len() > self.log_max {
            self.log.pop_front();
        }
    }

    /// The names that were added after `since`; `None` if that is not known and the whole filter is needed.
    fn added(&self, since: Position) -> Option<impl ExactSizeIterator<Item = &NameKey>> {
        let missed =
            self.position.count.checked_sub(since.count).filter(|_| since.epoch == self.position.epoch);
        let missed = usize::try_from(missed?).ok()?;
        Some(self.log.range(self.log.len().checked_sub(missed)?..))
    }
}

#[cfg(test)]
mod room_tests;
#[cfg(test)]
mod tests;
