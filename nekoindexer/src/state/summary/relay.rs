//! Which summaries of others are passed on to a neighbor.

use std::collections::BTreeMap;

use nekoproto::NodeTag;

use super::RELAYED_HOPS;

/// Nodes behind one neighbor whose summaries are kept, and passed on to one neighbor; a neighbor with more
/// behind it is asked for everything.
pub(super) const BEHIND_MAX: usize = 64;

/// A summary to be passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Relay {
    /// Whose it is.
    pub of: NodeTag,
    /// The neighbor that advertises it to us.
    pub via: NodeTag,
}

/// A summary that a neighbor advertises, its own or one that it passes on.
#[derive(Clone, Copy, Debug)]
pub struct AdvertisedSummary {
    /// Whose it is, and who advertises it.
    pub relay: Relay,
    /// Hops between the two.
    pub hops: u8,
    /// Whether it is a neighbor of the node that the summary is to be passed on to.
    pub is_near: bool,
}

/// Which of the `advertised` summaries `me` passes on to neighbor `to`: each node's once, from the neighbor
/// nearest to it, and none that its node advertises to `to` itself. In a mesh that is nothing.
#[must_use]
pub fn relays(to: NodeTag, me: NodeTag, advertised: impl Iterator<Item = AdvertisedSummary>) -> Vec<Relay> {
    let mut nearest: BTreeMap<NodeTag, AdvertisedSummary> = BTreeMap::new();
    for summary in advertised.filter(|summary| summary.relay.via != to) {
        let known = nearest.entry(summary.relay.of).or_insert(summary);
        if summary.hops < known.hops {
            *known = summary;
        }
    }
    let is_wanted = |summary: &AdvertisedSummary| {
        let of = summary.relay.of;
        summary.hops < RELAYED_HOPS && of != to && of != me && !summary.is_near
    };
    nearest.into_values().filter(is_wanted).map(|summary| summary.relay).take(BEHIND_MAX).collect()
}
