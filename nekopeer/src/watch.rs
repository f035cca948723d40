//! The only module that acts on news, which [`Library`] records: it refetches or drops outdated copies,
//! settles numbers that were used elsewhere with the same key, withdraws files that changed on disk, and forwards newer versions to the own indexers.
//! It also asks origins before the bound of a copy expires, so that a lost push is found within the bound.

use std::{sync::Arc, time::Duration};

use nekoproto::{FileName, transport::Backoff};
use tokio::{sync::Semaphore, task::JoinSet, time::sleep};

use crate::{
    download::{DownloadError, DownloadOptions, Downloaded, Downloader},
    indexers::Indexers,
    library::{Library, News, events::Event, status::on_disk},
    peers::Peers,
    publish::Publisher,
    state::freshness::OnStale,
    util::{clock, progress::Progress},
};

/// Maximum number of concurrent refetches.
const REFETCHES_MAX: usize = 4;
/// Minimum and maximum pause before a failed refetch is retried.
const REFETCH_PAUSE: Duration = Duration::from_millis(500);
const REFETCH_PAUSE_MAX: Duration = Duration::from_secs(30);
/// Interval between checks of an outdated copy that is being downloaded.
const DROP_PAUSE: Duration = Duration::from_millis(200);
/// Maximum time between two rounds.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// Acts on news.
#[derive(Debug)]
pub(crate) struct Watch {
    library: Arc<Library>,
    indexers: Arc<Indexers>,
    peers: Arc<Peers>,
    downloader: Arc<Downloader>,
    publisher: Arc<Publisher>,
    on_stale: OnStale,
    /// Permits of refetches.
    refetches: Semaphore,
}

impl Watch {
    pub(crate) fn new(
        library: &Arc<Library>,
        indexers: &Arc<Indexers>,
        peers: &Arc<Peers>,
        downloader: &Arc<Downloader>,
        publisher: &Arc<Publisher>,
        on_stale: OnStale,
    ) -> Arc<Self> {
        Arc::new(Self {
            library: Arc::clone(library),
            indexers: Arc::clone(indexers),
            peers: Arc::clone(peers),
            downloader: Arc::clone(downloader),
            publisher: Arc::clone(publisher),
            on_stale,
            refetches: Semaphore::new(REFETCHES_MAX),
        })
    }

    /// Acts on news and asks origins, until the peer stops. A peer that does not serve asks only on request.
    pub(crate) async fn run(self: Arc<Self>) {
        let asks = self.library.is_serving;
        if asks {
            // Outdated copies that the last run did not handle.
            self.library.outdated().into_iter().for_each(|name| self.act_on_outdated(name));
        }
        let mut asking = JoinSet::new();
        loop {
            self.act(self.library.take_news());
            let may_ask = asks && asking.is_empty();
            let due = if may_ask { self.library.due(Some(clock::now())) } else { Vec::new() };
            if !due.is_empty() {
                let peers = Arc::clone(&self.peers);
                asking.spawn(async move { peers.confirm(due).await });
            }
            let next = if asks && asking.is_empty() { self.library.next_due() } else { None };
            let pause = next.map_or(LOOK_EVERY, |next| next.saturating_duration_since(clock::now()));
            tokio::select! {
                () = sleep(pause.min(LOOK_EVERY)) => {}
                () = self.library.woken() => {}
                Some(_) = asking.join_next() => {}
            }
        }
    }

    fn act(self: &Arc<Self>, news: News) {
        let News { outdated, changed, heard } = news;
        outdated.into_iter().for_each(|name| self.act_on_outdated(name));
        if !self.library.is_serving {
            return;
        }
        if !changed.is_empty() {
            let changed = changed.into_iter().collect();
            self.spawn(|watch| async move { watch.indexers.look_at(changed).await });
        }
        let own = self.library.take_own_news();
        if !own.is_empty() {
            self.spawn(|watch| Arc::clone(&watch.publisher).resolve(own));
        }
        if !heard.is_empty() {
            self.spawn(|watch| async move { watch.indexers.pass_on(&heard).await });
        }
    }

    /// Applies the reader's policy to an outdated copy, in the background.
    fn act_on_outdated(self: &Arc<Self>, name: FileName) {
        match self.on_stale {
            OnStale::Keep => {}
            OnStale::Refetch => self.spawn(|watch| async move { watch.refetch(&name).await }),
            OnStale::Drop => self.spawn(|watch| async move { watch.drop_copy(name).await }),
        }
    }

    fn spawn<F: Future<Output = ()> + Send + 'static>(self: &Arc<Self>, work: impl FnOnce(Arc<Self>) -> F) {
        self.library.tasks.spawn_until_stop(work(Arc::clone(self)));
    }

    /// Downloads the newest version once there is a permit, with retries until it succeeds: news of it may
    /// arrive before an indexer lists it.
    async fn refetch(&self, name: &FileName) {
        let library = &self.library;
        let Ok(_permit) = self.refetches.acquire().await else { return };
        let (mut backoff, mut told) = (Backoff::new(REFETCH_PAUSE, REFETCH_PAUSE_MAX), false);
        while library.is_outdated(name) {
            let held = library.catalogue.get(name).map(|entry| entry.record.version);
            let (why, last) = match self.refetch_once(name).await {
                Ok(done) if Some(done.record.version) > held => {
                    let (version, bytes_moved) = (done.record.version, done.bytes_moved);
                    library.tell(Event::Refreshed { name: name.clone(), version, bytes_moved });
                    continue;
                }
                Ok(done) => (format!("only version {} can be found", done.record.version), false),
                Err(DownloadError::AlreadyRunning(_)) => (String::new(), false),
                Err(error) => (error.to_string(), !error.may_pass()),
            };
            if !told && !why.is_empty() {
                told = true;
                library.tell(Event::Failed { name: name.clone(), why });
            }
            if last {
                return;
            }
            sleep(backoff.pause(rand::random())).await;
        }
    }

    async fn refetch_once(&self, name: &FileName) -> Result<Downloaded, DownloadError> {
        // A copy that was downloaded to another place stays there.
        let path = self.library.catalogue.get(name).map(|entry| entry.path.clone());
        let output = path.filter(|path| *path != self.library.share.root().join(name.as_path()));
        let options = DownloadOptions { output, ..DownloadOptions::default() };
        self.downloader.download(name, options, &Arc::new(Progress::default())).await
    }

    async fn drop_copy(&self, name: FileName) {
        let library = &self.library;
        // A running download may be of the newer version, which must not be dropped.
        let _reserved = loop {
            match library.reserve(&name) {
                Some(reserved) => break reserved,
                None => sleep(DROP_PAUSE).await,
            }
        };
        if !library.is_outdated(&name) {
            return;
        }
        let remove = {
            let name = name.clone();
            move |library: &Arc<Library>| {
                let entry = library.catalogue.get(&name)?;
                // A file that the user changed is kept.
                let intact = on_disk(&entry).is_none();
                (intact && std::fs::remove_file(&entry.path).is_ok()).then_some(())
            }
        };
        let removed = library.blocking(remove).await;
        let gone = self.publisher.deregister(&name).await;
        library.tell(match (removed, gone) {
            (Some(()), Ok(())) => Event::Dropped(name),
            (None, _) => Event::Failed { name, why: "the outdated copy was changed and is kept".to_owned() },
            (_, Err(error)) => Event::Failed { name, why: error.to_string() },
        });
    }
}
