//! Versions published here that not every indexer has listed yet, durably. Until one indexer has listed a
//! version it is *pending*: its number may still change, because the network may know another version of that
//! number, published with the same key by a folder that was lost, restored or cloned.

use std::{
    collections::{HashMap, HashSet},
    net::SocketAddr,
};

use nekoproto::{FileName, Record, VerifiedRecord, Version};
use serde::{Deserialize, Serialize};

use super::{Catalogue, CatalogueError, Entry};

/// One version that is not listed everywhere. The stored form too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Row {
    version: Version,
    /// The indexers that have listed it.
    told: Vec<SocketAddr>,
}

/// What the table contains, in memory.
#[derive(Debug, Default)]
pub(super) struct Untold {
    rows: HashMap<FileName, Row>,
    /// Names whose row differs from the stored one.
    unsaved: HashSet<FileName>,
}

impl Row {
    pub(super) const fn of(record: &Record) -> Self {
        Self { version: record.version, told: Vec::new() }
    }
}

impl Untold {
    pub(super) fn new(rows: HashMap<FileName, Row>) -> Self {
        Self { rows, unsaved: HashSet::new() }
    }

    /// Follows a transaction that stored a row for `record`.
    pub(super) fn put(&mut self, record: &Record) {
        self.unsaved.remove(&record.name);
        self.rows.insert(record.name.clone(), Row::of(record));
    }

    /// Follows a transaction that removed the row of `name`.
    pub(super) fn take(&mut self, name: &FileName) {
        self.unsaved.remove(name);
        self.rows.remove(name);
    }

    /// The names whose row is of another version than their entry is to be.
    pub(super) fn outdated(&self, entries: &[Entry]) -> Vec<FileName> {
        let is_outdated =
            |record: &Record| self.rows.get(&record.name).is_some_and(|row| row.version != record.version);
        let names = entries.iter().map(|entry| &entry.record).filter(|record| is_outdated(record));
        names.map(|record| record.name.clone()).collect()
    }

    fn row(&self, record: &Record) -> Option<&Row> {
        self.rows.get(&record.name).filter(|row| row.version == record.version)
    }
}

impl Catalogue {
    /// Whether no indexer has listed this version, which was published here, so that its number may change.
    pub(crate) fn is_pending(&self, record: &Record) -> bool {
        self.untold.lock().row(record).is_some_and(|row| row.told.is_empty())
    }

    /// Whether this version was published here and `indexer` has not listed it yet.
    pub(crate) fn is_news_to(&self, indexer: SocketAddr, record: &Record) -> bool {
        self.untold.lock().row(record).is_some_and(|row| !row.told.contains(&indexer))
    }

    /// `indexer`, one of `all`, has listed these versions. Durable with the next change or
    /// [`save_told`](Self::save_told); if that is lost in a crash, the indexer is told once more.
    pub(crate) fn note_told(&self, indexer: SocketAddr, records: &[VerifiedRecord], all: &[SocketAddr]) {
        let mut untold = self.untold.lock();
        let Untold { rows, unsaved } = &mut *untold;
        for record in records {
            let row = rows.get_mut(&record.name).filter(|row| row.version == record.version);
            let Some(row) = row.filter(|row| !row.told.contains(&indexer)) else { continue };
            row.told.push(indexer);
            if all.iter().all(|one| row.told.contains(one)) {
                rows.remove(&record.name);
            }
            unsaved.insert(record.name.clone());
        }
    }

    /// Whether [`save_told`](Self::save_told) has something to store.
    pub(crate) fn has_unsaved(&self) -> bool {
        !self.untold.lock().unsaved.is_empty()
    }

    /// Stores what [`note_told`](Self::note_told) noted, without waiting for the disk: it is durable with the
    /// next commit that is. Blocking.
    ///
    /// # Errors
    /// It is stored with the next call.
    pub(crate) fn save_told(&self) -> Result<(), CatalogueError> {
        let _changing = self.changing.lock(); // no row changes meanwhile but by `note_told`
        let names = std::mem::take(&mut self.untold.lock().unsaved);
        let stored = self.store_rows(&names);
        let mut untold = self.untold.lock();
        if stored.is_err() {
            untold.unsaved.extend(names);
        } else if untold.rows.is_empty() {
            untold.rows.shrink_to_fit(); // after a large folder
        }
        stored
    }

    fn store_rows(&self, names: &HashSet<FileName>) -> Result<(), CatalogueError> {
        let write = self.tables.begin()?;
        let rows = names.iter().map(|name| (name, self.untold.lock().rows.get(name).cloned()));
        write.set_untold(rows)?;
        write.commit_lazily()
    }
}
