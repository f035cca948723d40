//! The superpeer: knows which names exist and who holds which version, and asks its neighbors.
//!
//! | room | what happens there |
//! |---|---|
//! | [`state`] | all decisions: pure, simulated over many seeds |
//! | `service` | who asks, is it allowed; to the state and back |
//! | `query`, `invalidate` | carry plans out over the network |
//! | `summaries` | keep neighbors informed of our names |
//! | [`links`], [`load`] | the neighbors, connected or away; which of them are stuck |
//! | [`config`] | defaults, file, command line |
//! | [`threads`], [`logging`] | how many threads the program runs on; where its log goes |
//!
//! [`Indexer::spawn`] gives a running one, in any program.

pub mod config;
mod invalidate;
pub mod links;
pub mod load;
pub mod logging;
mod query;
mod service;
pub mod state;
mod summaries;
pub mod threads;

use std::{
    fs, io,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use dashmap::DashMap;
use nekoproto::{
    Holder, Identity, IdentityError, IndexerService, IndexerServiceClient, MsgId, NodeId, NodeTag,
    PeerServiceClient, Role, Verifier,
    limits::{SEEN_FOR, TTL_MAX},
    tasks::spawn_until,
    transport::{Connection, Endpoint, EndpointConfig, EndpointError, Link, LinkState, Remote, control},
};
use tokio_util::{
    sync::CancellationToken,
    task::{AbortOnDropHandle, TaskTracker},
};
use tracing::warn;

pub use config::{Config, ConfigError, Routing};
use links::Links;
use service::Service;
use state::{
    State,
    index::{Session, SessionId},
};
use summaries::Feeds;

/// How often ended leases are looked for. Lookups never list them; this frees their memory.
const SWEEP_EVERY: Duration = Duration::from_millis(500);

/// Why an indexer did not start. Nothing is left running.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration contradicts itself.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The data folder cannot be made.
    #[error("cannot use the data folder {path}: {source}")]
    DataDir {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The key cannot be had.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
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

/// A running indexer. Dropping the handle ends it at once; [`shutdown`](Self::shutdown) also
/// waits until all its tasks have ended.
#[derive(Debug)]
pub struct IndexerHandle {
    local_addr: SocketAddr,
    shared: Arc<Shared>,
}

/// What all tasks of one indexer share.
#[derive(Debug)]
struct Shared {
    state: State,
    links: Links,
    verifier: Verifier,
    /// Connected peers, to tell them of newer versions.
    peers: DashMap<SessionId, PeerServiceClient>,
    forwards: AtomicUsize,
    connections: AtomicU64,
    node: NodeId,
    tag: NodeTag,
    lease: Duration,
    routing: Routing,
    feeds: Feeds,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Indexer {
    /// Starts an indexer and its links to its neighbors; those need not be there yet.
    ///
    /// # Errors
    /// Nothing is left running.
    pub async fn spawn(config: Config) -> Result<IndexerHandle, StartError> {
        config.validate()?;
        let identity = identity(&config)?;
        let node = identity.id();
        let endpoint = Endpoint::new(EndpointConfig {
            identity,
            role: Role::Indexer,
            network: config.network.clone(),
            security: config.security,
        })?;
        let listener = endpoint
            .bind(config.listen)
            .map_err(|source| StartError::Listen { addr: config.listen, source })?;
        let local_addr = listener.local_addr();
        let shared = Arc::new(Shared {
            state: State::new(Instant::now()),
            links: Links::new(config.neighbors.len()),
            verifier: Verifier::default(),
            peers: DashMap::new(),
            forwards: AtomicUsize::new(0),
            connections: AtomicU64::new(0),
            node,
            tag: node.tag(),
            lease: config.lease,
            routing: config.routing,
            feeds: Feeds::default(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        let serve = {
            let shared = Arc::clone(&shared);
            move |connection| serve(Arc::clone(&shared), connection)
        };
        shared.tasks.spawn(listener.run(shared.stop.clone(), shared.tasks.clone(), serve));
        for (place, addr) in config.neighbors.iter().enumerate() {
            shared.connect_neighbor(&endpoint, place, *addr);
        }
        shared.spawn_until_stop(|shared| async move { shared.state.seen.forget_expired().await });
        shared.spawn_until_stop(|shared| async move { shared.sweep().await });
        Ok(IndexerHandle { local_addr, shared })
    }
}

impl IndexerHandle {
    /// Where it listens, with the real port.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.local_addr
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

    /// Waits until exactly `count` neighbors are connected and have heard of our names and neighbors;
    /// for those that do not listen, some seconds only.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn neighbors_reach(&self, count: usize) {
        // The sender lives in `shared`, so waiting cannot fail.
        drop(self.shared.links.watch().wait_for(|reachable| *reachable == count).await);
        let needed = self.shared.state.own_summary().position();
        self.shared.feeds.settle(count, needed).await;
    }

    /// Stops listening, closes all connections and waits until every task has ended.
    pub async fn shutdown(self) {
        self.shared.stop.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }
}

impl Drop for IndexerHandle {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}

fn identity(config: &Config) -> Result<Identity, StartError> {
    let Some(folder) = &config.data_dir else { return Ok(Identity::generate()) };
    fs::create_dir_all(folder).map_err(|source| StartError::DataDir { path: folder.clone(), source })?;
    Ok(Identity::load_or_create(&folder.join("indexer.key"))?)
}

impl Shared {
    fn spawn_until_stop<F: Future<Output = ()> + Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(Arc<Self>) -> F,
    ) {
        spawn_until(&self.tasks, &self.stop, work(Arc::clone(self)));
    }

    /// Links to the neighbor at `addr`, the `place`-th of the configuration.
    fn connect_neighbor(self: &Arc<Self>, endpoint: &Arc<Endpoint>, place: usize, addr: SocketAddr) {
        let shared = Arc::clone(self);
        let open = move |connection: Connection| {
            let service = Service { shared: Arc::clone(&shared), remote: connection.remote, session: None };
            let (client, driver) = control::open(connection.io, service.serve(), IndexerServiceClient::from);
            (client, Box::pin(driver) as control::Driver)
        };
        let link = Link::spawn(Arc::clone(endpoint), addr, self.stop.clone(), &self.tasks, open);
        self.spawn_until_stop(|shared| async move {
            let mut state = link.watch();
            loop {
                let now = state.borrow_and_update().clone();
                shared.links.configured_changed(place, &now);
                shared.neighbors_changed();
                let is_going_on = match &now {
                    LinkState::Up { client, remote } => {
                        let is_going_on = tokio::select! {
                            changed = state.changed() => changed.is_ok(),
                            () = summaries::feed(&shared, remote.node.tag(), client) => true, // it has no end
                        };
                        shared.state.their_summaries.remove(&remote.node.tag());
                        is_going_on
                    }
                    _ => state.changed().await.is_ok(),
                };
                if !is_going_on {
                    return;
                }
            }
        });
    }

    async fn sweep(self: &Arc<Self>) {
        let mut ticks = tokio::time::interval(SWEEP_EVERY);
        loop {
            ticks.tick().await;
            let now = Instant::now();
            let ended = self.state.index.ended(now);
            if !ended.is_empty() {
                let shared = Arc::clone(self);
                // Somebody with a hundred thousand files takes some ten milliseconds: nobody waits for it.
                let ending =
                    move || ended.iter().for_each(|session| shared.state.index.end(session, Instant::now()));
                if let Err(error) = tokio::task::spawn_blocking(ending).await {
                    warn!(%error, "sessions that have ended were not all removed");
                }
            }
            self.links.forget_missed(now);
            summaries::renew_if_worn(self).await;
        }
    }

    fn neighbors_changed(&self) {
        for mut theirs in self.state.their_summaries.iter_mut() {
            let neighbors = self.links.current(); // none newer is overtaken, as long as `theirs` is held
            theirs.enclose(|other| *other == self.tag || neighbors.tags.contains(other));
        }
        self.state.own_summary().neighbors_changed();
        self.feeds.tell();
    }

    /// A message that begins here must not be taken up when a copy comes round.
    fn note_own_message(&self, id: MsgId) {
        self.state.seen.sight(id, TTL_MAX, SEEN_FOR, Instant::now());
    }

    fn open_session(&self, remote: &Remote) -> Option<Arc<Session>> {
        let holder = Holder::new(remote.node, remote.listens_at?);
        Some(self.state.index.open_session(holder, self.lease, Instant::now()))
    }
}

/// Serves one connection until it ends.
async fn serve(shared: Arc<Shared>, connection: Connection) {
    match connection.remote.role {
        Role::Indexer => serve_indexer(shared, connection).await,
        Role::Peer => serve_peer(shared, connection).await,
    }
}

async fn serve_indexer(shared: Arc<Shared>, connection: Connection) {
    let Connection { io, remote, .. } = connection;
    let number = shared.connections.fetch_add(1, Ordering::Relaxed);
    let service = Service { shared: Arc::clone(&shared), remote, session: None };
    let (client, driver) = control::open(io, service.serve(), IndexerServiceClient::from);
    shared.links.arrived(remote.node, number, client.clone());
    shared.neighbors_changed();
    let _leaving = on_drop(|| {
        shared.links.left(remote.node, number, Instant::now());
        shared.neighbors_changed();
        shared.state.their_summaries.remove(&remote.node.tag());
    });
    // In a task of its own, or every message of the connection would look after it as well.
    let feed = {
        let shared = Arc::clone(&shared);
        shared.tasks.clone().spawn(async move { summaries::feed(&shared, remote.node.tag(), &client).await })
    };
    let _feed = AbortOnDropHandle::new(feed); // it has no end
    driver.await;
}

async fn serve_peer(shared: Arc<Shared>, connection: Connection) {
    let Connection { io, remote, .. } = connection;
    let session = shared.open_session(&remote);
    let service = Service { shared: Arc::clone(&shared), remote, session: session.clone() };
    let (client, driver) = control::open(io, service.serve(), PeerServiceClient::from);
    let _leaving = session.map(|session| {
        shared.peers.insert(session.id(), client);
        // The registrations stay until the lease ends: the holder may only have lost the link.
        on_drop(move || {
            shared.peers.remove(&session.id());
            shared.state.index.disconnected(&session);
        })
    });
    driver.await;
}

/// Runs `action` when dropped: also when the task is cancelled.
fn on_drop<F: FnOnce()>(action: F) -> impl Drop {
    struct OnDrop<F: FnOnce()>(Option<F>);
    impl<F: FnOnce()> Drop for OnDrop<F> {
        fn drop(&mut self) {
            if let Some(action) = self.0.take() {
                action();
            }
        }
    }
    OnDrop(Some(action))
}
