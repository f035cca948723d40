//! What we advertise of our own names.

use std::collections::VecDeque;

use nekoproto::summary::{Filter, NameKey};

use super::Position;

/// Names remembered for neighbors that have not acknowledged them yet.
const LOG_MAX: usize = 64 * 1024;
/// The filter is rebuilt when more than one in this many of its names is removed.
const STALE_SHARE: usize = 4;
/// Fewer removed names than this are not worth a rebuild.
const STALE_MIN: usize = 1024;

/// A filter of all names that are listed, with room for as many more. Built without a lock.
#[derive(Debug)]
pub struct Fresh {
    pub(super) filter: Filter,
    pub(super) keys: usize,
}

impl Fresh {
    /// A filter of `keys`.
    #[must_use]
    pub fn of(keys: &[NameKey]) -> Self {
        let filter = Filter::for_keys(keys.len() * 2);
        keys.iter().for_each(|key| filter.insert(*key));
        Self { filter, keys: keys.len() }
    }
}

/// Our own summary.
///
/// Invariants: each listed name was added to the filter, and also to `meanwhile` while a new filter is built; `log` has the
/// latest of the names that were added in this epoch.
#[derive(Debug)]
pub struct OwnSummary {
    position: Position,
    filter: Filter,
    log: VecDeque<NameKey>,
    keys: usize,
    removed: usize,
    /// Names added since the rebuild of the filter began.
    meanwhile: Option<Vec<NameKey>>,
}

impl OwnSummary {
    /// Of no names; `epoch` must differ each time the node starts.
    #[must_use]
    pub fn new(epoch: u64) -> Self {
        let position = Position { epoch, count: 0 };
        let filter = Filter::for_keys(0);
        Self { position, filter, log: VecDeque::new(), keys: 0, removed: 0, meanwhile: None }
    }

    /// A name is listed; whether that is news to neighbors.
    pub fn add(&mut self, key: NameKey) -> bool {
        if let Some(meanwhile) = &mut self.meanwhile {
            meanwhile.push(key);
        }
        if self.filter.may_contain(key) {
            return false; // nothing would change, here or there
        }
        self.keys += 1;
        self.filter.insert(key);
        self.position.count += 1;
        self.log.push_back(key);
        if self.log.len() > LOG_MAX {
            self.log.pop_front();
        }
        true
    }

    /// The position of a neighbor that has acknowledged everything.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.position
    }

    pub(super) const fn filter(&self) -> &Filter {
        &self.filter
    }

    /// The names that were added after `since`; `None` if that is not known and the whole filter is needed.
    pub(super) fn added(&self, since: Position) -> Option<Vec<NameKey>> {
        let missed = self.position.count.checked_sub(since.count);
        let missed = usize::try_from(missed.filter(|_| since.epoch == self.position.epoch)?).ok()?;
        Some(self.log.range(self.log.len().checked_sub(missed)?..).copied().collect())
    }

    /// `names` names are not listed any more. The filter still has them.
    pub const fn remove(&mut self, names: usize) {
        self.removed += names;
    }

    /// Whether the filter has too many names, or too many removed ones. Then it should be rebuilt:
    /// [`begin_rebuild`](Self::begin_rebuild), a [`Fresh`] filter of all listed names, [`renew`](Self::renew).
    #[must_use]
    pub fn is_worn(&self) -> bool {
        let made_for = self.filter.made_for();
        let is_full = self.keys > made_for && Filter::for_keys(self.keys * 2).made_for() > made_for;
        let is_stale = self.removed > STALE_MIN && self.removed > self.keys / STALE_SHARE;
        self.meanwhile.is_none() && (is_full || is_stale)
    }

    /// The rebuild begins: names added from now on will be in the new filter.
    pub fn begin_rebuild(&mut self) {
        self.meanwhile = Some(Vec::new());
        self.removed = 0;
    }

    /// Takes the new filter, and adds to it the names that were added meanwhile.
    pub fn renew(&mut self, Fresh { filter, keys }: Fresh) {
        let meanwhile = self.meanwhile.take().unwrap_or_default();
        meanwhile.iter().for_each(|key| filter.insert(*key));
        self.keys = keys + meanwhile.len();
        let epoch = self.position.epoch.wrapping_add(1);
        (self.position, self.filter) = (Position { epoch, count: 0 }, filter);
        self.log.clear();
    }
}
