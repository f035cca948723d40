//! [`Reservation`]: the bytes that one connection, or one table, takes of the account of the node for which it is kept.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use super::Account;
use crate::limits::FRAME_BYTES_MAX;

/// Bytes of one reservation that are not counted: the usual requests and answers, so that these cost nothing. Few enough that as
/// many connections as there may be do not fill the memory.
const ALLOWANCE_BYTES: usize = 4 * 1024;
/// The account is asked for this many bytes at a time.
const STEP_BYTES: usize = 16 * 1024;

/// There is no room for it. Nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    /// The node would have more than its share.
    #[error("more than the share of one node")]
    Share,
    /// All is taken, and nobody has more.
    #[error("all that is kept for others is in use")]
    All,
}

/// Bytes that several reservations may have together, whatever their accounts are.
#[derive(Debug)]
pub struct SharedQuota {
    used: AtomicUsize,
    max: usize,
}

impl SharedQuota {
    /// A quota of `max` bytes.
    #[must_use]
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { used: AtomicUsize::new(0), max })
    }

    /// Its bytes, and how many of them are taken.
    #[must_use]
    pub fn taken(&self) -> (usize, usize) {
        (self.used.load(Relaxed), self.max)
    }
}

/// Bytes in use, which are taken from an account in steps. Without an account nothing bounds them: for what this node does
/// itself, and for simulations. All is given back when it is dropped.
///
/// Invariant: what is taken covers what is used, but for 4 KiB.
#[derive(Debug, Default)]
pub struct Reservation {
    account: Option<Account>,
    quota: Option<Arc<SharedQuota>>,
    /// Bytes of the share that it leaves to the other reservations of the account.
    left: usize,
    taken: usize,
    used: usize,
}

impl Reservation {
    /// Nothing is used yet; all of it comes from `account`.
    #[must_use]
    pub const fn of(account: Option<Account>) -> Self {
        Self { account, quota: None, left: 0, taken: 0, used: 0 }
    }

    /// The same for what stays when the connection has nothing to do: it leaves the connection room for a frame of any size.
    /// Without that room the node is cut off where it would be told that it has too much.
    #[must_use]
    pub const fn of_table(account: Option<Account>) -> Self {
        let mut reservation = Self::of(account);
        reservation.left = FRAME_BYTES_MAX;
        reservation
    }

    /// The same, and from `quota` too.
    #[must_use]
    pub const fn within(account: Account, quota: Arc<SharedQuota>) -> Self {
        Self { account: Some(account), quota: Some(quota), left: 0, taken: 0, used: 0 }
    }

    /// `bytes` in use, all of which are taken.
    pub(super) fn taken(account: Account, bytes: usize) -> Result<Self, NoRoom> {
        let mut reservation = Self::of(Some(account));
        reservation.take(bytes)?;
        reservation.used = bytes;
        Ok(reservation)
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
        let needed = used.saturating_sub(ALLOWANCE_BYTES).next_multiple_of(STEP_BYTES);
        // One step is kept, so that what comes and goes does not ask the account each time; none where nothing is needed.
        let spare = if needed == 0 { 0 } else { STEP_BYTES };
        if needed > self.taken || needed + spare < self.taken {
            self.take(needed)?;
        }
        self.used = used;
        Ok(())
    }

    /// Takes what is missing to `bytes`, or gives back what is beyond.
    fn take(&mut self, bytes: usize) -> Result<(), NoRoom> {
        let Some(account) = &self.account else { return Ok(()) };
        let (more, less) = (bytes.saturating_sub(self.taken), self.taken.saturating_sub(bytes));
        let give = |bytes| self.quota.as_ref().map(|quota| quota.used.fetch_sub(bytes, Relaxed));
        if let Some(quota) = &self.quota
            && quota.used.fetch_add(more, Relaxed).saturating_add(more) > quota.max
        {
            give(more);
            return Err(NoRoom::All);
        }
        if more > 0 {
            account.grow(more, self.left).inspect_err(|_| _ = give(more))?;
        }
        account.shrink(less);
        give(less);
        self.taken = bytes;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let _: Result<(), NoRoom> = self.take(0); // giving back cannot fail
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{budget::Budget, identity::Identity};

    #[test]
    fn small_needs_cost_nothing_and_all_comes_back() {
        let budget = Budget::new(0);
        let account = budget.account([127, 0, 0, 1].into(), Identity::from_seed(&[1; 32]).id());
        let quota = SharedQuota::new(3 * STEP_BYTES);
        let mut reservation = Reservation::within(account.clone(), Arc::clone(&quota));
        reservation.set(ALLOWANCE_BYTES).unwrap();
        assert_eq!(budget.used(), 0);
        reservation.set(ALLOWANCE_BYTES + 1).unwrap();
        assert_eq!(budget.used(), STEP_BYTES);
        reservation.set(ALLOWANCE_BYTES + 3 * STEP_BYTES).unwrap();
        assert_eq!(reservation.set(ALLOWANCE_BYTES + 3 * STEP_BYTES + 1), Err(NoRoom::All));
        let mut other = Reservation::of(Some(account.clone()));
        assert_eq!(other.set(account.share() + 1), Err(NoRoom::Share));
        let taken = 3 * STEP_BYTES;
        assert_eq!((budget.used(), quota.taken().0), (taken, taken));
        assert_eq!(reservation.used(), ALLOWANCE_BYTES + taken);
        reservation.set(ALLOWANCE_BYTES + 2 * STEP_BYTES).unwrap();
        assert_eq!(budget.used(), 3 * STEP_BYTES, "not worth it");
        reservation.set(ALLOWANCE_BYTES + 1).unwrap();
        assert_eq!(budget.used(), STEP_BYTES);
        reservation.set(1).unwrap();
        assert_eq!((budget.used(), quota.taken().0), (0, 0));
        reservation.set(ALLOWANCE_BYTES + 1).unwrap();
        drop(reservation);
        assert_eq!((budget.used(), quota.taken().0), (0, 0));
    }

    #[test]
    fn table_leaves_room_for_a_frame() {
        let account = Budget::new(0).account([127, 0, 0, 1].into(), Identity::from_seed(&[1; 32]).id());
        let mut table = Reservation::of_table(Some(account.clone()));
        let fit = (0..).step_by(1000).take_while(|bytes| table.set(*bytes).is_ok()).count() * 1000;
        assert!(fit > account.share() - FRAME_BYTES_MAX - 2 * STEP_BYTES, "{fit}");
        Reservation::of(Some(account)).set(FRAME_BYTES_MAX).unwrap();
    }
}
