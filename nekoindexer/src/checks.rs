//! [`SignatureChecks`]: checks the signatures of records that others send, on one or two threads. 32 lists of records are checked or
//! wait; when all slots are taken, a list of another address evicts one of the address that has most.

use std::{
    sync::{Arc, LazyLock},
    thread,
};

use nekoproto::{
    RecordError, Refusal, SignedRecord, VerifiedRecord, Verifier,
    transport::slots::{Activity, SlotOwner, Slots},
};
use tokio::{sync::Semaphore, task::spawn_blocking};

/// Lists that are checked at once: one core is left to those that ask.
static RUNNING_MAX: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, |cores| (cores.get() - 1).clamp(1, 2)));
/// Lists that are checked or wait. One has at most 128 records of 40 us each: all of them take 0.2 s.
const LISTS_MAX: usize = 32;

/// Checks the signatures of other nodes on threads of their own, some lists at once.
#[derive(Debug)]
pub struct SignatureChecks {
    verifier: Arc<Verifier>,
    slots: Slots,
    running: Arc<Semaphore>,
}

impl Default for SignatureChecks {
    fn default() -> Self {
        Self {
            verifier: Arc::default(),
            slots: Slots::new(LISTS_MAX),
            running: Arc::new(Semaphore::new(*RUNNING_MAX)),
        }
    }
}

impl SignatureChecks {
    /// What is known of signatures.
    #[must_use]
    pub fn verifier(&self) -> &Verifier {
        &self.verifier
    }

    /// Checks what a node at `owner` says: at once where all of it is known.
    ///
    /// # Errors
    /// [`Refusal::Busy`]: there is no slot, or others need it more.
    ///
    /// # Cancel safety
    /// Safe. A check that has begun ends by itself.
    pub async fn check(
        &self,
        owner: SlotOwner,
        records: Vec<SignedRecord>,
    ) -> Result<Vec<Result<VerifiedRecord, RecordError>>, Refusal> {
        if records.iter().all(|record| self.verifier.knows(record)) {
            return Ok(records.into_iter().map(|record| self.verifier.verify(record)).collect());
        }
        // Busy: it makes room only for an address with fewer.
        let slot = self.slots.enter(owner, Activity::busy()).ok_or(Refusal::Busy)?;
        let running = Arc::clone(&self.running).acquire_owned();
        let running = slot.activity().ended().run_until_cancelled(running).await;
        let running = running.ok_or(Refusal::Busy)?.map_err(|_| Refusal::Busy)?; // it is never closed
        let verifier = Arc::clone(&self.verifier);
        let check = move || {
            let _running = running;
            records.into_iter().map(|record| verifier.verify(record)).collect()
        };
        spawn_blocking(check).await.map_err(|_| Refusal::Busy) // the node is stopping
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::state::testing::record;

    fn at(last: u8) -> SlotOwner {
        SlotOwner::at([192, 0, 2, last].into(), None)
    }

    /// Goal: one address that asks for much leaves room to others, and what is known needs none.
    #[tokio::test]
    async fn the_address_with_most_lists_makes_room() {
        let checks = SignatureChecks::default();
        let taken = || Arc::clone(&checks.running).acquire_many_owned(u32::try_from(*RUNNING_MAX).unwrap());
        let all = taken().await;
        let list = |version| vec![record(1, "a", version).to_signed()];
        let mut greedy: Vec<_> = (0..40).map(|n| Box::pin(checks.check(at(1), list(n + 1)))).collect();
        let refused = greedy.iter_mut().filter_map(|check| check.as_mut().now_or_never());
        assert_eq!(refused.filter(|one| *one == Err(Refusal::Busy)).count(), 40 - LISTS_MAX);
        let mut other = Box::pin(checks.check(at(2), list(99)));
        assert!(other.as_mut().now_or_never().is_none(), "it waits");
        let gave_way = greedy[..LISTS_MAX].iter_mut().filter_map(|check| check.as_mut().now_or_never());
        assert_eq!(gave_way.count(), 1);
        drop((greedy, all));
        assert!(other.await.unwrap().iter().all(Result::is_ok));
        let _all = taken().await;
        let known = checks.check(at(1), list(99)).now_or_never().unwrap();
        assert!(known.unwrap()[0].is_ok(), "at once");
    }
}
