//! Starts an indexer, hands out the running one, and stops it.

use std::{io, net::SocketAddr, num::NonZeroUsize, path::Path, sync::Arc, time::Duration};

use nekoproto::{
    Identity, IdentityError, NodeId, PrivateError, Role,
    budget::Budget,
    private_folder,
    tasks::spawn_until,
    transport::{Endpoint, EndpointConfig, EndpointError, HostAddr, Security},
};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::{
    announce::{Announcement, announce},
    config::{Config, ConfigError},
    configured::ConfiguredNeighbors,
    connections,
    daemon::http::{HttpConfig, HttpDoor},
    probe::ProbeCounts,
    routes::{self, View},
    shared::{FORWARDS_MAX, Shared},
    sweep,
};

/// Longest time that queries under way have to end after a request to stop: longer than a query takes by default.
const DRAIN_MAX: Duration = Duration::from_secs(3);
/// Interval between two looks at what is under way.
const DRAIN_LOOK_EVERY: Duration = Duration::from_millis(20);

/// Why an indexer did not start. Nothing is left running.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration contradicts itself.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The data folder cannot be made, or others may write there.
    #[error(transparent)]
    DataDir(#[from] PrivateError),
    /// The key cannot be had.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// HTTP cannot be answered at the address.
    #[error("cannot answer HTTP on {addr}: {source}")]
    Http {
        /// The address.
        addr: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {addr}: {source}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

/// Makes running indexers.
#[derive(Debug)]
pub struct Indexer;

/// A running indexer. Dropping the handle ends it at once, as a crash would; [`shutdown`](Self::shutdown)
/// says goodbye, and waits until all its tasks have ended.
#[derive(Debug)]
pub struct IndexerHandle {
    local_addr: SocketAddr,
    shared: Arc<Shared>,
    http: Option<HttpDoor>,
    /// New connections are accepted until it is cancelled.
    accepts: CancellationToken,
    neighbors: ConfiguredNeighbors,
    config: Config,
    /// Taken back when this is dropped.
    announcement: Option<Announcement>,
}

impl Indexer {
    /// Starts an indexer and its links to its neighbors; those need not be there yet.
    ///
    /// # Errors
    /// Nothing is left running.
    pub async fn spawn(config: Config) -> Result<IndexerHandle, StartError> {
        config.validate()?;
        let (identity, was_here) = identity(&config)?;
        let node = identity.id();
        let endpoint_config = EndpointConfig {
            identity,
            role: Role::Indexer,
            network: config.network.clone(),
            security: config.security,
            access: config.access.clone(),
        };
        let endpoint = Endpoint::with_budget(endpoint_config, Budget::new(config.memory))?;
        endpoint.relay().set_rate(config.relay);
        let listener = endpoint
            .bind(config.listen)
            .map_err(|source| StartError::Listen { addr: config.listen, source })?;
        let local_addr = listener.local_addr();
        let shared = Arc::new(Shared::new(&config, was_here && !config.is_leaf, &endpoint));
        let arrivals = listener.arrivals();
        let http = match config.http {
            Some(addr) => Some(open_http(
                addr,
                &config,
                View::new(&shared, config.network.clone(), local_addr, arrivals),
            )?),
            None => None,
        };
        let serve = {
            let shared = Arc::clone(&shared);
            move |connection| connections::serve(Arc::clone(&shared), connection)
        };
        let accepting = listener.run(shared.stop.clone(), shared.tasks.clone(), serve);
        let accepts = CancellationToken::new();
        spawn_until(&shared.tasks, &accepts, accepting);
        let neighbors = ConfiguredNeighbors::new(Arc::clone(&endpoint));
        neighbors.set(&shared, &config.neighbors);
        shared.spawn_until_stop(|shared| async move { sweep::run(&shared).await });
        shared.spawn_until_stop(|shared| async move { shared.neighbors.listen().await });
        let announcement = config
            .announce
            .then(|| announce(node, local_addr, &config.network, config.security == Security::Insecure));
        let announcement = announcement.flatten();
        Ok(IndexerHandle { local_addr, shared, http, accepts, neighbors, config, announcement })
    }
}

impl IndexerHandle {
    /// Where it listens, with the real port.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Where it answers HTTP, with the real port, if it does.
    #[must_use]
    pub fn http_addr(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(HttpDoor::local_addr)
    }

    /// Its id.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.shared.node
    }

    /// How many names it lists at the moment.
    #[must_use]
    pub fn names(&self) -> usize {
        self.shared.state.index.names()
    }

    /// What it counted of route probes.
    #[must_use]
    pub fn probes(&self) -> ProbeCounts {
        ProbeCounts::of(&self.shared.counters)
    }

    /// Waits until exactly `count` trusted neighbors are connected and have acknowledged our names and neighbors;
    /// at most [`CURRENT_FOR`](crate::state::summary::CURRENT_FOR) for those that do not acknowledge.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn neighbors_reach(&self, count: usize) {
        self.shared.neighbors.reach(&self.shared.state, count).await;
    }

    /// Takes the neighbors and the list of allowed nodes at `allow` for what was configured so far. Returns one line for
    /// each that changed.
    ///
    /// # Errors
    /// One line for people; nothing has changed.
    pub fn reload(
        &self,
        neighbors: &[impl Clone + Into<HostAddr>],
        allow: Option<&Path>,
    ) -> Result<Vec<String>, String> {
        let neighbors: Vec<HostAddr> = neighbors.iter().cloned().map(Into::into).collect();
        let config = Config { neighbors, ..self.config.clone() };
        config.validate().map_err(|error| error.to_string())?;
        let allowed = self.config.access.allowed.load(allow).map_err(|error| error.to_string())?;
        let (new, gone) = self.neighbors.set(&self.shared, &config.neighbors);
        let new = new.into_iter().map(|addr| format!("neighbor {addr} added"));
        let mut changes: Vec<_> =
            new.chain(gone.into_iter().map(|addr| format!("neighbor {addr} removed"))).collect();
        if allowed != (0, 0) {
            let (new, gone) = allowed;
            changes.push(format!("list of allowed nodes: {new} added, {gone} removed"));
        }
        Ok(changes)
    }

    /// Accepts no further connection, says goodbye to the neighbors, and waits until no query is under way, at most
    /// `DRAIN_MAX`.
    pub async fn drain(&mut self) {
        self.leave().await;
        let idle = async {
            while self.shared.forwards.available_permits() < FORWARDS_MAX {
                sleep(DRAIN_LOOK_EVERY).await;
            }
            sleep(DRAIN_LOOK_EVERY).await; // the last answers are written
        };
        if timeout(DRAIN_MAX, idle).await.is_err() {
            warn!("queries that were under way were given up");
        }
    }

    async fn leave(&mut self) {
        self.announcement = None;
        self.accepts.cancel();
        self.shared.neighbors.say_goodbye().await;
    }

    /// Stops listening, says goodbye to the neighbors, closes all connections and waits until every task has ended.
    pub async fn shutdown(mut self) {
        if !self.accepts.is_cancelled() {
            self.leave().await;
        }
        self.abort().await;
    }

    /// Stops at once and says goodbye to nobody, as a crash would; waits until every task has ended.
    pub async fn abort(mut self) {
        if let Some(http) = self.http.take() {
            http.shutdown().await;
        }
        self.shared.stop.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }
}

impl Drop for IndexerHandle {
    fn drop(&mut self) {
        self.accepts.cancel();
        self.shared.stop.cancel();
    }
}

/// Answers HTTP on a thread of its own, and keeps the figures for it.
fn open_http(addr: SocketAddr, config: &Config, view: View) -> Result<HttpDoor, StartError> {
    let view = Arc::new(view);
    let router = routes::router(&view, config.http_hosts.clone());
    let door = HttpDoor::open(HttpConfig { listen: addr, threads: NonZeroUsize::MIN }, router)
        .map_err(|source| StartError::Http { addr, source })?;
    let shared = Arc::clone(&view.shared);
    shared.spawn_until_stop(|_| async move { routes::keep_figures(&view).await });
    Ok(door)
}

/// The key, and whether it is from an earlier start.
fn identity(config: &Config) -> Result<(Identity, bool), StartError> {
    config.data_dir.as_deref().map_or_else(|| Ok((Identity::generate(), false)), identity_in)
}

/// The key of an indexer in its data folder, made there if there is none, and whether it was there.
///
/// # Errors
/// The folder or the key cannot be used.
pub fn identity_in(folder: &Path) -> Result<(Identity, bool), StartError> {
    private_folder(folder)?;
    let file = folder.join("indexer.key");
    let was_here = file.exists();
    Ok((Identity::load_or_create(&file)?, was_here))
}
