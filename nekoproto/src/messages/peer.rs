//! The calls of a peer: the tarpc service [`PeerService`] and its messages.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::{
    error::Refusal,
    indexer::{Held, Records},
};
use crate::{
    limits::BATCH_MAX,
    transport::rendezvous::Token,
    values::{FileName, Label, List, NodeId, SignedRecord, Version},
};

/// The calls of a peer, made by its indexers and by other peers.
#[tarpc::service]
pub trait PeerService {
    /// Newer versions exist. The reply acknowledges that they are recorded durably; records that were known
    /// already are acknowledged too.
    async fn invalidate(records: Records) -> Result<(), Refusal>;
    /// Asks the origin whether these versions of its files are still the newest. Under a policy that pushes,
    /// the call also subscribes the caller to invalidations for one lease.
    async fn confirm(held: List<Held, BATCH_MAX>) -> Result<List<Verdict, BATCH_MAX>, Refusal>;
    /// An indexer has the peer connect to a node that cannot connect to it, `at` an address or over the indexer itself, and
    /// serve it. Answered when that connection is open.
    async fn dial_back(at: Option<SocketAddr>, token: Token) -> Result<(), Refusal>;
    /// Whether an indexer could connect to the peer at this address. If not, it has those who look for it called back.
    async fn reached(at: SocketAddr, is_reached: bool) -> Result<(), Refusal>;
    /// Asks for one version by its number, also an earlier one. A peer that holds or keeps it answers with its record,
    /// and sends its bytes for a while.
    async fn lend(wanted: Numbered) -> Result<Option<Box<SignedRecord>>, Refusal>;
    /// What people call the caller, for what it confirms over this connection. A program that does not know this call
    /// ends the connection, and the caller makes the next one without it.
    async fn introduce(label: Label) -> Result<(), Refusal>;
}

/// One version of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbered {
    /// The origin of the file.
    pub origin: NodeId,
    /// Its name.
    pub name: FileName,
    /// The number of the version.
    pub version: Version,
}

/// The origin's answer for one version of one of its files, in the order of the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// It is the newest.
    Current,
    /// This version is newer.
    Newer(Box<SignedRecord>),
    /// The origin does not publish that name.
    Unpublished,
    /// The origin publishes that name and does not say which version is the newest. It does not know that version: it lost
    /// its version counter. Or the number of its newest may have been used before: no indexer has answered it yet.
    Unknown,
}
