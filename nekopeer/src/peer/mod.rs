//! [`Peer`] and its handle: the interface of a running peer. This file starts and ends it.

mod files;
pub(crate) use self::files::ReadBy;
mod finding;
mod throttling;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use nekoproto::{
    FileName, Identity, NodeId, Remedy, Role,
    budget::Budget,
    transport::{Endpoint, EndpointConfig, Listener},
};
use parking_lot::Mutex;
use tokio::{
    sync::broadcast,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

pub use self::throttling::Limits;
use crate::{
    config::Config,
    download::{Downloader, idle_sources::IdleSources, membership::Membership},
    failure::Failure,
    figures::Figures,
    indexers::{Dialed, Indexers},
    library::{Library, Opened, events::Event},
    peers::Peers,
    publish::Publisher,
    serve::{SlotCounts, Uploads, partial_files::PartialFiles},
    sets,
    storage::{
        catalogue::{self, Catalogue, WITHDRAWALS_MAX, Withdrawal},
        lock::{DataLock, unusable},
        partial,
        share_folder::ShareFolder,
    },
    util::{tasks::blocking, throttle::Throttle},
    watch::Reconciler,
};

pub(crate) const KEY_FILE: &str = "peer.key";
/// Longest time that uploads under way have to end after a request to stop.
const DRAIN_MAX: Duration = Duration::from_secs(5);
/// Interval between two looks at what is under way.
const DRAIN_LOOK_EVERY: Duration = Duration::from_millis(20);

/// Starts peers.
#[derive(Debug)]
pub struct Peer;

/// The open folders of a peer that is about to start, and its side of connections. Dropped, the data folder is free again.
pub(crate) struct Prepared {
    opened: Opened,
    pub(crate) endpoint: Arc<Endpoint>,
}

/// A running peer. Dropping the handle stops it at once; [`shutdown`](Self::shutdown) first withdraws its
/// files from the indexers and waits until all its tasks have ended.
#[derive(Debug)]
pub struct PeerHandle {
    pub(crate) library: Arc<Library>,
    pub(crate) indexers: Arc<Indexers>,
    pub(crate) peers: Arc<Peers>,
    pub(crate) downloader: Arc<Downloader>,
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) reconciler: Arc<Reconciler>,
    /// Of a peer that serves nothing but what it downloads.
    pub(crate) membership: Option<Arc<Membership>>,
    throttle: Arc<Throttle>,
    local_addr: Option<SocketAddr>,
    pub(crate) figures: Arc<Figures>,
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
    pub async fn spawn(config: Config) -> Result<PeerHandle, Failure> {
        let prepared = Self::prepare(&config).await?;
        Self::start(prepared, config, Dialed::new()).await
    }

    /// Opens the folders of `config` and loads its key; its indexers and where it listens do not count yet.
    pub(crate) async fn prepare(config: &Config) -> Result<Prepared, Failure> {
        let (opened, identity) = open_folders(config.clone()).await?;
        let endpoint_config = EndpointConfig {
            identity,
            role: Role::Peer,
            network: config.network.clone(),
            security: config.security,
            access: config.access.clone(),
        };
        let endpoint = Endpoint::with_budget(endpoint_config, Budget::new(config.memory));
        let endpoint = endpoint.map_err(Failure::general)?;
        Ok(Prepared { opened, endpoint })
    }

    /// Starts what was [prepared](Self::prepare) with the same folders, network and access. Its indexers need not be
    /// reachable; of those that it does not tell where it listens, connections may be `dialed` already.
    pub(crate) async fn start(
        Prepared { opened, endpoint }: Prepared,
        config: Config,
        dialed: Dialed,
    ) -> Result<PeerHandle, Failure> {
        let listen = |addr| {
            let failed = |error| Failure::conflict(format!("cannot listen on {addr}: {error}"));
            endpoint.bind(addr).map_err(|error| failed(error).remedied(Remedy::Listen))
        };
        let (joins, serves) = match config.serves_downloads_only {
            true => (config.listen, None),
            false => (None, config.listen),
        };
        let listener = serves.map(listen).transpose()?;
        let local_addr = listener.as_ref().map(Listener::local_addr);
        let indexers = config.indexers.len();
        let (library, first_events) =
            Library::new(opened, endpoint.node(), listener.is_some(), indexers, config.ttr);
        library.blocking(|library| sets::sweep(library)).await;
        let partial_files = Arc::new(PartialFiles::default());
        let throttle = Arc::new(Throttle::new(config.limit_up, config.limit_down));
        let uploads = config
            .listen
            .map(|_| Uploads::new(&library, &partial_files, &throttle, config.serves_downloads_only));
        let indexers = Indexers::spawn(&config, &endpoint, &library, uploads.clone(), dialed);
        let membership = joins
            .zip(uploads.as_ref())
            .map(|(listen, uploads)| Membership::new(listen, &endpoint, &library, &indexers, uploads));
        let peers = Peers::new(&endpoint, &library, &indexers, config.label.clone());
        let downloader = Arc::new(Downloader {
            library: Arc::clone(&library),
            indexers: Arc::clone(&indexers),
            peers: peers.of_downloads(membership.is_some()),
            endpoint: Arc::clone(&endpoint),
            partial_files,
            throttle: Arc::clone(&throttle),
            membership: membership.clone(),
            idle_sources: IdleSources::default(),
            on_stale: config.on_stale,
        });
        let publisher = Publisher::new(&library, &indexers, &peers, &config);
        let reconciler = Arc::new(Reconciler {
            library: Arc::clone(&library),
            indexers: Arc::clone(&indexers),
            peers: Arc::clone(&peers),
            downloader: Arc::clone(&downloader),
            publisher: Arc::clone(&publisher),
            waiting: Mutex::default(),
        });
        let tasks = &library.tasks;
        let accepts = tasks.stop.child_token();
        let serving = uploads.zip(listener).map(|(uploads, listener)| {
            let arrivals = listener.arrivals();
            uploads.accept(listener, &accepts);
            tasks.tracker.spawn(Arc::clone(&library).keep_readers_stored());
            (uploads, arrivals)
        });
        let figures = Figures::new(endpoint.budget(), &library, serving);
        tasks.spawn_until_stop(Arc::clone(&reconciler).run());
        Ok(PeerHandle {
            library,
            indexers,
            peers,
            downloader,
            publisher,
            reconciler,
            membership,
            throttle,
            local_addr,
            figures,
            accepts,
            first_events: Mutex::new(Some(first_events)),
        })
    }
}

/// Why nothing can be done with a data folder whose key is gone and whose catalogue is not: another key is another node.
pub(crate) fn lost_key(folder: &Path) -> Option<Failure> {
    let (key, catalogue) = (folder.join(KEY_FILE), folder.join(catalogue::FILE));
    let is_lost = !key.try_exists().unwrap_or(true) && catalogue.try_exists().unwrap_or(false);
    let help = format!("put it back, or move {} away to begin as another node", catalogue.display());
    is_lost.then(|| Failure::conflict(format!("{} is missing: {help}", key.display())))
}

async fn open_folders(config: Config) -> Result<(Opened, Identity), Failure> {
    blocking(move || {
        let share = ShareFolder::open(&config.dir)?;
        let folder = config.data_dir();
        let mut lock = DataLock::take(&folder)?;
        let key = folder.join(KEY_FILE);
        if let Some(failure) = lost_key(&folder) {
            return Err(failure);
        }
        let is_missing = lock.had_catalogue && key.exists() && !folder.join(catalogue::FILE).exists();
        let identity = Identity::load_or_create(&key).map_err(Failure::general)?;
        let catalogue = Catalogue::open(&folder, identity.clone())?;
        if is_missing {
            catalogue.set_lost(true)?;
        }
        if catalogue.is_lost()? && !config.repairs {
            let path = folder.join(catalogue::FILE);
            warn!(path = %path.display(), "the catalogue is damaged: it was missing, and a new one was begun; nekopeer repair \
                brings back what was shared and held here");
        }
        catalogue.settle_all()?;
        partial::sweep(&folder);
        lock.note_catalogue().map_err(unusable(&folder))?;
        let data_dir = folder.canonicalize().map_err(unusable(&folder))?;
        let secret_files: Vec<PathBuf> =
            config.secret_files.iter().filter_map(|path| path.canonicalize().ok()).collect();
        unshare_secrets(&share, &catalogue, &secret_files)?;
        Ok((Opened { share, data_dir, secret_files, catalogue, lock }, identity))
    })
    .await
}

/// Withdraws what was shared under its path in the share folder before it was said to be secret.
fn unshare_secrets(
    share: &ShareFolder,
    catalogue: &Catalogue,
    secret_files: &[PathBuf],
) -> Result<(), Failure> {
    for path in secret_files {
        let name = path.strip_prefix(share.root()).ok().and_then(|below| FileName::from_path(below).ok());
        let entry = name.and_then(|name| catalogue.get(&name)).filter(|entry| catalogue.is_own(entry));
        if let Some(entry) = entry.filter(|entry| entry.path == *path) {
            let names = [entry.record.name.clone()];
            let gone = catalogue.withdraw(&names, Withdrawal::Named, WITHDRAWALS_MAX, |_| ())?;
            gone.into_iter().try_for_each(|gone| gone.map(drop))?;
            warn!(path = %path.display(), "this secret file was shared: it is unshared now; make a new secret if it is one");
        }
    }
    Ok(())
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

    /// Withdraws everything registered, accepts no further connection, and waits until no upload is under way, at most
    /// [`DRAIN_MAX`].
    pub(crate) async fn drain(&self) {
        self.accepts.cancel();
        self.indexers.withdraw_all().await;
        let idle = async {
            while self.figures.slots() != SlotCounts::default() {
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
