//! Which summaries of others are passed on to a neighbor.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use nekoproto::NodeTag;

use super::{KnownSummary, RELAYED_HOPS};

/// Nodes behind one neighbor whose summaries are kept, and passed on to one neighbor; a neighbor with more
/// behind it is asked for everything.
pub const RELAYED_MAX: usize = 64;
/// Words of all their filters: 2 MiB.
pub(super) const RELAYED_WORDS_MAX: usize = 256 * 1024;

/// A summary that a neighbor advertises, its own or one that it passes on.
#[derive(Clone, Debug)]
pub struct Relayed {
    /// Whose it is.
    pub of: NodeTag,
    /// The neighbor that advertises it to us.
    pub via: NodeTag,
    /// The summary.
    pub known: Arc<KnownSummary>,
}

impl Relayed {
    /// Whether this is nearer than `other`, or as near and newer.
    fn is_better_than(&self, other: &Self) -> bool {
        match self.known.hops().cmp(&other.known.hops()) {
            std::cmp::Ordering::Equal => !other.known.position().reaches(self.known.position()),
            order => order.is_lt(),
        }
    }
}

/// Which of the `advertised` summaries `me` passes on to neighbor `to`: each node's once, from the neighbor
/// nearest to it, and none that its node advertises to `to` itself. In a mesh that is nothing.
#[must_use]
pub fn relays(to: NodeTag, me: NodeTag, advertised: impl Iterator<Item = Relayed>) -> Vec<Relayed> {
    let mut nearest: BTreeMap<NodeTag, Relayed> = BTreeMap::new();
    for summary in advertised.filter(|summary| summary.via != to) {
        match nearest.entry(summary.of) {
            Entry::Vacant(place) => {
                place.insert(summary);
            }
            Entry::Occupied(mut place) if summary.is_better_than(place.get()) => {
                place.insert(summary);
            }
            Entry::Occupied(_) => {}
        }
    }
    let is_wanted = |summary: &Relayed| {
        let Relayed { of, known, .. } = summary;
        known.hops() < RELAYED_HOPS && *of != to && *of != me && !known.has_neighbor(&to)
    };
    let mut words = 0;
    let fits = |summary: &Relayed| {
        let more = words + summary.known.source().filter.words();
        let fits = more <= RELAYED_WORDS_MAX;
        words = if fits { more } else { words };
        fits
    };
    nearest.into_values().filter(is_wanted).filter(fits).take(RELAYED_MAX).collect()
}
