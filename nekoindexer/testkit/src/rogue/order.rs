//! What a rogue node is told to do, and to whom.

use crate::prelude::*;

use super::Attack;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    pub attack: Attack,
    /// Plain TCP instead of TLS.
    pub insecure: bool,
    /// The indexer that it attacks, or registers with.
    pub indexer: SocketAddr,
    /// Another honest indexer, which calls the first its neighbor.
    pub other: Option<SocketAddr>,
    pub http: Option<SocketAddr>,
    pub peer: Option<SocketAddr>,
    /// Files of honest peers that it asks for, replays or claims to hold.
    pub names: Vec<String>,
    /// The name that it registers files of its own under.
    pub bait: String,
    pub third: Option<SocketAddr>,
}

#[derive(Debug, thiserror::Error)]
pub enum RogueError {
    /// Something that it must be told is missing, or is not as it must be.
    #[error("the order lacks {0}")]
    Lacks(&'static str),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The indexer did not answer a call as it must.
    #[error("the indexer refuses: {0}")]
    Refused(String),
}

impl Order {
    /// Does it, and goes on until the returned future is dropped. The order itself stays: its tasks may be many.
    pub async fn carry_out(self) -> Result<(), RogueError> {
        let order: &'static Self = Box::leak(Box::new(self));
        order.attack.carry_out(order).await
    }

    pub(super) fn endpoint(&self, role: Role) -> Result<Arc<Endpoint>, RogueError> {
        let identity = Identity::generate();
        let security = if self.insecure { Security::Insecure } else { Security::Tls };
        let (network, access) = <_>::default();
        Ok(Endpoint::new(EndpointConfig { identity, role, network, security, access })?)
    }

    pub(super) fn other(&self) -> Result<SocketAddr, RogueError> {
        self.other.ok_or(RogueError::Lacks("another indexer"))
    }

    pub(super) fn peer(&self) -> Result<SocketAddr, RogueError> {
        self.peer.ok_or(RogueError::Lacks("a peer"))
    }
}
