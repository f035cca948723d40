//! [`Account`]: what one node has taken of a [`Budget`].

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed},
    },
};

use tokio_util::sync::CancellationToken;

use super::{ACCOUNT_PARTS, Budget, NoRoom, Reservation};
use crate::values::NodeId;

/// What is kept for one node at one address. Clones are the same account; it ends with the last of them and of its
/// reservations.
#[derive(Clone, Debug)]
pub struct Account(pub(super) Arc<Shared>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Who {
    pub(super) site: IpAddr,
    pub(super) node: NodeId,
}

/// All accounts at one address.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) addr: IpAddr,
    pub(super) used: AtomicUsize,
    pub(super) budget: Arc<Budget>,
}

impl Drop for Site {
    fn drop(&mut self) {
        let mut sites = self.budget.sites.lock();
        if sites.get(&self.addr).is_some_and(|site| site.strong_count() == 0) {
            sites.remove(&self.addr);
        }
    }
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) who: Who,
    pub(super) used: AtomicUsize,
    pub(super) site: Arc<Site>,
    pub(super) evicted: CancellationToken,
    pub(super) is_trusted: AtomicBool,
    /// What is left of [`REFUSED_IN_A_ROW`](super::REFUSED_IN_A_ROW).
    pub(super) refused: AtomicU32,
    pub(super) budget: Arc<Budget>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        let mut accounts = self.budget.accounts.lock();
        // After an eviction another account may stand in its place.
        if accounts.get(&self.who).is_some_and(|account| account.strong_count() == 0) {
            accounts.remove(&self.who);
        }
    }
}

impl Shared {
    /// The largest makes room first.
    pub(super) fn rank(&self) -> (bool, usize, usize) {
        let is_trusted = self.is_trusted.load(Relaxed);
        (!is_trusted, self.site.used.load(Relaxed), self.used.load(Relaxed))
    }
}

impl Account {
    /// Takes `bytes` at once.
    ///
    /// # Errors
    /// There is no room for them; nothing is taken.
    pub fn take(&self, bytes: usize) -> Result<Reservation, NoRoom> {
        Reservation::taken(self.clone(), bytes)
    }

    /// Bytes taken.
    #[must_use]
    pub fn used(&self) -> usize {
        self.0.used.load(Relaxed)
    }

    /// From now on it is evicted only when no other is left: it is of this node itself, or of one that the operator named.
    pub fn trust(&self) {
        self.0.is_trusted.store(true, Relaxed);
    }

    /// The most that it may take.
    #[must_use]
    pub fn share(&self) -> usize {
        self.0.budget.max / ACCOUNT_PARTS
    }

    /// Cancelled when it has to give back all it has: its connections end.
    #[must_use]
    pub fn evicted(&self) -> &CancellationToken {
        &self.0.evicted
    }

    /// Takes `bytes` more where `left` of the share are free afterwards.
    pub(super) fn grow(&self, bytes: usize, left: usize) -> Result<(), NoRoom> {
        let Shared { used, site, budget, .. } = &*self.0;
        let is_over =
            used.fetch_add(bytes, Relaxed).saturating_add(bytes).saturating_add(left) > self.share();
        site.used.fetch_add(bytes, Relaxed);
        let is_full = budget.used.fetch_add(bytes, Relaxed).saturating_add(bytes) > budget.max;
        let taken = match (is_over, is_full) {
            (true, _) => Err(NoRoom::Share),
            (_, true) if !budget.make_room(&self.0) => Err(NoRoom::All),
            _ => Ok(()),
        };
        if taken.is_err() {
            self.shrink(bytes);
            budget.refused.fetch_add(1, Relaxed);
        }
        taken
    }

    pub(super) fn shrink(&self, bytes: usize) {
        let Shared { used, site, budget, .. } = &*self.0;
        for scope in [used, &site.used, &budget.used] {
            scope.fetch_sub(bytes, Relaxed);
        }
    }
}
