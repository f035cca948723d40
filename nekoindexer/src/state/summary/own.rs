//! What we tell of our own names.

use nekoproto::summary::{Filter, NameKey};

use super::{Source, Tell, Told};

/// Names added that are remembered for neighbors that have not heard of them yet.
const LOG_MAX: usize = 64 * 1024;
/// Names removed, as a share of those in the filter, after which it is made anew: one in so many.
const STALE_SHARE: usize = 4;
/// Fewer removed names than this are not worth a new filter.
const STALE_MIN: usize = 1024;

/// A filter of all names that are listed, with room for as many more. Made without a lock.
#[derive(Debug)]
pub struct Fresh {
    filter: Filter,
    keys: usize,
}

impl Fresh {
    /// A filter of `keys`.
    #[must_use]
    pub fn of(keys: &[NameKey]) -> Self {
        let mut filter = Filter::for_keys(keys.len() * 2);
        keys.iter().for_each(|key| filter.insert(*key));
        Self { filter, keys: keys.len() }
    }
}

/// Our own summary.
///
/// Invariant: each name listed was added to the filter, or to `meanwhile` while a new filter is made.
#[derive(Debug)]
pub struct OwnSummary {
    source: Source,
    keys: usize,
    removed: usize,
    /// Names added since a new filter was begun.
    meanwhile: Option<Vec<NameKey>>,
}

impl OwnSummary {
    /// Of no names; `epoch` must be another in each life of the node.
    #[must_use]
    pub fn new(epoch: u64) -> Self {
        let source = Source::new(epoch, 0, Filter::for_keys(0), LOG_MAX);
        Self { source, keys: 0, removed: 0, meanwhile: None }
    }

    /// A name is listed; whether that is news to neighbors.
    pub fn add(&mut self, key: NameKey) -> bool {
        if let Some(meanwhile) = &mut self.meanwhile {
            meanwhile.push(key);
        }
        if self.source.filter.may_contain(key) {
            return false; // nothing would change, here or there
        }
        self.source.filter.insert(key);
        self.keys += 1;
        self.source.step(Some(key));
        true
    }

    /// Our neighbors are others than before: ours should know, as whom they rule out depends on it.
    pub fn neighbors_changed(&mut self) {
        self.source.step(None);
    }

    /// How far a neighbor has come that has heard all.
    #[must_use]
    pub const fn position(&self) -> Told {
        self.source.position()
    }

    /// So many names are listed no more. The filter still has them.
    pub const fn remove(&mut self, names: usize) {
        self.removed += names;
    }

    /// Whether the filter has too many names, or too many that are gone. Then it should be made anew:
    /// [`begin_anew`](Self::begin_anew), a [`Fresh`] filter of all listed names, [`renew`](Self::renew).
    #[must_use]
    pub fn is_worn(&self) -> bool {
        let made_for = self.source.filter.made_for();
        let is_full = self.keys > made_for && Filter::for_keys(self.keys * 2).made_for() > made_for;
        let is_stale = self.removed > STALE_MIN && self.removed > self.keys / STALE_SHARE;
        self.meanwhile.is_none() && (is_full || is_stale)
    }

    /// A new filter is being made: names added from now on will be in it.
    pub fn begin_anew(&mut self) {
        self.meanwhile = Some(Vec::new());
        self.removed = 0;
    }

    /// Takes a new filter, and adds to it what was added meanwhile.
    pub fn renew(&mut self, Fresh { mut filter, keys }: Fresh) {
        let meanwhile = self.meanwhile.take().unwrap_or_default();
        meanwhile.iter().for_each(|key| filter.insert(*key));
        self.keys = keys + meanwhile.len();
        self.source = Source::new(self.source.epoch.wrapping_add(1), 0, filter, LOG_MAX);
    }

    /// What a neighbor that has come as far as `told` should hear next; an empty addition if nothing
    /// is new. `None`: it has heard nothing yet.
    #[must_use]
    pub fn tell(&self, told: Option<Told>) -> Tell {
        self.source.tell(told)
    }

    /// Whether a neighbor that has come as far as `told` has heard all.
    #[must_use]
    pub fn is_all(&self, told: Option<Told>) -> bool {
        told == Some(self.position())
    }
}
