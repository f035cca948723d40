//! [`Tab`]: the bytes that one thing takes of the account of the node for which it is kept.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use nekoproto::budget::{Account, Lease, NoRoom};

/// Bytes that are not taken from the account: a connection has an allowance, and few need more.
const FREE: usize = 4 * 1024;
/// The account is asked for this many bytes at a time, not for every single thing.
const STEP: usize = 16 * 1024;

/// Bytes that several tabs may have together, whatever their accounts are.
#[derive(Debug)]
pub struct Pool {
    used: AtomicUsize,
    max: usize,
}

impl Pool {
    /// A pool of `max` bytes.
    #[must_use]
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { used: AtomicUsize::new(0), max })
    }

    /// Its bytes, and how many of them are taken.
    #[must_use]
    pub fn taken(&self) -> (usize, usize) {
        (self.used.load(Relaxed), self.max)
    }

    fn take(&self, bytes: usize) -> Result<(), NoRoom> {
        if self.used.fetch_add(bytes, Relaxed).saturating_add(bytes) > self.max {
            self.used.fetch_sub(bytes, Relaxed);
            return Err(NoRoom::All);
        }
        Ok(())
    }
}

/// Bytes that are kept for one node. Without an account nothing bounds them: for what this node does itself, and for
/// simulations.
///
/// Invariant: the lease covers what is used, but for `FREE` bytes.
#[derive(Debug, Default)]
pub struct Tab {
    account: Option<Account>,
    pool: Option<Arc<Pool>>,
    lease: Option<Lease>,
    used: usize,
}

impl Tab {
    /// Nothing is used yet; all of it comes from `account`.
    #[must_use]
    pub const fn of(account: Option<Account>) -> Self {
        Self { account, pool: None, lease: None, used: 0 }
    }

    /// The same, and from `pool` too.
    #[must_use]
    pub const fn within(account: Account, pool: Arc<Pool>) -> Self {
        Self { account: Some(account), pool: Some(pool), lease: None, used: 0 }
    }

    /// Bytes in use.
    #[must_use]
    pub const fn used(&self) -> usize {
        self.used
    }

    /// Whether the account had to give back all it has: whatever is kept here has to go.
    #[must_use]
    pub fn is_evicted(&self) -> bool {
        self.account.as_ref().is_some_and(|account| account.evicted().is_cancelled())
    }

    /// `used` bytes are in use from now on.
    ///
    /// # Errors
    /// There is no room for so many; everything stays as it is. Fewer than before always have room.
    pub fn set(&mut self, used: usize) -> Result<(), NoRoom> {
        let needed = used.saturating_sub(FREE).next_multiple_of(STEP);
        let leased = self.leased();
        // One step is kept, so that what comes and goes does not ask the account each time.
        if needed > leased || needed + STEP < leased {
            self.resize(leased, needed)?;
        }
        self.used = used;
        Ok(())
    }

    fn leased(&self) -> usize {
        self.lease.as_ref().map_or(0, Lease::bytes)
    }

    fn resize(&mut self, before: usize, bytes: usize) -> Result<(), NoRoom> {
        let Some(account) = &self.account else { return Ok(()) };
        if let Some(pool) = &self.pool {
            pool.take(bytes.saturating_sub(before))?;
        }
        let taken = match &mut self.lease {
            Some(lease) => lease.resize(bytes),
            None => account.take(bytes).map(|lease| self.lease = Some(lease)),
        };
        if let Some(pool) = &self.pool {
            let back =
                if taken.is_ok() { before.saturating_sub(bytes) } else { bytes.saturating_sub(before) };
            pool.used.fetch_sub(back, Relaxed);
        }
        taken
    }
}

impl Drop for Tab {
    fn drop(&mut self) {
        if let Some(pool) = &self.pool {
            pool.used.fetch_sub(self.leased(), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use nekoproto::budget::Budget;

    use super::*;
    use crate::state::testing::account;

    #[test]
    fn bytes_are_taken_in_steps_and_given_back() {
        let budget = Budget::new(48 << 20);
        let mut tab = Tab::of(Some(account(&budget, 1)));
        tab.set(FREE).unwrap();
        assert_eq!(budget.used(), 0);
        tab.set(FREE + 1).unwrap();
        assert_eq!(budget.used(), STEP);
        tab.set(16 << 20).unwrap();
        assert_eq!(tab.set((16 << 20) + FREE + 1), Err(NoRoom::Share));
        assert_eq!((tab.used(), budget.used()), (16 << 20, 16 << 20));
        tab.set(0).unwrap();
        assert_eq!(budget.used(), 0);
        tab.set(1 << 20).unwrap();
        drop(tab);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn several_have_a_pool_together() {
        let (budget, pool) = (Budget::new(48 << 20), Pool::new(4 << 20));
        let mut tabs = [1, 2].map(|n| Tab::within(account(&budget, n), Arc::clone(&pool)));
        tabs[0].set(3 << 20).unwrap();
        assert_eq!(tabs[1].set(2 << 20), Err(NoRoom::All));
        tabs[0].set(1 << 20).unwrap();
        tabs[1].set(2 << 20).unwrap();
        assert_eq!(pool.taken().0, budget.used());
        drop(tabs);
        assert_eq!((pool.taken().0, budget.used()), (0, 0));
    }
}
