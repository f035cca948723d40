//! What is read from the catalogue: each operation asks what was committed last, without waiting for a writer.

#[cfg(test)]
use std::sync::atomic::{AtomicU64, Ordering};
use std::{ops::Bound, path::Path};

use nekoproto::{ContentHash, FileName, ManifestHash, NodeId, codec};
use redb::{ReadOnlyTable, ReadableTableMetadata};

#[cfg(test)]
use super::schema::{CONTENTS, FILES, MANIFESTS};
use super::{
    database::{Committed, LiveDatabase},
    entry::{Entry, from_row},
    error::CatalogueError,
    schema::{Definition, HalfHash, MANIFEST_USERS, SIZES, half},
    untold::Row,
    write::Write,
};

/// The tables of the open database. It is its own index: opening it loads nothing, and a lookup decodes what it
/// returns.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) database: LiveDatabase,
    #[cfg(test)]
    rows_read: AtomicU64,
}

/// Some entries, in the order of their names.
#[derive(Debug)]
pub(crate) struct Page {
    /// The entries, and an error for each that is damaged.
    pub(crate) entries: Vec<Result<Entry, CatalogueError>>,
    /// Where the next page begins, if there may be one.
    pub(crate) next: Option<PageStart>,
}

/// Where a page of entries begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageStart(Option<String>);

impl PageStart {
    /// After this name; from the first with `None`.
    pub(crate) fn after(name: Option<&FileName>) -> Self {
        Self(name.map(FileName::to_string))
    }
}

/// Number of rows.
#[cfg(test)]
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) files: u64,
    pub(super) contents: u64,
    pub(super) users: u64,
    pub(super) sizes: u64,
    pub(super) manifests: u64,
}

impl Tables {
    /// Opens the database in the file `path`, or creates it.
    pub(super) fn open(path: &Path, node: NodeId) -> Result<Self, CatalogueError> {
        Ok(Self {
            database: LiveDatabase::open(path, node)?,
            #[cfg(test)]
            rows_read: AtomicU64::new(0),
        })
    }

    /// See [`LiveDatabase::begin`].
    pub(super) fn begin(&self) -> Result<Write<'_>, CatalogueError> {
        self.database.begin()
    }

    /// See [`LiveDatabase::commit`].
    pub(super) fn commit(&self, write: Write<'_>) -> Result<(), CatalogueError> {
        self.database.commit(write)
    }

    /// The number of entries.
    pub(super) fn len(&self) -> Result<usize, CatalogueError> {
        let len = self.database.read(|committed| Ok(committed.files.len()?))?;
        Ok(usize::try_from(len).unwrap_or(usize::MAX))
    }

    /// The entry of `name`.
    pub(super) fn get(&self, name: &str) -> Result<Option<Entry>, CatalogueError> {
        self.database.read(|committed| self.entry_in(committed, name))?.transpose()
    }

    fn entry_in(
        &self,
        committed: &Committed,
        name: &str,
    ) -> Result<Option<Result<Entry, CatalogueError>>, redb::Error> {
        Ok(committed.files.get(name)?.map(|row| self.decode(name, row.value())))
    }

    /// At most `limit` entries from `start` on.
    pub(super) fn page(&self, start: &PageStart, limit: usize) -> Result<Page, CatalogueError> {
        let after = start.0.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        self.database.read(|committed| {
            let (mut entries, mut last) = (Vec::with_capacity(limit), None);
            for row in committed.files.range::<&str>((after, Bound::Unbounded))?.take(limit) {
                let (name, row) = row?;
                entries.push(self.decode(name.value(), row.value()));
                last = Some(name);
            }
            let next =
                last.filter(|_| entries.len() == limit).map(|name| PageStart(Some(name.value().to_owned())));
            Ok(Page { entries, next })
        })
    }

    /// Entries with this content, at most `limit`.
    pub(super) fn with_content(
        &self,
        content: &ContentHash,
        limit: usize,
    ) -> Result<Vec<Entry>, CatalogueError> {
        let has = |entry: &Entry| entry.record.content == *content;
        self.database.read(|committed| {
            self.named_in(committed, &committed.contents, half(content.as_bytes()), limit, has)
        })
    }

    /// Entries with this manifest, at most `limit`.
    pub(super) fn with_manifest(
        &self,
        hash: &ManifestHash,
        limit: usize,
    ) -> Result<Vec<Entry>, CatalogueError> {
        let has = |entry: &Entry| entry.record.manifest == *hash;
        self.database.read(|committed| {
            let users = committed.table(MANIFEST_USERS)?;
            self.named_in(committed, &users, half(hash.as_bytes()), limit, has)
        })
    }

    fn named_in(
        &self,
        committed: &Committed,
        index: &ReadOnlyTable<(&'static HalfHash, &'static str), ()>,
        key: &HalfHash,
        limit: usize,
        has: impl Fn(&Entry) -> bool,
    ) -> Result<Vec<Entry>, redb::Error> {
        let mut entries = Vec::new();
        for found in index.range((key, "")..)?.take(limit) {
            let (found, _) = found?;
            let (half, name) = found.value();
            if half != key {
                break;
            }
            // A damaged entry does not hide the others.
            let entry = self.entry_in(committed, name)?.and_then(Result::ok);
            entries.extend(entry.filter(&has));
        }
        Ok(entries)
    }

    /// Names of entries with a stored manifest, at most `limit`, those of the most similar size first.
    pub(super) fn near_in_size(&self, size: u64, limit: usize) -> Result<Vec<String>, CatalogueError> {
        let mut near = self.database.read(|committed| {
            let sizes = committed.table(SIZES)?;
            let mut near = Vec::new();
            let below = sizes.range(..(size, ""))?.rev().take(limit);
            let above = sizes.range((size, "")..)?.take(limit);
            for found in below.chain(above) {
                let (found, _) = found?;
                near.push((found.value().0.abs_diff(size), found.value().1.to_owned()));
            }
            Ok(near)
        })?;
        near.sort_unstable();
        near.truncate(limit);
        Ok(near.into_iter().map(|(_, name)| name).collect())
    }

    /// The version of `name` that not every indexer has listed. A damaged row counts as none.
    pub(super) fn untold(&self, name: &FileName) -> Result<Option<Row>, CatalogueError> {
        self.database.read(|committed| {
            let row = committed.untold.get(name.as_str())?;
            Ok(row.and_then(|row| codec::decode(row.value()).ok()))
        })
    }

    /// Whether `is_it` returns true of one of these versions.
    pub(super) fn any_untold(&self, is_it: impl Fn(&str, &Row) -> bool) -> Result<bool, CatalogueError> {
        self.database.read(|committed| {
            for row in committed.untold.range::<&str>(..)? {
                let (name, row) = row?;
                if codec::decode(row.value()).is_ok_and(|row| is_it(name.value(), &row)) {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }

    /// At most `max` names of entries, those after `last` in the order of their text.
    pub(super) fn names_after(&self, last: &str, max: usize) -> Result<Vec<FileName>, CatalogueError> {
        self.database.read(|committed| {
            let mut names = Vec::new();
            for row in committed.files.range::<&str>((Bound::Excluded(last), Bound::Unbounded))?.take(max) {
                names.extend(FileName::new(row?.0.value())); // what is no name has no entry either
            }
            Ok(names)
        })
    }

    /// Number of rows decoded since the start.
    #[cfg(test)]
    pub(super) fn rows_read(&self) -> u64 {
        self.rows_read.load(Ordering::Relaxed)
    }

    /// Number of rows of the tables that follow from the entries.
    #[cfg(test)]
    pub(super) fn counts(&self) -> Result<Counts, CatalogueError> {
        self.database.read(|committed| {
            Ok(Counts {
                files: committed.table(FILES)?.len()?,
                contents: committed.table(CONTENTS)?.len()?,
                users: committed.table(MANIFEST_USERS)?.len()?,
                sizes: committed.table(SIZES)?.len()?,
                manifests: committed.table(MANIFESTS)?.len()?,
            })
        })
    }

    fn decode(&self, name: &str, row: &[u8]) -> Result<Entry, CatalogueError> {
        #[cfg(test)]
        self.rows_read.fetch_add(1, Ordering::Relaxed);
        from_row(name, row).ok_or_else(|| CatalogueError::DamagedEntry {
            path: self.database.path.clone(),
            name: name.to_owned(),
        })
    }

    pub(super) fn read<K: redb::Key + 'static, V: redb::Value + 'static, T>(
        &self,
        table: Definition<K, V>,
        key: K::SelfType<'_>,
        take: impl Fn(V::SelfType<'_>) -> T,
    ) -> Result<Option<T>, CatalogueError> {
        self.database.read(|committed| {
            let found = committed.table(table)?.get(&key)?;
            Ok(found.map(|found| take(found.value())))
        })
    }
}
