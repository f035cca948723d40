//! The route probe: a message that indexers pass on one after the other, as long as it has hops left. Its answer says who
//! had it, for how long, and why it ended.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::trace::NoAnswer;
use crate::{
    limits::{PROBE_CARRIED_MAX, PROBE_HOPS_MAX, PROBE_PAYLOAD_MAX},
    values::{List, MsgId, NodeId, NodeTag},
};

/// The nodes that a probe came to, each as often as it did, in this order.
pub type Visited = List<NodeTag, { PROBE_HOPS_MAX as usize }>;

/// A probe as it is passed on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeRequest {
    /// The same at every hop of one probe.
    pub msg_id: MsgId,
    /// How often it may be passed on yet.
    pub hops_left: u8,
    /// The indexers that passed it on. At most [`PROBE_HOPS_MAX`] together with the hops left.
    #[serde(with = "crate::values::fixed_list")]
    pub visited: Visited,
    /// Bytes that every hop carries, and that mean nothing.
    #[serde(with = "serde_bytes")]
    pub payload: Vec<u8>,
}

impl ProbeRequest {
    /// A probe that begins.
    #[must_use]
    pub const fn new(msg_id: MsgId, hops_left: u8) -> Self {
        Self { msg_id, hops_left, visited: Visited::new(), payload: Vec::new() }
    }

    /// Whether it is within the limits.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        let hops_left = usize::from(self.hops_left);
        self.visited.len() + hops_left <= PROBE_HOPS_MAX.into()
            && self.payload.len() <= PROBE_PAYLOAD_MAX
            && self.payload.len() * hops_left <= PROBE_CARRIED_MAX
    }
}

/// Which way a probe went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeReply {
    /// Where it came to, the indexer that answers first. Each tells of itself, and the next believes nothing of it but
    /// what it measured.
    pub stops: List<ProbeStop, { PROBE_HOPS_MAX as usize + 1 }>,
    /// Why the last of them did not pass it on.
    pub end: ProbeEnd,
}

/// One indexer that had the probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeStop {
    /// Who it is.
    pub node: NodeTag,
    /// It had the probe before: this is the end of a circle.
    pub again: bool,
    /// Nanoseconds from the request to the answer, without those that it waited for the next.
    pub own_ns: u32,
    /// Microseconds that it waited for the answer of the next; 0 if it did not pass it on.
    pub waited_us: u32,
    /// Where it knows the next.
    pub next: Option<SocketAddr>,
}

/// Why a probe was not passed on. Wire: append variants, never reorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum ProbeEnd {
    /// It had no hops left.
    #[error("no hops left")]
    Hops,
    /// There is no neighbor that answers.
    #[error("no neighbor to pass it on to")]
    Nowhere,
    /// The neighbor to which it was passed on did not answer.
    #[error("the next did not answer: {0}")]
    Lost(NoAnswer),
}

impl ProbeReply {
    /// The answer of an indexer that did not pass it on.
    #[must_use]
    pub fn ended(stop: ProbeStop, end: ProbeEnd) -> Self {
        Self { stops: List::first_of([stop]), end }
    }

    /// The way from `node`, who was given `hops_left`: what it answered, if a probe can go that way.
    ///
    /// # Errors
    /// Why there is none; [`NoAnswer::Nonsense`] if it begins elsewhere, or is longer or shorter than is possible.
    pub fn checked(answer: Result<Self, NoAnswer>, node: NodeId, hops_left: u8) -> Result<Self, NoAnswer> {
        let steps_max = usize::from(hops_left);
        let is_sound = |way: &Self| {
            let begins = way.stops.first().is_some_and(|stop| stop.node == node.tag());
            let steps = way.stops.len().saturating_sub(1);
            begins && if way.end == ProbeEnd::Hops { steps == steps_max } else { steps <= steps_max }
        };
        answer.and_then(|way| is_sound(&way).then_some(way).ok_or(NoAnswer::Nonsense))
    }

    /// The way from the next on, after `stop`.
    #[must_use]
    pub fn after(stop: ProbeStop, next: Result<Self, NoAnswer>) -> Self {
        match next {
            Ok(Self { stops, end }) => {
                Self { stops: List::first_of(std::iter::once(stop).chain(stops)), end }
            }
            Err(why) => Self::ended(stop, ProbeEnd::Lost(why)),
        }
    }

    /// Microseconds for passing it on from stop `place` to the next and back: what it waited, without the time in which the
    /// next and those after it had it. `None` for the last.
    #[must_use]
    pub fn link_us(&self, place: usize) -> Option<u32> {
        let (stop, next) = (self.stops.get(place)?, self.stops.get(place + 1)?);
        Some(stop.waited_us.saturating_sub(next.waited_us.saturating_add(next.own_ns / 1000)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(n: u8) -> NodeId {
        NodeId::from_bytes([n; 32])
    }

    fn stop(n: u8, own_ns: u32, waited_us: u32) -> ProbeStop {
        ProbeStop { node: node(n).tag(), again: false, own_ns, waited_us, next: None }
    }

    #[test]
    fn way_is_put_together_from_its_end() {
        let last = ProbeReply::ended(stop(3, 5_000, 0), ProbeEnd::Hops);
        let way = ProbeReply::after(stop(1, 3_000, 200), Ok(ProbeReply::after(stop(2, 4_000, 90), Ok(last))));
        assert_eq!((way.stops.len(), way.end), (3, ProbeEnd::Hops));
        assert_eq!([0, 1, 2].map(|place| way.link_us(place)), [Some(106), Some(85), None]);
        let lost = ProbeReply::after(stop(1, 3_000, 200), Err(NoAnswer::Late));
        assert_eq!((lost.stops.len(), lost.end), (1, ProbeEnd::Lost(NoAnswer::Late)));
    }

    #[test]
    fn way_that_begins_elsewhere_or_has_another_length_than_is_possible_is_nonsense() {
        let way = |stops: &[u8], end| {
            Ok(ProbeReply { stops: List::first_of(stops.iter().map(|n| stop(*n, 1, 1))), end })
        };
        let is_sound = |stops, end| ProbeReply::checked(way(stops, end), node(1), 2).is_ok();
        assert!(is_sound(&[1, 2, 3], ProbeEnd::Hops));
        assert!(is_sound(&[1, 2], ProbeEnd::Nowhere));
        assert!(is_sound(&[1], ProbeEnd::Lost(NoAnswer::Late)));
        for (stops, end) in [
            (&[][..], ProbeEnd::Nowhere),
            (&[2, 1, 3], ProbeEnd::Hops),
            (&[1, 2], ProbeEnd::Hops),
            (&[1, 2, 3, 1], ProbeEnd::Hops),
            (&[1, 2, 3, 1], ProbeEnd::Nowhere),
        ] {
            assert!(!is_sound(stops, end), "{stops:?}");
        }
    }

    #[test]
    fn hops_made_and_left_and_what_they_carry_are_limited_together() {
        let with = |visited: usize, hops_left, bytes: usize| ProbeRequest {
            visited: Visited::first_of(vec![node(1).tag(); visited]),
            payload: vec![0; bytes],
            ..ProbeRequest::new(MsgId::from_u128(0), hops_left)
        };
        assert!(with(0, 64, 0).is_allowed() && with(1, 63, 0).is_allowed());
        assert!(!with(1, 64, 0).is_allowed());
        assert!(with(0, 0, PROBE_PAYLOAD_MAX).is_allowed());
        assert!(!with(0, 0, PROBE_PAYLOAD_MAX + 1).is_allowed());
        assert!(with(0, 5, PROBE_PAYLOAD_MAX).is_allowed());
        assert!(!with(0, 6, PROBE_PAYLOAD_MAX).is_allowed());
    }
}
