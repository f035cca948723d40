//! What a rogue node is told to do, and to whom.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    Attack, attack::SQUATTERS, connections, guests, holder, http, indexer, junk::Junk, peer,
    pretender::Habit, streams, summary,
};
use nekoproto::{
    Identity, Role,
    codec::CodecError,
    transport::{ConnectError, Endpoint, EndpointConfig, EndpointError, Security},
};

/// What a rogue node is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// What it does.
    pub attack: Attack,
    /// Plain TCP instead of TLS.
    pub insecure: bool,
    /// The indexer that it attacks, or registers with.
    pub indexer: SocketAddr,
    /// Another honest indexer, which calls the first its neighbor.
    pub other: Option<SocketAddr>,
    /// The HTTP door of the first.
    pub http: Option<SocketAddr>,
    /// The peer that it attacks.
    pub peer: Option<SocketAddr>,
    /// Files of honest peers that it asks for, replays or claims to hold.
    pub names: Vec<String>,
    /// The name that it registers files of its own under.
    pub bait: String,
    /// A third party that readers are sent to.
    pub third: Option<SocketAddr>,
}

/// Why a rogue node could not begin.
#[derive(Debug, thiserror::Error)]
pub enum RogueError {
    /// Something that it must be told is missing, or is not as it must be.
    #[error("the order lacks {0}")]
    Lacks(&'static str),
    /// It cannot connect.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The TLS library refuses its key.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// A socket failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A message cannot be encoded.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The indexer did not answer a call as it must.
    #[error("the indexer refuses: {0}")]
    Refused(String),
}

impl Order {
    /// Does it, and goes on until the returned future is dropped.
    ///
    /// # Errors
    /// It cannot begin.
    pub async fn carry_out(self) -> Result<(), RogueError> {
        match self.attack {
            Attack::Silent => indexer::neighbors(&self, 1, &Habit::NeverAnswers, None).await,
            Attack::Slow => {
                indexer::neighbors(&self, 1, &Habit::one_each(indexer::ANSWERS_EVERY), None).await
            }
            Attack::Replay | Attack::ReplayGet => {
                let habit = Habit::Knows(Arc::new(peer::false_hits(&self).await?));
                indexer::neighbors(&self, 1, &habit, None).await
            }
            Attack::Crowd => indexer::neighbors(&self, 300, &Habit::nothing(), None).await,
            Attack::Churn => indexer::come_and_go(&self, 150).await,
            Attack::Summaries => indexer::largest_summaries(&self, 64).await,
            Attack::Unread => connections::unread(&self, 8).await,
            Attack::Unfinished => connections::unfinished(&self, 2000).await,
            Attack::Flood => connections::flood(self.indexer, 16 * 1024).await,
            Attack::Hellos => connections::hellos(&self, 300).await,
            Attack::Ids => connections::ids(&self).await,
            Attack::Work => connections::work(&self, 4).await,
            Attack::Finds => connections::finds(&self, 2).await,
            Attack::Probes => connections::probes(&self, 4).await,
            Attack::Names => peer::names(&self, 1, 300_000, peer::LONG_NAME_BYTES).await,
            Attack::Keys => peer::names(&self, 120, 12_000, 60).await,
            Attack::Origins => peer::origins(&self, 32, true).await,
            Attack::SlowReaders => streams::slow_readers(&self, 32).await,
            Attack::IdleStreams => streams::idle(&self, 10_000).await,
            Attack::Drip => holder::drip(&self).await,
            Attack::Zeros => holder::zeros(&self).await,
            Attack::Late(ms) => {
                let habit = Habit::Late(Duration::from_millis(ms.into()));
                indexer::neighbors(&self, 1, &habit, Some(summary::full()?)).await
            }
            Attack::CrowdOf(count) => {
                indexer::neighbors(&self, count.into(), &Habit::nothing(), Some(summary::full()?)).await
            }
            Attack::Ahead => guests::ahead(&self, 16).await,
            Attack::ForgedRelay => guests::forged_relay(&self).await,
            Attack::JunkHits => {
                let habit = Habit::Signs(Arc::new(Junk::new()));
                indexer::neighbors(&self, 1, &habit, Some(summary::full()?)).await
            }
            Attack::Toggle => guests::toggle(&self).await,
            Attack::Squat => peer::origins(&self, SQUATTERS, true).await,
            Attack::SquatForged => peer::origins(&self, SQUATTERS, false).await,
            Attack::Streams => http::streams(&self, 2200, 3000).await,
        }
    }

    /// An endpoint with a key of its own.
    pub(super) fn endpoint(&self, role: Role) -> Result<Arc<Endpoint>, RogueError> {
        self.endpoint_of(Identity::generate(), role)
    }

    pub(super) fn endpoint_of(&self, identity: Identity, role: Role) -> Result<Arc<Endpoint>, RogueError> {
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
