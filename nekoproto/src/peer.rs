//! What a peer is asked: the tarpc service [`PeerService`] and its messages.
//! Wire types: a changed message means another protocol version.

use serde::{Deserialize, Serialize};

use crate::{Held, List, Refusal, SignedRecord, indexer::Records, limits::BATCH_MAX};

/// The calls of a peer, made by its indexers and by other peers.
#[tarpc::service]
pub trait PeerService {
    /// Newer versions are out. Returning means that they are taken note of, durably: an
    /// acknowledgement. A record that is no news is acknowledged all the same.
    async fn invalidate(records: Records) -> Result<(), Refusal>;
    /// Asks the origin whether these versions of its files are still the newest. Under a policy
    /// that pushes, asking also subscribes the caller to invalidations for one lease.
    async fn confirm(held: List<Held, BATCH_MAX>) -> Result<List<Verdict, BATCH_MAX>, Refusal>;
}

/// The origin's word on one version of one of its files, in the order they were asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// It is the newest.
    Current,
    /// This one is newer.
    Newer(Box<SignedRecord>),
    /// The origin does not publish that name now, or knows no such version.
    Unpublished,
}
