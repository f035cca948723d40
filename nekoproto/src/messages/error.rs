//! Refusals and faults that are sent. Wire types: append variants, never reorder them.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::{
    limits::{PROBE_HOPS_MAX, TTL_MAX},
    values::Version,
};

/// A node's refusal of a control call. Wire: append variants, never reorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// The TTL is past the limit.
    #[error("TTL {0} is past the limit of {TTL_MAX}")]
    TtlTooLarge(u8),
    /// A record's signature is not valid. No part of the call was carried out.
    #[error("a record is not signed by its origin")]
    Forged,
    /// Only a peer that listens can be a holder.
    #[error("a node that does not listen cannot be a holder")]
    NotListening,
    /// The node is overloaded. Worth retrying later.
    #[error("the node is busy")]
    Busy,
    /// The call is not for a node of the caller's role.
    #[error("this call is not for a node of that role")]
    WrongRole,
    /// A glob cannot be read, or is too large.
    #[error("the pattern cannot be read")]
    BadPattern,
    /// What the caller wants to have kept is more than its share, or than there is room for. Nothing of it is kept.
    #[error("the node has no room to keep that: its memory for others is used up")]
    NoRoom,
    /// The holder is not connected here, or cannot connect to the caller either.
    #[error("the holder cannot be had to connect")]
    NotCalled,
    /// A route probe has more hops, or carries more bytes, than are allowed there.
    #[error(
        "a route probe has at most {PROBE_HOPS_MAX} hops, and carries no bytes but for indexers that measure that"
    )]
    ProbeTooLarge,
    /// Another process uses the caller's key, and answers: one key has one running node.
    #[error("this key runs at {at} already")]
    KeyInUse {
        /// Where that one is connected from.
        at: SocketAddr,
        /// For how many milliseconds.
        for_ms: u64,
    },
}

/// A peer's refusal on a data stream. Wire: append variants, never reorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
pub enum FetchRefusal {
    /// No such content is shared here.
    #[error("not shared here")]
    NotShared,
    /// The file changed on the holder's disk since it was hashed.
    #[error("the file changed on the holder's disk and was not shared again")]
    Changed,
    /// The holder knows a newer version and its policy forbids serving the old one.
    #[error("the copy is outdated: version {0} is out")]
    Outdated(Version),
    /// The holder could not confirm its copy in time and its policy forbids serving it unconfirmed.
    #[error("the holder could not confirm its copy with the origin")]
    Unverified,
    /// A range reaches past the end of the file, or is empty.
    #[error("a range outside the file")]
    BadRange,
    /// The holder serves its maximum of streams. Worth retrying later.
    #[error("the holder is busy")]
    Busy,
    /// The holder cannot read the file.
    #[error("the holder cannot read the file")]
    Unreadable,
    /// The holder is still downloading the file and does not have all of these ranges yet.
    #[error("the holder does not have that part yet")]
    NotYet,
}

/// Why a call got no response of its own type. Wire: append variants, never reorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
pub enum Fault {
    /// Too many requests in flight on this connection.
    #[error("too many requests in flight")]
    Busy,
    /// The handler failed, or its response does not fit a frame.
    #[error("the node failed to handle the request")]
    Internal,
}

/// A node's refusal of a hello. Wire: append variants, never reorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
pub enum HelloRefusal {
    /// The node belongs to another network.
    #[error("it belongs to another network")]
    OtherNetwork,
    /// The hello names another node than the one whose key the connection proved.
    #[error("the hello does not match the key of the connection")]
    NotYourKey,
    /// The node connected to itself.
    #[error("it is this node itself")]
    Yourself,
    /// The purpose is not served by a node of this role.
    #[error("it does not serve such connections")]
    WrongPurpose,
    /// The node's network is private, and the hello names no secret.
    #[error("its network is private")]
    SecretMissing,
    /// The node's network has no secret.
    #[error("its network has no secret, and this node gave one")]
    SecretUnasked,
    /// The proof is of another secret.
    #[error("its network has another secret")]
    SecretWrong,
    /// The node has a list of allowed nodes, which this one is not on.
    #[error("this node is not on its list of allowed nodes")]
    NotAllowed,
}
