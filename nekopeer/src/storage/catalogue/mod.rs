//! What this peer publishes and holds: on disk, crash-safe, with an index in memory.
//!
//! Every change is committed durably (one transaction, synced) before it is visible in memory, and so
//! before any other node learns of it. A version number is taken from its counter in the transaction that
//! stores its record: a crash can lose a publish, but never reuse its number.

mod copies;
mod entry;
mod error;
mod memory;
mod progress;
mod publish;
mod tables;

use std::{path::Path, sync::Arc};

use nekoproto::{ContentHash, FileName, Identity, ManifestHash, Record};
use parking_lot::{Mutex, RwLock};

pub use self::error::CatalogueError;
pub(crate) use self::{
    copies::Copy,
    entry::Entry,
    publish::{Draft, Published},
};
use self::{memory::Memory, tables::Tables};

/// The catalogue of one data folder.
#[derive(Debug)]
pub(crate) struct Catalogue {
    identity: Identity,
    tables: Tables,
    memory: RwLock<Memory>,
    /// Held during a whole change: what the change read stays true until its result is visible.
    changing: Mutex<()>,
}

impl Catalogue {
    /// Opens the catalogue in `folder`, or creates an empty one. Blocking.
    ///
    /// # Errors
    /// It cannot be used; the files are unchanged.
    pub(crate) fn open(folder: &Path, identity: Identity) -> Result<Self, CatalogueError> {
        let tables = Tables::open(&folder.join("catalogue.redb"), identity.id())?;
        let mut memory = Memory::default();
        for entry in tables.load()? {
            memory.put(Arc::new(entry));
        }
        Ok(Self { identity, tables, memory: RwLock::new(memory), changing: Mutex::new(()) })
    }

    /// The entry of `name`.
    pub(crate) fn get(&self, name: &FileName) -> Option<Arc<Entry>> {
        self.memory.read().entries.get(name).cloned()
    }

    /// All entries, by name.
    pub(crate) fn all(&self) -> Vec<Arc<Entry>> {
        let mut all: Vec<Arc<Entry>> = self.memory.read().entries.values().cloned().collect();
        all.sort_by(|a, b| a.record.name.cmp(&b.record.name));
        all
    }

    /// Entries whose file has this content.
    pub(crate) fn with_content(&self, content: &ContentHash) -> Vec<Arc<Entry>> {
        self.memory.read().with_content(content)
    }

    /// Entries whose manifest has this hash.
    pub(crate) fn with_manifest(&self, manifest: &ManifestHash) -> Vec<Arc<Entry>> {
        self.memory.read().with_manifest(manifest)
    }

    /// Whether this peer is the origin of `entry`.
    pub(crate) fn is_own(&self, entry: &Entry) -> bool {
        entry.record.origin == self.identity.id()
    }

    /// The encoded manifest with this hash. Blocking.
    ///
    /// # Errors
    /// The database failed.
    pub(crate) fn manifest(&self, hash: &ManifestHash) -> Result<Option<Vec<u8>>, CatalogueError> {
        self.tables.manifest(hash)
    }

    /// The outboard of the file whose manifest has this hash. None is kept for small files and for those
    /// stored by an older version of the program. Blocking.
    ///
    /// # Errors
    /// The database failed.
    pub(crate) fn outboard(&self, hash: &ManifestHash) -> Result<Option<Vec<u8>>, CatalogueError> {
        self.tables.outboard(hash)
    }

    /// Removes `name`; its version counter stays. Blocking.
    ///
    /// # Errors
    /// The catalogue is as before.
    pub(crate) fn remove(&self, name: &FileName) -> Result<Option<Arc<Entry>>, CatalogueError> {
        self.remove_if(name, |_| true)
    }

    /// As [`remove`](Self::remove), if `is_it` returns true of the entry; nothing changes the catalogue meanwhile.
    ///
    /// # Errors
    /// The catalogue is as before.
    pub(crate) fn remove_if(
        &self,
        name: &FileName,
        is_it: impl FnOnce(&Entry) -> bool,
    ) -> Result<Option<Arc<Entry>>, CatalogueError> {
        let _changing = self.changing.lock();
        let write = self.tables.begin()?;
        let Some(known) = self.get(name).filter(|known| is_it(known)) else { return Ok(None) };
        write.remove_entry(name)?;
        if self.is_last_user(&known) {
            write.remove_manifest(&known.record.manifest)?;
        }
        write.commit()?;
        self.memory.write().take(name);
        Ok(Some(known))
    }

    /// Removes the manifest of the entry that `record` replaces, unless another entry uses it.
    fn drop_replaced_manifest(
        &self,
        write: &tables::Write<'_>,
        record: &Record,
    ) -> Result<(), CatalogueError> {
        match self.get(&record.name) {
            Some(old) if old.record.manifest != record.manifest && self.is_last_user(&old) => {
                write.remove_manifest(&old.record.manifest)
            }
            _ => Ok(()),
        }
    }

    fn is_last_user(&self, entry: &Entry) -> bool {
        self.memory.read().with_manifest(&entry.record.manifest).len() <= 1
    }

    fn remember(&self, entries: Vec<Entry>) {
        let mut memory = self.memory.write();
        entries.into_iter().for_each(|entry| memory.put(Arc::new(entry)));
    }
}

#[cfg(test)]
mod tests;
