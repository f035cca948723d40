//! [`Page`]: the first matches by name, and [`Collecting`], which keeps no more than these of any number.

use std::collections::BTreeMap;

use nekoproto::{NodeId, Position};

use crate::state::merge::Found;

/// The first matches, strictly in the order of their positions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// One for each file of an origin.
    pub found: Vec<Found>,
    /// Where further ones may begin: those up to this place are on the page. `None`: there are none.
    pub next: Option<Position>,
}

impl Page {
    /// The first `limit` of `files`, as far as `end`.
    pub(super) fn first_of(
        mut files: BTreeMap<Position, Found>,
        end: Option<Position>,
        limit: usize,
    ) -> Self {
        if let Some(end) = &end {
            files.retain(|position, _| position <= end);
        }
        let last = files.keys().nth(limit.saturating_sub(1)).filter(|_| files.len() > limit).cloned();
        Self { found: files.into_values().take(limit).collect(), next: last.or(end) }
    }
}

/// Collects a page from matches that come in any order, also repeatedly. It holds one more than the page does.
pub(in crate::state) struct Collecting<'a> {
    after: Option<&'a Position>,
    limit: usize,
    first: BTreeMap<Position, Found>,
}

impl<'a> Collecting<'a> {
    pub(in crate::state) const fn new(after: Option<&'a Position>, limit: usize) -> Self {
        Self { after, limit, first: BTreeMap::new() }
    }

    /// Whether a match of this name might be on the page.
    pub(in crate::state) fn may_take(&self, name: &[u8]) -> bool {
        self.after.is_none_or(|after| name >= key(after).0) && self.last().is_none_or(|last| name <= last.0)
    }

    /// Whether a match at this place would be on the page, as far as is known.
    pub(in crate::state) fn takes(&self, name: &[u8], origin: &NodeId) -> bool {
        let place = (name, origin);
        self.after.is_none_or(|after| place > key(after)) && self.last().is_none_or(|last| place <= last)
    }

    /// The last place, if there is no room behind it.
    fn last(&self) -> Option<(&[u8], &NodeId)> {
        let last = self.first.last_key_value().filter(|_| self.first.len() > self.limit);
        last.map(|(position, _)| key(position))
    }

    /// Adds a match that [`takes`](Self::takes) speaks for.
    pub(in crate::state) fn add(&mut self, found: Found) {
        self.first.insert(Position::of(&found.record), found);
        if self.first.len() > self.limit + 1 {
            self.first.pop_last();
        }
    }

    /// The page of those up to `end`.
    pub(in crate::state) fn finish(self, end: Option<Position>) -> Page {
        Page::first_of(self.first, end, self.limit)
    }
}

fn key(position: &Position) -> (&[u8], &NodeId) {
    (position.name.as_str().as_bytes(), &position.origin)
}
