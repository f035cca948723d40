//! [`Peer`] and its handle: what a program holds of a running peer.

use std::{
    io::{self, Read, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use nekoproto::{
    FileName, Identity, IdentityError, NodeId, Role, Verifier,
    transport::{Endpoint, EndpointConfig, EndpointError},
};
use tokio::sync::{Notify, Semaphore, broadcast};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Answer, Config, DownloadError, DownloadOptions, Downloaded, Event, FileStatus, LocateError, Progress,
    PublishError, PublishOptions, PublishOutcome, bulk,
    catalogue::{Catalogue, CatalogueError},
    clock, download,
    events::EVENTS_KEPT,
    intake,
    locate::{self, Scope},
    lock::{DataLock, LockError},
    publish,
    rate::Rate,
    reading, serve,
    session::Session,
    shared::{Shared, blocking},
    state::freshness::CopyState,
    status,
    store::{ShareFolder, StoreError},
    subscribers::Subscribers,
    uploads::Uploads,
    watch::{self, REFETCHES_MAX},
};

/// Why a peer did not start. Nothing is left running.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data folder is in use, or cannot be used.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The key cannot be had.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The catalogue cannot be opened.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// The share folder cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
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

/// Makes running peers.
#[derive(Debug)]
pub struct Peer;

/// A running peer. Dropping the handle ends it at once; [`shutdown`](Self::shutdown) first tells
/// the indexers and waits until all its tasks have ended.
#[derive(Debug)]
pub struct PeerHandle {
    shared: Arc<Shared>,
    local_addr: Option<SocketAddr>,
    /// Begins with the first event there was; for the first who asks.
    first_events: Mutex<Option<broadcast::Receiver<Event>>>,
}

impl Peer {
    /// Starts a peer. Its indexers need not be there yet.
    ///
    /// # Errors
    /// Nothing is left running, and the data folder is free again.
    pub async fn spawn(config: Config) -> Result<PeerHandle, StartError> {
        let (lock, identity, catalogue, share, data_dir) = open_folders(config.clone()).await?;
        let endpoint = Endpoint::new(EndpointConfig {
            identity,
            role: Role::Peer,
            network: config.network.clone(),
            security: config.security,
        })?;
        let listener = match config.listen {
            Some(addr) => Some(endpoint.bind(addr).map_err(|source| StartError::Listen { addr, source })?),
            None => None,
        };
        let local_addr = listener.as_ref().map(nekoproto::transport::Listener::local_addr);
        let now = clock::now();
        let copies = catalogue.all().into_iter().filter(|entry| !catalogue.is_own(entry)).map(|entry| {
            let state = CopyState::new(entry.record.clone(), entry.newest.clone(), config.ttr, now);
            (entry.record.name.clone(), state)
        });
        let copies = Mutex::new(copies.collect());
        let limit_up = config.limit_up.map(Rate::new);
        let limit_down = config.limit_down.map(|rate| Arc::new(Rate::new(rate)));
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let (events, first_events) = broadcast::channel(EVENTS_KEPT);
        let shared = Arc::new_cyclic(|shared| Shared {
            sessions: Session::spawn_all(shared, &config, &endpoint, &stop, &tasks),
            config,
            endpoint,
            share,
            data_dir,
            catalogue,
            copies,
            subscribers: Subscribers::default(),
            verifier: Verifier::default(),
            events,
            watch_wake: Notify::new(),
            downloading: Mutex::default(),
            uploads: Uploads::default(),
            partials: Arc::default(),
            limit_up,
            limit_down,
            refetches: Semaphore::new(REFETCHES_MAX),
            stop,
            tasks,
            lock,
        });
        if let Some(listener) = listener {
            let serving = Arc::clone(&shared);
            let serve = move |connection| serve::serve(Arc::clone(&serving), connection);
            shared.tasks.spawn(listener.run(shared.stop.clone(), shared.tasks.clone(), serve));
            shared.spawn_until_stop(|shared| async move { watch::run(&shared).await });
        }
        for place in 0..shared.sessions.len() {
            shared.spawn_until_stop(|shared| async move { shared.sessions[place].keep(&shared).await });
        }
        Ok(PeerHandle { shared, local_addr, first_events: Mutex::new(Some(first_events)) })
    }
}

type Folders = (DataLock, Identity, Catalogue, ShareFolder, PathBuf);

async fn open_folders(config: Config) -> Result<Folders, StartError> {
    blocking(move || {
        let share = ShareFolder::open(&config.dir)?;
        let folder = config.data_dir();
        let lock = DataLock::take(&folder)?;
        let identity = Identity::load_or_create(&folder.join("peer.key"))?;
        let catalogue = Catalogue::open(&folder, identity.clone())?;
        let unusable = |source| LockError::Unusable { path: folder.clone(), source };
        let data_dir = folder.canonicalize().map_err(unusable)?;
        Ok((lock, identity, catalogue, share, data_dir))
    })
    .await
}

impl PeerHandle {
    /// This peer's id.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.shared.endpoint.node()
    }

    /// Where it serves, with the real port; `None` when it does not.
    #[must_use]
    pub const fn local_addr(&self) -> Option<SocketAddr> {
        self.local_addr
    }

    /// The share folder's absolute path.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.shared.share.root()
    }

    /// What happens from now on; the first who asks also hears what happened since the start.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<Event> {
        let first = self.first_events.lock().unwrap_or_else(PoisonError::into_inner).take();
        first.unwrap_or_else(|| self.shared.events.subscribe())
    }

    /// Publishes files and folders. A file is named as the options say, else by its path
    /// within the share folder, or by its file name when it lies elsewhere; the files of a folder
    /// by their paths within it. Unchanged files keep their version.
    ///
    /// # Errors
    /// A path does not exist, or several paths were to get one name. What is wrong with single
    /// files of a folder is in the outcome; the others are published.
    pub async fn publish(
        &self,
        paths: Vec<PathBuf>,
        options: PublishOptions,
        progress: &Arc<Progress>,
    ) -> Result<PublishOutcome, PublishError> {
        publish::publish(&self.shared, paths, options, progress).await
    }

    /// Offers `name` no longer. The file stays on disk.
    ///
    /// # Errors
    /// There is no such name, or the catalogue failed.
    pub async fn deregister(&self, name: &FileName) -> Result<(), PublishError> {
        publish::deregister(&self.shared, name).await
    }

    /// Asks the own indexers alone.
    ///
    /// # Errors
    /// No indexer answered.
    pub async fn search(&self, name: &FileName) -> Result<Answer, LocateError> {
        locate::ask(&self.shared, name, Scope::Own).await
    }

    /// Asks the network, over at most `ttl_hops` hops beyond the own indexers.
    ///
    /// # Errors
    /// No indexer answered, or they refused.
    pub async fn query(&self, name: &FileName, ttl_hops: u8) -> Result<Answer, LocateError> {
        locate::ask(&self.shared, name, Scope::Network { ttl_hops }).await
    }

    /// Asks the own indexers alone for many names; answers in their order.
    ///
    /// # Errors
    /// No indexer answered.
    pub async fn search_all(&self, names: &[FileName]) -> Result<Vec<Answer>, LocateError> {
        locate::ask_all(&self.shared, names, Scope::Own).await
    }

    /// Asks the network for many names, over at most `ttl_hops` hops beyond the own indexers; answers
    /// in their order.
    ///
    /// # Errors
    /// No indexer answered, or they refused.
    pub async fn query_all(&self, names: &[FileName], ttl_hops: u8) -> Result<Vec<Answer>, LocateError> {
        locate::ask_all(&self.shared, names, Scope::Network { ttl_hops }).await
    }

    /// Downloads the newest version of `name`, verified, and keeps it as a copy.
    ///
    /// # Errors
    /// See [`DownloadError`]: what stood in its place still stands there.
    ///
    /// # Cancel safety
    /// Safe: what came so far is kept for the next try.
    pub async fn download(
        &self,
        name: &FileName,
        options: DownloadOptions,
        progress: &Arc<Progress>,
    ) -> Result<Downloaded, DownloadError> {
        download::download(&self.shared, name, options, progress).await
    }

    /// Downloads many files; small ones together, which is many times faster than one by one. Each name
    /// has its outcome, in their order; a name given twice has one.
    ///
    /// # Cancel safety
    /// Safe: what is complete stays, the others are as before.
    pub async fn download_all(
        &self,
        names: &[FileName],
        options: &DownloadOptions,
        progress: &Arc<Progress>,
    ) -> Vec<(FileName, Result<Downloaded, DownloadError>)> {
        bulk::download_all(&self.shared, names, options, progress).await
    }

    /// Writes the newest version of `name` to `out`, in order, each chunk once it is verified. No copy is
    /// kept.
    ///
    /// # Errors
    /// See [`DownloadError`]; what was written before is the beginning of the file.
    ///
    /// # Cancel safety
    /// Safe; `out` may be written to once more.
    pub async fn read(
        &self,
        name: &FileName,
        options: &DownloadOptions,
        out: impl Write + Send + 'static,
        progress: &Arc<Progress>,
    ) -> Result<Downloaded, DownloadError> {
        reading::read(&self.shared, name, options, out, progress).await
    }

    /// Stores all that `from` gives as the file `name` of the share folder, for it to be published; its
    /// path. What stands there is replaced if it is this peer's own published version, or with `force`.
    ///
    /// # Errors
    /// What stood there still stands there.
    ///
    /// # Cancel safety
    /// Once begun it goes on until `from` ends.
    pub async fn store(
        &self,
        name: &FileName,
        from: impl Read + Send + 'static,
        force: bool,
        progress: &Arc<Progress>,
    ) -> Result<PathBuf, DownloadError> {
        intake::store(&self.shared, name, from, force, progress).await
    }

    /// What this peer publishes and holds, as far as it knows without asking anyone.
    pub async fn files(&self) -> Vec<FileStatus> {
        status::files(&self.shared).await
    }

    /// Asks the origins of all copies whether they are still the newest, now. Afterwards
    /// [`files`](Self::files) tells what came of it.
    pub async fn check_copies(&self) {
        watch::ask_all(&self.shared).await;
    }

    /// Waits until every indexer was tried once, whether it is there or not.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn indexers_tried(&self) {
        for session in &self.shared.sessions {
            session.link.tried().await;
        }
    }

    #[cfg(test)]
    pub(crate) const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Withdraws what was registered, stops serving and waits until every task has ended.
    pub async fn shutdown(self) {
        publish::withdraw_all(&self.shared).await;
        self.shared.stop.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }

    /// Ends at once and withdraws nothing, as a crash would; waits until every task has ended.
    pub async fn abort(self) {
        self.shared.stop.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }
}

impl Drop for PeerHandle {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}
