//! The neighbors: which are connected (`links`), what of
//! them is known (`known`), how each is asked (`neighbor`), which are stuck ([`load`]), what is told over each connection
//! (`channel`), when (`advertise`), who has acknowledged it (`acknowledged`), and who has to prove itself (`judging`).

mod acknowledged;
mod advertise;
pub(crate) mod channel;
pub(crate) mod judging;
mod known;
pub(crate) mod links;
pub mod load;
pub(crate) mod neighbor;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use nekoproto::{
    NodeTag, Refusal,
    budget::{Account, Budget},
    clock,
    summary::{SummaryNews, SummaryReply},
};
use tokio::sync::watch;

use self::{acknowledged::Acknowledged, channel::Channel, links::Links, neighbor::Neighbors};
use crate::state::{
    State,
    standing::Stalls,
    summary::{Relayed, TheirSummary, Took, relays},
    tab::{Pool, Tab},
};

/// One of this many parts of the budget is for the summaries of all neighbors: the rest is for those who ask. A neighbor
/// whose summary is not kept is asked for everything.
const SUMMARIES_PARTS: usize = 3;

/// The neighbors of one indexer.
#[derive(Debug)]
pub(crate) struct Neighborhood {
    /// The indexer itself.
    me: NodeTag,
    /// When its clock began, by which neighbors return the time.
    began: Instant,
    pub(crate) links: Links,
    acknowledged: Acknowledged,
    /// Our own names changed.
    own_news: watch::Sender<()>,
    /// Our neighbors changed, or the connections over which they are asked: these are they.
    links_news: watch::Sender<Arc<Neighbors>>,
    /// What is passed on may have changed: a version.
    relays_news: watch::Sender<u64>,
    /// All neighbors are told at once of links up to this version.
    urgent_links: AtomicU64,
    /// How long answers waited for guests in vain.
    pub(crate) stalls: Stalls,
    /// What summaries of others take together.
    pub(crate) summaries: Arc<Pool>,
}

impl Neighborhood {
    /// The neighbors at the `configured` addresses, none of them connected yet. Until `trusted_until` others may trust
    /// what this node told them before it was started again.
    pub(crate) fn new(
        me: NodeTag,
        configured: &[SocketAddr],
        trusted_until: Option<Instant>,
        budget: &Budget,
    ) -> Self {
        Self {
            me,
            began: clock::now(),
            links: Links::new(configured),
            acknowledged: Acknowledged::new(trusted_until),
            own_news: watch::Sender::new(()),
            links_news: watch::Sender::new(Arc::default()),
            relays_news: watch::Sender::new(0),
            urgent_links: AtomicU64::new(0),
            stalls: Stalls::new(Instant::now()),
            summaries: Pool::new(budget.max() / SUMMARIES_PARTS),
        }
    }

    /// What a neighbor with this account advertises is kept on it.
    pub(crate) fn tab(&self, account: Account) -> Tab {
        Tab::within(account, Arc::clone(&self.summaries))
    }

    /// Our summary has changed: advertises it to all neighbors.
    pub(crate) fn own_changed(&self) {
        self.own_news.send_replace(());
    }

    /// Waits until every neighbor has acknowledged `needed`, or cannot trust our summary any more.
    pub(crate) async fn acknowledge(&self, needed: crate::state::summary::Position) {
        self.acknowledged.by_all_that_trust(needed).await;
    }

    /// Waits until `count` neighbors are connected and have acknowledged our names and neighbors as they are now.
    pub(crate) async fn reach(&self, state: &State, count: usize) {
        // The sender lives in `self`, so waiting cannot fail.
        drop(self.links.watch().wait_for(|reachable| *reachable == count).await);
        let links = self.links.current().version;
        self.urgent_links.fetch_max(links, Ordering::Relaxed);
        self.own_changed();
        let needed = state.own_summary().position();
        self.acknowledged.by_all(count, needed, links).await;
    }

    /// Neighbors may have come or gone: what they advertised is judged by whom we ask now, and they are told.
    pub(crate) fn changed(&self) {
        let is_changed = self.links_news.send_if_modified(|before| {
            let now = self.links.current(); // the latest, whoever comes first
            let is_changed = !before.channels().map(Arc::as_ptr).eq(now.channels().map(Arc::as_ptr));
            *before = now;
            is_changed
        });
        if is_changed {
            for channel in self.links.current().channels() {
                channel.write(|at| self.clock_ms(at), |theirs| self.compare(channel.to, theirs));
            }
            self.relays_changed();
        }
    }

    fn relays_changed(&self) {
        self.relays_news.send_modify(|version| *version += 1);
    }

    /// Takes a message of a neighbor.
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
        let took = self.update(channel, now, |theirs| theirs.take(news, channel.to, self.me, dated));
        if took == Took::NoRoom {
            return Err(Refusal::NoRoom);
        }
        let confirms = self.confirms(state, channel, now);
        Ok(SummaryReply { clock_ms, is_taken: took != Took::Gap, confirms })
    }

    /// The clock of this node: milliseconds since it began, at least 1.
    pub(crate) fn clock_ms(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.began).as_millis()).unwrap_or(u64::MAX).max(1)
    }

    /// Changes what a neighbor told us, and sees to what follows from it.
    fn update(
        &self,
        channel: &Channel,
        now: Instant,
        change: impl FnOnce(&mut TheirSummary) -> Took,
    ) -> Took {
        let change = |theirs: &mut TheirSummary| {
            let was_trusted = theirs.is_trusted(now);
            let took = change(theirs);
            let is_passed_on = match took {
                Took::Nothing => theirs.is_trusted(now) != was_trusted && theirs.is_passed_on(),
                Took::Names => theirs.is_passed_on(),
                Took::News | Took::Gap | Took::NoRoom => self.compare(channel.to, theirs),
            };
            (took, is_passed_on)
        };
        let ((took, is_passed_on), is_other_filter) = channel.write(|at| self.clock_ms(at), change);
        let is_asked = *channel.is_asked.borrow();
        if is_other_filter && is_asked {
            self.links.renew();
        }
        if is_other_filter && !is_asked && channel.is_guest {
            self.links.to_judge.notify_one(); // it may be complete now
        }
        if is_passed_on {
            self.relays_changed();
        }
        took
    }

    /// `theirs` is locked while our neighbors are read, so that the latest change of either is noted last.
    fn compare(&self, from: NodeTag, theirs: &mut TheirSummary) -> bool {
        theirs.compare(from, self.me, &self.links.current().sorted)
    }

    /// What is passed on over the connection `to`, and whether something may have to follow soon. The neighbors
    /// of whoever has just connected are not known yet: in a mesh, all of it would be passed on in vain.
    fn relays(&self, to: &Channel, neighbors: &Neighbors, now: Instant) -> (Vec<Relayed>, bool) {
        let (mut advertised, mut is_early) = (Vec::new(), to.is_young(now));
        for neighbor in neighbors.reachable.iter().filter(|_| !is_early) {
            let channel = &neighbor.connected.channel;
            let theirs = channel.theirs.read();
            if theirs.is_passed_on() && !channel.is_young(now) {
                advertised.extend(theirs.advertised(channel.to, now));
            }
        }
        is_early |= neighbors.reachable.iter().any(|neighbor| neighbor.connected.channel.is_young(now));
        (relays(to.to, self.me, advertised.into_iter()), is_early)
    }
}
