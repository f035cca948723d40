//! The configuration of a peer.

use std::{collections::HashMap, net::SocketAddr, num::NonZeroU64, path::PathBuf, time::Duration};

use nekoproto::{
    Label, NetworkName, NodeId, Policy,
    budget::BUDGET_DEFAULT,
    limits::QUERY_DEADLINE_DEFAULT,
    transport::{Access, HostAddr, Security},
};

use crate::{state::freshness::OnStale, storage::remembered::Home};

/// The configuration of a [`Peer`](crate::Peer).
#[derive(Clone, Debug)]
pub struct Config {
    /// Its indexers. The peer registers with all of them, and asks all of them concurrently.
    pub indexers: Vec<HostAddr>,
    /// Keys that indexers at these addresses have to prove; at others any node is used.
    pub keys: HashMap<SocketAddr, NodeId>,
    /// Whether indexers that a ticket names are looked for by multicast, if they do not answer at their addresses.
    pub discovers: bool,
    /// Address to serve on; port 0 picks a free one. `None`: the peer searches and downloads but serves
    /// nothing, and is not listed as a holder.
    pub listen: Option<SocketAddr>,
    /// It listens only once it downloads a large file, lists and serves that, and nothing else.
    pub serves_downloads_only: bool,
    /// The folder that files are downloaded to, and that relative names refer to.
    pub dir: PathBuf,
    /// Folder of the key and the catalogue; `None`: `DIR/.neko`.
    pub data_dir: Option<PathBuf>,
    /// Files that are never shared, such as that of the network's secret.
    pub secret_files: Vec<PathBuf>,
    /// What people call it, which it tells the origins of its copies; `None`: nothing.
    pub label: Option<Label>,
    /// The network it belongs to.
    pub network: NetworkName,
    /// TLS, or plain TCP.
    pub security: Security,
    /// Whom it connects with.
    pub access: Access,
    /// Default policy of published files.
    pub policy: Policy,
    /// As a reader: how long a confirmation counts, if shorter than the policy of a file says.
    pub ttr: Option<Duration>,
    /// As a reader: what happens to an outdated copy.
    pub on_stale: OnStale,
    /// Time limit of a query.
    pub query_deadline: Duration,
    /// Whether a lost catalogue is about to be brought back, so that nobody is told to do that.
    pub repairs: bool,
    /// Limit on the file bytes sent per second, over all readers.
    pub limit_up: Option<NonZeroU64>,
    /// Limit on the file bytes fetched per second, over all sources.
    pub limit_down: Option<NonZeroU64>,
    /// Bytes of the copies of published files at most, to which the next versions are sent as differences; `None`: as much
    /// as is usual.
    pub keep_base: Option<u64>,
    /// Bytes that are kept for other nodes at most, see [`Budget`](nekoproto::budget::Budget).
    pub memory: usize,
}

impl Config {
    /// The defaults for files in `dir`: no indexer, not serving.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            indexers: Vec::new(),
            keys: HashMap::new(),
            discovers: false,
            listen: None,
            serves_downloads_only: false,
            dir: dir.into(),
            data_dir: None,
            secret_files: Vec::new(),
            label: None,
            network: NetworkName::default(),
            security: Security::default(),
            access: Access::default(),
            policy: Policy::default(),
            ttr: None,
            on_stale: OnStale::default(),
            query_deadline: QUERY_DEADLINE_DEFAULT,
            repairs: false,
            limit_up: None,
            limit_down: None,
            keep_base: None,
            memory: BUDGET_DEFAULT,
        }
    }

    /// Folder of the key and the catalogue.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.data_dir.clone().unwrap_or_else(|| self.dir.join(".neko"))
    }

    pub(crate) fn home(&self) -> Home {
        Home { network: self.network.clone(), insecure: self.security == Security::Insecure }
    }
}
