//! Versions published here that not every indexer has listed yet, durably. Until one indexer has listed a
//! version it is *pending*: its number may still change, because the network may know another version of that
//! number, published with the same key by a folder that was lost, restored or cloned.

use std::{collections::HashMap, net::SocketAddr};

use nekoproto::{FileName, Record, VerifiedRecord, Version};
use serde::{Deserialize, Serialize};

use super::{
    Catalogue, or_report,
    row::{Definition, TableRow},
};
use crate::failure::Failure;

/// Name -> the version published here that not every indexer has listed.
pub(super) const UNTOLD: Definition<&str, TableRow<Untold>> = Definition::new("untold");

/// One version that is not listed everywhere. The stored form too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Untold {
    version: Version,
    /// The indexers that have listed it.
    told: Vec<SocketAddr>,
    /// No indexer has listed an earlier version of its name, as far as this catalogue knows.
    pub(crate) is_new: bool,
}

/// What was noted since and is not stored yet: the row of a version, or none if every indexer has listed it. It counts
/// for that version only.
pub(super) type Noted = HashMap<FileName, (Version, Option<Untold>)>;

impl Untold {
    pub(super) const fn of(record: &Record, is_new: bool) -> Self {
        Self { version: record.version, told: Vec::new(), is_new }
    }

    pub(super) fn is_of(&self, record: &Record) -> bool {
        self.version == record.version
    }
}

impl Catalogue {
    /// Whether no indexer has listed this version, which was published here, so that its number may change.
    pub(crate) fn is_pending(&self, record: &Record) -> bool {
        self.pending(record).is_some()
    }

    /// What is known of this version, which was published here, if no indexer has listed it.
    pub(crate) fn pending(&self, record: &Record) -> Option<Untold> {
        self.untold_row(record, &self.noted.lock()).filter(|row| row.told.is_empty())
    }

    /// Whether this version was published here and `indexer` has not listed it yet.
    pub(crate) fn is_news_to(&self, indexer: SocketAddr, record: &Record) -> bool {
        self.untold_row(record, &self.noted.lock()).is_some_and(|row| !row.told.contains(&indexer))
    }

    /// Whether there is a version that no indexer has listed. Blocking.
    pub(crate) fn has_pending(&self) -> bool {
        let noted = self.noted.lock();
        let pending = self.tables.rows(UNTOLD, .., 1, |name, row| {
            let is_noted = |row: &Untold| noted.get(name).is_some_and(|(version, _)| *version == row.version);
            row.value().filter(|row| row.told.is_empty() && !is_noted(row))
        });
        pending
            .inspect_err(|error| tracing::error!(%error, "it is not known what indexers were told"))
            .map_or(true, |pending| !pending.is_empty())
    }

    /// `indexer`, one of `all`, has listed these versions. Durable with the next change or
    /// [`save_told`](Self::save_told); if that is lost in a crash, the indexer is told once more.
    pub(crate) fn note_told(&self, indexer: SocketAddr, records: &[VerifiedRecord], all: &[SocketAddr]) {
        let mut noted = self.noted.lock();
        for record in records {
            let row = self.untold_row(record, &noted);
            let Some(mut row) = row.filter(|row| !row.told.contains(&indexer)) else { continue };
            row.told.push(indexer);
            let is_told_to_all = all.iter().all(|one| row.told.contains(one));
            noted.insert(record.name.clone(), (record.version, (!is_told_to_all).then_some(row)));
        }
    }

    /// How many versions [`save_told`](Self::save_told) would store.
    pub(crate) fn unsaved(&self) -> usize {
        self.noted.lock().len()
    }

    /// Stores durably what [`note_told`](Self::note_told) noted. Until then an old copy of the folder takes a version
    /// for pending that stands, and would outbid what was published since. Blocking.
    pub(crate) fn save_told(&self) -> Result<(), Failure> {
        if self.unsaved() == 0 {
            return Ok(());
        }
        let saved = self.noted.lock().clone();
        let write = self.tables.begin()?;
        for (name, (version, row)) in &saved {
            if self.tables.untold(name)?.is_some_and(|stored| stored.version == *version) {
                match row {
                    Some(_) => write.put(UNTOLD, [(name.as_str(), row.clone())]),
                    None => write.remove(UNTOLD, [name.as_str()]),
                }?;
            }
        }
        self.tables.commit(write)?;
        // What was noted meanwhile stays.
        let mut noted = self.noted.lock();
        noted.retain(|name, now| saved.get(name) != Some(now));
        noted.shrink_to_fit(); // after a large folder
        Ok(())
    }

    fn untold_row(&self, record: &Record, noted: &Noted) -> Option<Untold> {
        if let Some((_, row)) = noted.get(&record.name).filter(|(version, _)| *version == record.version) {
            return row.clone();
        }
        let row = self.tables.untold(&record.name);
        or_report(row, "it is not known what indexers were told").filter(|row| row.is_of(record))
    }
}
