//! What this peer knows of its files: what it publishes and holds, how fresh its copies are, and which
//! peers subscribe. News is *recorded* here, durably; [`watch`](crate::watch) acts on it.

mod accepted;
pub(crate) mod browse;
pub(crate) mod census;
pub(crate) mod changed;
pub(crate) mod copies;
pub(crate) mod events;
pub(crate) mod hooks;
pub(crate) mod learn;
pub(crate) mod opened;
pub(crate) mod own_paths;
pub(crate) mod status;
pub(crate) mod subscribers;
#[cfg(test)]
pub(crate) mod tests;

use std::{
    collections::{HashMap, hash_map},
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use nekoindexer::checks::SignatureChecks;
use nekoproto::{FileName, NodeId};
use parking_lot::Mutex;
use tokio::sync::{Notify, broadcast, watch};
use tokio_util::sync::CancellationToken;

use self::{
    changed::ChangedFiles,
    events::{Counters, EVENTS_KEPT, Event},
    hooks::FollowerHook,
    learn::News,
    opened::Reads,
    own_paths::OwnPaths,
    subscribers::Subscribers,
};
use crate::{
    state::{copies::Copies, outdated::Outdated, readers::Readers},
    storage::{
        catalogue::{Catalogue, Lent},
        lock::DataLock,
        share_folder::ShareFolder,
    },
    util::{clock, progress::Progress, tasks::Tasks},
};

#[derive(Debug)]
pub(crate) struct Library {
    pub(crate) node: NodeId,
    pub(crate) share: ShareFolder,
    /// The data folder's absolute path, without symbolic links.
    pub(crate) data_dir: PathBuf,
    /// It, and the files that are never shared.
    pub(crate) own: Arc<OwnPaths>,
    pub(crate) catalogue: Catalogue,
    pub(crate) subscribers: Subscribers,
    /// Who was heard as a reader in the last days.
    pub(crate) readers: Mutex<Readers>,
    pub(crate) reads: Reads,
    pub(crate) lent: Lent,
    hooks: Mutex<HashMap<FileName, Vec<FollowerHook>>>,
    pub(crate) began: Instant,
    pub(crate) checks: SignatureChecks,
    pub(crate) tasks: Tasks,
    pub(crate) counters: Arc<Counters>,
    /// Whether other nodes can download from this peer.
    pub(crate) is_serving: bool,
    /// It serves nothing but what it downloads, while it does.
    pub(crate) is_member: AtomicBool,
    /// As a reader: how long a confirmation counts, if shorter than the policy of a file says.
    ttr: Option<Duration>,
    copies: Mutex<Copies>,
    /// The outdated copies, and what is followed, that are to be downloaded or dropped.
    pub(crate) outdated: Mutex<Outdated>,
    /// Names whose file is being written, by a download or from a pipe, how far that is, and what ends it.
    in_use: Mutex<HashMap<FileName, (Arc<Progress>, CancellationToken)>>,
    /// Wakes who waits until a name is in use no more, or until the command of a follower has answered.
    pub(crate) freed: Notify,
    news: Mutex<News>,
    /// This peer has no indexer, so that nobody else lists its numbers.
    is_alone: bool,
    /// An indexer has answered a registration of everything since this process began: it would have told of later numbers.
    pub(crate) is_registered: AtomicBool,
    /// Indexers that could not connect to this peer, and where they tried.
    pub(crate) unreached: Mutex<HashMap<NodeId, SocketAddr>>,
    /// Another process that uses its key, because of which an indexer refuses this peer.
    pub(crate) key_in_use: watch::Sender<Option<OtherNode>>,
    pub(crate) changed: ChangedFiles,
    /// Wakes [`watch`](crate::watch) when there may be news, or a copy to confirm.
    pub(crate) wake: Notify,
    events: broadcast::Sender<Event>,
    /// Held until the last reference to this library is dropped.
    #[expect(dead_code, reason = "holding it is its use")]
    lock: DataLock,
}

/// Another process that uses the key of this peer.
#[derive(Clone, Debug)]
pub(crate) struct OtherNode {
    /// What it is and what to do, as text for the user.
    pub(crate) why: String,
    /// Since when it is connected to the indexer that says so; `None`: since before this machine started.
    pub(crate) since: Option<Instant>,
}

pub(crate) struct Opened {
    pub(crate) share: ShareFolder,
    pub(crate) data_dir: PathBuf,
    pub(crate) secret_files: Vec<PathBuf>,
    pub(crate) catalogue: Catalogue,
    pub(crate) lock: DataLock,
}

impl Library {
    pub(crate) fn new(
        opened: Opened,
        node: NodeId,
        is_serving: bool,
        indexers: usize,
        ttr: Option<Duration>,
    ) -> (Arc<Self>, broadcast::Receiver<Event>) {
        let Opened { share, data_dir, secret_files, catalogue, lock } = opened;
        let (events, first_events) = broadcast::channel(EVENTS_KEPT);
        let (heard, labels) = catalogue.heard();
        let library = Self {
            node,
            share,
            own: Arc::new(OwnPaths::new(data_dir.clone(), secret_files)),
            data_dir,
            readers: Mutex::new(Readers::new(heard, labels)),
            catalogue,
            subscribers: Subscribers::default(),
            reads: Reads::default(),
            lent: Lent::default(),
            hooks: Mutex::default(),
            began: clock::now(),
            checks: SignatureChecks::default(),
            tasks: Tasks::default(),
            counters: Arc::default(),
            is_serving,
            is_member: AtomicBool::new(false),
            ttr,
            copies: Mutex::default(),
            outdated: Mutex::default(),
            in_use: Mutex::default(),
            freed: Notify::new(),
            news: Mutex::default(),
            is_alone: indexers == 0,
            is_registered: AtomicBool::new(false),
            unreached: Mutex::default(),
            key_in_use: watch::Sender::default(),
            changed: ChangedFiles::default(),
            wake: Notify::new(),
            events,
            lock,
        };
        (Arc::new(library), first_events)
    }

    /// Whether indexers list what it downloads.
    pub(crate) fn is_listed(&self) -> bool {
        self.is_serving || self.is_member.load(Ordering::Acquire)
    }

    pub(crate) fn tell(&self, event: Event) {
        self.counters.note(&event);
        drop(self.events.send(event)); // there may be no receiver
    }

    pub(crate) fn events(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    pub(crate) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Arc<Self>) -> T + Send + 'static,
    ) -> T {
        let library = Arc::clone(self);
        self.tasks.blocking(move || work(&library)).await
    }

    /// Reserves `name` for writing its file, until the guard is dropped; `None` if it is reserved already.
    pub(crate) fn reserve(self: &Arc<Self>, name: &FileName, progress: &Arc<Progress>) -> Option<NameInUse> {
        let stop = self.tasks.stop.child_token();
        match self.in_use.lock().entry(name.clone()) {
            hash_map::Entry::Occupied(_) => return None,
            hash_map::Entry::Vacant(free) => free.insert((Arc::clone(progress), stop.clone())),
        };
        Some(NameInUse { library: Arc::clone(self), name: name.clone(), stop })
    }

    /// Whoever writes the file of `name` does not put it in its place, if it is not there yet.
    pub(crate) fn end_writing(&self, name: &FileName) {
        if let Some((_, stop)) = self.in_use.lock().get(name) {
            stop.cancel();
        }
    }

    pub(crate) fn in_use(&self, name: &FileName) -> Option<Arc<Progress>> {
        self.in_use.lock().get(name).map(|(progress, _)| Arc::clone(progress))
    }

    pub(crate) fn writing(&self) -> Vec<(FileName, Arc<Progress>)> {
        let in_use = self.in_use.lock();
        in_use.iter().map(|(name, (progress, _))| (name.clone(), Arc::clone(progress))).collect()
    }

    pub(crate) async fn until_free(&self, name: &FileName) {
        loop {
            let freed = self.freed.notified(); // counts from here
            if !self.is_in_use(name) {
                return;
            }
            freed.await;
        }
    }

    pub(crate) fn is_in_use(&self, name: &FileName) -> bool {
        self.in_use.lock().contains_key(name)
    }
}

#[derive(Debug)]
pub(crate) struct NameInUse {
    library: Arc<Library>,
    name: FileName,
    /// Cancelled when the peer stops, the name is deregistered, or this is dropped.
    pub(crate) stop: CancellationToken,
}

impl Drop for NameInUse {
    fn drop(&mut self) {
        self.stop.cancel(); // first: what still works for it on the disk sees that before anybody takes the name
        self.library.in_use.lock().remove(&self.name);
        self.library.freed.notify_waiters();
    }
}
