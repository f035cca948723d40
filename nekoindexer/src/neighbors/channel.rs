//! What the two ends of one connection told each other of names, and how far that is acknowledged and trusted.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use nekoproto::{NodeTag, clock, summary::NameKey};
use parking_lot::{Mutex, RwLock};
use tokio::{
    sync::{Notify, watch},
    time::{sleep, timeout},
};

use crate::state::{
    standing::Standing,
    summary::{Position, TRUSTED_FOR, TheirSummary, Told},
    tab::Tab,
};

/// Time for a node that begins to make its connections, and to tell of them with a heartbeat.
const YOUNG_FOR: Duration = Duration::from_secs(2);
/// A neighbor that has not been heard for this long does not answer: two heartbeats are missing.
const SILENT_AFTER: Duration = Duration::from_millis(2_500);
/// A guest is told nothing of names before its connection has lasted this long: what comes and goes costs little.
const GUEST_TOLD_AFTER: Duration = Duration::from_secs(1);

/// What the two ends of one connection told each other of names.
#[derive(Debug)]
pub(crate) struct Channel {
    /// Who is at the other end.
    pub(crate) to: NodeTag,
    /// This end opened the connection, and sends the heartbeats.
    pub(super) leads: bool,
    /// The other end may be anybody: nobody waits for it for long.
    pub(super) is_guest: bool,
    /// It has a place among the neighbors: what it says counts.
    pub(super) is_placed: AtomicBool,
    /// It was asked, over this connection, from some time on.
    pub(super) is_asked: watch::Sender<bool>,
    /// When the connection began.
    since: Instant,
    /// What the other end advertises; changed by [`write`](Self::write).
    pub(super) theirs: RwLock<TheirSummary>,
    /// Until when that is trusted, by the clock of this node, and whether the other end can ask nobody whom we do not
    /// ask: copies for queries, which look at every neighbor and take no lock for it.
    trusted_until_ms: AtomicU64,
    is_enclosed: AtomicBool,
    /// What was advertised to the other end.
    pub(super) told: Mutex<Told>,
    pub(super) progress: Mutex<Progress>,
    /// The other end has acknowledged something new.
    pub(super) acknowledged: Notify,
}

/// What a query looks for, on its way to the neighbors.
pub(crate) struct Wanted<'a> {
    pub(crate) key: NameKey,
    /// Hops that neighbors are given.
    pub(crate) ttl_hops: u8,
    /// Who is asked by somebody else.
    pub(crate) covers: &'a dyn Fn(&NodeTag) -> bool,
    pub(crate) now: Instant,
    /// The same by the clock of this node.
    pub(crate) clock_ms: u64,
}

/// How far a neighbor follows.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// What it has acknowledged: a position of our own summary, and a version of our links.
    pub(super) acknowledged: Option<(Position, u64)>,
    /// When the latest message of it arrived. What it was told is trusted until [`TRUSTED_FOR`] after that at most:
    /// it counts from a moment before it sent a message that we had when we confirmed.
    pub(super) heard: Option<Instant>,
    /// The time stamp of its latest answer; 0: none.
    pub(super) their_clock_ms: u64,
    /// It has no room for what it was told, and trusts none of it.
    pub(super) keeps_nothing: bool,
    /// It is a guest that a registration has waited for in vain, and has acknowledged nothing since.
    pub(super) is_given_up: bool,
    /// The version of what is passed on that it was told, and when that was looked at.
    pub(super) relays_seen: u64,
    pub(super) looked_at: Option<Instant>,
}

impl Channel {
    /// Of a connection to `to` that was just opened, by this end if it `leads`. What it advertises is kept on `tab`.
    pub(crate) fn new(to: NodeTag, leads: bool, standing: Standing, tab: Tab) -> Self {
        let theirs = RwLock::new(TheirSummary::new(tab));
        let (trusted_until_ms, is_enclosed, told, progress, acknowledged) = <_>::default();
        let (is_placed, is_asked) = <_>::default();
        let (since, is_guest) = (clock::now(), standing.is_guest());
        Self {
            to,
            leads,
            is_guest,
            is_placed,
            is_asked,
            since,
            theirs,
            trusted_until_ms,
            is_enclosed,
            told,
            progress,
            acknowledged,
        }
    }

    /// Waits until the other end is to be told of names.
    pub(crate) async fn is_to_be_told(&self) {
        if self.is_guest {
            // The sender is here.
            drop(self.is_asked.subscribe().wait_for(|is_asked| *is_asked).await);
            sleep(GUEST_TOLD_AFTER.saturating_sub(clock::now().saturating_duration_since(self.since))).await;
        }
    }

    /// Whether the other end is not heard any more, or never was.
    pub(super) fn is_silent(&self, now: Instant) -> bool {
        let heard = self.progress.lock().heard.unwrap_or(self.since);
        now.saturating_duration_since(heard) > SILENT_AFTER
    }

    /// Waits until the other end has acknowledged `needed`, or cannot trust what it was told before any more; at most
    /// until `latest`.
    pub(super) async fn acknowledges(&self, needed: Position, latest: Instant) {
        loop {
            let changed = self.acknowledged.notified(); // from now on
            let until = {
                let progress = self.progress.lock();
                progress.trusts_until().filter(|_| !progress.reaches(needed, 0))
            };
            let left = until.and_then(|until| until.min(latest).checked_duration_since(clock::now()));
            let Some(left) = left.filter(|left| !left.is_zero()) else { return };
            let _ = timeout(left, changed).await; // either way it looks again
        }
    }

    /// As [`acknowledges`](Self::acknowledges) for a guest, who is waited for in vain once.
    pub(super) async fn guest_acknowledges(&self, needed: Position, latest: Instant) {
        if self.progress.lock().is_given_up {
            return;
        }
        self.acknowledges(needed, latest).await;
        let mut progress = self.progress.lock();
        progress.is_given_up = !progress.reaches(needed, 0) && progress.trusts_until() > Some(clock::now());
    }

    /// Changes what the other end advertises; `clock_ms` reads the clock of this node. Also returns whether the other
    /// end has another filter of its own names now.
    pub(super) fn write<T>(
        &self,
        clock_ms: impl FnOnce(Instant) -> u64,
        change: impl FnOnce(&mut TheirSummary) -> T,
    ) -> (T, bool) {
        let mut theirs = self.theirs.write();
        let before = theirs.names().cloned();
        let done = change(&mut theirs);
        self.is_enclosed.store(theirs.is_enclosed(), Relaxed);
        self.trusted_until_ms.store(theirs.trusted_until().map_or(0, clock_ms), Relaxed);
        let is_same = match (&before, theirs.names()) {
            (Some(before), Some(now)) => before.is_same(now),
            (before, now) => before.is_none() && now.is_none(),
        };
        (done, !is_same)
    }

    /// As [`TheirSummary::rules_out`], for a neighbor that itself does not have the name.
    pub(super) fn rules_out_others(&self, wanted: &Wanted<'_>) -> bool {
        let is_trusted = wanted.clock_ms < self.trusted_until_ms.load(Relaxed);
        is_trusted
            && (wanted.ttl_hops == 0
                || self.is_enclosed.load(Relaxed)
                || self.theirs.read().rules_out(wanted.key, wanted.ttl_hops, wanted.covers, wanted.now))
    }

    /// Whether what the other end advertises counts.
    pub(crate) fn is_trusted(&self, now: Instant) -> bool {
        self.theirs.read().is_trusted(now)
    }

    /// How long ago the other end was heard last.
    pub(crate) fn silent_for(&self, now: Instant) -> Option<Duration> {
        self.progress.lock().heard.map(|heard| now.saturating_duration_since(heard))
    }

    /// Whether the other end may still be making its connections, and does not know its neighbors yet.
    pub(super) fn is_young(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) < YOUNG_FOR
    }
}

impl Progress {
    pub(super) fn reaches(&self, needed: Position, links: u64) -> bool {
        self.acknowledged.is_some_and(|(position, version)| position.reaches(needed) && version >= links)
    }

    /// Until when it may trust what it was told so far.
    pub(super) fn trusts_until(&self) -> Option<Instant> {
        self.heard.filter(|_| !self.keeps_nothing).map(|heard| heard + TRUSTED_FOR)
    }
}
