//! What is read from the catalogue: each operation asks what was committed last, without waiting for a writer.

#[cfg(test)]
use std::sync::atomic::Ordering;
use std::{ops::RangeBounds, path::Path};

use nekoproto::FileName;
use redb::{AccessGuard, ReadOnlyDatabase, ReadableDatabase, Value};

use super::{
    FILE,
    database::Tables,
    entry::Entry,
    guard::{guarded, guarded_part},
    row::{Definition, Stored, TableRow},
    schema::FILES,
    untold::Untold,
};
#[cfg(test)]
use super::{
    row::kind,
    schema::{INDEX, MANIFESTS},
};
use crate::failure::{Failure, Reason};

impl Tables {
    pub(super) fn get(&self, name: &str) -> Result<Option<Entry>, Failure> {
        let found = self.read(|committed| Ok(committed.files.get(name)?.map(|row| row.value())))?;
        found.map(|row| self.checked(name, row)).transpose()
    }

    /// The version of `name` that not every indexer has listed. A damaged row counts as none.
    pub(super) fn untold(&self, name: &FileName) -> Result<Option<Untold>, Failure> {
        self.read(|committed| Ok(committed.untold.get(name.as_str())?.and_then(|row| row.value())))
    }

    pub(super) fn checked(&self, name: &str, row: Option<Entry>) -> Result<Entry, Failure> {
        #[cfg(test)]
        self.rows_read.fetch_add(1, Ordering::Relaxed);
        row.filter(|entry| entry.record.name.as_str() == name).ok_or_else(|| {
            let (path, help) = (self.path.display(), format!("unshare {name}, then share or get it again"));
            let message = format!("the entry of {name} in the catalogue {path} is damaged: {help}");
            Failure::new(message).because(Reason::DamagedEntry)
        })
    }

    pub(super) fn value<K: redb::Key + 'static, V: Value + 'static, T>(
        &self,
        table: Definition<K, V>,
        key: K::SelfType<'_>,
        take: impl Fn(V::SelfType<'_>) -> T,
    ) -> Result<Option<T>, Failure> {
        self.read(|committed| {
            let Some(table) = committed.table(table)? else { return Ok(None) };
            Ok(table.get(&key)?.map(|found| take(found.value())))
        })
    }

    /// The row of one key. A damaged one counts as none.
    pub(super) fn row<K: redb::Key + 'static, V: Stored>(
        &self,
        table: Definition<K, TableRow<V>>,
        key: K::SelfType<'_>,
    ) -> Result<Option<V>, Failure> {
        Ok(self.value(table, key, |row| row)?.flatten())
    }

    pub(super) fn rows<'k, K: redb::Key + 'static, V: Value + 'static, T>(
        &self,
        table: Definition<K, V>,
        range: impl RangeBounds<K::SelfType<'k>> + Clone + 'k,
        limit: usize,
        take: impl Fn(K::SelfType<'_>, AccessGuard<'_, V>) -> Option<T>,
    ) -> Result<Vec<T>, Failure> {
        self.read(|committed| {
            let Some(table) = committed.table(table)? else { return Ok(Vec::new()) };
            let rows = table.range(range.clone())?;
            let taken = rows.filter_map(|row| {
                row.map(|(key, row)| take(key.value(), row)).map_err(redb::Error::from).transpose()
            });
            taken.take(limit).collect()
        })
    }

    #[cfg(test)]
    pub(super) fn rows_read(&self) -> u64 {
        self.rows_read.load(Ordering::Relaxed)
    }

    /// Number of entries, of their keys by content, manifest and size, and of manifests.
    #[cfg(test)]
    pub(super) fn counts(&self) -> Result<[usize; 5], Failure> {
        let keys = self.rows(INDEX, .., usize::MAX, |(kind, ..), _| Some(kind))?;
        let count = |kind| keys.iter().filter(|key| **key == kind).count();
        let files = self.rows(FILES, .., usize::MAX, |_, _| Some(()))?.len();
        let manifests = self.rows(MANIFESTS, .., usize::MAX, |_, _| Some(()))?.len();
        Ok([files, count(kind::CONTENT), count(kind::MANIFEST), count(kind::SIZE), manifests])
    }
}

/// At most `max` names of entries that begin with `begin`, in the folder of a peer that does not run; nothing there is changed
/// or made. Blocking.
///
/// # Errors
/// There is no catalogue, a process has it open, or one that had it open was killed.
pub(crate) fn names_in(folder: &Path, begin: &str, max: usize) -> Result<Vec<String>, redb::Error> {
    let database = guarded_part(|| ReadOnlyDatabase::open(folder.join(FILE)))?;
    let transaction = guarded_part(|| database.begin_read())?;
    guarded(|| {
        let mut names = Vec::new();
        for row in transaction.open_table(FILES)?.range(begin..)? {
            let (name, row) = row?;
            if !name.value().starts_with(begin) || names.len() == max {
                break;
            }
            let entry = row.value().filter(|entry| !entry.record.is_withdrawal());
            names.extend(entry.map(|_| name.value().to_owned()));
        }
        Ok::<_, redb::Error>(names)
    })
}
