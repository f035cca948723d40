//! What a rogue node is told to do, and to whom.

use crate::prelude::*;

use super::{
    Attack, attack::SQUATTERS, connections, guests, holder, http, indexer, junk::Junk, peer,
    pretender::Habit, streams, summary,
};

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
        match order.attack {
            Attack::Silent => indexer::neighbors(order, 1, Habit::NeverAnswers, None).await,
            Attack::Slow => indexer::neighbors(order, 1, Habit::one_each(indexer::ANSWERS_EVERY), None).await,
            Attack::Replay | Attack::ReplayGet => {
                let habit = Habit::Knows(Arc::new(peer::false_hits(order).await?));
                indexer::neighbors(order, 1, habit, None).await
            }
            Attack::Crowd => indexer::neighbors(order, 300, Habit::nothing(), None).await,
            Attack::Churn => indexer::come_and_go(order, 150).await,
            Attack::Summaries => indexer::largest_summaries(order, 64).await,
            Attack::Unread => connections::unread(order, 8).await,
            Attack::Unfinished => connections::unfinished(order, 2000).await,
            Attack::Flood => connections::flood(order.indexer, 16 * 1024).await,
            Attack::Hellos => connections::hellos(order, 300).await,
            Attack::Ids => connections::ids(order).await,
            Attack::Work => connections::work(order, 4).await,
            Attack::Finds => connections::finds(order, 2).await,
            Attack::Probes => connections::probes(order, 4).await,
            Attack::Names => peer::names(order, 1, 300_000, peer::LONG_NAME_BYTES).await,
            Attack::Keys => peer::names(order, 120, 12_000, 60).await,
            Attack::Origins => peer::origins(order, 32, true).await,
            Attack::SlowReaders => streams::slow_readers(order, 32).await,
            Attack::IdleStreams => streams::idle(order, 10_000).await,
            Attack::Drip => holder::drip(order).await,
            Attack::Zeros => holder::zeros(order).await,
            Attack::Late(ms) => {
                let habit = Habit::Late(Duration::from_millis(ms.into()));
                indexer::neighbors(order, 1, habit, Some(summary::full()?)).await
            }
            Attack::CrowdOf(count) => {
                indexer::neighbors(order, count.into(), Habit::nothing(), Some(summary::full()?)).await
            }
            Attack::Ahead => guests::ahead(order, 16).await,
            Attack::ForgedRelay => guests::forged_relay(order).await,
            Attack::JunkHits => {
                let habit = Habit::Signs(Arc::new(Junk::new()));
                indexer::neighbors(order, 1, habit, Some(summary::full()?)).await
            }
            Attack::Toggle => guests::toggle(order).await,
            Attack::Squat => peer::origins(order, SQUATTERS, true).await,
            Attack::SquatForged => peer::origins(order, SQUATTERS, false).await,
            Attack::Streams => http::streams(order, 2200, 3000).await,
        }
    }

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
