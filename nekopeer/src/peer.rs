//! [`Peer`] and its handle: the interface of a running peer.

use std::{
    io::{self, Read, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use nekoindexer::http::TokenError;
use nekoproto::{
    FileName, Identity, IdentityError, IndexerAddr, List, NodeId, Position, Role, Search, TraceReply,
    VerifiedRecord,
    budget::Budget,
    limits::TICKET_INDEXERS_MAX,
    tasks::spawn_until,
    transport::{Endpoint, EndpointConfig, EndpointError, Listener},
};
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::broadcast,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::{
    config::Config,
    content::stamp::Looker,
    download::{DownloadError, DownloadOptions, Downloaded, Downloader, Downloads},
    figures::Figures,
    indexers::{Answer, Found, Indexers, Scope, SearchError, via::Via},
    library::{Library, Opened, events::Event, status::FileStatus},
    listing::Listing,
    peers::Peers,
    publish::{
        PublishError, PublishOptions, PublishOutcome, Publisher, Publishing,
        repair::{Repaired, repair},
    },
    reading::Reading,
    serve::{Slots, Uploads, partial_files::PartialFiles},
    storage::{
        StoreError,
        catalogue::{self, Catalogue, CatalogueError, Salvaged},
        lock::{DataLock, LockError},
        remembered::Home,
        share_folder::ShareFolder,
    },
    util::{progress::Progress, tasks::blocking},
    watch::Watch,
};

/// Why a peer did not start. Nothing is left running.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data folder is in use, or cannot be used.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The key cannot be loaded or created.
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
    /// The token of the HTTP door cannot be loaded or made.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The address cannot be listened on.
    #[error("cannot listen on {addr}: {source}; choose another address with --listen, port 0 is a free one")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The same, of the HTTP door.
    #[error(
        "cannot listen on {addr} for HTTP: {source}; choose another address with --http, port 0 is a free one"
    )]
    Http {
        /// The address.
        addr: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
}

/// The file of the key in the data folder.
pub(crate) const KEY_FILE: &str = "peer.key";
/// Longest time that uploads under way have to end after a request to stop.
const DRAIN_MAX: Duration = Duration::from_secs(5);
/// Interval between two looks at what is under way.
const DRAIN_LOOK_EVERY: Duration = Duration::from_millis(20);

/// Starts peers.
#[derive(Debug)]
pub struct Peer;

/// A running peer. Dropping the handle stops it at once; [`shutdown`](Self::shutdown) first withdraws its
/// files from the indexers and waits until all its tasks have ended.
#[derive(Debug)]
pub struct PeerHandle {
    library: Arc<Library>,
    indexers: Arc<Indexers>,
    peers: Arc<Peers>,
    downloader: Arc<Downloader>,
    publisher: Arc<Publisher>,
    local_addr: Option<SocketAddr>,
    figures: Arc<Figures>,
    /// New connections are accepted until it is cancelled.
    accepts: CancellationToken,
    /// Starts with the first event of the peer; taken by the first call of `events`.
    first_events: Mutex<Option<broadcast::Receiver<Event>>>,
}

impl Peer {
    /// Starts a peer. Its indexers need not be reachable.
    ///
    /// # Errors
    /// Nothing is left running, and the data folder is free again.
    pub async fn spawn(config: Config) -> Result<PeerHandle, StartError> {
        let (opened, identity) = open_folders(config.clone()).await?;
        let endpoint_config = EndpointConfig {
            identity,
            role: Role::Peer,
            network: config.network.clone(),
            security: config.security,
            access: config.access.clone(),
        };
        let endpoint = Endpoint::with_budget(endpoint_config, Budget::new(config.memory))?;
        let listen = |addr| endpoint.bind(addr).map_err(|source| StartError::Listen { addr, source });
        let listener = config.listen.map(listen).transpose()?;
        let local_addr = listener.as_ref().map(Listener::local_addr);
        let indexers = config.indexers.len();
        let (library, first_events) =
            Library::new(opened, endpoint.node(), listener.is_some(), indexers, config.ttr);
        let partial_files = Arc::new(PartialFiles::default());
        let indexers = Indexers::spawn(&config, &endpoint, &library);
        let peers = Peers::new(&endpoint, &library, &indexers);
        let downloader =
            Downloader::new(&library, &indexers, &peers, &endpoint, &partial_files, config.limit_down);
        let publisher = Publisher::new(&library, &indexers, &peers, config.policy);
        let watch = Watch::new(&library, &indexers, &peers, &downloader, &publisher, config.on_stale);
        let tasks = &library.tasks;
        let accepts = tasks.stop.child_token();
        let serving = listener.map(|listener| {
            let uploads = Uploads::new(&library, &partial_files, config.limit_up);
            let serving = (Arc::clone(&uploads), listener.arrivals());
            let serve = move |connection| Arc::clone(&uploads).serve(connection);
            let accepting = listener.run(tasks.stop.clone(), tasks.tracker.clone(), serve);
            spawn_until(&tasks.tracker, &accepts, accepting);
            serving
        });
        let figures =
            Figures::new((config.network, endpoint.budget()), local_addr, (&library, &indexers), serving);
        tasks.spawn_until_stop(watch.run());
        let first_events = Mutex::new(Some(first_events));
        Ok(PeerHandle {
            library,
            indexers,
            peers,
            downloader,
            publisher,
            local_addr,
            figures,
            accepts,
            first_events,
        })
    }
}

async fn open_folders(config: Config) -> Result<(Opened, Identity), StartError> {
    blocking(move || {
        let share = ShareFolder::open(&config.dir)?;
        let folder = config.data_dir();
        let lock = DataLock::take(&folder)?;
        let key = folder.join(KEY_FILE);
        let is_missing = lock.was_used && key.exists() && !folder.join(catalogue::FILE).exists();
        let identity = Identity::load_or_create(&key)?;
        let catalogue = Catalogue::open(&folder, identity.clone())?;
        if is_missing {
            catalogue.set_lost(true)?;
        }
        if catalogue.is_lost()? {
            let path = folder.join(catalogue::FILE);
            warn!(path = %path.display(), "the catalogue is damaged: it was missing, and a new one was begun; nekopeer repair \
                brings back what was published and held here");
        }
        catalogue.settle_all()?;
        let unusable = |source| LockError::Unusable { path: folder.clone(), source };
        let data_dir = folder.canonicalize().map_err(unusable)?;
        Ok((Opened { share, data_dir, catalogue, lock }, identity))
    })
    .await
}

impl PeerHandle {
    /// This peer's id.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.library.node
    }

    /// The address it serves on, with the real port; `None` if it does not serve.
    #[must_use]
    pub const fn local_addr(&self) -> Option<SocketAddr> {
        self.local_addr
    }

    /// What it tells of itself.
    pub(crate) const fn figures(&self) -> &Arc<Figures> {
        &self.figures
    }

    /// The share folder's absolute path.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.library.share.root()
    }

    /// Events from now on; the first call gets all events since the start.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<Event> {
        let first = self.first_events.lock().take();
        first.unwrap_or_else(|| self.library.events())
    }

    /// Publishes files and folders. A file's name is the one in the options, otherwise its path within the
    /// share folder, otherwise its file name; the files of a folder are named by their paths within it.
    /// Unchanged files keep their version.
    ///
    /// # Errors
    /// A path does not exist, or two files would get the same name. Files of a folder that fail are listed
    /// in the outcome; the others are published.
    pub async fn publish(
        &self,
        paths: Vec<PathBuf>,
        options: PublishOptions,
        progress: &Arc<Progress>,
    ) -> Result<PublishOutcome, PublishError> {
        let (mut publishing, mut outcome) =
            (self.publishing(paths, options, progress), PublishOutcome::default());
        while let Some(piece) = publishing.next().await? {
            outcome.add(piece);
        }
        Ok(outcome)
    }

    /// Publishes files and folders; the outcome comes in pieces. See [`publish`](Self::publish).
    #[must_use]
    pub fn publishing(
        &self,
        paths: Vec<PathBuf>,
        options: PublishOptions,
        progress: &Arc<Progress>,
    ) -> Publishing {
        self.publisher.publishing(paths, options, progress)
    }

    /// Withdraws `name`. The file stays on disk.
    ///
    /// # Errors
    /// The name is not registered, or the catalogue failed.
    pub async fn deregister(&self, name: &FileName) -> Result<(), PublishError> {
        self.publisher.deregister(name).await
    }

    /// Searches the own indexers only.
    ///
    /// # Errors
    /// No indexer answered.
    pub async fn search(&self, name: &FileName) -> Result<Answer, SearchError> {
        self.peers.search(name, Scope::Own, &Via::default()).await
    }

    /// Searches the network, up to `ttl_hops` hops beyond the own indexers.
    ///
    /// # Errors
    /// No indexer answered, or they refused the query.
    pub async fn query(&self, name: &FileName, ttl_hops: u8) -> Result<Answer, SearchError> {
        self.peers.search(name, Scope::Network { ttl_hops }, &Via::default()).await
    }

    /// Searches the own indexers only for many names; returns answers in the order of `names`.
    ///
    /// # Errors
    /// No indexer answered.
    pub async fn search_all(&self, names: &[FileName]) -> Result<Vec<Answer>, SearchError> {
        self.peers.search_all(names, Scope::Own, &Via::default()).await
    }

    /// Searches the network for many names, up to `ttl_hops` hops beyond the own indexers; returns answers in
    /// the order of `names`.
    ///
    /// # Errors
    /// No indexer answered, or they refused the query.
    pub async fn query_all(&self, names: &[FileName], ttl_hops: u8) -> Result<Vec<Answer>, SearchError> {
        self.peers.search_all(names, Scope::Network { ttl_hops }, &Via::default()).await
    }

    /// Follows a query for `name`: one tree of hops for each own indexer. Nothing in it is signed.
    ///
    /// # Errors
    /// No indexer is given.
    pub async fn trace(&self, name: &FileName, ttl_hops: u8) -> Result<Vec<TraceReply>, SearchError> {
        self.indexers.trace(name, ttl_hops).await
    }

    /// One page of the files that match: the first `limit` behind `after`, by name and origin, known to the own indexers
    /// and those within `ttl_hops` of them.
    ///
    /// # Errors
    /// No indexer answered, or a glob cannot be read.
    pub async fn find(
        &self,
        search: &Search,
        after: Option<&Position>,
        limit: usize,
        ttl_hops: u8,
    ) -> Result<Found, SearchError> {
        self.indexers.find(search, after, limit, ttl_hops).await
    }

    /// Brings back what a lost catalogue said. See [`repair`](crate::publish::repair).
    ///
    /// # Errors
    /// The catalogue failed; what was stored until then is there.
    pub(crate) async fn repair(&self, salvaged: Salvaged) -> Result<Repaired, CatalogueError> {
        repair(&self.library, &self.indexers, &self.peers, salvaged).await
    }

    /// What is held here under each of `names`, in their order.
    pub async fn held(&self, names: Vec<FileName>) -> Vec<Option<FileStatus>> {
        let look = move |library: &Arc<Library>| {
            let mut looker = Looker::default();
            let entries = names.iter().map(|name| library.catalogue.get(name));
            entries.map(|entry| Some(library.status(Arc::unwrap_or_clone(entry?), &mut looker))).collect()
        };
        self.library.blocking(look).await
    }

    /// Downloads the newest version of `name`, verified, and keeps it as a copy.
    ///
    /// # Errors
    /// See [`DownloadError`]. The file in the destination is unchanged.
    ///
    /// # Cancel safety
    /// Safe: verified chunks are kept for the next attempt.
    pub async fn download(
        &self,
        name: &FileName,
        options: DownloadOptions,
        progress: &Arc<Progress>,
    ) -> Result<Downloaded, DownloadError> {
        self.downloader.download(name, options, progress).await
    }

    /// Reads files by name for others. To be called on the runtime of this peer.
    pub(crate) fn reading(&self) -> Reading {
        Reading::new(&self.library, &self.peers, &self.downloader, Handle::current())
    }

    /// How far the writing of the file of `name` is, if it is being written.
    pub(crate) fn in_use(&self, name: &FileName) -> Option<Arc<Progress>> {
        self.library.in_use(name)
    }

    /// The files that are being written, and how far each is.
    pub(crate) fn writing(&self) -> Vec<(FileName, Arc<Progress>)> {
        self.library.writing()
    }

    /// Whoever writes the file of `name` does not put it in its place, if it is not there yet.
    pub(crate) fn end_writing(&self, name: &FileName) {
        self.library.end_writing(name);
    }

    /// Sends an event to all who look at them.
    pub(crate) fn tell(&self, event: Event) {
        self.library.tell(event);
    }

    /// Waits until the file of `name` is not being written.
    pub(crate) async fn until_free(&self, name: &FileName) {
        self.library.until_free(name).await;
    }

    /// The files that are not offered because they changed on disk, as far as is known.
    pub(crate) fn changed_files(&self) -> Vec<FileName> {
        self.library.changed_files()
    }

    /// Downloads many files; the outcomes come in pieces. Small files are fetched in batches, which is many times
    /// faster than one by one. A duplicate name is downloaded once.
    #[must_use]
    pub fn downloads(
        &self,
        names: &[FileName],
        options: &DownloadOptions,
        progress: &Arc<Progress>,
    ) -> Downloads {
        Downloads::new(&self.downloader, names, options, progress)
    }

    /// Downloads many files and returns all outcomes, in the order of `names`. See [`downloads`](Self::downloads).
    ///
    /// # Cancel safety
    /// Safe: complete files stay, the others are as before.
    pub async fn download_all(
        &self,
        names: &[FileName],
        options: &DownloadOptions,
        progress: &Arc<Progress>,
    ) -> Vec<(FileName, Result<Downloaded, DownloadError>)> {
        let (mut downloads, mut all) = (self.downloads(names, options, progress), Vec::new());
        while let Some(outcomes) = downloads.next().await {
            all.extend(outcomes);
        }
        all
    }

    /// Writes the newest version of `name` to `out`, in order, each chunk once verified. No copy is kept.
    ///
    /// # Errors
    /// See [`DownloadError`]. What was written to `out` is the beginning of the file.
    ///
    /// # Cancel safety
    /// Safe. One more write to `out` may follow.
    pub async fn read(
        &self,
        name: &FileName,
        options: &DownloadOptions,
        out: impl Write + Send + 'static,
        progress: &Arc<Progress>,
    ) -> Result<Downloaded, DownloadError> {
        self.downloader.read(name, options, out, progress).await
    }

    /// Stores all bytes of `from` as the file `name` in the share folder, to be published; returns its path.
    /// An existing file is replaced if it is this peer's own published version, or with `force`.
    ///
    /// # Errors
    /// The existing file is unchanged.
    ///
    /// # Cancel safety
    /// Once started it runs until `from` ends.
    pub async fn store(
        &self,
        name: &FileName,
        from: impl Read + Send + 'static,
        force: bool,
        progress: &Arc<Progress>,
    ) -> Result<PathBuf, DownloadError> {
        self.publisher.store(name, from, force, progress).await
    }

    /// The files published and held here, by name, in pieces. With `ask_origins` the origins of copies are asked
    /// first whether they are still the newest; otherwise no other node is asked.
    #[must_use]
    pub fn listing(&self, ask_origins: bool) -> Listing {
        Listing::new(&self.library, ask_origins.then_some(&self.peers), None, usize::MAX)
    }

    /// The same, of those after this name in the order of their text; pieces have at most `at_once` files.
    pub(crate) fn listing_after(
        &self,
        after: Option<&FileName>,
        at_once: usize,
        ask_origins: bool,
    ) -> Listing {
        Listing::new(&self.library, ask_origins.then_some(&self.peers), after, at_once)
    }

    /// The same, of these names.
    pub(crate) fn listing_of(&self, names: Vec<FileName>, ask_origins: bool) -> Listing {
        Listing::of(&self.library, ask_origins.then_some(&self.peers), names)
    }

    /// All files published and held here, without asking any other node. For few files: see
    /// [`listing`](Self::listing). What cannot be read is left out, and logged.
    pub async fn files(&self) -> Vec<FileStatus> {
        self.listed(false).await
    }

    /// Asks the origins of all copies now whether they are still the newest. The result is in
    /// [`files`](Self::files).
    pub async fn check_copies(&self) {
        self.listed(true).await;
    }

    async fn listed(&self, ask_origins: bool) -> Vec<FileStatus> {
        let (mut listing, mut files) = (self.listing(ask_origins), Vec::new());
        loop {
            match listing.next().await {
                Ok(Some(more)) => files.extend(more.into_iter().flatten()),
                Ok(None) => return files,
                Err(error) => {
                    tracing::error!(%error, "not all files are listed");
                    return files;
                }
            }
        }
    }

    /// Waits until the first attempt to connect to each indexer has ended.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn indexers_tried(&self) {
        self.indexers.tried().await;
    }

    /// What it belongs to.
    pub(crate) fn home(&self) -> &Home {
        &self.indexers.home
    }

    /// Connects to indexers for one command. See [`Indexers::connect`].
    pub(crate) async fn connect(&self, wanted: &[IndexerAddr]) -> Via {
        self.indexers.connect(wanted).await
    }

    /// Keeps the indexers that answered for later commands on this data folder.
    pub(crate) async fn remember(&self, via: &Via) {
        self.indexers.remember(via).await;
    }

    /// The indexers that a ticket made here names, the best first. See [`Indexers::known`].
    pub(crate) async fn known_indexers(&self) -> List<IndexerAddr, TICKET_INDEXERS_MAX> {
        self.indexers.known().await
    }

    /// As [`query_all`](Self::query_all), with further indexers.
    ///
    /// # Errors
    /// No indexer answered.
    pub(crate) async fn query_via(
        &self,
        names: &[FileName],
        ttl_hops: u8,
        via: &Via,
    ) -> Result<Vec<Answer>, SearchError> {
        self.peers.search_all(names, Scope::Network { ttl_hops }, via).await
    }

    /// The version of `name` that is published or held here.
    pub(crate) fn held_record(&self, name: &FileName) -> Option<VerifiedRecord> {
        self.library.catalogue.get(name).map(|entry| entry.record.clone())
    }

    #[cfg(test)]
    pub(crate) const fn rooms(&self) -> (&Arc<Library>, &Arc<Indexers>) {
        (&self.library, &self.indexers)
    }

    /// Withdraws everything registered, accepts no further connection, and waits until no upload is under way, at most
    /// [`DRAIN_MAX`].
    pub(crate) async fn drain(&self) {
        self.accepts.cancel();
        self.indexers.withdraw_all().await;
        let idle = async {
            while self.figures.slots() != Slots::default() {
                sleep(DRAIN_LOOK_EVERY).await;
            }
        };
        if timeout(DRAIN_MAX, idle).await.is_err() {
            tracing::warn!("uploads that were under way were given up");
        }
    }

    /// Withdraws everything registered, stops serving, and waits until every task has ended.
    pub async fn shutdown(self) {
        self.end().await;
    }

    /// The same, where others still refer to the peer.
    pub(crate) async fn end(&self) {
        self.indexers.withdraw_all().await;
        self.library.tasks.end().await;
    }

    /// Stops at once without withdrawing, as a crash would; waits until every task has ended.
    pub async fn abort(self) {
        self.library.tasks.end().await;
    }
}

impl Drop for PeerHandle {
    fn drop(&mut self) {
        self.library.tasks.stop.cancel();
    }
}
