//! What is read from the catalogue: each operation asks what was committed last, without waiting for a writer.

use std::ops::{Bound, RangeBounds};
#[cfg(test)]
use std::sync::atomic::Ordering;

use nekoproto::FileName;
use redb::{AccessGuard, Value};

#[cfg(test)]
use super::schema::{MANIFESTS, kind};
use super::{
    database::Tables,
    entry::Entry,
    error::CatalogueError,
    schema::{Definition, FILES, INDEX, Row, Stored},
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

impl Tables {
    pub(super) fn get(&self, name: &str) -> Result<Option<Entry>, CatalogueError> {
        self.value(FILES, name, |row| row)?.map(|row| self.checked(name, row)).transpose()
    }

    /// At most `limit` entries from `start` on.
    pub(super) fn page(&self, start: &PageStart, limit: usize) -> Result<Page, CatalogueError> {
        let after = (start.0.as_deref().map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let entry = |name: &str, row| Some((name.to_owned(), self.checked(name, row)));
        let rows = self.rows(FILES, after, limit, |name, row| entry(name, row.value()))?;
        let last = rows.last().filter(|_| rows.len() == limit);
        let next = last.map(|(name, _)| PageStart(Some(name.clone())));
        Ok(Page { entries: rows.into_iter().map(|(_, entry)| entry).collect(), next })
    }

    pub(super) fn checked(&self, name: &str, row: Option<Entry>) -> Result<Entry, CatalogueError> {
        #[cfg(test)]
        self.rows_read.fetch_add(1, Ordering::Relaxed);
        row.filter(|entry| entry.record.name.as_str() == name)
            .ok_or_else(|| CatalogueError::DamagedEntry { path: self.path.clone(), name: name.to_owned() })
    }

    /// Entries with this key of a [kind](super::schema::kind), of at most `limit` those that `has` is true of.
    pub(super) fn with_key(
        &self,
        (kind, key): (u8, u128),
        limit: usize,
        has: impl Fn(&Entry) -> bool,
    ) -> Result<Vec<Entry>, CatalogueError> {
        let range = (kind, key, "")..(kind, key.saturating_add(1), "");
        let names = self.rows(INDEX, range, limit, |(_, _, name), _| Some(name.to_owned()))?;
        let mut entries = Vec::new();
        for name in names {
            match self.get(&name) {
                Err(CatalogueError::DamagedEntry { .. }) => {} // it does not hide the others
                entry => entries.extend(entry?.filter(&has)),
            }
        }
        Ok(entries)
    }

    /// What `take` makes of the value of one key.
    pub(super) fn value<K: redb::Key + 'static, V: Value + 'static, T>(
        &self,
        table: Definition<K, V>,
        key: K::SelfType<'_>,
        take: impl Fn(V::SelfType<'_>) -> T,
    ) -> Result<Option<T>, CatalogueError> {
        self.read(|committed| {
            let Some(table) = committed.table(table)? else { return Ok(None) };
            Ok(table.get(&key)?.map(|found| take(found.value())))
        })
    }

    /// The row of one key. A damaged one counts as none.
    pub(super) fn row<K: redb::Key + 'static, V: Stored>(
        &self,
        table: Definition<K, Row<V>>,
        key: K::SelfType<'_>,
    ) -> Result<Option<V>, CatalogueError> {
        Ok(self.value(table, key, |row| row)?.flatten())
    }

    /// What `take` makes of the rows of a range, at most `limit` of them.
    pub(super) fn rows<'k, K: redb::Key + 'static, V: Value + 'static, T>(
        &self,
        table: Definition<K, V>,
        range: impl RangeBounds<K::SelfType<'k>> + Clone + 'k,
        limit: usize,
        take: impl Fn(K::SelfType<'_>, AccessGuard<'_, V>) -> Option<T>,
    ) -> Result<Vec<T>, CatalogueError> {
        self.read(|committed| {
            let Some(table) = committed.table(table)? else { return Ok(Vec::new()) };
            let rows = table.range(range.clone())?;
            let taken = rows.filter_map(|row| {
                row.map(|(key, row)| take(key.value(), row)).map_err(redb::Error::from).transpose()
            });
            taken.take(limit).collect()
        })
    }

    /// Number of rows decoded since the start.
    #[cfg(test)]
    pub(super) fn rows_read(&self) -> u64 {
        self.rows_read.load(Ordering::Relaxed)
    }

    /// Number of entries, of their keys by content, manifest and size, and of manifests.
    #[cfg(test)]
    pub(super) fn counts(&self) -> Result<[usize; 5], CatalogueError> {
        let keys = self.rows(INDEX, .., usize::MAX, |(kind, ..), _| Some(kind))?;
        let count = |kind| keys.iter().filter(|key| **key == kind).count();
        let files = self.rows(FILES, .., usize::MAX, |_, _| Some(()))?.len();
        let manifests = self.rows(MANIFESTS, .., usize::MAX, |_, _| Some(()))?.len();
        Ok([files, count(kind::CONTENT), count(kind::MANIFEST), count(kind::SIZE), manifests])
    }
}
