//! Decides which versions published here others may be told of before an indexer has listed their numbers.

use std::sync::atomic::Ordering;

use nekoproto::{Record, VerifiedRecord};

use super::Library;
use crate::util::clock;

impl Library {
    /// An indexer has answered a registration of everything that is offered: it would have told of later numbers.
    pub(crate) fn note_all_registered(&self) {
        self.is_registered.store(true, Ordering::Release);
    }

    /// Whether other nodes may be told of this version, which was published here. While no indexer has listed it, its
    /// number may have been used before the data folder was restored: unless an indexer has answered since this process
    /// began, and has listed a version of the name before.
    pub(crate) fn hands_out(&self, record: &Record) -> bool {
        match self.catalogue.pending(record) {
            None => true,
            Some(pending) => {
                let is_sure =
                    self.is_alone || (!pending.is_new && self.is_registered.load(Ordering::Acquire));
                is_sure && !self.is_heard(&record.name)
            }
        }
    }

    /// Whether a publish tells everyone itself whom this version concerns, so that indexers need not tell each other:
    /// everyone whose copy may be fresh. A withdrawal concerns all who list the name.
    pub(crate) fn tells_all(&self, record: &Record) -> bool {
        let knows_all = self.subscribers.knows_all(record.policy.bound(), clock::now());
        knows_all && self.is_settling(&record.name) && !record.is_withdrawal()
    }

    /// Which of these were published here so shortly before this process began that a copy of the version before may
    /// still be fresh, though it is not known any more who holds one.
    pub(crate) fn untold<'a>(
        &self,
        records: impl Iterator<Item = &'a VerifiedRecord>,
    ) -> Vec<VerifiedRecord> {
        let (now, now_ms) = (clock::now(), clock::unix_ms());
        let is_untold = |record: &&VerifiedRecord| {
            let bound = record.policy.bound();
            record.origin == self.node
                && record.policy.pushes()
                && u128::from(now_ms.saturating_sub(record.published_ms)) < bound.as_millis()
                && !self.subscribers.knows_all(bound, now)
        };
        records.filter(is_untold).cloned().collect()
    }
}
