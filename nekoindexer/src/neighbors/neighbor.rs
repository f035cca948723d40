//! [`Neighbors`]: who is asked at one moment.

use std::{net::SocketAddr, sync::Arc};

use nekoproto::{
    IndexerAddr, IndexerServiceClient, List, NodeId, NodeTag, Unasked, WhyUnasked,
    limits::COVERED_MAX,
    summary::{Change, Filter, NameKey},
};

use super::{channel::Channel, load::Load};
use crate::state::{holders::Sender, summary::rules_out, trust_level::TrustLevel};

#[derive(Clone, Debug)]
pub(crate) struct Connected {
    /// Where it listens, or else where it connected from.
    pub(crate) addr: SocketAddr,
    pub(crate) is_local: bool,
    pub(crate) client: IndexerServiceClient,
    pub(crate) channel: Arc<Channel>,
}

#[derive(Clone, Debug)]
pub(crate) struct Neighbor {
    pub(crate) node: NodeId,
    pub(crate) connected: Connected,
    pub(crate) load: Arc<Load>,
    pub(crate) trust: TrustLevel,
    pub(super) names: Option<Filter>,
    /// Those that it trusts, as it says, and that are no neighbors of ours; `None`: it may ask anybody.
    pub(super) beyond: Option<Arc<[NodeTag]>>,
}

/// What a query looks for, on its way to the neighbors.
pub(crate) struct Wanted<'a> {
    pub(crate) key: NameKey,
    /// Hops that neighbors are given.
    pub(crate) ttl_hops: u8,
    /// Who is asked by somebody else.
    pub(crate) covers: &'a dyn Fn(&NodeTag) -> bool,
    /// The time by the clock of this node.
    pub(crate) clock_ms: u64,
}

impl Neighbor {
    /// What `node` says of its names over `connected`, for a node `me` whose trusted neighbors are `mine`, sorted.
    pub(super) fn new(
        (node, connected, trust): (NodeId, Connected, TrustLevel),
        load: Arc<Load>,
        (me, mine): (NodeTag, &[NodeTag]),
    ) -> Self {
        let mut neighbor = Self { node, connected, load, trust, names: None, beyond: None };
        neighbor.read(me, mine);
        neighbor
    }

    /// Looks again at what it says of its names.
    pub(super) fn read(&mut self, me: NodeTag, mine: &[NodeTag]) {
        let theirs = self.connected.channel.theirs.read();
        self.names = theirs.names().cloned();
        self.beyond = theirs.beyond(me, mine).map(Arc::from);
    }

    pub(crate) const fn sender(&self) -> Sender {
        let at = IndexerAddr { addr: self.connected.addr, node: self.node };
        Sender { at, is_local: self.connected.is_local }
    }

    /// Whether it need not be asked at first; see [`rules_out`]. Of a guest only its own names count.
    pub(crate) fn rules_out(&self, wanted: &Wanted<'_>) -> bool {
        let Wanted { key, ttl_hops, covers, clock_ms } = *wanted;
        let beyond = self.beyond.as_deref().filter(|_| !self.trust.is_guest());
        self.names.as_ref().is_some_and(|names| rules_out(names, key, ttl_hops, beyond, covers))
            && self.is_current_at(clock_ms)
    }

    /// Whether it says, now and then, which names it has: a guest that does not is not asked.
    pub(crate) fn is_current_at(&self, clock_ms: u64) -> bool {
        self.connected.channel.is_current_at(clock_ms)
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Neighbors {
    /// Connected ones that are trusted, each node once.
    pub(crate) trusted: Vec<Neighbor>,
    /// Their tags, in the same order.
    pub(crate) tags: Vec<NodeTag>,
    /// Their tags in order.
    pub(crate) sorted: Arc<[NodeTag]>,
    pub(crate) guests: Vec<Neighbor>,
    /// Trusted ones out of reach, or that do not answer; `None` where it was never known who they are.
    pub(crate) away: Vec<Option<NodeTag>>,
    /// The same, with where they are, or were, and which of the two.
    pub(crate) unasked: Vec<Unasked>,
    /// Grows when what [`as_change`](Self::as_change) says changes.
    pub(crate) version: u64,
}

impl Neighbors {
    /// Those that are trusted, as other nodes are told. While one is away an answer of this node says that something may be
    /// missing, so nobody is to leave it out for having asked all others.
    pub(super) fn as_change(&self) -> Change {
        if self.away.is_empty() && self.sorted.len() <= COVERED_MAX {
            Change::Neighbors(List::first_of(self.sorted.iter().copied()))
        } else {
            Change::ManyNeighbors
        }
    }

    pub(super) fn add_away(&mut self, node: Option<NodeTag>, addr: SocketAddr, why: WhyUnasked) {
        self.away.push(node);
        self.unasked.push(Unasked { node, addr: Some(addr), why });
    }
}
