//! [`NodeAddrs`]: a node and the addresses at which it can be reached, as its indexer saw it and as it says itself.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{id::NodeId, list::List};
use crate::limits::NODE_ADDRS_MAX;

/// A node and its addresses. Nothing of it is proven: a connection to one of them must prove the key. A clone copies a
/// pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAddrs(Arc<Inner>);

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Inner {
    node: NodeId,
    addrs: List<SocketAddr, NODE_ADDRS_MAX>,
}

impl NodeAddrs {
    /// `node` at the first [`NODE_ADDRS_MAX`] of `addrs`, each once.
    pub fn new(node: NodeId, addrs: impl IntoIterator<Item = SocketAddr>) -> Self {
        let mut known = Vec::with_capacity(1);
        for addr in addrs {
            if known.len() < NODE_ADDRS_MAX && !known.contains(&addr) {
                known.push(addr);
            }
        }
        Self(Arc::new(Inner { node, addrs: List::first_of(known) }))
    }

    /// The node.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.0.node
    }

    /// Its addresses; that at which its indexer saw it comes first.
    #[must_use]
    pub fn addrs(&self) -> &[SocketAddr] {
        &self.0.addrs
    }

    /// What of it may be dialled if it was named by somebody who `is_local`, on this machine, or is not: no address of
    /// nobody or of many, and of this machine itself only if it was named here.
    #[must_use]
    pub fn named_by(self, is_local: bool) -> Self {
        let is_usable = |addr: &SocketAddr| {
            let ip = addr.ip();
            addr.port() != 0
                && !ip.is_unspecified()
                && !is_of_many(ip)
                && (is_local || !ip.to_canonical().is_loopback())
        };
        if self.addrs().iter().all(is_usable) {
            return self;
        }
        Self::new(self.node(), self.addrs().iter().copied().filter(is_usable))
    }

    /// It as it is told to another machine, which reached this one at `here`: a node that was seen at loopback is on this
    /// machine, and is reached at `here` if it has other addresses too. `None`: at none.
    #[must_use]
    pub fn told_at(&self, here: IpAddr) -> Option<Self> {
        let is_local = |addr: &SocketAddr| addr.ip().is_loopback();
        if !self.addrs().iter().any(is_local) {
            return Some(self.clone());
        }
        let others = || self.addrs().iter().copied().filter(|addr| !is_local(addr));
        let port = others().next()?.port();
        Some(Self::new(self.node(), std::iter::once(SocketAddr::new(here, port)).chain(others())))
    }
}

fn is_of_many(ip: IpAddr) -> bool {
    ip.is_multicast() || matches!(ip, IpAddr::V4(ip) if ip.is_broadcast())
}

impl Serialize for NodeAddrs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for NodeAddrs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Inner::deserialize(deserializer).map(|inner| Self(Arc::new(inner)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;

    fn at(addrs: &[&str]) -> NodeAddrs {
        NodeAddrs::new(Identity::from_seed(&[1; 32]).id(), addrs.iter().map(|addr| addr.parse().unwrap()))
    }

    #[test]
    fn only_addresses_of_one_machine_are_dialled_and_loopback_only_where_it_is_meant() {
        let named = at(&["127.0.0.1:1", "224.0.0.1:1", "0.0.0.0:1", "10.0.0.1:0"]);
        assert_eq!(named.clone().named_by(true), at(&["127.0.0.1:1"]));
        assert_eq!(named.named_by(false), at(&[]));
        let named = at(&["[::1]:1", "[::ffff:127.0.0.1]:1", "255.255.255.255:1", "[ff02::1]:1"]);
        assert_eq!(named.named_by(false), at(&[]));
        let good = at(&["10.0.0.1:1", "[2001:db8::1]:1"]);
        assert_eq!(good.clone().named_by(false), good);
    }

    #[test]
    fn a_node_of_this_machine_is_told_at_the_address_that_was_reached() {
        let here = "10.0.0.9".parse().unwrap();
        assert_eq!(at(&["127.0.0.1:1"]).told_at(here), None, "it serves this machine alone");
        let open = at(&["127.0.0.1:1", "10.0.0.1:1"]);
        assert_eq!(open.told_at(here), Some(at(&["10.0.0.9:1", "10.0.0.1:1"])));
        assert_eq!(open.told_at("10.0.0.1".parse().unwrap()), Some(at(&["10.0.0.1:1"])));
        let far = at(&["192.0.2.1:1"]);
        assert_eq!(far.told_at(here), Some(far));
    }

    #[test]
    fn addresses_are_few_and_each_comes_once() {
        let many: Vec<_> = (1..=9).flat_map(|n| [([10, 0, 0, n], 1).into(); 2]).collect();
        let node = Identity::from_seed(&[1; 32]).id();
        assert_eq!(NodeAddrs::new(node, many).addrs().len(), NODE_ADDRS_MAX);
    }
}
