//! [`Ledger`]: what one connection takes from its node's account, in steps.

use crate::budget::{Account, Lease, NoRoom};

/// Bytes of one connection that are not accounted for: the usual requests and answers, so that these cost nothing.
/// Few enough that as many connections as there may be do not fill the memory.
const ALLOWANCE_BYTES: usize = 4 * 1024;
/// Bytes taken at once.
const STEP_BYTES: usize = 16 * 1024;

/// What one connection has taken. All is given back when it is dropped.
pub(super) struct Ledger {
    account: Account,
    lease: Option<Lease>,
}

impl Ledger {
    /// Nothing taken yet.
    pub(super) const fn new(account: Account) -> Self {
        Self { account, lease: None }
    }

    fn covered(&self) -> usize {
        ALLOWANCE_BYTES + self.lease.as_ref().map_or(0, Lease::bytes)
    }

    /// Takes what is missing to `bytes` in all.
    pub(super) fn cover(&mut self, bytes: usize) -> Result<(), NoRoom> {
        if bytes <= self.covered() {
            return Ok(());
        }
        let wanted = (bytes - ALLOWANCE_BYTES).next_multiple_of(STEP_BYTES);
        match &mut self.lease {
            Some(lease) => lease.resize(wanted),
            none => {
                *none = Some(self.account.take(wanted)?);
                Ok(())
            }
        }
    }

    /// Gives back what is not needed for `bytes` in all, if it is worth it.
    pub(super) fn settle(&mut self, bytes: usize) {
        let Some(lease) = &mut self.lease else { return };
        match bytes.checked_sub(ALLOWANCE_BYTES).filter(|bytes| *bytes > 0) {
            None => self.lease = None,
            Some(bytes) => {
                let wanted = bytes.next_multiple_of(STEP_BYTES);
                if wanted + STEP_BYTES < lease.bytes() {
                    let _: Result<(), NoRoom> = lease.resize(wanted); // giving back cannot fail
                }
            }
        }
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
        let mut ledger = Ledger::new(account.clone());
        ledger.cover(ALLOWANCE_BYTES).unwrap();
        assert_eq!(budget.used(), 0);
        ledger.cover(ALLOWANCE_BYTES + 1).unwrap();
        assert_eq!(budget.used(), STEP_BYTES);
        ledger.cover(ALLOWANCE_BYTES + 3 * STEP_BYTES).unwrap();
        assert!(ledger.cover(account.share() * 2).is_err());
        assert_eq!(budget.used(), 3 * STEP_BYTES);
        ledger.settle(ALLOWANCE_BYTES + 2 * STEP_BYTES);
        assert_eq!(budget.used(), 3 * STEP_BYTES, "not worth it");
        ledger.settle(ALLOWANCE_BYTES + 1);
        assert_eq!(budget.used(), STEP_BYTES);
        ledger.settle(1);
        assert_eq!(budget.used(), 0);
    }
}
