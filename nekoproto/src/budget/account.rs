//! [`Account`]: what one node has taken of a [`Budget`](super::Budget), and the [`Lease`]s of it.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use tokio_util::sync::CancellationToken;

use super::Shared;

/// One of this many parts of the budget is the share of one account.
const ACCOUNT_PARTS: usize = 3;
/// One of this many parts of the budget is the share of all accounts at one address.
const SITE_PARTS: usize = 2;

/// What is kept for one node at one address. Clones are the same account; it ends with the last of them and of its
/// leases.
#[derive(Clone, Debug)]
pub struct Account(pub(super) Arc<Shared>);

/// A connection of the node of an account, until dropped.
#[derive(Debug)]
pub struct Connected(Account);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.0.connections.fetch_sub(1, Relaxed);
    }
}

/// Bytes taken from the budget; given back when dropped.
#[derive(Debug)]
pub struct Lease {
    pub(super) account: Account,
    bytes: usize,
}

/// There is no room for it. Nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    /// The account, or all accounts at its address, would have more than their share.
    #[error("more than the share of one node")]
    Share,
    /// All is taken, and no other account has more.
    #[error("all that is kept for others is in use")]
    All,
}

impl Account {
    /// Takes `bytes`.
    ///
    /// # Errors
    /// There is no room for them; nothing is taken.
    pub fn take(&self, bytes: usize) -> Result<Lease, NoRoom> {
        self.grow(bytes)?;
        Ok(Lease { account: self.clone(), bytes })
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

    /// Its node has a connection until what is returned is dropped. Without one it makes room before all others.
    #[must_use]
    pub fn connected(&self) -> Connected {
        self.0.connections.fetch_add(1, Relaxed);
        Connected(self.clone())
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

    fn grow(&self, bytes: usize) -> Result<(), NoRoom> {
        let Shared { used, site, budget, .. } = &*self.0;
        let counters =
            [Some((used, self.share())), site.as_ref().map(|site| (&site.used, budget.max / SITE_PARTS))];
        let is_over = counters.into_iter().flatten().fold(false, |is_over, (used, share)| {
            is_over | (used.fetch_add(bytes, Relaxed).saturating_add(bytes) > share)
        });
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

    fn shrink(&self, bytes: usize) {
        let Shared { used, site, budget, .. } = &*self.0;
        used.fetch_sub(bytes, Relaxed);
        if let Some(site) = site {
            site.used.fetch_sub(bytes, Relaxed);
        }
        budget.used.fetch_sub(bytes, Relaxed);
    }
}

impl Lease {
    /// Its bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes more, or gives some back.
    ///
    /// # Errors
    /// There is no room for more; it stays as it is.
    pub fn resize(&mut self, bytes: usize) -> Result<(), NoRoom> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.account.grow(more)?,
            None => self.account.shrink(self.bytes - bytes),
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.account.shrink(self.bytes);
    }
}
