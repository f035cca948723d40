//! Version numbers: which of those taken here are handed out, and which stand for two files.

use std::net::SocketAddr;

use nekoproto::{FileName, Holder, Record, VerifiedRecord};

use super::Library;
use crate::{state::choice::Candidate, util::clock};

impl Library {
    /// `indexer`, one of `all`, has listed these versions.
    pub(crate) fn note_listed(&self, indexer: SocketAddr, records: &[VerifiedRecord], all: &[SocketAddr]) {
        self.catalogue.note_told(indexer, records, all);
        let mut standing = self.standing.lock();
        let own = records.iter().filter(|record| record.origin == self.node);
        own.for_each(|record| standing.confirmed(&record.name));
    }

    /// Whether other nodes may be told of this version, which was published here. If its number is not confirmed, it
    /// may have been used before the data folder was restored.
    pub(crate) fn hands_out(&self, record: &Record) -> bool {
        self.is_sure(&record.name) || !self.catalogue.is_pending(record)
    }

    /// Whether the next number of `name` is new for sure: an indexer has listed one since this process began.
    pub(crate) fn is_sure(&self, name: &FileName) -> bool {
        self.standing.lock().covers(name)
    }

    /// Whether a publish tells everyone itself whom this version concerns, so that indexers need not tell each other:
    /// everyone whose copy may be fresh, and no other folder with this key. A withdrawal concerns all who list the name.
    pub(crate) fn tells_all(&self, record: &Record) -> bool {
        let name = &record.name;
        let knows_all = self.subscribers.knows_all(record.policy.bound(), clock::now());
        knows_all && self.is_settling(name) && !self.is_shared(name) && !record.is_withdrawal()
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

    /// Notes the numbers that stand for two files among what was found under one name; returns which folders to tell
    /// of which record.
    pub(crate) fn witness(&self, found: &[Candidate]) -> Vec<(Holder, VerifiedRecord)> {
        if found.len() < 2 {
            return Vec::new();
        }
        let mut telling = self.contests.lock().note(found, clock::now());
        telling.retain(|(folder, _)| folder.node != self.node); // it has learned of them
        telling
    }

    /// Whether the number of `record` was seen to stand for another file too.
    pub(crate) fn is_contested(&self, record: &Record) -> bool {
        self.contests.lock().has(record)
    }
}
