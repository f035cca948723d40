//! What is known of links: those that the configuration asks for, and indexers that connected to us.

use std::{
    collections::{HashMap, HashSet},
    net::SocketAddr,
    sync::Arc,
    time::Instant,
};

use futures::future::AbortHandle;
use nekoproto::{
    NodeId, NodeTag, WhyUnasked,
    transport::slots::{Activity, Slot, SlotOwner, Slots},
};

use super::{
    channel::Channel,
    load::Load,
    neighbor::{Connected, Neighbor, Neighbors},
};
use crate::state::trust_level::TrustLevel;

/// Members that may connect to us; further ones are served but neither asked nor told of names.
const MEMBERS_MAX: usize = 1024;
/// Guests that have a slot, and are asked; the address with the most makes room for others.
pub(crate) const GUESTS_MAX: usize = 64;

#[derive(Debug)]
pub(super) struct KnownLinks {
    me: NodeTag,
    /// Links that the configuration asks for, by their place in it.
    pub(super) configured: Vec<Configured>,
    /// Indexers that connected to us.
    pub(super) inbound: HashMap<NodeId, Inbound>,
    /// Those of guests.
    slots: Slots,
    /// The load of each known neighbor; kept while its connections change.
    pub(super) loads: HashMap<NodeId, Arc<Load>>,
    /// Trusted neighbors that are connected, and not heard any more.
    pub(super) silent: HashSet<NodeId>,
}

#[derive(Clone, Debug)]
pub(super) struct Configured {
    pub(super) addr: SocketAddr,
    pub(super) connected: Option<Connected>,
    /// Why it is not connected; `None` before the first attempt has ended.
    pub(super) why: Option<String>,
    /// Who answered there last.
    pub(super) node: Option<NodeId>,
    pub(super) ourselves: bool,
    /// It said goodbye: it is not missed until it comes again.
    pub(super) has_left: bool,
}

#[derive(Debug)]
pub(super) struct Inbound {
    /// One for each open connection, and what ends it.
    pub(super) clients: Vec<(Connected, AbortHandle)>,
    pub(super) lost_at: Option<Instant>,
    /// Where the latest one came from.
    pub(super) addr: SocketAddr,
    pub(super) trust: TrustLevel,
    /// Its slot among guests.
    slot: Option<Slot>,
}

impl Configured {
    pub(super) const fn new(addr: SocketAddr) -> Self {
        Self { addr, connected: None, why: None, node: None, ourselves: false, has_left: false }
    }
}

impl KnownLinks {
    pub(super) fn new(me: NodeTag, configured: &[SocketAddr]) -> Self {
        Self {
            me,
            configured: configured.iter().copied().map(Configured::new).collect(),
            slots: Slots::new(GUESTS_MAX),
            inbound: HashMap::new(),
            loads: HashMap::new(),
            silent: HashSet::new(),
        }
    }

    pub(super) const fn me(&self) -> NodeTag {
        self.me
    }

    pub(super) fn load(&mut self, node: NodeId) -> &Arc<Load> {
        self.loads.entry(node).or_insert_with(|| Arc::new(Load::new(Instant::now())))
    }

    /// The link to `addr` goes, and with it the trust in who was there: what is left of that node is what it connected as.
    pub(super) fn unconfigure(&mut self, addr: SocketAddr) {
        self.configured.retain(|link| link.addr != addr);
        self.forget_loads();
    }

    pub(super) fn is_configured(&self, node: &NodeId) -> bool {
        self.configured.iter().any(|link| link.node.as_ref() == Some(node))
    }

    pub(super) fn forget_loads(&mut self) {
        let Self { configured, inbound, loads, .. } = self;
        loads.retain(|node, _| {
            inbound.contains_key(node) || configured.iter().any(|link| link.node == Some(*node))
        });
    }

    /// Takes in who connected from `addr`: a node that is known, or one for which there is a slot, if need be that of a guest
    /// of the address with the most, whose connections end.
    pub(super) fn admit(
        &mut self,
        node: NodeId,
        addr: SocketAddr,
        trust: TrustLevel,
    ) -> Option<&mut Inbound> {
        if !self.inbound.contains_key(&node) {
            let slot = match trust {
                _ if self.is_configured(&node) => None,
                TrustLevel::Guest => {
                    // Busy: it makes room only for an address with fewer.
                    Some(self.slots.enter(SlotOwner::at(addr.ip(), Some(node)), Activity::busy())?)
                }
                TrustLevel::Configured | TrustLevel::Member => {
                    let members = self.inbound.values().filter(|one| !one.trust.is_guest());
                    (members.count() < MEMBERS_MAX).then_some(None)?
                }
            };
            self.end_displaced();
            let one = Inbound { clients: Vec::new(), lost_at: None, addr, trust, slot };
            self.inbound.insert(node, one);
        }
        self.inbound.get_mut(&node)
    }

    /// The other end of `channel` said goodbye: nobody misses it. Of its connections that is the latest, if there are others.
    pub(super) fn leave(&mut self, node: NodeId, channel: &Arc<Channel>) {
        let is_over = |open: &Connected| Arc::ptr_eq(&open.channel, channel);
        for link in self.configured.iter_mut().filter(|link| link.connected.as_ref().is_some_and(is_over)) {
            (link.connected, link.has_left) = (None, true);
            link.why = Some("it was told to end".to_owned());
        }
        if self.inbound.get(&node).and_then(|one| one.clients.last()).is_some_and(|(open, _)| is_over(open)) {
            self.inbound.remove(&node);
            self.forget_loads();
        }
    }

    pub(super) fn open(&self) -> Vec<Connected> {
        let outbound = self.configured.iter().filter_map(|link| link.connected.clone());
        let inbound = self.inbound.values().flat_map(|one| one.clients.iter().map(|(open, _)| open.clone()));
        outbound.chain(inbound).collect()
    }

    fn end_displaced(&mut self) {
        let has_gone =
            |one: &Inbound| one.slot.as_ref().is_some_and(|slot| slot.activity().ended().is_cancelled());
        for (_, one) in self.inbound.extract_if(|_, one| has_gone(one)) {
            one.clients.iter().for_each(|(_, end)| end.abort());
        }
        self.forget_loads();
    }

    /// Each connected node once, by the connection over which it is asked, and why it is a neighbor.
    pub(super) fn connected(&self) -> Vec<(NodeId, Connected, TrustLevel)> {
        let outbound = self
            .configured
            .iter()
            .filter_map(|link| Some((link.node?, link.connected.clone()?, TrustLevel::Configured)));
        let inbound = self.inbound.iter().filter_map(|(node, inbound)| {
            inbound.clients.last().map(|(open, _)| (*node, open.clone(), self.trust_level_of(node, inbound)))
        });
        let mut all: Vec<(NodeId, Connected, TrustLevel)> = Vec::new();
        let mut known = HashSet::new();
        all.extend(outbound.chain(inbound).filter(|(node, ..)| known.insert(*node)));
        all
    }

    pub(super) fn trust_level_of(&self, node: &NodeId, inbound: &Inbound) -> TrustLevel {
        if self.is_configured(node) { TrustLevel::Configured } else { inbound.trust }
    }

    /// Says over which connections the other end is trusted.
    pub(super) fn note_trust(&self) {
        let outbound = self.configured.iter().filter_map(|link| Some((link.connected.as_ref()?, true)));
        let inbound = self.inbound.iter().flat_map(|(node, one)| {
            let is_trusted = !self.trust_level_of(node, one).is_guest();
            one.clients.iter().map(move |(open, _)| (open, is_trusted))
        });
        for (open, is_trusted) in outbound.chain(inbound) {
            open.channel.set_trusted(is_trusted);
        }
    }

    pub(super) fn neighbors(&mut self) -> Neighbors {
        let mut neighbors = Neighbors::default();
        let (guests, trusted): (Vec<_>, Vec<_>) =
            self.connected().into_iter().partition(|(.., trust)| trust.is_guest());
        let (silent, trusted): (Vec<_>, Vec<_>) =
            trusted.into_iter().partition(|(node, ..)| self.silent.contains(node));
        for (node, connected, _) in silent {
            neighbors.add_away(Some(node.tag()), connected.addr, WhyUnasked::Silent);
        }
        neighbors.tags = trusted.iter().map(|(node, ..)| node.tag()).collect();
        let mut sorted = neighbors.tags.clone();
        sorted.sort_unstable();
        let mut neighbor = |one: (NodeId, Connected, TrustLevel)| {
            let load = Arc::clone(self.load(one.0));
            Neighbor::new(one, load, (self.me, &sorted))
        };
        neighbors.trusted = trusted.into_iter().map(&mut neighbor).collect();
        neighbors.guests = guests.into_iter().map(&mut neighbor).collect();
        neighbors.sorted = sorted.into();
        let configured = self
            .configured
            .iter()
            .filter(|link| link.connected.is_none() && !link.ourselves && !link.has_left);
        let configured = configured.map(|link| (link.node.map(|node| node.tag()), link.addr));
        let lost = self.inbound.iter().filter(|(_, inbound)| inbound.clients.is_empty());
        for (tag, addr) in configured.chain(lost.map(|(node, inbound)| (Some(node.tag()), inbound.addr))) {
            if tag.is_none_or(|tag| !neighbors.tags.contains(&tag) && !neighbors.away.contains(&Some(tag))) {
                neighbors.add_away(tag, addr, WhyUnasked::Away);
            }
        }
        neighbors
    }
}

#[cfg(test)]
mod tests {
    use nekoproto::Identity;

    use super::*;

    fn node(seed: u8) -> NodeId {
        Identity::from_seed(&[seed; 32]).id()
    }

    #[test]
    fn a_neighbor_that_is_not_configured_any_more_is_what_it_connected_as() {
        let [left, connected] = [1, 2].map(node);
        let [near, far] = [1, 2].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let mut known = KnownLinks::new(node(0).tag(), &[]);
        for (addr, node) in [(near, left), (far, connected)] {
            known.configured.push(Configured { node: Some(node), ..Configured::new(addr) });
            known.load(node);
        }
        let inbound = known.admit(connected, far, TrustLevel::Guest).unwrap();
        assert!(inbound.slot.is_none(), "who is trusted needs no slot among guests");
        assert_eq!(known.trust_level_of(&connected, &known.inbound[&connected]), TrustLevel::Configured);
        known.unconfigure(near);
        known.unconfigure(far);
        assert!(!known.loads.contains_key(&left), "nothing of it is left");
        assert_eq!(known.trust_level_of(&connected, &known.inbound[&connected]), TrustLevel::Guest);
    }

    #[test]
    fn the_address_with_most_guests_makes_room_for_others() {
        let mut known = KnownLinks::new(node(0).tag(), &[]);
        let at = |last: u8| SocketAddr::from(([192, 0, 2, last], 7707));
        let admitted =
            (1..=200).filter(|n| known.admit(node(*n), at(1), TrustLevel::Guest).is_some()).count();
        assert_eq!(admitted, GUESTS_MAX, "one address has all that nobody else wants");
        for n in 201..=210 {
            assert!(known.admit(node(n), at(n), TrustLevel::Guest).is_some());
        }
        assert_eq!(known.inbound.len(), GUESTS_MAX);
        assert!((201..=210).all(|n| known.inbound.contains_key(&node(n))));
    }
}
