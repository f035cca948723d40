//! What all tasks of one peer share, and how they run work beside their own.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use nekoproto::{FileName, Verifier, tasks::spawn_until, transport::Endpoint};
use tokio::{
    sync::{Notify, Semaphore, broadcast},
    task::JoinHandle,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Config, Event, catalogue::Catalogue, lock::DataLock, partials::Partials, rate::Rate, session::Session,
    state::freshness::CopyState, store::ShareFolder, subscribers::Subscribers, uploads::Uploads,
};

/// What all tasks of one peer share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) share: ShareFolder,
    /// The data folder's absolute path, without links in it.
    pub(crate) data_dir: PathBuf,
    pub(crate) catalogue: Catalogue,
    /// Freshness of the copies of other origins' files.
    pub(crate) copies: Mutex<HashMap<FileName, CopyState>>,
    pub(crate) subscribers: Subscribers,
    pub(crate) sessions: Vec<Session>,
    pub(crate) verifier: Verifier,
    pub(crate) events: broadcast::Sender<Event>,
    /// Wakes the consistency watch when there may be something to ask.
    pub(crate) watch_wake: Notify,
    /// Names being downloaded now.
    pub(crate) downloading: Mutex<HashSet<FileName>>,
    pub(crate) uploads: Uploads,
    /// Files being downloaded that others may have parts of.
    pub(crate) partials: Arc<Partials>,
    pub(crate) limit_up: Option<Rate>,
    pub(crate) limit_down: Option<Arc<Rate>>,
    /// Turns of outdated copies that are downloaded anew in the background.
    pub(crate) refetches: Semaphore,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
    /// Held as long as anything of this peer lives.
    #[expect(dead_code, reason = "holding it is its use")]
    pub(crate) lock: DataLock,
}

impl Shared {
    /// Tells whoever listens.
    pub(crate) fn tell(&self, event: Event) {
        drop(self.events.send(event)); // nobody may be listening
    }

    /// Whether others can download from this peer.
    pub(crate) const fn is_serving(&self) -> bool {
        self.config.listen.is_some()
    }

    pub(crate) fn copies(&self) -> MutexGuard<'_, HashMap<FileName, CopyState>> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn spawn_until_stop<F: Future<Output = ()> + Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(Arc<Self>) -> F,
    ) {
        spawn_until(&self.tasks, &self.stop, work(Arc::clone(self)));
    }

    /// Runs `work`, which blocks, away from the tasks that serve connections.
    pub(crate) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Arc<Self>) -> T + Send + 'static,
    ) -> T {
        let shared = Arc::clone(self);
        // Tracked: the data folder is free only when nothing uses it any more.
        finished(self.tasks.spawn_blocking(move || work(&shared))).await
    }
}

/// Runs `work`, which blocks, on a thread of its own. A panic in it goes on here.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    finished(tokio::task::spawn_blocking(work)).await
}

async fn finished<T>(work: JoinHandle<T>) -> T {
    match work.await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => std::future::pending().await, // the runtime is ending
        },
    }
}
