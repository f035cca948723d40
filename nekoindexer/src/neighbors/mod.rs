//! The neighbors: who is connected, and what each end knows of the other's names.

mod acknowledged;
mod advertise;
pub(crate) mod channel;
mod known;
pub(crate) mod links;
pub mod load;
pub(crate) mod neighbor;

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use futures::future::join_all;
use nekoproto::{
    NodeId, NodeTag, Refusal,
    budget::{Account, Budget, Reservation, SharedQuota},
    clock,
    summary::{Change, SummaryNews, SummaryReply},
    transport::call_within,
};
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};

use self::{acknowledged::Acknowledged, channel::Channel, links::Links};
use crate::state::{
    State,
    summary::{Position, Took},
};

/// One of this many parts of the budget is for the summaries of all neighbors: the rest is for those who ask. A neighbor
/// whose summary is not kept is asked for everything.
const SUMMARIES_PARTS: usize = 3;
/// How often it is looked for neighbors that are not heard any more.
const LISTENED_EVERY: Duration = Duration::from_millis(500);
/// Time for the answer to a goodbye.
const FAREWELL_WITHIN: Duration = Duration::from_secs(1);
/// A timer that fires this much later than it was set for says that this node was busy: nobody is silent by that.
const BUSY_FROM: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Neighborhood {
    /// When its clock began, by which neighbors return the time.
    began: Instant,
    pub(crate) links: Links,
    acknowledged: Acknowledged,
    own_news: watch::Sender<()>,
    /// What summaries of others take together.
    pub(crate) summaries: Arc<SharedQuota>,
}

impl Neighborhood {
    /// The neighbors of `me` at the `configured` addresses, none of them connected yet. Until `relied_on_until` others may
    /// rely on what this node told them before it was started again.
    pub(crate) fn new(
        me: NodeTag,
        configured: &[SocketAddr],
        relied_on_until: Option<Instant>,
        budget: &Budget,
    ) -> Self {
        Self {
            began: clock::now(),
            links: Links::new(me, configured),
            acknowledged: Acknowledged::new(relied_on_until),
            own_news: watch::Sender::new(()),
            summaries: SharedQuota::new(budget.max() / SUMMARIES_PARTS),
        }
    }

    /// What a neighbor with this account advertises is taken of it.
    pub(crate) fn reservation(&self, account: Account) -> Reservation {
        Reservation::within(account, Arc::clone(&self.summaries))
    }

    /// Our summary has changed: advertises it to all trusted neighbors.
    pub(crate) fn own_changed(&self) {
        self.own_news.send_replace(());
    }

    /// Waits until every trusted neighbor has acknowledged `needed`, or cannot rely on our summary any more.
    pub(crate) async fn acknowledge(&self, needed: Position) {
        self.acknowledged.by_all_that_rely(needed).await;
    }

    /// Waits until `count` trusted neighbors are connected and have acknowledged our names and neighbors as they are now.
    pub(crate) async fn reach(&self, state: &State, count: usize) {
        // The sender lives in `self`, so waiting cannot fail.
        drop(self.links.watch().wait_for(|trusted| *trusted == count).await);
        let links = self.links.current().version;
        let needed = state.own_summary().position();
        self.acknowledged.by_all(count, needed, links).await;
    }

    pub(crate) fn hear(
        &self,
        state: &State,
        channel: &Channel,
        news: SummaryNews,
    ) -> Result<SummaryReply, Refusal> {
        let now = clock::now();
        let clock_ms = self.clock_ms(now);
        if !channel.is_placed.load(Ordering::Relaxed) {
            return Err(Refusal::Busy);
        }
        channel.progress.lock().heard = Some(now); // before anything is confirmed
        let echo = Duration::from_millis(news.echo_ms);
        let dated = self.began.checked_add(echo).filter(|_| news.echo_ms != 0).map(|dated| dated.min(now));
        let is_other = news.begins || news.changes.iter().any(|change| !matches!(change, Change::Added(_)));
        let took = channel.write(|at| self.clock_ms(at), |theirs| theirs.take(news, dated));
        if is_other {
            self.links.renew(channel);
        }
        if took == Took::NoRoom {
            return Err(Refusal::NoRoom);
        }
        let confirms = self.confirms(state, channel, now);
        Ok(SummaryReply { clock_ms, is_taken: took != Took::Gap, confirms })
    }

    /// A neighbor said goodbye over `channel`: it is not asked, not missed and not waited for.
    pub(crate) fn leave(&self, node: NodeId, channel: &Arc<Channel>) {
        channel.is_placed.store(false, Ordering::Relaxed);
        channel.end();
        self.links.leave(node, channel);
    }

    /// Says goodbye to all neighbors; whoever does not answer within [`FAREWELL_WITHIN`] finds out by itself. What they told
    /// is not relied on from now on, as they do not wait for this node any more.
    pub(crate) async fn say_goodbye(&self) {
        let telling = self.links.open().into_iter().map(async |open| {
            open.channel.end();
            drop(open.client.deregister_all(call_within(FAREWELL_WITHIN)).await);
        });
        join_all(telling).await;
    }

    /// The clock of this node: milliseconds since it began, at least 1.
    pub(crate) fn clock_ms(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.began).as_millis()).unwrap_or(u64::MAX).max(1)
    }

    /// Finds out again and again which trusted neighbors are not heard any more: they are not asked. Runs until dropped.
    pub(crate) async fn listen(&self) {
        let mut ticks = interval(LISTENED_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let due = ticks.tick().await;
            if due.elapsed() < BUSY_FROM {
                self.links.note_silent(clock::now());
            }
        }
    }
}
