//! The only module that acts on news, which [`Library`] records: it refetches or drops outdated copies, downloads what is followed,
//! settles numbers that were used elsewhere with the same key, withdraws files that changed on disk, and
//! forwards newer versions to the own indexers. It also asks origins before the bound of a copy expires, so that
//! a lost push is found within the bound.

mod attempts;

use std::{
    collections::{BTreeMap, HashMap},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{FutureExt, StreamExt, stream::FuturesUnordered};
use nekoproto::{FileName, NodeId, VerifiedRecord};
use parking_lot::Mutex;
use tokio::{
    sync::{OnceCell, oneshot},
    time::sleep,
};

use crate::{
    download::{DownloadOptions, Downloader},
    failure::Failure,
    indexers::Indexers,
    library::{Library, changed::Comparison, events::Event, learn::News, status::on_disk},
    peers::Peers,
    publish::Publisher,
    sets,
    state::{freshness::OnStale, outdated::Ended},
    storage::catalogue::Entry,
    util::clock,
};

const LOOK_EVERY: Duration = Duration::from_secs(30);
const UNSETTLED_PAUSE: Duration = Duration::from_secs(1);
/// After a file with other bytes the disk has a rest, of this many times the duration of the comparison: it may have to be
/// compared again and again.
const REST_FACTOR: u32 = 4;
const REST_MAX: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Reconciler {
    pub(crate) library: Arc<Library>,
    pub(crate) indexers: Arc<Indexers>,
    pub(crate) peers: Arc<Peers>,
    pub(crate) downloader: Arc<Downloader>,
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) waiting: Mutex<HashMap<FileName, Vec<Waiter>>>,
}

/// Somebody who waits for a download. It is repeated until it succeeds.
#[derive(Debug)]
pub(crate) struct Waiter {
    options: DownloadOptions,
    /// Whether it is repeated even if it fails and only a user can change that.
    lasts: bool,
    done: oneshot::Sender<Result<(), Failure>>,
}

/// Whether the newest version of `held` that is known and wanted is in its place, as it came: what has another stamp is
/// compared. Of a set each file is looked at. Blocking.
pub(crate) fn is_up_to_date(library: &Library, held: &Entry) -> bool {
    let name = &held.record.name;
    if library.wanted(name).is_some() {
        return false;
    }
    if held.record.policy.is_set() {
        return sets::is_as_it_came(library, held).is_ok();
    }
    // What has its place by now is looked at next.
    on_disk(held).is_none() || library.compare(name) == Comparison::Same
}

impl Reconciler {
    /// Acts on news and asks origins, until the peer stops. A peer that does not serve asks only on request.
    pub(crate) async fn run(self: Arc<Self>) {
        let asks = self.library.is_serving;
        let outdated = &self.library.outdated;
        if asks {
            if let Err(error) = self.library.blocking(|library| library.watch_all()).await {
                tracing::error!(%error, "not all copies are watched");
            }
            self.spawn(|this| async move { this.compare_files().await });
            self.library.blocking(sets::settle).await;
            sets::sweep_later(&self.library); // the last run may have replaced some
            // Outdated copies that the last run did not handle.
            let outdated = self.library.outdated();
            self.library.note(|news| news.outdated.extend(outdated));
        }
        let (mut attempts, mut asking) = (FuturesUnordered::new(), FuturesUnordered::new());
        let mut blocked = HashMap::new(); // what their users were told last
        loop {
            let News { outdated: news, wanted, mut heard, changed, own, .. } = self.library.take_news();
            if self.library.is_serving && !changed.is_empty() {
                self.spawn(|this| async move { this.indexers.look_at(changed.into_iter().collect()).await });
            }
            if !own.is_empty() {
                self.spawn(|this| Arc::clone(&this.publisher).resolve(own.into_values().collect()));
            }
            self.line_up(wanted, true).await;
            self.line_up(news, false).await;
            let now = clock::now();
            let begun = outdated.lock().begin(now);
            // What is downloaded or dropped at once is registered or withdrawn then; a withdrawal is not downloaded.
            heard.retain(|record| record.is_withdrawal() || !begun.contains(&record.name));
            self.pass_on(heard);
            attempts.extend(begun.into_iter().map(|name| {
                let waiting = self.waiting.lock().remove(&name).unwrap_or_default();
                self.attempt(name, waiting)
            }));
            let (asked, ask_at) = if asks { self.library.ask(now) } else { Default::default() };
            asking.extend(asked.into_iter().map(|(origin, names)| self.ask(origin, names)));
            let next = outdated.lock().next_at(now).into_iter().chain(ask_at).min();
            let pause = next.map_or(LOOK_EVERY, |next| next.saturating_duration_since(clock::now()));
            tokio::select! {
                () = sleep(pause.min(LOOK_EVERY)) => {}
                () = self.library.wake.notified() => {}
                Some((origin, is_answered)) = asking.next() => self.library.asked(origin, is_answered),
                Some((name, (how, why), left)) = attempts.next() => {
                    if !left.is_empty() {
                        self.waiting.lock().entry(name.clone()).or_default().extend(left);
                    }
                    let is_first = outdated.lock().ended(&name, how, clock::now(), rand::random());
                    if is_first {
                        self.pass_on(self.library.wanted(&name).into_iter().collect());
                    }
                    let before = blocked.remove(&name);
                    if let (Ended::Blocked, Some(why)) = (how, &why) {
                        blocked.insert(name.clone(), why.clone());
                    }
                    let is_changed = how == Ended::Blocked && before != why;
                    if let Some(why) = why.filter(|_| is_first || is_changed) {
                        self.library.tell(Event::Failed { name, why });
                    }
                }
            }
        }
    }

    /// Tells the own indexers, which may list older versions.
    fn pass_on(self: &Arc<Self>, heard: Vec<VerifiedRecord>) {
        if self.library.is_serving && !heard.is_empty() {
            self.spawn(|this| async move { this.indexers.pass_on(&heard).await });
        }
    }

    /// Has the newest version of `name` downloaded. If it `lasts`, also what only a user can change is waited for.
    ///
    /// # Cancel safety
    /// Safe: the download ends soon.
    pub(crate) async fn bring(
        &self,
        name: &FileName,
        options: DownloadOptions,
        lasts: bool,
    ) -> Result<(), Failure> {
        let (done, ended) = oneshot::channel();
        // What is not held counts as of an origin of its own.
        let unknown = || NodeId::from_bytes(*blake3::hash(name.as_str().as_bytes()).as_bytes());
        let origin = self.library.catalogue.get(name).map_or_else(unknown, |held| held.record.origin);
        self.waiting.lock().entry(name.clone()).or_default().push(Waiter { options, lasts, done });
        self.library.note(|news| news.wanted.insert(name.clone(), origin));
        match ended.await {
            Ok(result) => result,
            Err(_) => std::future::pending().await, // the peer has ended
        }
    }

    /// Adds those of `news` about which something is to be done; all if they are `followed`.
    async fn line_up(&self, mut news: BTreeMap<FileName, NodeId>, followed: bool) {
        if news.is_empty() {
            return;
        }
        let of_all = self.downloader.on_stale;
        let wanted = move |library: &Arc<Library>| {
            let on_stale = |name: &FileName| library.preference(name).on_stale.unwrap_or(of_all);
            news.retain(|name, _| followed || on_stale(name) != OnStale::Keep);
            for (name, origin) in news {
                let need = library.need(&name, origin);
                library.outdated.lock().add(name, need);
            }
        };
        self.library.blocking(wanted).await;
    }

    /// Asks one origin about some of its files. A panic in it ends this question alone.
    async fn ask(&self, origin: NodeId, names: Vec<FileName>) -> (NodeId, bool) {
        let asking = async {
            let copies = self.library.blocking(move |library| library.asked_for(&names)).await;
            // Whoever is asked is told what is held: of a set that is when its folder is brought to its version.
            let library = &self.library;
            let (later, copies): (Vec<_>, Vec<_>) = copies.into_iter().partition(|copy| {
                (copy.policy.is_set() && library.is_in_use(&copy.name)) || library.is_to_be_judged(&copy.name)
            });
            later.iter().for_each(|copy| library.postpone(copy));
            copies.is_empty() || self.peers.confirm_one(origin, copies, &OnceCell::new()).await
        };
        (origin, AssertUnwindSafe(asking).catch_unwind().await.unwrap_or(false))
    }

    /// Compares the files that changed on disk, one at a time, with what was published.
    async fn compare_files(&self) {
        let changed = &self.library.changed;
        let mut last = None;
        loop {
            let Some(name) = changed.next(last.as_ref()) else {
                changed.to_compare.notified().await;
                continue;
            };
            let (began, compared_name) = (Instant::now(), name.clone());
            let compared = self.library.blocking(move |library| library.compare(&compared_name)).await;
            if changed.note_compared(&name, compared) {
                self.library.tell(Event::Changed(name.clone()));
            }
            if compared != Comparison::Unsettled {
                self.indexers.look_at(vec![name.clone()]).await;
            }
            match compared {
                Comparison::Same => {}
                Comparison::Differs => sleep((began.elapsed() * REST_FACTOR).min(REST_MAX)).await,
                Comparison::Unsettled => sleep(UNSETTLED_PAUSE).await,
            }
            last = Some(name);
        }
    }

    fn spawn<F: Future<Output = ()> + Send + 'static>(self: &Arc<Self>, work: impl FnOnce(Arc<Self>) -> F) {
        self.library.tasks.spawn_until_stop(work(Arc::clone(self)));
    }
}
