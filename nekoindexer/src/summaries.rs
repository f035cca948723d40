//! Tells neighbors of our names: at once when one is new, and now and then that nothing is.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use dashmap::DashMap;
use nekoproto::{IndexerServiceClient, List, NodeTag, summary::SummaryUpdate, transport::call_until};
use tokio::{
    sync::watch,
    time::{sleep, timeout, timeout_at},
};
use tracing::{debug, warn};

use crate::{
    Shared, on_drop,
    state::summary::{About, Fresh, Relay, TRUSTED_FOR, Tell, Told},
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
    /// A summary that is passed on has.
    others_news: watch::Sender<()>,
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
        let [news, others_news, progress] = [(); 3].map(watch::Sender::new);
        Self { running, next, news, others_news, progress }
    }
}

impl Feeds {
    /// Our summary has changed: all neighbors are told.
    pub(crate) fn tell(&self) {
        self.news.send_replace(());
    }

    /// A summary that we pass on has changed: whoever hears of it from us is told.
    pub(crate) fn tell_of_others(&self) {
        self.others_news.send_replace(());
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

/// Keeps one neighbor informed, for as long as this is polled: of our names, and of those of others
/// that it does not hear of itself.
///
/// # Cancel safety
/// Safe; whoever begins again sends whole summaries.
pub(crate) async fn feed(shared: &Shared, to: NodeTag, neighbor: &IndexerServiceClient) {
    futures::join!(feed_own(shared, neighbor), feed_others(shared, to, neighbor));
}

async fn feed_own(shared: &Shared, neighbor: &IndexerServiceClient) {
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
        let neighbors = List::first_of(shared.links.current().tags.iter().copied());
        let about = About { of: shared.tag, hops: 0, age: Duration::ZERO, neighbors };
        told = send(neighbor, next.updates(told, &about)).await;
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

async fn feed_others(shared: &Shared, to: NodeTag, neighbor: &IndexerServiceClient) {
    let mut news = shared.feeds.others_news.subscribe();
    let mut told: HashMap<Relay, Told> = HashMap::new();
    let mut confirm_at = tokio::time::Instant::now();
    loop {
        news.mark_unchanged();
        let now = tokio::time::Instant::now();
        let is_due = now >= confirm_at;
        if is_due {
            confirm_at = now + CONFIRMED_EVERY;
        }
        let relays = shared.state.relays(to, shared.tag, now.into());
        told.retain(|relay, _| relays.contains(relay));
        for relay in relays {
            let before = told.remove(&relay);
            let next = {
                let theirs = shared.state.their_summaries.get(&relay.via);
                theirs.and_then(|theirs| theirs.pass_on(relay, before, now.into()))
            };
            let after = match next {
                // A whole filter only now and then: nobody makes us send many by changing his.
                Some((Tell::Whole(..), ..)) if !is_due => None,
                Some((tell, about, is_new)) if is_new || is_due => {
                    send(neighbor, tell.updates(before, &about)).await
                }
                _ => before,
            };
            told.extend(after.map(|after| (relay, after)));
        }
        // Either way there is something to say: what is new, or that nothing is.
        let _ = timeout_at(confirm_at, news.changed()).await;
    }
}

/// Sends updates; returns how far the neighbor has come, `None` if that is not known any more.
async fn send(neighbor: &IndexerServiceClient, (updates, until): (Vec<SummaryUpdate>, Told)) -> Option<Told> {
    for update in updates {
        let context = call_until(Instant::now() + ACKNOWLEDGED_WITHIN);
        match neighbor.summarize(context, update).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => return None,
            Ok(Err(refusal)) => {
                debug!(%refusal, "a neighbor refused a summary");
                return None;
            }
            Err(error) => {
                debug!(%error, "a neighbor did not acknowledge a summary");
                return None;
            }
        }
    }
    Some(until)
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
