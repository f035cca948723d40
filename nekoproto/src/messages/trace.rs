//! The way of a query, which its [reply](super::QueryReply) has if its [request](super::QueryRequest) says so.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::error::Refusal;
use crate::{
    limits::{TRACE_FOUND_MAX, TRACE_HOPS_MAX, TRACE_UNASKED_MAX},
    values::{List, NodeId, NodeTag, Version},
};

/// The indexers that were asked: a tree, each indexer before those that it asked.
///
/// Nothing in it is signed: each indexer says of itself what it wants, and of those behind it what they told it.
/// What an asker itself saw (who, where, how long) is written by the asker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceReply {
    /// The indexer that answers has depth 0, and is the only one that has.
    pub hops: List<TraceHop, TRACE_HOPS_MAX>,
    /// False if there was no room for some of them.
    pub whole: bool,
}

/// An indexer that was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceHop {
    /// Hops from the indexer that answers.
    pub depth: u8,
    /// Who it is; `None` if it was never connected to.
    pub node: Option<NodeId>,
    /// Where its asker knows it.
    pub addr: Option<SocketAddr>,
    /// Microseconds until it answered, or was given up, as its asker measured.
    pub waited_us: u32,
    /// Its summary rules the name out; it was asked because nobody else had it.
    pub despite_summary: bool,
    /// What it answered.
    pub answer: Result<TraceAnswer, NoAnswer>,
}

/// What an indexer says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceAnswer {
    /// What it lists itself.
    pub found: List<TraceFound, TRACE_FOUND_MAX>,
    /// It had answered another copy before; this one was at most passed on.
    pub again: bool,
    /// Microseconds from the request to the answer.
    pub took_us: u32,
    /// Of these, not spent waiting for its neighbors.
    pub own_us: u32,
    /// The neighbors that it did not ask.
    pub unasked: List<Unasked, TRACE_UNASKED_MAX>,
    /// Further ones for which there was no room.
    pub unasked_more: u32,
}

/// A version that an indexer lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceFound {
    /// Whose file it is.
    pub origin: NodeTag,
    /// Its version.
    pub version: Version,
    /// Holders listed.
    pub holders: u32,
}

/// A neighbor that was not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unasked {
    /// Who it is; `None` if it was never connected to.
    pub node: Option<NodeTag>,
    /// Where it is known.
    pub addr: Option<SocketAddr>,
    /// Why not.
    pub why: WhyUnasked,
}

/// Why a neighbor was not asked. Wire: append variants, never reorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, thiserror::Error)]
pub enum WhyUnasked {
    /// There is no connection to it.
    #[error("not connected")]
    Away,
    /// The indexer remembers too many messages to pass on a further one.
    #[error("too many messages at once")]
    NoRoom,
    /// Its summary says that neither it nor anybody behind it has the name.
    #[error("its summary rules it out")]
    RuledOut,
    /// The query ends here.
    #[error("no hops left")]
    NoHopsLeft,
    /// Another indexer asks it, or did.
    #[error("asked by another")]
    Covered,
    /// It is connected, and has sent no heartbeat for some time.
    #[error("it does not answer")]
    Silent,
    /// It connected to the indexer in an open network, and was not needed, or has said nothing of its names lately.
    #[error("a guest")]
    Guest,
}

/// Why an indexer that was asked has no answer. Wire: append variants, never reorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum NoAnswer {
    /// The connection is down.
    #[error("not connected")]
    Away,
    /// It has many questions to answer, and has answered none for a while: it was not asked.
    #[error("busy: it answers nothing at the moment")]
    Busy,
    /// It did not answer in time.
    #[error("did not answer in time")]
    Late,
    /// The connection or the call failed.
    #[error("the call failed")]
    Failed,
    /// It refused.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// Its answer is no tree of hops.
    #[error("answered nonsense")]
    Nonsense,
}

impl TraceReply {
    /// What became of a query to somebody who was given `ttl_hops`: the hops of its reply, if they are a tree, the first one
    /// with what the asker itself knows, which is `asked`.
    #[must_use]
    pub fn checked(reply: Result<Option<Box<Self>>, NoAnswer>, ttl_hops: u8, mut asked: TraceHop) -> Self {
        let reply =
            reply.and_then(|reply| reply.filter(|reply| reply.is_sound(ttl_hops)).ok_or(NoAnswer::Nonsense));
        let (theirs, whole) = match reply {
            Ok(reply) => (reply.hops.into_vec(), reply.whole),
            Err(why) => (vec![TraceHop::of(Err(why))], true),
        };
        let mut theirs = theirs.into_iter();
        asked.depth = 0;
        asked.answer = theirs.next().map_or(Err(NoAnswer::Nonsense), |first| first.answer);
        if let Ok(answer) = &mut asked.answer {
            answer.took_us = answer.took_us.min(asked.waited_us);
            answer.own_us = answer.own_us.min(answer.took_us);
        }
        Self { hops: List::first_of(std::iter::once(asked).chain(theirs)), whole }
    }

    /// Whether somebody lists the name.
    #[must_use]
    pub fn has_found(&self) -> bool {
        self.hops.iter().any(|hop| hop.answer.as_ref().is_ok_and(|answer| !answer.found.is_empty()))
    }

    /// Whether it is a tree no deeper than `ttl_hops`.
    #[must_use]
    pub fn is_sound(&self, ttl_hops: u8) -> bool {
        let follows = |pair: &[TraceHop]| {
            let [before, hop] = [pair[0].depth, pair[1].depth];
            0 < hop && hop - 1 <= before && hop <= ttl_hops
        };
        self.hops.first().is_some_and(|first| first.depth == 0) && self.hops.windows(2).all(follows)
    }
}

impl TraceHop {
    /// The indexer that answers, before its asker adds what it knows.
    #[must_use]
    pub const fn of(answer: Result<TraceAnswer, NoAnswer>) -> Self {
        Self { depth: 0, node: None, addr: None, waited_us: 0, despite_summary: false, answer }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_trees_of_allowed_depth_are_sound() {
        let tree = |depths: &[u8]| {
            let hop = |depth: &u8| TraceHop { depth: *depth, ..TraceHop::of(Err(NoAnswer::Late)) };
            TraceReply { hops: List::first_of(depths.iter().map(hop)), whole: true }
        };
        for depths in [&[0][..], &[0, 1], &[0, 1, 2, 1, 2, 3], &[0, 1, 1, 1]] {
            assert!(tree(depths).is_sound(3), "{depths:?}");
        }
        for depths in [&[][..], &[1], &[0, 0], &[0, 2], &[0, 1, 3], &[0, 1, 2, 3, 4], &[0, 1, 0]] {
            assert!(!tree(depths).is_sound(3), "{depths:?}");
        }
        assert!(!tree(&[0, 1]).is_sound(0));
    }
}
