//! Hits: a version of a file and its holders.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::{
    limits::HOLDERS_MAX,
    values::{IndexerAddr, List, NodeAddrs, NodeId, SignedRecord},
};

/// A version of a file and its holders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hit {
    /// The origin's statement.
    pub record: SignedRecord,
    /// Nodes that can serve exactly this version, complete holders first.
    pub holders: List<ListedHolder, HOLDERS_MAX>,
}

impl Hit {
    /// Its holders at each of their addresses, none of it verified.
    #[must_use]
    pub fn at(&self) -> Vec<Holder> {
        self.holders.iter().flat_map(ListedHolder::at).collect()
    }
}

/// A holder as an indexer lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedHolder {
    /// Who it is, and where.
    pub node: NodeAddrs,
    /// Who has it connect to those who cannot connect to it.
    pub via: Via,
    /// Its indexer could not connect to it, so that others need not try first.
    pub unreachable: bool,
    /// It is still downloading the version and serves the chunks it has.
    pub partial: bool,
}

impl ListedHolder {
    /// A holder of a complete version.
    #[must_use]
    pub const fn new(node: NodeAddrs) -> Self {
        Self { node, via: Via::Nobody, unreachable: false, partial: false }
    }

    /// It at each of its addresses, none of it verified.
    pub fn at(&self) -> impl Iterator<Item = Holder> {
        let (node, partial) = (self.node.node(), self.partial);
        self.node.addrs().iter().map(move |addr| Holder { node, addr: *addr, partial })
    }
}

/// The indexer that has a holder connect to those who cannot connect to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Via {
    /// None.
    Nobody,
    /// The indexer that says so.
    Sender,
    /// This one.
    Indexer(IndexerAddr),
}

impl Via {
    /// The same as it is to be passed on by whoever was told so by `sender`.
    #[must_use]
    pub const fn named_by(self, sender: IndexerAddr) -> Self {
        match self {
            Self::Sender => Self::Indexer(sender),
            other => other,
        }
    }
}

/// A node that can serve a version or a part of it, at one of its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Holder {
    /// Its id; a connection to it must prove this key.
    pub node: NodeId,
    /// Where it listens.
    pub addr: SocketAddr,
    /// It is still downloading the version and serves the chunks it has.
    pub partial: bool,
}

impl Holder {
    /// A holder of a complete version.
    #[must_use]
    pub const fn new(node: NodeId, addr: SocketAddr) -> Self {
        Self { node, addr, partial: false }
    }

    /// Whether both are one node at one address, partial or not.
    #[must_use]
    pub fn is_same_source(&self, other: &Self) -> bool {
        self.node == other.node && self.addr == other.addr
    }
}
