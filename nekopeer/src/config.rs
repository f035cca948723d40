//! What a peer is told.

use std::{net::SocketAddr, num::NonZeroU64, path::PathBuf, time::Duration};

use nekoproto::{NetworkName, Policy, limits::QUERY_DEADLINE_DEFAULT, transport::Security};

use crate::state::freshness::OnStale;

/// What a [`Peer`](crate::Peer) is made of.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its indexers; it registers with all and asks all at once.
    pub indexers: Vec<SocketAddr>,
    /// Where it serves; port 0 picks a free one. `None`: it only asks and downloads, and is
    /// nobody's holder.
    pub listen: Option<SocketAddr>,
    /// The folder that files are downloaded to, and that relative names are taken from.
    pub dir: PathBuf,
    /// Where key and catalogue are kept; `DIR/.neko` unless told otherwise.
    pub data_dir: Option<PathBuf>,
    /// The network it belongs to.
    pub network: NetworkName,
    /// TLS, or plain TCP.
    pub security: Security,
    /// The policy of files published from now on.
    pub policy: Policy,
    /// As a reader: how long a confirmation counts, if stricter than the policy of a file.
    pub ttr: Option<Duration>,
    /// As a reader: what happens to a copy that is known to be outdated.
    pub on_stale: OnStale,
    /// How long a query may take.
    pub query_deadline: Duration,
    /// File bytes per second that it sends at most, to all readers together.
    pub limit_up: Option<NonZeroU64>,
    /// File bytes per second that it fetches at most, from all sources together.
    pub limit_down: Option<NonZeroU64>,
}

impl Config {
    /// The defaults for files in `dir`: no indexer, not serving.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            indexers: Vec::new(),
            listen: None,
            dir: dir.into(),
            data_dir: None,
            network: NetworkName::default(),
            security: Security::default(),
            policy: Policy::default(),
            ttr: None,
            on_stale: OnStale::default(),
            query_deadline: QUERY_DEADLINE_DEFAULT,
            limit_up: None,
            limit_down: None,
        }
    }

    /// Where key and catalogue are kept.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.data_dir.clone().unwrap_or_else(|| self.dir.join(".neko"))
    }
}
