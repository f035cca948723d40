//! Summaries of names: what we tell our neighbors, and what they told us.
//!
//! The rule: **what was registered before a query began is found by it.** Two things see to that.
//! A registration is answered when each neighbor has acknowledged the news, or cannot trust our summary
//! any more because it has not heard of us for [`TRUSTED_FOR`]. And a summary only says whom to ask
//! first: if nobody has anything, everybody is asked after all, so that news may be late, lost or out
//! of order without an answer being lost.
//!
//! A neighbor also passes on what others told it, for [`RELAYED_HOPS`] hops, so that where the network
//! is no mesh a query does not go to a neighbor behind whom nobody has the name either. No registration
//! waits for that news to arrive. It takes some milliseconds for each hop, and where a message is lost at
//! most [`TRUSTED_FOR`], after which nobody relies on what is old: for so long an answer that has
//! something may lack what was registered just now several hops away. One that has nothing lacks nothing.

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
/// How far behind a neighbor summaries of others are known: with the neighbor itself, all that a query
/// with the usual TTL reaches.
pub const RELAYED_HOPS: u8 = nekoproto::limits::TTL_DEFAULT - 1;

/// How far a neighbor has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    epoch: u64,
    count: u64,
}

/// What a neighbor should be told next.
#[derive(Clone, Debug)]
pub enum Tell {
    /// One message, after which it has come so far.
    News(SummaryNews, Told),
    /// The whole filter, after which it has come so far.
    Whole(Filter, Told),
}

/// Whose summary an update is of.
#[derive(Clone, Debug)]
pub struct About {
    /// That node.
    pub of: NodeTag,
    /// Hops from the sender to it: 0 is the sender itself.
    pub hops: u8,
    /// How long ago it confirmed what it told.
    pub age: Duration,
    /// Whom it would ask itself.
    pub neighbors: List<NodeTag, COVERED_MAX>,
}

/// The names of one indexer, and how they came to be.
///
/// Invariant: `log` has the latest of the `count` changes in this epoch.
#[derive(Debug)]
struct Source {
    epoch: u64,
    count: u64,
    filter: Filter,
    /// `None`: it was not a name that changed, but neighbors.
    log: VecDeque<Option<NameKey>>,
    /// Changes remembered; whoever is further behind is sent the whole filter.
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
            return; // heard before
        }
        let changes = usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
        if from == self.count && keys.len() <= changes && changes <= self.log_max {
            keys.iter().for_each(|key| self.step(Some(*key)));
            (keys.len()..changes).for_each(|_| self.step(None)); // neighbors that changed in between
        } else {
            self.log.clear(); // which of them are new is not known: others need the whole filter
            self.count = to;
        }
    }

    const fn position(&self) -> Told {
        Told { epoch: self.epoch, count: self.count }
    }

    /// What whoever has come as far as `told` should hear next; an empty addition if nothing is new.
    fn tell(&self, told: Option<Told>) -> Tell {
        let now = self.position();
        let missed =
            told.filter(|told| told.epoch == self.epoch).and_then(|told| now.count.checked_sub(told.count));
        let missed = missed.and_then(|missed| usize::try_from(missed).ok());
        match missed.filter(|missed| *missed <= self.log.len()) {
            None => Tell::Whole(self.filter.clone(), now),
            Some(missed) => {
                let rest = missed.saturating_sub(SUMMARY_KEYS_MAX) as u64;
                let keys = self.log.range(self.log.len() - missed..).take(SUMMARY_KEYS_MAX).flatten();
                let until = Told { count: now.count - rest, ..now };
                Tell::News(SummaryNews::Added(List::first_of(keys.copied())), until)
            }
        }
    }
}

impl Told {
    /// Whether this is as far as `needed`, or further.
    #[must_use]
    pub const fn reaches(self, needed: Self) -> bool {
        match self.epoch.wrapping_sub(needed.epoch) {
            0 => self.count >= needed.count,
            later => later < u64::MAX / 2, // an epoch has all names of those before it
        }
    }

    /// The message that brings a neighbor from `from` (of the same epoch) to here.
    fn update(self, from: Option<Self>, news: SummaryNews, about: About) -> SummaryUpdate {
        let from = from.filter(|from| from.epoch == self.epoch).map_or(0, |from| from.count);
        let About { of, hops, age, neighbors } = about;
        let age_ms = u32::try_from(age.as_millis()).unwrap_or(u32::MAX);
        SummaryUpdate { of, hops, age_ms, epoch: self.epoch, from, to: self.count, news, neighbors }
    }
}

impl Tell {
    /// The messages that bring a neighbor from `told` to where it should come next, and where that is.
    #[must_use]
    pub fn updates(self, told: Option<Told>, about: &About) -> (Vec<SummaryUpdate>, Told) {
        match self {
            Self::News(news, until) => (vec![until.update(told, news, about.clone())], until),
            Self::Whole(filter, until) => {
                let part = |part| until.update(None, SummaryNews::Part(part), about.clone());
                (filter.parts().map(part).collect(), until)
            }
        }
    }
}

#[cfg(test)]
mod tests;
