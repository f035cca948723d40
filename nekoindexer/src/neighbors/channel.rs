//! What the two ends of one connection told each other of names, and how far that is acknowledged and current.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use nekoproto::{
    budget::{Account, Reservation},
    clock,
};
use parking_lot::{Mutex, RwLock};
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};

use crate::state::summary::{CURRENT_FOR, Position, TheirSummary, Told};

/// A neighbor that has not been heard for this long does not answer: two heartbeats are missing.
const SILENT_AFTER: Duration = Duration::from_millis(2_500);

/// What the two ends of one connection told each other of names.
#[derive(Debug)]
pub(crate) struct Channel {
    /// This end opened the connection, and sends the heartbeats.
    pub(super) leads: bool,
    account: Account,
    /// Whether the other end is trusted: it is told our names, and what it sends on is as good as what it says itself.
    trust: watch::Sender<bool>,
    /// It has a place among the neighbors: what it says counts.
    pub(super) is_placed: AtomicBool,
    /// One of the ends has said goodbye: neither relies on what it was told.
    is_over: AtomicBool,
    since: Instant,
    /// What the other end advertises; changed by [`write`](Self::write).
    pub(super) theirs: RwLock<TheirSummary>,
    /// Until when that is current, by the clock of this node: a copy for queries, which look at every neighbor and take no
    /// lock for it.
    current_until_ms: AtomicU64,
    pub(super) told: Mutex<Told>,
    pub(super) progress: Mutex<Progress>,
    pub(super) acknowledged: Notify,
}

/// How far a neighbor follows.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// What it has acknowledged: a position of our own summary, and a version of our links.
    pub(super) acknowledged: Option<(Position, u64)>,
    /// When the latest message of it arrived. What it was told is relied on until [`CURRENT_FOR`] after that at most:
    /// it counts from a moment before it sent a message that we had when we confirmed.
    pub(super) heard: Option<Instant>,
    /// The time stamp of its latest answer; 0: none.
    pub(super) their_clock_ms: u64,
    /// It has no room for what it was told, and relies on none of it.
    pub(super) keeps_nothing: bool,
    /// When it was looked at what there is to tell.
    pub(super) looked_at: Option<Instant>,
}

impl Channel {
    /// Of a connection that was just opened, by this end if it `leads`. What it advertises is taken of `reserved`, a part of
    /// `account`.
    pub(crate) fn new(leads: bool, account: Account, reserved: Reservation) -> Self {
        Self {
            leads,
            account,
            trust: watch::Sender::new(false),
            is_placed: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            since: clock::now(),
            theirs: RwLock::new(TheirSummary::new(reserved)),
            current_until_ms: AtomicU64::new(0),
            told: Mutex::default(),
            progress: Mutex::default(),
            acknowledged: Notify::new(),
        }
    }

    /// The other end is trusted from now on, or not any more.
    pub(crate) fn set_trusted(&self, is_trusted: bool) {
        if is_trusted {
            self.account.trust();
        }
        self.trust.send_if_modified(|before| std::mem::replace(before, is_trusted) != is_trusted);
    }

    /// One of the ends says goodbye.
    pub(super) fn end(&self) {
        self.is_over.store(true, Relaxed);
        self.write(|_| 0, |_| ());
        self.acknowledged.notify_waiters();
    }

    pub(super) fn relies_until(&self) -> Option<Instant> {
        self.progress.lock().relies_until().filter(|_| !self.is_over.load(Relaxed))
    }

    pub(crate) fn is_trusted(&self) -> bool {
        *self.trust.borrow()
    }

    /// Waits until the other end is trusted, or is not.
    pub(super) async fn trusted(&self, is_trusted: bool) {
        // The sender is here.
        drop(self.trust.subscribe().wait_for(|now| *now == is_trusted).await);
    }

    /// Whether the other end is not heard any more, or never was.
    pub(super) fn is_silent(&self, now: Instant) -> bool {
        let heard = self.progress.lock().heard.unwrap_or(self.since);
        now.saturating_duration_since(heard) > SILENT_AFTER
    }

    /// Waits until the other end has acknowledged `needed`, or cannot rely on what it was told before any more; at most
    /// until `latest`.
    pub(super) async fn acknowledges(&self, needed: Position, latest: Instant) {
        loop {
            let changed = self.acknowledged.notified(); // from now on
            let until = self.relies_until().filter(|_| !self.progress.lock().reaches(needed, 0));
            let left = until.and_then(|until| until.min(latest).checked_duration_since(clock::now()));
            let Some(left) = left.filter(|left| !left.is_zero()) else { return };
            let _ = timeout(left, changed).await; // either way it looks again
        }
    }

    /// Changes what the other end advertises; `clock_ms` reads the clock of this node.
    pub(super) fn write<T>(
        &self,
        clock_ms: impl FnOnce(Instant) -> u64,
        change: impl FnOnce(&mut TheirSummary) -> T,
    ) -> T {
        let mut theirs = self.theirs.write();
        let done = change(&mut theirs);
        let current_until = theirs.current_until().filter(|_| !self.is_over.load(Relaxed));
        self.current_until_ms.store(current_until.map_or(0, clock_ms), Relaxed);
        done
    }

    /// Whether what the other end advertises can be relied on, when the clock of this node says `clock_ms`.
    pub(super) fn is_current_at(&self, clock_ms: u64) -> bool {
        clock_ms < self.current_until_ms.load(Relaxed)
    }

    pub(crate) fn is_current(&self, now: Instant) -> bool {
        self.theirs.read().is_current(now)
    }

    /// How long ago the other end was heard last.
    pub(crate) fn silent_for(&self, now: Instant) -> Option<Duration> {
        self.progress.lock().heard.map(|heard| now.saturating_duration_since(heard))
    }
}

impl Progress {
    pub(super) fn reaches(&self, needed: Position, links: u64) -> bool {
        self.acknowledged.is_some_and(|(position, version)| position.reaches(needed) && version >= links)
    }

    /// Until when it may rely on what it was told so far, unless it said goodbye.
    fn relies_until(&self) -> Option<Instant> {
        self.heard.filter(|_| !self.keeps_nothing).map(|heard| heard + CURRENT_FOR)
    }
}
