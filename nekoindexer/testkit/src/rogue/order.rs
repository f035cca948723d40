//! What a rogue node is told to do, and to whom.

use std::{fmt, io, net::SocketAddr, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{connections, holder, indexer, peer, pretender::Habit, streams};
use nekoproto::{
    Identity, Role,
    codec::CodecError,
    transport::{ConnectError, Endpoint, EndpointConfig, EndpointError, Security},
};

/// What a rogue node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attack {
    /// A neighbor that confirms heartbeats and never answers a query.
    Silent,
    /// A neighbor that answers one query each 0.4 s.
    Slow,
    /// A neighbor that answers with signed records of others and 16 false holders at a third party's port.
    Replay,
    /// The same, where readers download.
    ReplayGet,
    /// 300 neighbors that redial as real ones do, and then leave.
    Crowd,
    /// Neighbors that come and go, 150 a second.
    Churn,
    /// 64 neighbors with summaries of the largest size.
    Summaries,
    /// 8 connections that send large requests and read one answer each 0.4 s.
    Unread,
    /// 2 000 connections with an unfinished frame of 512 KiB each.
    Unfinished,
    /// 16 384 connections from one host, each opened again at once.
    Flood,
    /// 300 connections that begin a handshake and then say nothing.
    Hellos,
    /// As many message ids as go through one connection.
    Ids,
    /// 4 connections that query 128 names at a time.
    Work,
    /// 2 connections that search by patterns that are long to match.
    Finds,
    /// 4 connections that send route probes of as many hops as are allowed.
    Probes,
    /// 300 000 names of 1 000 bytes from one peer.
    Names,
    /// 12 000 names from each of 120 keys.
    Keys,
    /// 32 keys that register one name.
    Origins,
    /// 32 streams, each with a key of its own, that ask a peer for 32 MiB and read 4 KB/s.
    SlowReaders,
    /// 10 000 data streams without a request.
    IdleStreams,
    /// A holder, of some files the only one, that sends 1 byte/s.
    Drip,
    /// A file of 1 TiB whose chunks are all zero.
    Zeros,
}

/// What a rogue node is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// What it does.
    pub attack: Attack,
    /// Plain TCP instead of TLS.
    pub insecure: bool,
    /// The indexer that it attacks, or registers with.
    pub indexer: SocketAddr,
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

impl Attack {
    /// All of them, with their names on command lines and in results.
    pub const ALL: &[(Self, &str)] = &[
        (Self::Silent, "silent"),
        (Self::Slow, "slow"),
        (Self::Replay, "replay"),
        (Self::ReplayGet, "replay-get"),
        (Self::Crowd, "crowd"),
        (Self::Churn, "churn"),
        (Self::Summaries, "summaries"),
        (Self::Unread, "unread"),
        (Self::Unfinished, "unfinished"),
        (Self::Flood, "flood"),
        (Self::Hellos, "hellos"),
        (Self::Ids, "ids"),
        (Self::Work, "work"),
        (Self::Finds, "finds"),
        (Self::Probes, "probes"),
        (Self::Names, "names"),
        (Self::Keys, "keys"),
        (Self::Origins, "origins"),
        (Self::SlowReaders, "slow-readers"),
        (Self::IdleStreams, "idle-streams"),
        (Self::Drip, "drip"),
        (Self::Zeros, "zeros"),
    ];

    /// Its name on command lines and in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(attack, _)| *attack == self).map_or("", |(_, name)| name)
    }

    /// Whether it is aimed at downloads, and not at queries.
    #[must_use]
    pub const fn is_of_transfers(self) -> bool {
        matches!(self, Self::ReplayGet | Self::SlowReaders | Self::IdleStreams | Self::Drip | Self::Zeros)
    }
}

impl fmt::Display for Attack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Attack {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|(_, known)| *known == name);
        known.map(|(attack, _)| *attack).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(_, name)| *name).collect();
            format!("no attack is called {name}; there are {}", names.join(", "))
        })
    }
}

impl Order {
    /// Does it, and goes on until the returned future is dropped.
    ///
    /// # Errors
    /// It cannot begin.
    pub async fn carry_out(self) -> Result<(), RogueError> {
        match self.attack {
            Attack::Silent => indexer::neighbors(&self, 1, &Habit::NeverAnswers).await,
            Attack::Slow => indexer::neighbors(&self, 1, &Habit::one_each(indexer::ANSWERS_EVERY)).await,
            Attack::Replay | Attack::ReplayGet => {
                let habit = Habit::Knows(Arc::new(peer::false_hits(&self).await?));
                indexer::neighbors(&self, 1, &habit).await
            }
            Attack::Crowd => indexer::neighbors(&self, 300, &Habit::nothing()).await,
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
            Attack::Origins => peer::origins(&self, 32).await,
            Attack::SlowReaders => streams::slow_readers(&self, 32).await,
            Attack::IdleStreams => streams::idle(&self, 10_000).await,
            Attack::Drip => holder::drip(&self).await,
            Attack::Zeros => holder::zeros(&self).await,
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

    pub(super) fn peer(&self) -> Result<SocketAddr, RogueError> {
        self.peer.ok_or(RogueError::Lacks("a peer"))
    }
}
