//! What this peer publishes and holds: on disk, crash-safe. The database is the index: nothing is loaded at a
//! start, and an operation costs what it asks for, however much is there.
//!
//! Every change is committed durably (one transaction, synced) before it is visible, and so before any other
//! node learns of it. A version number is taken from its counter in the transaction that stores its record: a
//! crash can lose a publish, but never reuse its number.
//!
//! An entry is verified before it is stored, and not again when it is read: a checksum shows that it is what
//! was stored. One that is not is an error of its name alone.

mod copies;
mod database;
mod entry;
mod error;
mod guard;
mod heard;
pub(crate) mod numbering;
mod placing;
mod publish;
mod reader;
mod restore;
mod row;
mod salvage;
mod schema;
mod tables;
mod trees;
mod untold;
mod versions;
mod withdraw;
mod write;

use std::{
    collections::HashSet,
    iter,
    ops::Bound,
    path::{Path, PathBuf},
    sync::Arc,
};

use nekoproto::{ContentHash, FileName, Identity, Manifest, ManifestHash, Record};
use parking_lot::{Condvar, Mutex};
use redb::ReadableTableMetadata;

use self::{
    database::Tables,
    row::{half, kind},
    schema::{FILES, INDEX, MANIFESTS, OUTBOARDS},
    untold::Noted,
};
pub(crate) use self::{
    entry::{Entry, PassedOver, StoredCopy, Why},
    error::overtaken,
    placing::ToPlace,
    publish::{Draft, Published},
    reader::{CommandId, Preference, PreferenceChange, ReaderState},
    restore::Restored,
    salvage::{Examined, Salvaged, examine},
    tables::names_in,
    trees::{Tree, TreeFile, Trees},
    versions::{EarlierVersion, bases::BASE_BYTES_MIN, lent::Lent},
    withdraw::{Gone, WITHDRAWALS_MAX, Withdrawal},
};
use crate::failure::Failure;

pub(crate) const FILE: &str = "catalogue.redb";

/// Entries that are read at once where all are gone through: they stay in the processor's cache.
pub(crate) const ENTRIES_AT_ONCE: usize = 256;
/// Entries with the same bytes that are looked at: one is mostly enough.
const SAME_BYTES_MAX: usize = 256;

#[derive(Debug)]
pub(crate) struct Page {
    /// The entries, and an error for each that is damaged.
    pub(crate) entries: Vec<Result<Entry, Failure>>,
    pub(crate) next: Option<PageStart>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageStart(Option<String>);

#[derive(Debug)]
pub(crate) struct Catalogue {
    identity: Identity,
    /// Where the packs of earlier versions are.
    packs: PathBuf,
    data_dir: PathBuf,
    tables: Tables,
    /// What indexers have listed since `tables` was told of it.
    noted: Mutex<Noted>,
    /// Names whose files are being replaced or removed.
    placing: Mutex<HashSet<FileName>>,
    /// Notified when they are fewer.
    placed: Condvar,
}

impl Catalogue {
    /// Opens the catalogue in `folder`, or creates an empty one. Blocking.
    pub(crate) fn open(folder: &Path, identity: Identity) -> Result<Self, Failure> {
        let tables = Tables::open(&folder.join(FILE), identity.id())?;
        let (noted, placing, placed) = Default::default();
        let (packs, data_dir) = (folder.join(versions::FOLDER), folder.to_owned());
        Ok(Self { identity, packs, data_dir, tables, noted, placing, placed })
    }

    /// The entry of `name`. A damaged one is reported and counts as none; where that would lose something, use
    /// [`entry`](Self::entry). Reads some pages, mostly from memory.
    pub(crate) fn get(&self, name: &FileName) -> Option<Arc<Entry>> {
        or_report(self.entry(name), "a file is left out")
    }

    /// The entry of `name`. A name that was withdrawn here has none: see [`stated`](Self::stated).
    pub(crate) fn entry(&self, name: &FileName) -> Result<Option<Arc<Entry>>, Failure> {
        Ok(self.tables.get(name.as_str())?.filter(|entry| !entry.record.is_withdrawal()).map(Arc::new))
    }

    pub(crate) fn len(&self) -> Result<usize, Failure> {
        let len = self.tables.read(|committed| Ok(committed.files.len()?))?;
        Ok(usize::try_from(len).unwrap_or(usize::MAX))
    }

    /// At most `limit` entries from `start` on, by name; a page may be empty although there are more. Blocking.
    pub(crate) fn page(&self, start: &PageStart, limit: usize) -> Result<Page, Failure> {
        let after = (start.0.as_deref().map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let checked = |name: &str, row| Some((name.to_owned(), self.tables.checked(name, row)));
        let rows = self.tables.rows(FILES, after, limit, |name, row| checked(name, row.value()))?;
        let last = rows.last().filter(|_| rows.len() == limit);
        let next = last.map(|(name, _)| PageStart(Some(name.clone())));
        let is_file =
            |entry: &Result<Entry, _>| !entry.as_ref().is_ok_and(|entry| entry.record.is_withdrawal());
        Ok(Page { entries: rows.into_iter().map(|(_, entry)| entry).filter(is_file).collect(), next })
    }

    /// All entries by name, some at once, as [`page`](Self::page) gives them; none after a failure. Blocking.
    pub(crate) fn pages(&self) -> impl Iterator<Item = Result<Vec<Result<Entry, Failure>>, Failure>> {
        let mut start = Some(PageStart::default());
        iter::from_fn(move || {
            let page = self.page(&start.take()?, ENTRIES_AT_ONCE);
            Some(page.map(|Page { entries, next }| {
                start = next;
                entries
            }))
        })
    }

    /// At most `max` names, those after `last` in the order of their text; from the first if that is empty. Blocking.
    pub(crate) fn names_after(&self, last: &str, max: usize) -> Result<Vec<FileName>, Failure> {
        let after = (Bound::Excluded(last), Bound::Unbounded);
        self.tables.rows(FILES, after, max, |name, _| FileName::new(name).ok())
    }

    /// At most `max` names below `folder`, by name.
    pub(crate) fn names_below(&self, folder: &FileName, max: usize) -> Result<Vec<FileName>, Failure> {
        let below = format!("{folder}/");
        let mut names = self.names_after(&below, max)?;
        names.retain(|name| name.as_str().starts_with(&below));
        Ok(names)
    }

    /// Entries whose file has this content, at most [`SAME_BYTES_MAX`]. Blocking.
    pub(crate) fn with_content(&self, content: &ContentHash) -> Vec<Arc<Entry>> {
        self.found(kind::CONTENT, content.as_bytes(), |record| record.content == *content)
    }

    /// Entries whose manifest has this hash, at most [`SAME_BYTES_MAX`]. Blocking.
    pub(crate) fn with_manifest(&self, manifest: &ManifestHash) -> Vec<Arc<Entry>> {
        self.found(kind::MANIFEST, manifest.as_bytes(), |record| record.manifest == *manifest)
    }

    fn found(&self, kind: u8, hash: &[u8; 32], is_it: impl Fn(&Record) -> bool) -> Vec<Arc<Entry>> {
        let range = (kind, half(hash), "")..(kind, half(hash).saturating_add(1), "");
        let names =
            self.tables.rows(INDEX, range, SAME_BYTES_MAX, |(_, _, name), _| FileName::new(name).ok());
        let names = or_report(names, "what has the same bytes is not found");
        // A damaged entry does not hide the others.
        names.iter().filter_map(|name| self.entry(name).ok()?).filter(|entry| is_it(&entry.record)).collect()
    }

    /// Names of files of more than one chunk, at most `limit`, those of the most similar size first. Blocking.
    pub(crate) fn near_in_size(&self, size: u64, limit: usize) -> Vec<FileName> {
        let near = self.tables.read(|committed| {
            let Some(index) = committed.table(INDEX)? else { return Ok(Vec::new()) };
            let key = |size| (kind::SIZE, size, "");
            let below = index.range(key(0)..key(size.into()))?.rev().take(limit);
            let above = index.range(key(size.into())..key(u128::MAX))?.take(limit);
            let near = below.chain(above).map(|found| {
                let (found, _) = found?;
                let (_, other, name) = found.value();
                Ok((other.abs_diff(size.into()), name.to_owned()))
            });
            near.collect::<Result<Vec<_>, redb::Error>>()
        });
        let mut near = or_report(near, "files of similar size are not searched");
        near.sort_unstable();
        near.iter().take(limit).filter_map(|(_, name)| FileName::new(name).ok()).collect()
    }

    pub(crate) fn is_own(&self, entry: &Entry) -> bool {
        entry.record.origin == self.identity.id()
    }

    /// That of a file of one chunk follows from its record, and is not stored. Blocking.
    pub(crate) fn manifest_of(&self, entry: &Entry) -> Result<Option<Vec<u8>>, Failure> {
        match Manifest::implied_by(&entry.record) {
            Some((_, encoded)) => Ok(Some(encoded)),
            None => self.tables.value(MANIFESTS, entry.record.manifest.as_bytes(), <[u8]>::to_vec),
        }
    }

    /// Whether the file of `entry` is executable where it is published. Blocking.
    pub(crate) fn is_executable(&self, entry: &Entry) -> Result<bool, Failure> {
        match Manifest::implied_by(&entry.record) {
            Some((manifest, _)) => Ok(manifest.is_executable()),
            None => {
                let hash = entry.record.manifest.as_bytes();
                Ok(self.tables.value(MANIFESTS, hash, Manifest::says_executable)?.unwrap_or(false))
            }
        }
    }

    /// The outboard of the file whose manifest has this hash. None is kept for small files. Blocking.
    pub(crate) fn outboard(&self, hash: &ManifestHash) -> Result<Option<Vec<u8>>, Failure> {
        self.tables.value(OUTBOARDS, hash.as_bytes(), <[u8]>::to_vec)
    }

    /// Also a damaged entry; its version counter stays, or what is known of a copy. Whether there was one. Blocking.
    #[cfg(test)]
    pub(crate) fn remove(&self, name: &FileName) -> Result<bool, Failure> {
        self.remove_if(name, |_| true)
    }

    /// Removes `name` if `is_it` returns true of its entry, which is `None` if it is damaged; nothing changes the
    /// catalogue meanwhile. A copy that is on its way to its place is not stored then. Whether it was removed.
    /// Blocking.
    pub(crate) fn remove_if(
        &self,
        name: &FileName,
        is_it: impl FnOnce(Option<&Entry>) -> bool,
    ) -> Result<bool, Failure> {
        let write = self.tables.begin()?;
        let entry = self.get(name);
        let is_removed = self.forget_entry(&write, name, entry.as_deref())? && is_it(entry.as_deref());
        if is_removed {
            write.end_placing(std::iter::once(name))?;
            self.tables.commit(write)?;
            self.end_of(name);
        }
        Ok(is_removed)
    }
}

impl PageStart {
    /// After this name; from the first with `None`.
    pub(crate) fn after(name: Option<&FileName>) -> Self {
        Self(name.map(FileName::to_string))
    }
}

/// What was found. That it cannot be read is reported, and counts as nothing.
fn or_report<T: Default>(found: Result<T, Failure>, what: &str) -> T {
    found.inspect_err(|error| tracing::error!(%error, "{what}")).unwrap_or_default()
}

#[cfg(test)]
mod damage_tests;
#[cfg(test)]
mod failure_tests;
#[cfg(test)]
mod faults;
#[cfg(test)]
pub(crate) mod model_tests;
#[cfg(test)]
mod stress_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod withdraw_tests;
