//! What an indexer is told: defaults, then the configuration file, then the command line.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::ValueEnum;
use nekoproto::{
    NetworkName,
    transport::{Security, resolve},
};
use serde::Deserialize;

/// Where an indexer listens unless told otherwise, and where a peer looks for one.
pub const DEFAULT_PORT: u16 = 7707;
/// How long a holder stays listed without a word, unless told otherwise.
pub const LEASE_DEFAULT: Duration = Duration::from_secs(30);
/// The longest lease that may be configured, in seconds.
pub const LEASE_SECS_MAX: u32 = 3600;
/// Neighbors that may be configured.
pub const NEIGHBORS_MAX: usize = 64;

/// What an [`Indexer`](crate::Indexer) is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Address to listen on. Port 0 picks a free one.
    pub listen: SocketAddr,
    /// Indexers to forward to. One side of a pair is enough.
    pub neighbors: Vec<SocketAddr>,
    /// Where the node's key is kept; `None` makes a new one at each start.
    pub data_dir: Option<PathBuf>,
    /// The network it belongs to.
    pub network: NetworkName,
    /// TLS, or plain TCP.
    pub security: Security,
    /// How long a holder stays listed without a word.
    pub lease: Duration,
    /// Whom queries go to.
    pub routing: Routing,
    /// Whether no other indexer forwards to it, so that none trusts what a node with its key told before this start.
    pub is_leaf: bool,
    /// Whether it is announced by multicast, if others than this machine can reach it.
    pub announce: bool,
}

/// Whom a query goes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Routing {
    /// At first to the neighbors whose summaries may have the name; if nobody has it, to all
    #[default]
    Summary,
    /// To all neighbors
    Flood,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], DEFAULT_PORT)),
            neighbors: Vec::new(),
            data_dir: None,
            network: NetworkName::default(),
            security: Security::Tls,
            lease: LEASE_DEFAULT,
            routing: Routing::default(),
            is_leaf: false,
            announce: false,
        }
    }
}

/// The configuration file: TOML, every key optional, unknown keys refused.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConfigFile {
    listen: Option<String>,
    neighbors: Option<Vec<String>>,
    data_dir: Option<PathBuf>,
    network: Option<NetworkName>,
    insecure: Option<bool>,
    lease_secs: Option<u32>,
    routing: Option<Routing>,
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file's text is wrong.
    #[error("in the configuration file {path}: {message}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        message: String,
    },
    /// An address is none.
    #[error("in the configuration file: {0}")]
    Address(String),
    /// More neighbors than may be.
    #[error("at most {NEIGHBORS_MAX} neighbors can be configured, these are {0}")]
    TooManyNeighbors(usize),
    /// An indexer cannot be its own neighbor.
    #[error("{0} is the address this indexer listens on: it cannot be its own neighbor")]
    OwnNeighbor(SocketAddr),
    /// A lease of no or of too much time.
    #[error("a lease lasts 1 ms to {LEASE_SECS_MAX} s, not {0:?}")]
    Lease(Duration),
}

impl Config {
    /// The defaults, changed by what the file at `path` says.
    ///
    /// # Errors
    /// The file cannot be read or understood.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let unreadable = |source| ConfigError::Unreadable { path: path.to_owned(), source };
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        let file: ConfigFile = toml::from_str(&text)
            .map_err(|error| ConfigError::Malformed { path: path.to_owned(), message: error.to_string() })?;
        Self::default().changed_by(file)
    }

    fn changed_by(mut self, file: ConfigFile) -> Result<Self, ConfigError> {
        let address = |text: &String| resolve(text).map_err(ConfigError::Address);
        if let Some(listen) = &file.listen {
            self.listen = address(listen)?;
        }
        if let Some(neighbors) = &file.neighbors {
            self.neighbors = neighbors.iter().map(address).collect::<Result<_, _>>()?;
        }
        if let Some(network) = file.network {
            self.network = network;
        }
        if file.insecure == Some(true) {
            self.security = Security::Insecure;
        }
        if let Some(secs) = file.lease_secs {
            self.lease = Duration::from_secs(secs.into());
        }
        self.data_dir = file.data_dir.or(self.data_dir);
        self.routing = file.routing.unwrap_or(self.routing);
        Ok(self)
    }

    /// Checks what no single value can tell.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.neighbors.len() > NEIGHBORS_MAX {
            return Err(ConfigError::TooManyNeighbors(self.neighbors.len()));
        }
        if self.listen.port() != 0 && self.neighbors.contains(&self.listen) {
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

    fn parse(text: &str) -> Result<Config, ConfigError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("indexer.toml");
        std::fs::write(&path, text).unwrap();
        Config::load(&path)
    }

    #[test]
    fn file_changes_only_what_it_names() {
        let config = parse("listen = '127.0.0.1:9'\nneighbors = ['127.0.0.1:10']\nlease_secs = 5").unwrap();
        let expected = Config {
            listen: SocketAddr::from(([127, 0, 0, 1], 9)),
            neighbors: vec![SocketAddr::from(([127, 0, 0, 1], 10))],
            lease: Duration::from_secs(5),
            ..Config::default()
        };
        assert_eq!(config, expected);
    }

    #[test]
    fn unknown_keys_and_bad_addresses_are_named() {
        let error = parse("lisen = '127.0.0.1:9'").unwrap_err().to_string();
        assert!(error.contains("lisen"), "{error}");
        let error = parse("listen = 'nowhere'").unwrap_err().to_string();
        assert!(error.contains("nowhere"), "{error}");
    }

    #[test]
    fn an_indexer_is_not_its_own_neighbor() {
        let config = Config { neighbors: vec![Config::default().listen], ..Config::default() };
        assert!(matches!(config.validate(), Err(ConfigError::OwnNeighbor(_))));
    }

    #[test]
    fn a_lease_has_an_end_and_a_length() {
        for lease in [Duration::ZERO, Duration::from_secs(3601)] {
            assert!(Config { lease, ..Config::default() }.validate().is_err());
        }
    }
}
