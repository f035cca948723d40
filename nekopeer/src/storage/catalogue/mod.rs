//! What this peer publishes and holds: on disk, crash-safe, with an index in memory.
//!
//! Every change is committed durably (one transaction, synced) before it is visible in memory, and so
//! before any other node learns of it. A version number is taken from its counter in the transaction that
//! stores its record: a crash can lose a publish, but never reuse its number.

mod copies;
mod entry;
mod error;
mod memory;
pub(crate) mod numbering;
mod progress;
mod publish;
mod tables;
mod untold;

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    sync::Arc,
};

use nekoproto::{ContentHash, FileName, Identity, ManifestHash, VerifiedRecord};
use parking_lot::{Mutex, RwLock};

pub use self::error::CatalogueError;
pub(crate) use self::{
    copies::Copy,
    entry::Entry,
    publish::{Draft, Published},
};
use self::{memory::Memory, tables::Tables, untold::Untold};

/// The catalogue of one data folder.
#[derive(Debug)]
pub(crate) struct Catalogue {
    identity: Identity,
    tables: Tables,
    memory: RwLock<Memory>,
    /// What `tables` has of versions that not every indexer has listed.
    untold: Mutex<Untold>,
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
        let untold = Mutex::new(Untold::new(tables.load_untold()?));
        Ok(Self { identity, tables, memory: RwLock::new(memory), untold, changing: Mutex::new(()) })
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
        let _changing = self.changing.lock();
        let write = self.tables.begin()?;
        let Some(known) = self.get(name) else { return Ok(None) };
        write.remove_entry(name)?;
        write.set_untold([(name, None)].into_iter())?;
        if self.users_of(&known.record.manifest) <= 1 {
            write.remove_manifest(&known.record.manifest)?;
        }
        write.commit()?;
        self.untold.lock().take(name);
        self.memory.write().take(name);
        Ok(Some(known))
    }

    /// Removes the manifests of the entries that `records` replace, unless an entry that stays uses them.
    fn drop_replaced_manifests<'a>(
        &self,
        write: &tables::Write<'_>,
        records: impl Iterator<Item = &'a VerifiedRecord>,
    ) -> Result<(), CatalogueError> {
        let mut left: HashMap<ManifestHash, HashSet<&FileName>> = HashMap::new();
        for record in records {
            let old = self.get(&record.name).filter(|old| old.record.manifest != record.manifest);
            if let Some(old) = old {
                left.entry(old.record.manifest).or_default().insert(&record.name);
            }
        }
        let unused = left.iter().filter(|(manifest, names)| self.users_of(manifest) <= names.len());
        unused.map(|(manifest, _)| manifest).try_for_each(|manifest| write.remove_manifest(manifest))
    }

    /// Number of entries that use this manifest.
    fn users_of(&self, manifest: &ManifestHash) -> usize {
        self.memory.read().with_manifest(manifest).len()
    }

    /// At most `max` names, those after `last` in the order of their text; from the first with `None`.
    /// Blocking.
    ///
    /// # Errors
    /// The database failed.
    pub(crate) fn names_after(
        &self,
        last: Option<&FileName>,
        max: usize,
    ) -> Result<Vec<FileName>, CatalogueError> {
        self.tables.names_after(last.map_or("", FileName::as_str), max)
    }

    fn remember(&self, entries: Vec<Entry>) {
        let mut memory = self.memory.write();
        entries.into_iter().for_each(|entry| memory.put(Arc::new(entry)));
    }
}

#[cfg(test)]
mod tests;
