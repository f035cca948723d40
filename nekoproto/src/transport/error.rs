//! Why there is no connection, and why one ended.

use std::{io, net::SocketAddr, sync::Arc};

use crate::{
    budget::NoRoom,
    codec::CodecError,
    limits::FRAME_BYTES_MAX,
    messages::{HelloRefusal, PROTOCOL_VERSION},
    remedy::{Cause, Remedy},
    values::NodeId,
};

/// TLS cannot be set up with the node's key.
#[derive(Debug, thiserror::Error)]
#[error("cannot set up TLS: {0}")]
pub struct EndpointError(#[from] rustls::Error);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// TCP could not connect.
    #[error("cannot connect to {addr}: {}", reason(source))]
    Unreachable {
        /// The address.
        addr: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The host has no address that is known now.
    #[error("cannot look up {host}: {source}; check the name, and that this machine has a network")]
    UnknownHost {
        /// `HOST:PORT`.
        host: Arc<str>,
        /// The system's error.
        source: io::Error,
    },
    /// The handshake took longer than [`HANDSHAKE_TIMEOUT`](crate::limits::HANDSHAKE_TIMEOUT).
    #[error(
        "{0} did not answer in time: its machine is off, or a firewall there drops connections to that port"
    )]
    Timeout(SocketAddr),
    /// TCP is connected, and the other end says nothing for as long.
    #[error(
        "{0} takes connections and does not answer: what listens there is stopped or overloaded, or is no nekop2p node"
    )]
    Silent(SocketAddr),
    /// The connection broke, or TLS failed, during the handshake.
    #[error("the handshake failed: {}", handshake(.0))]
    Handshake(#[from] io::Error),
    /// The other end is not a nekop2p node.
    #[error("the other end does not speak nekop2p")]
    NotNekop2p,
    /// One end uses TLS and the other does not.
    #[error("one end uses TLS and the other does not, or is no nekop2p node")]
    SecurityDiffers,
    /// The other end speaks another version of the protocol.
    #[error(
        "the other end speaks protocol version {theirs}, this node speaks {PROTOCOL_VERSION}: update the older one"
    )]
    VersionDiffers {
        /// The other end's version.
        theirs: u16,
    },
    /// The other end refused.
    #[error("the node refused the connection: {0}")]
    Refused(HelloRefusal),
    /// Another node than the expected one answered.
    #[error("expected node {}, found {}", .expected.short(), .found.short())]
    OtherNode {
        /// The node wanted.
        expected: NodeId,
        /// The node that answered.
        found: NodeId,
    },
    /// The other end did not prove the id it claims.
    #[error("the node did not prove the id it claims")]
    Unproven,
    /// The other end did not prove the network's secret.
    #[error("the node did not prove the network's secret")]
    SecretUnproven,
    /// The other end is not on the list of allowed nodes.
    #[error("node {} is not on the list of allowed nodes", .0.short())]
    NotAllowed(NodeId),
    /// A malformed hello.
    #[error("malformed hello")]
    Malformed,
    /// The indexer did not have it connect.
    #[error("it accepts no connections, and the indexer at {0} could not have it connect")]
    NotCalledBack(SocketAddr),
    /// No address is known where the node may be.
    #[error("no address of it is known")]
    NoAddress,
    /// Connections to this address did not prove the keys that were expected there.
    #[error("{0} is left alone for a while: it has not proven the keys expected there")]
    LeftAlone(SocketAddr),
}

/// Which side it is that cannot be connected to, as far as the system's error tells.
fn reason(source: &io::Error) -> String {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
    match source.kind() {
        ConnectionRefused => "nobody listens there".to_owned(),
        NetworkUnreachable => "this machine has no way to that network".to_owned(),
        HostUnreachable => "that machine is off, or is on another network".to_owned(),
        _ => source.to_string(),
    }
}

fn handshake(error: &io::Error) -> String {
    match is_reset(error) {
        true => format!("{error}; what listens there has too many connections, or is no nekop2p node"),
        false => error.to_string(),
    }
}

fn is_reset(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), ConnectionReset | ConnectionAborted | BrokenPipe | UnexpectedEof)
}

impl ConnectError {
    /// Whether `other`, of another address of the same node, says more of why it cannot be reached.
    pub(super) fn tells_less_than(&self, other: &Self) -> bool {
        let rank = |error: &Self| match error {
            Self::LeftAlone(_) | Self::NoAddress => 0,
            Self::NotCalledBack(_) => 1,
            Self::Unreachable { source, .. } if source.kind() != io::ErrorKind::ConnectionRefused => 1,
            Self::Timeout(_) | Self::Silent(_) => 2,
            Self::Unreachable { .. } => 3,
            _ => 4,
        };
        rank(self) < rank(other)
    }

    /// Whether the other end closed the connection in the middle of the handshake, without a word.
    pub(super) fn is_reset(&self) -> bool {
        matches!(self, Self::Handshake(error) if is_reset(error))
    }
}

impl ConnectError {
    /// Whether secrets or lists of allowed nodes have to be changed before there is a connection.
    #[must_use]
    pub const fn is_of_access(&self) -> bool {
        matches!(self.remedy(), Some(Remedy::Allow | Remedy::NetworkSecret))
    }

    /// What helps, if a setting does.
    #[must_use]
    pub const fn remedy(&self) -> Option<Remedy> {
        use HelloRefusal::{NotAllowed, OtherNetwork, SecretMissing, SecretUnasked, SecretWrong};
        match self {
            Self::SecurityDiffers => Some(Remedy::Insecure),
            Self::Refused(OtherNetwork) => Some(Remedy::Network),
            Self::SecretUnproven | Self::Refused(SecretMissing | SecretUnasked | SecretWrong) => {
                Some(Remedy::NetworkSecret)
            }
            Self::NotAllowed(_) | Self::Refused(NotAllowed) => Some(Remedy::Allow),
            _ => None,
        }
    }
}

impl From<&ConnectError> for Cause {
    fn from(error: &ConnectError) -> Self {
        Self { text: error.to_string(), remedy: error.remedy() }
    }
}

/// Why a control connection ended.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The other end announced a frame longer than the limit.
    #[error("a frame of {0} bytes is over the limit of {FRAME_BYTES_MAX}")]
    TooLong(usize),
    /// The other end does not read; this many bytes wait to be sent.
    #[error("the other end does not read: {0} bytes wait for it")]
    NotRead(usize),
    /// A frame was begun and not finished within [`FRAME_WITHIN`](crate::limits::FRAME_WITHIN).
    #[error("a frame was begun and not finished in time")]
    TooSlow,
    /// What the other end has us keep exceeds its share of the budget.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// A frame that violates the format.
    #[error(transparent)]
    Malformed(#[from] CodecError),
    /// The connection broke.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Why a data stream is no longer usable.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The connection broke or ended.
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    /// No byte moved before the timeout or the deadline.
    #[error("nothing came for too long")]
    Stalled,
    /// A message over the limit.
    #[error("a message of {0} bytes is over the limit")]
    TooLong(u32),
    /// A message that violates the format.
    #[error(transparent)]
    Malformed(#[from] CodecError),
    /// The other end refused the connection: its hello came with its first answer.
    #[error(transparent)]
    Hello(#[from] ConnectError),
}
