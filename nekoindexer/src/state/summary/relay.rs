//! Which summaries of others are passed on to a neighbor.

use std::collections::BTreeMap;

use nekoproto::NodeTag;

use super::{RELAYED_HOPS, theirs::BEHIND_MAX};

/// A summary to be passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Relay {
    /// Whose it is.
    pub of: NodeTag,
    /// The neighbor that told us of it.
    pub via: NodeTag,
}

/// Somebody whose summary a neighbor told.
#[derive(Clone, Copy, Debug)]
pub struct Heard {
    /// Whose it is, and who told.
    pub relay: Relay,
    /// Hops between the two.
    pub hops: u8,
    /// Whether it is a neighbor of the node that the summary is to be passed on to.
    pub is_near: bool,
}

/// What is to be passed on to neighbor `to` by `me` of what others have told: each node once, from
/// whoever is nearest to it, and none that `to` hears of from that node itself. In a mesh that is nothing.
#[must_use]
pub fn relays(to: NodeTag, me: NodeTag, heard: impl Iterator<Item = Heard>) -> Vec<Relay> {
    let mut nearest: BTreeMap<NodeTag, Heard> = BTreeMap::new();
    for heard in heard.filter(|heard| heard.relay.via != to) {
        let known = nearest.entry(heard.relay.of).or_insert(heard);
        if heard.hops < known.hops {
            *known = heard;
        }
    }
    let is_wanted = |heard: &Heard| {
        heard.hops < RELAYED_HOPS && heard.relay.of != to && heard.relay.of != me && !heard.is_near
    };
    nearest.into_values().filter(is_wanted).map(|heard| heard.relay).take(BEHIND_MAX).collect()
}
