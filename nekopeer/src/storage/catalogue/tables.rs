//! What is read from the catalogue: each operation asks what was committed last, without waiting for a writer.

use std::ops::Bound;
#[cfg(test)]
use std::sync::atomic::Ordering;

use nekoproto::{ContentHash, FileName, ManifestHash, codec};
use redb::ReadOnlyTable;
#[cfg(test)]
use redb::ReadableTableMetadata;

#[cfg(test)]
use super::schema::{CONTENTS, FILES, MANIFESTS, SIZES};
use super::{
    database::{Committed, Tables},
    entry::{Entry, from_row},
    error::CatalogueError,
    schema::{Definition, HalfHash, MANIFEST_USERS, half},
    untold::Row,
};

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
    pub(super) fn get(&self, name: &str) -> Result<Option<Entry>, CatalogueError> {
        self.read(|committed| self.entry_in(committed, name))?.transpose()
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
        self.read(|committed| {
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
        self.read(|committed| {
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
        self.read(|committed| {
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

    /// The version of `name` that not every indexer has listed. A damaged row counts as none.
    pub(super) fn untold(&self, name: &FileName) -> Result<Option<Row>, CatalogueError> {
        self.read(|committed| {
            let row = committed.untold.get(name.as_str())?;
            Ok(row.and_then(|row| codec::decode(row.value()).ok()))
        })
    }

    /// Whether `is_it` returns true of one of these versions.
    pub(super) fn any_untold(&self, is_it: impl Fn(&str, &Row) -> bool) -> Result<bool, CatalogueError> {
        self.read(|committed| {
            for row in committed.untold.range::<&str>(..)? {
                let (name, row) = row?;
                if codec::decode(row.value()).is_ok_and(|row| is_it(name.value(), &row)) {
                    return Ok(true);
                }
            }
            Ok(false)
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
        self.read(|committed| {
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
        from_row(name, row)
            .ok_or_else(|| CatalogueError::DamagedEntry { path: self.path.clone(), name: name.to_owned() })
    }

    /// What `take` makes of the value of one key.
    pub(super) fn value<K: redb::Key + 'static, V: redb::Value + 'static, T>(
        &self,
        table: Definition<K, V>,
        key: K::SelfType<'_>,
        take: impl Fn(V::SelfType<'_>) -> T,
    ) -> Result<Option<T>, CatalogueError> {
        self.read(|committed| {
            let found = committed.table(table)?.get(&key)?;
            Ok(found.map(|found| take(found.value())))
        })
    }
}
