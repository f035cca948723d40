//! Version numbers: which of those taken here are handed out, and which stand for two files.

use std::net::SocketAddr;

use nekoproto::{Holder, Record, VerifiedRecord};

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
        self.standing.lock().covers(&record.name) || !self.catalogue.is_pending(record)
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
