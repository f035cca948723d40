//! [`Neighbors`]: who is asked at one moment, and how each is waited for.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use nekoproto::{IndexerAddr, IndexerServiceClient, NodeId, NodeTag, Unasked, WhyUnasked, summary::Filter};
use tarpc::client::RpcError;
use tokio::task::yield_now;

use super::{
    channel::{Channel, Wanted},
    load::Load,
};
use crate::state::{
    holders::Sender,
    standing::{Stalls, Standing, was_busy},
};

/// Our queries in flight to a guest beyond which the time of an answer says more of us than of it.
const CROWDED_FROM: usize = 32;
/// A guest's answer that takes longer may be late because of this node.
const SLOW_FROM: Duration = Duration::from_millis(50);
/// A round of this node's tasks takes less unless it is busy.
const ROUND_MAX: Duration = Duration::from_millis(10);
/// A configured neighbor or member has missed a question if it had at least this much time for it.
const MISSED_FROM: Duration = Duration::from_millis(500);

/// A connection to a neighbor.
#[derive(Clone, Debug)]
pub(crate) struct Connected {
    /// Where it listens, or else where it connected from.
    pub(crate) addr: SocketAddr,
    /// Whether it runs on this machine.
    pub(crate) is_local: bool,
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
    pub(crate) fn waited_for(&self, began: Instant, deadline: Instant, stalls: &Stalls) -> Instant {
        if !self.standing.is_guest() {
            return deadline;
        }
        deadline.min(began + self.load.record.patience(stalls.are_used_up(began)))
    }

    /// Notes what became of a question that was sent `began` and had time until `until`, which was less than the asker
    /// had if not `is_hurried`. Where that may be because of this node, it waits for a round of its tasks.
    pub(crate) async fn judged_by<T>(
        &self,
        answer: &Result<T, RpcError>,
        (began, until, is_hurried): (Instant, Instant, bool),
    ) -> Judged {
        let record = &self.load.record;
        match answer {
            Ok(_) if !record.is_guest() => {
                record.answered(Duration::ZERO, began);
                Judged::default()
            }
            Ok(_) => {
                let now = Instant::now();
                let took = now.saturating_duration_since(began);
                let is_ours = self.is_crowded() || (took > SLOW_FROM && Box::pin(is_busy()).await);
                let took = if is_ours { record.usual() } else { took };
                Judged { is_judged: record.answered(took, now), is_ours: false }
            }
            Err(RpcError::DeadlineExceeded) => {
                let now = Instant::now();
                let is_guest = self.standing.is_guest();
                let had_time = if is_guest {
                    !is_hurried
                } else {
                    until.saturating_duration_since(began) >= MISSED_FROM
                };
                let is_ours = was_busy(until, now) || self.is_crowded() || Box::pin(is_busy()).await;
                let is_ours_alone = is_ours && record.is_good();
                Judged { is_judged: had_time && record.missed(is_ours, now), is_ours: is_ours_alone }
            }
            Err(_) => Judged::default(), // the connection says what became of it
        }
    }

    /// Whether its answers wait in a row of our own queries.
    fn is_crowded(&self) -> bool {
        self.load.in_flight() > CROWDED_FROM
    }

    /// It as one that names holders.
    pub(crate) const fn sender(&self) -> Sender {
        let at = IndexerAddr { addr: self.connected.addr, node: self.node };
        Sender { at, is_local: self.connected.is_local }
    }

    /// Whether it need not be asked at first; see [`TheirSummary::rules_out`].
    ///
    /// [`TheirSummary::rules_out`]: crate::state::summary::TheirSummary::rules_out
    pub(crate) fn rules_out(&self, wanted: &Wanted<'_>) -> bool {
        let lacks = self.names.as_ref().is_some_and(|names| !names.may_contain(wanted.key));
        lacks && self.connected.channel.rules_out_others(wanted)
    }
}

/// What one question says of a neighbor.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Judged {
    /// It is not asked any more.
    pub(crate) is_judged: bool,
    /// A guest that is good was not heard in time, because this node is busy: the answer lacks what it has.
    pub(crate) is_ours: bool,
}

/// Whether this node is late with everything: a round of its tasks takes long.
async fn is_busy() -> bool {
    let began = Instant::now();
    yield_now().await;
    began.elapsed() > ROUND_MAX
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
    /// The same, with where they are, or were, and which of the two.
    pub(crate) unasked: Vec<Unasked>,
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

    pub(super) fn add_away(&mut self, node: Option<NodeTag>, addr: SocketAddr, why: WhyUnasked) {
        self.away.push(node);
        self.unasked.push(Unasked { node, addr: Some(addr), why });
    }

    /// Whether what the neighbor `node` told us counts.
    pub(crate) fn trusts(&self, node: &NodeTag, now: Instant) -> bool {
        self.channel(node).is_some_and(|channel| channel.theirs.read().is_trusted(now))
    }
}
