//! What is known of links: those that the configuration asks for, and indexers that connected to us.

use std::{
    collections::{HashMap, HashSet},
    net::SocketAddr,
    sync::Arc,
    time::Instant,
};

use futures::future::AbortHandle;
use nekoproto::{NodeId, WhyUnasked};

use super::{
    load::Load,
    neighbor::{Connected, Neighbor, Neighbors},
};
use crate::state::standing::{Place, Record, Seated, Standing, place_for};

/// Members that may connect to us; further ones are served but neither asked nor told of names.
const MEMBERS_MAX: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct KnownLinks {
    /// What is published is not what is known: guests come and go without a snapshot for each.
    pub(super) is_changed: bool,
    /// Links that the configuration asks for, by their place in it.
    pub(super) configured: Vec<Configured>,
    /// Indexers that connected to us.
    pub(super) inbound: HashMap<NodeId, Inbound>,
    /// The load of each known neighbor; kept while its connections change.
    pub(super) loads: HashMap<NodeId, Arc<Load>>,
}

#[derive(Clone, Debug)]
pub(super) struct Configured {
    pub(super) addr: SocketAddr,
    pub(super) connected: Option<Connected>,
    /// Why it is not connected; `None` before the first attempt has ended.
    pub(super) why: Option<String>,
    /// Who answered there last.
    pub(super) node: Option<NodeId>,
    /// It is this indexer itself.
    pub(super) ourselves: bool,
}

#[derive(Debug)]
pub(super) struct Inbound {
    /// One for each open connection, and what ends it.
    pub(super) clients: Vec<(Connected, AbortHandle)>,
    pub(super) lost_at: Option<Instant>,
    /// Where the latest one came from.
    pub(super) addr: SocketAddr,
    pub(super) standing: Standing,
    pub(super) since: Instant,
}

impl Configured {
    pub(super) const fn new(addr: SocketAddr) -> Self {
        Self { addr, connected: None, why: None, node: None, ourselves: false }
    }
}

impl KnownLinks {
    /// What is known of how `node` answers.
    pub(super) fn load(&mut self, node: NodeId, standing: Standing) -> &Arc<Load> {
        self.loads.entry(node).or_insert_with(|| Arc::new(Load::new(standing, Instant::now())))
    }

    /// The link to `addr` goes, and with it the trust in who was there: what is left of that node is what it connected as.
    pub(super) fn unconfigure(&mut self, addr: SocketAddr) {
        let gone: Vec<NodeId> =
            self.configured.extract_if(.., |link| link.addr == addr).filter_map(|link| link.node).collect();
        for node in gone.into_iter().filter(|node| !self.is_configured(node)).collect::<Vec<_>>() {
            self.loads.remove(&node);
            if let Some(inbound) = self.inbound.get(&node) {
                self.loads.insert(node, Arc::new(Load::new(inbound.standing, Instant::now())));
            }
        }
    }

    pub(super) fn is_configured(&self, node: &NodeId) -> bool {
        self.configured.iter().any(|link| link.node.as_ref() == Some(node))
    }

    pub(super) fn forget_guest(&mut self, node: NodeId) {
        self.inbound.remove(&node);
        if !self.is_configured(&node) {
            self.loads.remove(&node);
        }
    }

    /// Whether there is a place for who comes from `addr`, if need be that of a guest of less worth, whose connections
    /// end.
    pub(super) fn make_room(
        &mut self,
        node: NodeId,
        addr: SocketAddr,
        standing: Standing,
        now: Instant,
    ) -> bool {
        if self.inbound.contains_key(&node) || self.is_configured(&node) {
            return true;
        }
        if !standing.is_guest() {
            return self.inbound.values().filter(|one| !one.standing.is_guest()).count() < MEMBERS_MAX;
        }
        let seated = |(node, one): (&NodeId, &Inbound)| {
            let record: &Record = &self.loads.get(node)?.record;
            let (who, addr, since) = (*node, one.addr, one.since);
            let is_guest = one.standing.is_guest() && record.is_guest();
            is_guest.then(|| Seated { who, addr, since, worth: record.worth(since, now) })
        };
        let seated: Vec<Seated<NodeId>> = self.inbound.iter().filter_map(seated).collect();
        match place_for(&seated, addr) {
            Place::Free => true,
            Place::None => false,
            Place::Of(least) => {
                let ended = self.inbound.get_mut(&least).map(|one| std::mem::take(&mut one.clients));
                ended.into_iter().flatten().for_each(|(_, end)| end.abort());
                self.is_changed |= self.loads.get(&least).is_some_and(|load| load.record.is_asked());
                self.forget_guest(least);
                true
            }
        }
    }

    /// Each connected node once, by the connection over which it is asked, and why it is a neighbor.
    pub(super) fn connected(&self) -> Vec<(NodeId, Connected, Standing)> {
        let outbound = self
            .configured
            .iter()
            .filter_map(|link| Some((link.node?, link.connected.clone()?, Standing::Configured)));
        let inbound = self.inbound.iter().filter_map(|(node, inbound)| {
            let standing = if self.is_configured(node) { Standing::Configured } else { inbound.standing };
            inbound.clients.last().map(|(open, _)| (*node, open.clone(), standing))
        });
        let mut all: Vec<(NodeId, Connected, Standing)> = Vec::new();
        let mut known = HashSet::new();
        all.extend(outbound.chain(inbound).filter(|(node, ..)| known.insert(*node)));
        all
    }

    pub(super) fn neighbors(&mut self) -> Neighbors {
        let mut neighbors = Neighbors::default();
        for (node, connected, standing) in self.connected() {
            let load = Arc::clone(self.load(node, standing));
            if load.record.is_asked() {
                neighbors.tags.push(node.tag());
                let names = connected.channel.theirs.read().names().cloned();
                neighbors.reachable.push(Neighbor { node, connected, load, standing, names });
            } else if !standing.is_guest() {
                neighbors.add_away(Some(node.tag()), connected.addr, WhyUnasked::Silent);
            }
        }
        let mut sorted = neighbors.tags.clone();
        sorted.sort_unstable();
        neighbors.sorted = sorted.into();
        let configured = self.configured.iter().filter(|link| link.connected.is_none() && !link.ourselves);
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

    /// Goal: whoever is not named by the configuration any more is trusted no longer, and takes a place as all others do.
    #[test]
    fn a_neighbor_that_is_not_configured_any_more_is_what_it_connected_as() {
        let [left, connected] = [1, 2].map(|seed| Identity::from_seed(&[seed; 32]).id());
        let [near, far] = [1, 2].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let mut known = KnownLinks::default();
        for (addr, node) in [(near, left), (far, connected)] {
            known.configured.push(Configured { node: Some(node), ..Configured::new(addr) });
            known.load(node, Standing::Configured).record.trust();
        }
        let (standing, since) = (Standing::Guest, Instant::now());
        known
            .inbound
            .insert(connected, Inbound { clients: Vec::new(), lost_at: None, addr: far, standing, since });
        known.unconfigure(near);
        known.unconfigure(far);
        assert!(!known.loads.contains_key(&left), "nothing of it is left");
        let record = &known.loads[&connected].record;
        assert!(record.is_guest() && !record.is_asked());
    }
}
