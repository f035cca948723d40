//! Tells neighbors of our names: at once when one is new, and now and then that nothing is.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use dashmap::DashMap;
use nekoproto::{
    IndexerServiceClient, List,
    summary::{SummaryNews, SummaryUpdate},
    transport::call_until,
};
use tokio::{
    sync::watch,
    time::{sleep, timeout, timeout_at},
};
use tracing::{debug, warn};

use crate::{
    Shared, on_drop,
    state::summary::{Fresh, TRUSTED_FOR, Tell, Told},
};

/// How often a neighbor hears that nothing is new: several times in [`TRUSTED_FOR`].
const CONFIRMED_EVERY: Duration = Duration::from_millis(400);
/// How long a neighbor may take to acknowledge.
const ACKNOWLEDGED_WITHIN: Duration = TRUSTED_FOR;
/// Pause after a neighbor did not take something.
const AGAIN_AFTER: Duration = Duration::from_millis(50);
const _: () = assert!(2 * CONFIRMED_EVERY.as_millis() < TRUSTED_FOR.as_millis());

/// The neighbors that are kept informed, and how far each has come.
#[derive(Debug)]
pub(crate) struct Feeds {
    running: DashMap<u64, Feed>,
    next: AtomicU64,
    /// Our summary has changed.
    news: watch::Sender<()>,
    /// A neighbor has come further.
    progress: watch::Sender<()>,
}

#[derive(Debug)]
struct Feed {
    told: Option<Told>,
    /// When it last acknowledged something: before that it trusts nothing.
    acknowledged: Option<Instant>,
}

impl Default for Feeds {
    fn default() -> Self {
        let (running, next) = (DashMap::new(), AtomicU64::new(0));
        Self { running, next, news: watch::Sender::new(()), progress: watch::Sender::new(()) }
    }
}

impl Feeds {
    /// Our summary has changed: all neighbors are told.
    pub(crate) fn tell(&self) {
        self.news.send_replace(());
    }

    /// Waits until `count` neighbors, all there are, have come as far as `needed`; not for ever.
    pub(crate) async fn settle(&self, count: usize, needed: Told) {
        let deadline = tokio::time::Instant::now() + TRUSTED_FOR;
        let mut progress = self.progress.subscribe();
        let is_there = |feed: &Feed| feed.told.is_some_and(|told| told.reaches(needed));
        while self.running.len() < count || !self.running.iter().all(|feed| is_there(&feed)) {
            if timeout_at(deadline, progress.changed()).await.is_err() {
                return; // one of them does not listen, and is asked for everything
            }
        }
    }

    /// Waits until every neighbor has come as far as `needed`, or trusts our summary no more. So what
    /// was registered before a query began is found by it wherever it begins.
    pub(crate) async fn reach(&self, needed: Told) {
        let deadline = tokio::time::Instant::now() + TRUSTED_FOR;
        let mut progress = self.progress.subscribe();
        let is_behind = |feed: &Feed| {
            let trusts = feed.acknowledged.is_some_and(|at| at.elapsed() < TRUSTED_FOR);
            trusts && !feed.told.is_some_and(|told| told.reaches(needed))
        };
        while self.running.iter().any(|feed| is_behind(&feed)) {
            // The sender lives as long as `self`, so waiting ends by progress or by time.
            if timeout_at(deadline, progress.changed()).await.is_err() {
                return;
            }
        }
    }
}

/// Keeps one neighbor informed, for as long as this is polled.
///
/// # Cancel safety
/// Safe; whoever begins again sends the whole summary.
pub(crate) async fn feed(shared: &Shared, neighbor: &IndexerServiceClient) {
    let feeds = &shared.feeds;
    let number = feeds.next.fetch_add(1, Ordering::Relaxed);
    feeds.running.insert(number, Feed { told: None, acknowledged: None });
    let _ending = on_drop(|| {
        feeds.running.remove(&number);
        feeds.progress.send_replace(());
    });
    let mut news = feeds.news.subscribe();
    let mut told = None;
    loop {
        news.mark_unchanged(); // all of it is told now
        let next = shared.state.own_summary().tell(told);
        told = tell(shared, neighbor, told, next).await;
        if let Some(mut feed) = feeds.running.get_mut(&number) {
            feed.told = told;
            feed.acknowledged = told.map_or(feed.acknowledged, |_| Some(Instant::now()));
        }
        feeds.progress.send_replace(());
        if told.is_none() {
            sleep(AGAIN_AFTER).await;
        } else if shared.state.own_summary().is_all(told) {
            // Either way there is something to say: what is new, or that nothing is.
            let _ = timeout(CONFIRMED_EVERY, news.changed()).await;
        }
    }
}

/// Sends what is next; returns how far the neighbor has come, `None` if that is not known any more.
async fn tell(
    shared: &Shared,
    neighbor: &IndexerServiceClient,
    told: Option<Told>,
    next: Tell,
) -> Option<Told> {
    let neighbors = || List::first_of(shared.links.current().tags.iter().copied());
    match next {
        Tell::News(news, until) => {
            send(neighbor, until.update(told, news, neighbors())).await.then_some(until)
        }
        Tell::Whole(filter, until) => {
            for part in filter.parts() {
                if !send(neighbor, until.update(None, SummaryNews::Part(part), neighbors())).await {
                    return None;
                }
            }
            Some(until)
        }
    }
}

async fn send(neighbor: &IndexerServiceClient, update: SummaryUpdate) -> bool {
    let context = call_until(Instant::now() + ACKNOWLEDGED_WITHIN);
    match neighbor.summarize(context, update).await {
        Ok(Ok(is_taken)) => is_taken,
        Ok(Err(refusal)) => {
            debug!(%refusal, "a neighbor refused a summary");
            false
        }
        Err(error) => {
            debug!(%error, "a neighbor did not acknowledge a summary");
            false
        }
    }
}

/// Makes the filter anew when too many of its names are gone, or there are too many.
pub(crate) async fn renew_if_worn(shared: &Arc<Shared>) {
    {
        let mut own = shared.state.own_summary();
        own.remove(shared.state.index.take_removed());
        if !own.is_worn() {
            return;
        }
        own.begin_anew();
    }
    let making = {
        let shared = Arc::clone(shared);
        // A million names take some hundred milliseconds.
        tokio::task::spawn_blocking(move || Fresh::of(&shared.state.index.keys())).await
    };
    match making {
        Ok(fresh) => {
            shared.state.own_summary().renew(fresh);
            shared.feeds.tell();
        }
        Err(error) => warn!(%error, "the summary was not made anew"),
    }
}
