//! Summaries of names: what an indexer advertises of its own to the neighbors that it trusts, and what neighbors advertise of
//! theirs. Nobody says anything of others.
//!
//! The rule: **what was registered before a query began is found by it.** A registration is answered when each trusted
//! neighbor has acknowledged the news, or cannot rely on our summary any more. A neighbor is left out at first where its
//! filter rules the name out, and there are no hops left, or all that it trusts are asked already. If nobody finds
//! anything, those that had hops left are asked too, so that news of their links may be late.
//!
//! **How long a summary is relied on** is counted by the clock of the one who relies on it, from a moment before the other
//! end confirmed it: from when it sent the heartbeat that was answered, or the time stamp that was returned. So it
//! does not matter how long a message was under way, or how long a process stood still. The other end knows that
//! bound without knowing that clock: [`CURRENT_FOR`] after it last heard from the neighbor, nothing that it told is
//! relied on. One confirmation is for all that was told over a connection, so it costs the same whatever that is.

mod own;
mod theirs;
mod told;

use std::time::Duration;

use nekoproto::{
    NodeTag,
    summary::{Filter, NameKey},
};

pub use own::{Fresh, OwnSummary};
pub use theirs::{TheirSummary, Took};
pub use told::Told;

/// How long a summary is used after its sender last confirmed it; a registration waits as long for a neighbor that
/// hangs.
pub const CURRENT_FOR: Duration = Duration::from_secs(3);

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

/// Whether a neighbor with these `names`, of which all are known, need not be asked for `key` at first: it lacks the name, and
/// has no hops to ask others, or all those `beyond` it are asked anyway, which `covers` tells. `None`: it may ask anybody.
#[must_use]
pub fn rules_out(
    names: &Filter,
    key: NameKey,
    ttl_hops: u8,
    beyond: Option<&[NodeTag]>,
    covers: impl Fn(&NodeTag) -> bool,
) -> bool {
    !names.may_contain(key) && (ttl_hops == 0 || beyond.is_some_and(|beyond| beyond.iter().all(covers)))
}

#[cfg(test)]
mod room_tests;
#[cfg(test)]
mod tests;
