//! [`Page`]: the first matches by name, and [`Collecting`], which keeps no more than these of any number.

use std::{cmp::Ordering, collections::BinaryHeap};

use nekoproto::{NodeId, Position};

use crate::state::merge::Found;

/// The first matches, strictly in the order of their positions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// One for each file of an origin.
    pub found: Vec<Found>,
    /// Whether there are further ones behind the last.
    pub more: bool,
}

/// Collects a page from matches that come in any order. It holds one more than the page does.
pub(in crate::state) struct Collecting<'a> {
    after: Option<&'a Position>,
    limit: usize,
    first: BinaryHeap<Place>,
}

/// A match, ordered by its position.
struct Place(Found);

impl<'a> Collecting<'a> {
    /// A page of at most `limit` matches behind `after`.
    pub(in crate::state) const fn new(after: Option<&'a Position>, limit: usize) -> Self {
        Self { after, limit, first: BinaryHeap::new() }
    }

    /// Whether a match at this place would be on the page, as far as is known.
    pub(in crate::state) fn takes(&self, name: &[u8], origin: &NodeId) -> bool {
        let is_behind =
            self.after.is_none_or(|after| (name, origin) > (after.name.as_str().as_bytes(), &after.origin));
        is_behind
            && (self.first.len() <= self.limit
                || self.first.peek().is_some_and(|last| (name, origin) < last.key()))
    }

    /// Adds a match that [`takes`](Self::takes) speaks for.
    pub(in crate::state) fn add(&mut self, found: Found) {
        self.first.push(Place(found));
        if self.first.len() > self.limit + 1 {
            self.first.pop();
        }
    }

    pub(in crate::state) fn finish(self) -> Page {
        let mut found: Vec<Found> = self.first.into_sorted_vec().into_iter().map(|place| place.0).collect();
        let more = found.len() > self.limit;
        found.truncate(self.limit);
        Page { found, more }
    }
}

impl Place {
    fn key(&self) -> (&[u8], &NodeId) {
        (self.0.record.name.as_str().as_bytes(), &self.0.record.origin)
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Place {}
