//! [`Neighbors`]: who is asked at one moment, and how each is waited for.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use nekoproto::{IndexerServiceClient, NodeId, NodeTag, WhyUnasked, summary::Filter};
use tarpc::client::RpcError;

use super::{
    channel::{Channel, Wanted},
    load::Load,
};
use crate::state::standing::{Standing, was_busy};

/// Our queries in flight to a guest beyond which the time of an answer says more of us than of it.
const CROWDED_FROM: usize = 32;
/// A configured neighbor or member has missed a question if it had at least this much time for it.
const MISSED_FROM: Duration = Duration::from_millis(500);

/// A connection to a neighbor.
#[derive(Clone, Debug)]
pub(crate) struct Connected {
    /// Where it listens, or else where it connected from.
    pub(crate) addr: SocketAddr,
    /// Calls it.
    pub(crate) client: IndexerServiceClient,
    /// What the two ends told each other of names over this connection.
    pub(crate) channel: Arc<Channel>,
}

/// A connected neighbor.
#[derive(Clone, Debug)]
pub(crate) struct Neighbor {
    /// Who it is.
    pub(crate) node: NodeId,
    pub(crate) connected: Connected,
    /// How many of our queries it is busy with, and how it answered so far.
    pub(crate) load: Arc<Load>,
    /// Why it is a neighbor.
    pub(crate) standing: Standing,
    /// The names that it says it has.
    pub(super) names: Option<Filter>,
}

impl Neighbor {
    /// Until when a query waits for it that was sent `began` and has time until `deadline`.
    pub(crate) fn waited_for(&self, began: Instant, deadline: Instant) -> Instant {
        if self.standing.is_guest() { deadline.min(began + self.load.record.patience()) } else { deadline }
    }

    /// Notes what became of a question that was sent `began` and had time until `until`. Returns whether the neighbor is
    /// judged by that.
    pub(crate) fn is_judged_by<T>(
        &self,
        answer: &Result<T, RpcError>,
        began: Instant,
        until: Instant,
    ) -> bool {
        let record = &self.load.record;
        match answer {
            Ok(_) => record.answered(|| {
                let is_crowded = self.load.in_flight() > CROWDED_FROM; // they wait in a row of our own queries
                if is_crowded { record.usual() } else { began.elapsed() }
            }),
            Err(RpcError::DeadlineExceeded) => {
                let had = until.saturating_duration_since(began);
                let needs = if self.standing.is_guest() { record.patience() } else { MISSED_FROM };
                had >= needs && !was_busy(until, Instant::now()) && record.missed()
            }
            Err(_) => false, // the connection says what became of it
        }
    }

    /// Whether it need not be asked at first; see [`TheirSummary::rules_out`].
    ///
    /// [`TheirSummary::rules_out`]: crate::state::summary::TheirSummary::rules_out
    pub(crate) fn rules_out(&self, wanted: &Wanted<'_>) -> bool {
        let lacks = self.names.as_ref().is_some_and(|names| !names.may_contain(wanted.key));
        lacks && self.connected.channel.rules_out_others(wanted)
    }
}

/// The neighbors at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Neighbors {
    /// Connected ones that are asked, each node once. A guest that is not asked is not here at all.
    pub(crate) reachable: Vec<Neighbor>,
    /// Their tags, in the same order.
    pub(crate) tags: Vec<NodeTag>,
    /// Their tags in order.
    pub(crate) sorted: Arc<[NodeTag]>,
    /// Configured ones and members out of reach, or that do not answer; `None` where it was never known who they are.
    pub(crate) away: Vec<Option<NodeTag>>,
    /// Where they are, or were, in the same order.
    pub(crate) away_at: Vec<SocketAddr>,
    /// Which of the two, in the same order.
    pub(crate) away_why: Vec<WhyUnasked>,
    /// Grows with each change.
    pub(crate) version: u64,
}

impl Neighbors {
    /// The connections over which the neighbors are asked.
    pub(crate) fn channels(&self) -> impl Iterator<Item = &Arc<Channel>> {
        self.reachable.iter().map(|neighbor| &neighbor.connected.channel)
    }

    /// What the neighbor `node` told us; `None` if it is not connected.
    pub(crate) fn channel(&self, node: &NodeTag) -> Option<&Arc<Channel>> {
        let at = self.tags.iter().position(|tag| tag == node)?;
        Some(&self.reachable[at].connected.channel)
    }

    pub(super) fn add_away(&mut self, tag: Option<NodeTag>, addr: SocketAddr, why: WhyUnasked) {
        self.away.push(tag);
        self.away_at.push(addr);
        self.away_why.push(why);
    }

    /// Whether what the neighbor `node` told us counts.
    pub(crate) fn trusts(&self, node: &NodeTag, now: Instant) -> bool {
        self.channel(node).is_some_and(|channel| channel.theirs.read().is_trusted(now))
    }
}
