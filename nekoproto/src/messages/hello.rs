//! The first message on every connection: the node, its role, and the connection's purpose.

use std::{fmt, net::IpAddr};

use serde::{Deserialize, Serialize};

use crate::{
    limits::{HINTS_MAX, NETWORK_BYTES_MAX},
    values::{List, NodeId},
};

/// Version of the wire format, sent before every hello. Nodes of different versions refuse each other and
/// say which version the other speaks.
pub const PROTOCOL_VERSION: u16 = 20;

/// What kind of node it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Role {
    /// A superpeer.
    Indexer,
    /// A leaf node.
    Peer,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Purpose {
    /// Control calls, in both directions.
    Control,
    /// File bytes.
    Data,
}

/// Opens every connection, in both directions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The sender; must be the key that the connection proves.
    pub node: NodeId,
    /// Its role.
    pub role: Role,
    /// What the connection is for; the reply repeats it.
    pub purpose: Purpose,
    /// The network it belongs to; nodes of different networks refuse each other.
    pub network: NetworkName,
    /// Whether its network has a secret, which both sides prove after the hellos.
    pub private: bool,
    /// The port it listens on, 0 if it does not listen. Its address is the one it connects from.
    pub listen_port: u16,
    /// Whether it listens beyond loopback: other machines can reach it.
    pub is_open: bool,
    /// Addresses of its machine, where it listens on the same port; that of this connection first, as a forwarder may hide
    /// it. None of them is proven.
    pub hints: List<IpAddr, HINTS_MAX>,
    /// A random number of the process: one key has one running node.
    pub instance: u64,
    /// Random bytes that the other side's proof covers.
    #[serde(with = "serde_bytes")]
    pub nonce: [u8; 32],
}

/// The name of a network, at most 64 bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NetworkName(String);

/// A network name that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a network's name has at most {NETWORK_BYTES_MAX} bytes, this one has {0}")]
pub struct NetworkNameTooLong(usize);

impl Default for NetworkName {
    fn default() -> Self {
        Self("nekop2p".to_owned())
    }
}

impl TryFrom<String> for NetworkName {
    type Error = NetworkNameTooLong;

    fn try_from(text: String) -> Result<Self, NetworkNameTooLong> {
        if text.len() > NETWORK_BYTES_MAX { Err(NetworkNameTooLong(text.len())) } else { Ok(Self(text)) }
    }
}

impl From<NetworkName> for String {
    fn from(name: NetworkName) -> Self {
        name.0
    }
}

impl fmt::Display for NetworkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
