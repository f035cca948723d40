//! Summaries of names: what we advertise to our neighbors, and what they advertise to us.
//!
//! The rule: **what was registered before a query began is found by it.** Two things see to that.
//! A registration is answered when each neighbor has acknowledged the news, or does not trust our summary
//! any more because it has not been confirmed for [`TRUSTED_FOR`]. And a summary only says whom to ask
//! first: if nobody finds anything, the remaining neighbors are asked, so that news may be late, lost or
//! out of order without an answer being lost.
//!
//! A neighbor also passes on the summaries of others, over [`RELAYED_HOPS`] hops, so that where the network
//! is no mesh a query does not go to a neighbor behind whom nobody has the name either. No registration
//! waits for that news to arrive. It takes some milliseconds for each hop, and at most [`TRUSTED_FOR`]
//! where a message is lost, as an older summary is not trusted any more. Within that time an answer with
//! hits may lack what was just registered several hops away. An answer without hits lacks nothing.

mod own;
pub mod relay;
mod theirs;

use std::{collections::VecDeque, time::Duration};

use nekoproto::{
    List, NodeTag,
    limits::{COVERED_MAX, SUMMARY_KEYS_MAX},
    summary::{Filter, NameKey, SummaryNews, SummaryUpdate},
};

pub use own::{Fresh, OwnSummary};
pub use relay::{Relay, relays};
pub use theirs::{TheirSummary, Took};

/// How long a summary is used after its sender last confirmed it.
pub const TRUSTED_FOR: Duration = Duration::from_secs(2);
/// Hops over which summaries are passed on: with the neighbor itself, all that a query with the default
/// TTL reaches.
pub const RELAYED_HOPS: u8 = nekoproto::limits::TTL_DEFAULT - 1;

/// A position in the history of one summary, as a neighbor acknowledges it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    epoch: u64,
    count: u64,
}

/// What is advertised to a neighbor next.
#[derive(Clone, Debug)]
pub enum Advertisement {
    /// One message, and the position after it.
    News(SummaryNews, Position),
    /// The whole filter, and the position after it.
    Whole(Filter, Position),
}

/// Whose summary an update is of.
#[derive(Clone, Debug)]
pub struct About {
    /// That node.
    pub of: NodeTag,
    /// Hops from the sender to it: 0 is the sender itself.
    pub hops: u8,
    /// How long ago it confirmed its summary.
    pub age: Duration,
    /// Its neighbors, which it would ask.
    pub neighbors: List<NodeTag, COVERED_MAX>,
}

/// The names of one indexer, and its latest changes.
///
/// Invariant: `log` has the latest of the `count` changes in this epoch.
#[derive(Debug)]
struct Source {
    epoch: u64,
    count: u64,
    filter: Filter,
    /// `None`: its neighbors changed, not a name.
    log: VecDeque<Option<NameKey>>,
    /// Changes remembered; a neighbor that is further behind is sent the whole filter.
    log_max: usize,
}

impl Source {
    const fn new(epoch: u64, count: u64, filter: Filter, log_max: usize) -> Self {
        Self { epoch, count, filter, log: VecDeque::new(), log_max }
    }

    fn step(&mut self, change: Option<NameKey>) {
        self.count += 1;
        self.log.push_back(change);
        if self.log.len() > self.log_max {
            self.log.pop_front();
        }
    }

    /// Takes in what its node did from its `from`-th change to its `to`-th: `keys` were added.
    fn extend(&mut self, keys: &[NameKey], from: u64, to: u64) {
        keys.iter().for_each(|key| self.filter.insert(*key));
        if to <= self.count {
            return; // known already
        }
        let changes = usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
        if from == self.count && keys.len() <= changes && changes <= self.log_max {
            keys.iter().for_each(|key| self.step(Some(*key)));
            (keys.len()..changes).for_each(|_| self.step(None)); // changes of its neighbors
        } else {
            self.log.clear(); // which keys are new is not known: others need the whole filter
            self.count = to;
        }
    }

    const fn position(&self) -> Position {
        Position { epoch: self.epoch, count: self.count }
    }

    /// What is advertised next to a neighbor that has acknowledged `since`; an empty addition if nothing is new.
    fn advertise(&self, since: Option<Position>) -> Advertisement {
        let now = self.position();
        let missed = since
            .filter(|since| since.epoch == self.epoch)
            .and_then(|since| now.count.checked_sub(since.count));
        let missed = missed.and_then(|missed| usize::try_from(missed).ok());
        match missed.filter(|missed| *missed <= self.log.len()) {
            None => Advertisement::Whole(self.filter.clone(), now),
            Some(missed) => {
                let rest = missed.saturating_sub(SUMMARY_KEYS_MAX) as u64;
                let keys = self.log.range(self.log.len() - missed..).take(SUMMARY_KEYS_MAX).flatten();
                let until = Position { count: now.count - rest, ..now };
                Advertisement::News(SummaryNews::Added(List::first_of(keys.copied())), until)
            }
        }
    }
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

    /// The message that brings a neighbor from `from` (of the same epoch) to this position.
    fn update(self, from: Option<Self>, news: SummaryNews, about: About) -> SummaryUpdate {
        let from = from.filter(|from| from.epoch == self.epoch).map_or(0, |from| from.count);
        let About { of, hops, age, neighbors } = about;
        let age_ms = u32::try_from(age.as_millis()).unwrap_or(u32::MAX);
        SummaryUpdate { of, hops, age_ms, epoch: self.epoch, from, to: self.count, news, neighbors }
    }
}

impl Advertisement {
    /// The messages to a neighbor that has acknowledged `since`, and the position after them.
    #[must_use]
    pub fn updates(self, since: Option<Position>, about: &About) -> (Vec<SummaryUpdate>, Position) {
        match self {
            Self::News(news, until) => (vec![until.update(since, news, about.clone())], until),
            Self::Whole(filter, until) => {
                let part = |part| until.update(None, SummaryNews::Part(part), about.clone());
                (filter.parts().map(part).collect(), until)
            }
        }
    }
}

#[cfg(test)]
mod tests;
