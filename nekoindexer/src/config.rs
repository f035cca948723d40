//! What an indexer is made of.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::ValueEnum;
use nekoproto::{
    NetworkName,
    budget::BUDGET_DEFAULT,
    transport::{Access, HostAddr, Security},
};

/// Where an indexer listens unless told otherwise, and where a peer looks for one.
pub const DEFAULT_PORT: u16 = nekoproto::USUAL_PORT;
/// How long a holder stays listed without a word, unless told otherwise.
pub const LEASE_DEFAULT: Duration = Duration::from_secs(30);
/// The longest lease that may be configured, in seconds.
pub const LEASE_SECS_MAX: u32 = 3600;
/// Neighbors that may be configured.
pub const NEIGHBORS_MAX: usize = 64;

/// What an [`Indexer`](crate::Indexer) is made of.
#[derive(Clone, Debug)]
pub struct Config {
    /// Address to listen on. Port 0 picks a free one.
    pub listen: SocketAddr,
    /// Indexers to forward to. One side of a pair is enough.
    pub neighbors: Vec<HostAddr>,
    /// Where the node's key is kept; `None` makes a new one at each start.
    pub data_dir: Option<PathBuf>,
    /// The network it belongs to.
    pub network: NetworkName,
    /// TLS, or plain TCP.
    pub security: Security,
    /// Whom it connects with.
    pub access: Access,
    /// How long a holder stays listed without a word.
    pub lease: Duration,
    /// Whom queries go to.
    pub routing: Routing,
    /// Address to answer HTTP on, if any. Port 0 picks a free one.
    pub http: Option<SocketAddr>,
    /// Names under which HTTP is answered, beside `localhost` and IP addresses.
    pub http_hosts: Vec<String>,
    /// Whether no other indexer forwards to it, so that none trusts what a node with its key told before this start.
    pub is_leaf: bool,
    /// Whether it is announced by multicast, if others than this machine can reach it.
    pub announce: bool,
    /// Whether route probes may carry bytes, and be many, as measurements want it. Elsewhere anybody who may ask could have
    /// indexers send each other much.
    pub carries_probes: bool,
    /// Bytes a second that are relayed, in all, between nodes that cannot connect to each other; 0: none.
    pub relay: u64,
    /// Bytes that are kept for other nodes at most, see [`Budget`](nekoproto::budget::Budget).
    pub memory: usize,
}

/// Whom a query goes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Routing {
    /// At first to the neighbors whose summaries may have the name; if nobody has it, to all
    #[default]
    Summary,
    /// To all neighbors
    Flood,
}

/// What is relayed a second unless told otherwise.
pub const RELAY_DEFAULT: u64 = 16_000_000;

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], DEFAULT_PORT)),
            neighbors: Vec::new(),
            data_dir: None,
            network: NetworkName::default(),
            security: Security::Tls,
            access: Access::default(),
            lease: LEASE_DEFAULT,
            routing: Routing::default(),
            http: None,
            http_hosts: Vec::new(),
            is_leaf: false,
            announce: false,
            carries_probes: false,
            relay: RELAY_DEFAULT,
            memory: BUDGET_DEFAULT,
        }
    }
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// More neighbors than may be.
    #[error(
        "at most {NEIGHBORS_MAX} neighbors can be configured, these are {0}: leave some out, one side of a pair is enough"
    )]
    TooManyNeighbors(usize),
    /// An indexer cannot be its own neighbor.
    #[error("{0} is the address this indexer listens on: it cannot be its own neighbor, leave it out")]
    OwnNeighbor(SocketAddr),
    /// A lease of no or of too much time.
    #[error("a lease lasts 1 ms to {LEASE_SECS_MAX} s, not {0:?}")]
    Lease(Duration),
}

impl Config {
    /// Checks what no single value can tell.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.neighbors.len() > NEIGHBORS_MAX {
            return Err(ConfigError::TooManyNeighbors(self.neighbors.len()));
        }
        if self.listen.port() != 0 && self.neighbors.iter().any(|at| at.addr == self.listen) {
            return Err(ConfigError::OwnNeighbor(self.listen));
        }
        if self.lease.as_millis() == 0 || self.lease > Duration::from_secs(LEASE_SECS_MAX.into()) {
            return Err(ConfigError::Lease(self.lease));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_has_an_end_and_a_length() {
        for lease in [Duration::ZERO, Duration::from_secs(3601)] {
            assert!(Config { lease, ..Config::default() }.validate().is_err());
        }
    }
}
