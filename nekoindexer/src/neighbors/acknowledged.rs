//! How much of our summary each neighbor has acknowledged, and waiting for it.

use std::{
    ops::Deref,
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use dashmap::DashMap;
use scopeguard::guard;
use tokio::{
    sync::watch,
    time::{Instant as TokioInstant, timeout_at},
};

use crate::state::summary::{Position, TRUSTED_FOR};

/// What the neighbors that we advertise to have acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Acknowledged {
    /// By a number that each connection gets.
    neighbors: DashMap<u64, Progress>,
    next: AtomicU64,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Progress {
    /// `None`: it is not known, and the next update is the whole summary.
    position: Option<Position>,
    /// When it last acknowledged something; before that it trusts nothing.
    at: Option<Instant>,
}

impl Acknowledged {
    /// Adds a neighbor under a new number; it is removed when that is dropped.
    pub(super) fn add_neighbor(&self) -> impl Deref<Target = u64> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.neighbors.insert(number, Progress::default());
        guard(number, |number| {
            self.neighbors.remove(&number);
            self.changed.send_replace(());
        })
    }

    /// Notes what a neighbor has acknowledged now; `None` if it did not acknowledge.
    pub(super) fn note(&self, number: u64, position: Option<Position>) {
        if let Some(mut progress) = self.neighbors.get_mut(&number) {
            progress.position = position;
            progress.at = position.map_or(progress.at, |_| Some(Instant::now()));
        }
        self.changed.send_replace(());
    }

    /// Waits until there are `count` neighbors and all have acknowledged `needed`; at most [`TRUSTED_FOR`].
    pub(crate) async fn by_all(&self, count: usize, needed: Position) {
        let is_there = || {
            self.neighbors.len() >= count && self.neighbors.iter().all(|progress| progress.reaches(needed))
        };
        self.wait_until(is_there).await;
    }

    /// Waits until every neighbor has acknowledged `needed`, or trusts our summary no more: at most
    /// [`TRUSTED_FOR`]. What was registered before a query began is thus found wherever it begins.
    pub(crate) async fn by_all_that_trust(&self, needed: Position) {
        let is_behind = |progress: &Progress| {
            let trusts = progress.at.is_some_and(|at| at.elapsed() < TRUSTED_FOR);
            trusts && !progress.reaches(needed)
        };
        self.wait_until(|| !self.neighbors.iter().any(|progress| is_behind(&progress))).await;
    }

    async fn wait_until(&self, is_done: impl Fn() -> bool) {
        let deadline = TokioInstant::now() + TRUSTED_FOR;
        let mut changed = self.changed.subscribe();
        // The sender lives as long as `self`, so waiting ends by a change or by the deadline.
        while !is_done() && timeout_at(deadline, changed.changed()).await.is_ok() {}
    }
}

impl Progress {
    fn reaches(&self, needed: Position) -> bool {
        self.position.is_some_and(|position| position.reaches(needed))
    }
}
