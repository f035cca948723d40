//! What this peer publishes and holds: on disk, crash-safe, with an index in memory.
//!
//! Every change is committed durably (one transaction, synced) before it is visible in memory,
//! and so before anybody hears of it. A version number is taken from its counter in the same
//! transaction that stores its record: a crash can lose a publish, but never reuse its number.

mod entry;
mod memory;
mod tables;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

use nekoproto::{
    ContentHash, Cut, FileName, Identity, ManifestHash, Policy, Record, RecordError, VerifiedRecord, Version,
};

pub use entry::Entry;
use memory::Memory;
use tables::Tables;

use crate::{chunker::Chunked, cores};

/// The catalogue of one data folder.
#[derive(Debug)]
pub struct Catalogue {
    identity: Identity,
    tables: Tables,
    memory: RwLock<Memory>,
    /// Held from the first look of a change to its last: what it read stays true until it is visible.
    changing: Mutex<()>,
}

/// A file about to be published.
#[derive(Debug)]
pub struct Draft {
    /// What it is to be shared under.
    pub name: FileName,
    /// Where it lies.
    pub path: PathBuf,
    /// What was read from it.
    pub chunked: Chunked,
    /// How fresh copies must be.
    pub policy: Policy,
}

/// A downloaded file.
#[derive(Clone, Debug)]
pub struct Copy {
    /// What it is, and where.
    pub entry: Entry,
    /// Its encoded manifest.
    pub manifest: Vec<u8>,
    /// The hashes of its segments, see [`treehash`](crate::treehash); none for small files.
    pub outline: Vec<u8>,
}

/// What became of a draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Published {
    /// A new version, stored and not yet announced.
    New(VerifiedRecord),
    /// The bytes and the policy are those of the version already published.
    Unchanged(VerifiedRecord),
}

impl Published {
    /// The version that is published now.
    #[must_use]
    pub const fn record(&self) -> &VerifiedRecord {
        match self {
            Self::New(record) | Self::Unchanged(record) => record,
        }
    }
}

/// What a draft is to be published as.
enum Next {
    Same(VerifiedRecord),
    /// Not signed yet.
    New(Record),
}

/// Why the catalogue cannot do it. What is on disk is as before.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// The database failed.
    #[error("the catalogue {path} failed: {source}")]
    Database {
        /// Its file.
        path: PathBuf,
        /// What it said.
        source: Box<redb::Error>,
    },
    /// The database holds something that this program did not write.
    #[error(
        "the catalogue {path} is damaged ({what}): restore the data folder from a copy, or move it away to start anew"
    )]
    Damaged {
        /// Its file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The database belongs to another key.
    #[error("the catalogue {0} belongs to another key: the data folder's files are not of one node")]
    OtherIdentity(PathBuf),
    /// The name is a copy of another origin's file.
    #[error("{name} is this peer's copy of a file of origin {}: publish it under another name, or deregister the copy first", .origin.short())]
    CopyOfOther {
        /// The name.
        name: FileName,
        /// Whose file it is.
        origin: nekoproto::NodeId,
    },
    /// The name was published here, or got a later version, while the copy was downloaded.
    #[error("{0} was published or refreshed here meanwhile; the downloaded copy is not put in its place")]
    Overtaken(FileName),
    /// The counter of a name is used up.
    #[error("no version number is left for {0}")]
    VersionsUsedUp(FileName),
    /// The record cannot be signed.
    #[error(transparent)]
    Record(#[from] RecordError),
}

impl Catalogue {
    /// Opens the catalogue in `folder`, or makes an empty one. Blocking.
    ///
    /// # Errors
    /// It cannot be used; it is left as it is.
    pub fn open(folder: &Path, identity: Identity) -> Result<Self, CatalogueError> {
        let tables = Tables::open(&folder.join("catalogue.redb"), identity.id())?;
        let mut memory = Memory::default();
        for entry in tables.load()? {
            memory.put(Arc::new(entry));
        }
        Ok(Self { identity, tables, memory: RwLock::new(memory), changing: Mutex::new(()) })
    }

    /// The entry of `name`.
    #[must_use]
    pub fn get(&self, name: &FileName) -> Option<Arc<Entry>> {
        self.read(|memory| memory.entries.get(name).cloned())
    }

    /// All entries, by name.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Entry>> {
        let mut all: Vec<Arc<Entry>> = self.read(|memory| memory.entries.values().cloned().collect());
        all.sort_by(|a, b| a.record.name.cmp(&b.record.name));
        all
    }

    /// Entries whose file has this content.
    #[must_use]
    pub fn with_content(&self, content: &ContentHash) -> Vec<Arc<Entry>> {
        self.read(|memory| memory.named(memory.by_content.get(content)))
    }

    /// Entries whose manifest has this hash.
    #[must_use]
    pub fn with_manifest(&self, manifest: &ManifestHash) -> Vec<Arc<Entry>> {
        self.read(|memory| memory.named(memory.by_manifest.get(manifest)))
    }

    /// Whether this peer is the origin of `entry`.
    #[must_use]
    pub fn is_own(&self, entry: &Entry) -> bool {
        entry.record.origin == self.identity.id()
    }

    /// The encoded manifest with this hash. Blocking.
    ///
    /// # Errors
    /// The database failed.
    pub fn manifest(&self, hash: &ManifestHash) -> Result<Option<Vec<u8>>, CatalogueError> {
        self.tables.manifest(hash)
    }

    /// The average length in bytes of the chunks of the last version of `name` published here, if
    /// there was one. Blocking.
    ///
    /// # Errors
    /// The database failed.
    pub fn last_average(&self, name: &FileName) -> Result<Option<u32>, CatalogueError> {
        let noted = self.tables.average(name)?;
        // An older version of the program noted none: it always took that of the size.
        Ok(noted.or_else(|| self.get(name).map(|known| Cut::for_size(known.record.size).average)))
    }

    /// The hashes of the segments of the file whose manifest has this hash; of small files, and of those
    /// that an older version of the program stored, none are kept. Blocking.
    ///
    /// # Errors
    /// The database failed.
    pub fn outline(&self, hash: &ManifestHash) -> Result<Option<Vec<u8>>, CatalogueError> {
        self.tables.outline(hash)
    }

    /// Gives each draft its version, signs them on all cores, and stores all in one transaction.
    /// Blocking.
    ///
    /// # Errors
    /// Nothing was stored and no version number was used.
    pub fn publish(&self, drafts: Vec<Draft>) -> Result<Vec<Published>, CatalogueError> {
        let _changing = self.change();
        let write = self.tables.begin()?;
        let records = drafts.iter().map(|draft| self.next_record(&write, draft));
        let records = records.collect::<Result<Vec<Next>, CatalogueError>>()?;
        let results = cores::map(&records, |next| match next {
            Next::Same(record) => Ok(Published::Unchanged(record.clone())),
            Next::New(record) => record.clone().sign(&self.identity).map(Published::New),
        });
        let results = results.into_iter().collect::<Result<Vec<Published>, RecordError>>()?;
        for published in &results {
            self.drop_replaced_manifest(&write, published.record())?;
        }
        let mut entries = Vec::with_capacity(drafts.len());
        for (Draft { path, chunked, .. }, published) in drafts.into_iter().zip(&results) {
            let record = published.record().clone();
            // After all removals: a manifest that one file gave up may be another's new one.
            write.put_manifest(&record.manifest, &chunked.manifest, &chunked.outline)?;
            write.set_average(&record.name, chunked.average)?;
            let (stamp, hashed_at_ns) = (chunked.stamp, chunked.hashed_at_ns);
            let entry = Entry { record, path, stamp, hashed_at_ns, newest: None, origin_addr: None };
            write.put_entry(&entry)?;
            entries.push(entry);
        }
        write.commit()?;
        self.remember(entries);
        Ok(results)
    }

    /// What `draft` is to be published as; a version number that it needs is taken.
    fn next_record(&self, write: &tables::Write<'_>, draft: &Draft) -> Result<Next, CatalogueError> {
        let Draft { name, chunked, policy, .. } = draft;
        let known = self.get(name);
        if let Some(other) = known.as_ref().filter(|known| !self.is_own(known)) {
            return Err(CatalogueError::CopyOfOther { name: name.clone(), origin: other.record.origin });
        }
        let counter = write.version(name)?;
        let unchanged = known.filter(|known| {
            Some(known.record.version) == counter // else the counter was raised past it
                && known.record.content == chunked.content
                && known.record.manifest == chunked.manifest_hash
                && known.record.policy == *policy
        });
        if let Some(known) = unchanged {
            return Ok(Next::Same(known.record.clone()));
        }
        let version = match counter {
            Some(last) => last.next().ok_or_else(|| CatalogueError::VersionsUsedUp(name.clone()))?,
            None => Version::FIRST,
        };
        write.set_version(name, version)?;
        Ok(Next::New(Record {
            origin: self.identity.id(),
            name: name.clone(),
            version,
            size: chunked.stamp.size(),
            content: chunked.content,
            manifest: chunked.manifest_hash,
            policy: *policy,
        }))
    }

    /// Makes sure that the next version of `name` comes after `seen`: the node's own signature
    /// on a later version than its counter says shows that the counter was lost. Blocking.
    ///
    /// # Errors
    /// The counter is as before.
    pub fn raise_version(&self, name: &FileName, seen: Version) -> Result<(), CatalogueError> {
        let _changing = self.change();
        let write = self.tables.begin()?;
        if write.version(name)?.is_none_or(|last| last < seen) {
            write.set_version(name, seen)?;
        }
        write.commit()
    }

    /// Whether a copy of `record` may be stored: the name is not published here, and no later
    /// version of the same file is held.
    ///
    /// # Errors
    /// `Overtaken`.
    pub fn may_hold(&self, record: &Record) -> Result<(), CatalogueError> {
        match self.get(&record.name) {
            Some(known) if self.is_own(&known) || known.record.replaces(record) => {
                Err(CatalogueError::Overtaken(record.name.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Where a partial download of `name` was noted to lie. Blocking.
    ///
    /// # Errors
    /// The database failed.
    pub fn partial(&self, name: &FileName) -> Result<Option<PathBuf>, CatalogueError> {
        self.tables.partial(name)
    }

    /// Stores a downloaded copy in place of any earlier one. Blocking.
    ///
    /// # Errors
    /// The catalogue is as before.
    pub fn put_copy(&self, copy: Copy) -> Result<(), CatalogueError> {
        self.put_copies(vec![copy])?.remove(0)
    }

    /// Stores many downloaded copies in one transaction, each in place of any earlier one, and forgets
    /// that they were being downloaded. Blocking.
    ///
    /// # Errors
    /// The catalogue is as before. What is wrong with a single copy is in its place of the results; the
    /// others are stored.
    pub fn put_copies(&self, copies: Vec<Copy>) -> Result<Vec<Result<(), CatalogueError>>, CatalogueError> {
        let _changing = self.change();
        let write = self.tables.begin()?;
        let mut results = Vec::with_capacity(copies.len());
        let mut stored = Vec::with_capacity(copies.len());
        for Copy { mut entry, manifest, outline } in copies {
            if let Err(error) = self.may_hold(&entry.record) {
                results.push(Err(error));
                continue;
            }
            // What became known while it was downloaded, or before, stays known.
            let known = self.get(&entry.record.name).and_then(|known| known.newest.clone());
            entry.newest = known.filter(|newest| newest.replaces(&entry.record));
            self.drop_replaced_manifest(&write, &entry.record)?;
            results.push(Ok(()));
            stored.push(Copy { entry, manifest, outline });
        }
        // After all removals: a manifest that one file gave up may be another's new one.
        for Copy { entry, manifest, outline } in &stored {
            write.put_manifest(&entry.record.manifest, manifest, outline)?;
            write.put_entry(entry)?;
            forget_partial(&write, &entry.record.name)?;
        }
        write.commit()?;
        self.remember(stored.into_iter().map(|copy| copy.entry).collect());
        Ok(results)
    }

    /// Changes the entry of `name`, if there is one and `change` says that it changed. Blocking.
    ///
    /// # Errors
    /// The catalogue is as before.
    pub fn update(
        &self,
        name: &FileName,
        change: impl FnOnce(&mut Entry) -> bool,
    ) -> Result<Option<Arc<Entry>>, CatalogueError> {
        let _changing = self.change();
        let write = self.tables.begin()?;
        let Some(known) = self.get(name) else { return Ok(None) };
        let mut entry = Entry::clone(&known);
        if !change(&mut entry) {
            return Ok(None);
        }
        write.put_entry(&entry)?;
        write.commit()?;
        self.remember(vec![entry]);
        Ok(self.get(name))
    }

    /// Notes, in one transaction, later versions of files held here; returns the entries that are
    /// newly outdated by them. Blocking.
    ///
    /// # Errors
    /// The catalogue is as before.
    pub fn note_newer(&self, records: &[VerifiedRecord]) -> Result<Vec<Arc<Entry>>, CatalogueError> {
        let _changing = self.change();
        let write = self.tables.begin()?;
        let mut outdated: HashMap<FileName, Entry> = HashMap::new();
        for record in records {
            let Some(known) = self.get(&record.name) else { continue };
            let entry = outdated.remove(&record.name).unwrap_or_else(|| Entry::clone(&known));
            let newer = record.replaces(entry.newest.as_ref().unwrap_or(&entry.record));
            let newest = if newer { Some(record.clone()) } else { entry.newest.clone() };
            if newest != known.newest {
                outdated.insert(record.name.clone(), Entry { newest, ..entry });
            }
        }
        outdated.values().try_for_each(|entry| write.put_entry(entry))?;
        write.commit()?;
        let names: Vec<FileName> = outdated.keys().cloned().collect();
        self.remember(outdated.into_values().collect());
        Ok(names.iter().filter_map(|name| self.get(name)).collect())
    }

    /// Forgets `name`; its version counter stays. Blocking.
    ///
    /// # Errors
    /// The catalogue is as before.
    pub fn remove(&self, name: &FileName) -> Result<Option<Arc<Entry>>, CatalogueError> {
        let _changing = self.change();
        let write = self.tables.begin()?;
        let Some(known) = self.get(name) else { return Ok(None) };
        write.remove_entry(name)?;
        if self.is_last_user(&known) {
            write.remove_manifest(&known.record.manifest)?;
        }
        write.commit()?;
        self.write(|memory| memory.take(name));
        Ok(Some(known))
    }

    /// Notes that a partial download of `name` lies at `path`; returns the one noted before.
    /// Blocking.
    ///
    /// # Errors
    /// The catalogue is as before.
    pub fn note_partial(
        &self,
        name: &FileName,
        path: Option<&Path>,
    ) -> Result<Option<PathBuf>, CatalogueError> {
        let write = self.tables.begin()?;
        let before = set_partial(&write, name, path)?;
        write.commit()?;
        Ok(before)
    }

    /// Notes where partial downloads of many names lie. Blocking.
    ///
    /// # Errors
    /// The catalogue is as before.
    pub fn note_partials<'a>(
        &self,
        partials: impl Iterator<Item = (&'a FileName, PathBuf)>,
    ) -> Result<(), CatalogueError> {
        let write = self.tables.begin()?;
        for (name, path) in partials {
            set_partial(&write, name, Some(&path))?;
        }
        write.commit()
    }

    /// Notes how far the partial download at `path` has come. Blocking.
    ///
    /// # Errors
    /// The note before still holds.
    pub fn note_progress(&self, path: &Path, note: &[u8]) -> Result<(), CatalogueError> {
        let write = self.tables.begin()?;
        write.set_progress(path, Some(note))?;
        write.commit()
    }

    /// What was noted of the partial download at `path`. Blocking.
    ///
    /// # Errors
    /// The database failed.
    pub fn progress(&self, path: &Path) -> Result<Option<Vec<u8>>, CatalogueError> {
        self.tables.progress(path)
    }

    /// Removes the manifest of the entry that `record` replaces, if no other entry has the same.
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
        self.read(|memory| {
            memory.by_manifest.get(&entry.record.manifest).is_none_or(|names| names.len() <= 1)
        })
    }

    fn remember(&self, entries: Vec<Entry>) {
        self.write(|memory| {
            for entry in entries {
                memory.put(Arc::new(entry));
            }
        });
    }

    fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T>(&self, look: impl FnOnce(&Memory) -> T) -> T {
        look(&self.memory.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, change: impl FnOnce(&mut Memory) -> T) -> T {
        change(&mut self.memory.write().unwrap_or_else(PoisonError::into_inner))
    }
}

fn set_partial(
    write: &tables::Write<'_>,
    name: &FileName,
    path: Option<&Path>,
) -> Result<Option<PathBuf>, CatalogueError> {
    let before = write.set_partial(name, path)?;
    if let Some(before) = before.as_deref().filter(|before| path != Some(*before)) {
        write.set_progress(before, None)?;
    }
    Ok(before)
}

fn forget_partial(write: &tables::Write<'_>, name: &FileName) -> Result<(), CatalogueError> {
    set_partial(write, name, None).map(drop)
}

#[cfg(test)]
mod tests;
