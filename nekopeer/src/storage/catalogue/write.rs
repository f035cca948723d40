//! One transaction that changes the database.

use std::{cell::RefCell, collections::BTreeMap, path::Path};

use nekoproto::{FileName, ManifestHash, Version};
use parking_lot::ReentrantMutexGuard;
use redb::{AccessGuard, Database, ReadableTable, StorageError, Table, Value, WriteTransaction};
use scopeguard::ScopeGuard;

use super::{
    entry::Entry,
    error::database,
    guard::{Guarded, guarded},
    row::{Definition, half, kind},
    schema::{FILES, FLOORS, INDEX, MANIFESTS, OUTBOARDS, VERSIONS},
};
use crate::{content::outboard::SegmentHash, failure::Failure};

/// The open database, locked by who writes or opens it; none while it cannot be opened.
pub(super) type Writing<'a> = ReentrantMutexGuard<'a, RefCell<Option<Guarded<Database>>>>;

/// One transaction. Dropped without a commit, it changes nothing.
pub(super) struct Write<'a> {
    pub(super) transaction: Guarded<WriteTransaction>,
    pub(super) path: &'a Path,
    /// Kept until the transaction has ended: a database is not closed before.
    pub(super) writing: Writing<'a>,
}

impl Write<'_> {
    /// Stores entries in place of those under their names, and removes the manifests that none uses now. Call
    /// it after [`put_manifest`](Self::put_manifest).
    pub(super) fn put_entries(&self, entries: Vec<Entry>) -> Result<(), Failure> {
        let replaced = self.with(FILES, |files| {
            let put = |entry: Entry| {
                let row = Some(entry);
                let before = files.insert(name_of(row.as_ref()), &row)?.and_then(|before| before.value());
                Ok((before, row))
            };
            entries.into_iter().map(put).collect::<Result<Vec<_>, _>>()
        })?;
        self.change_index(&replaced)
    }

    /// With its manifest if none uses it now; whether there was one, even a damaged one.
    pub(super) fn remove_entry(&self, name: &FileName) -> Result<bool, Failure> {
        let removed = self.take(FILES, [name.as_str()], |entry| entry.value())?.remove(0);
        let is_removed = removed.is_some();
        // The index keeps the keys of a damaged entry; a lookup that they lead to finds no entry.
        self.change_index(&[(removed.flatten(), None)])?;
        Ok(is_removed)
    }

    /// Changes the index where entries were replaced, in the order of its keys, so that each of its pages is changed once.
    fn change_index(&self, replaced: &[(Option<Entry>, Option<Entry>)]) -> Result<(), Failure> {
        let (mut changes, mut left) = (BTreeMap::new(), Vec::new());
        for (before, now) in replaced {
            let keys = |entry: &Option<Entry>| entry.as_ref().map_or_else(Vec::new, Entry::keys);
            let (keys_before, keys_now) = (keys(before), keys(now));
            if keys_before != keys_now {
                let (gone, name) = (name_of(before.as_ref()), name_of(now.as_ref()));
                changes.extend(keys_before.into_iter().map(|(kind, key)| ((kind, key, gone), false)));
                changes.extend(keys_now.into_iter().map(|(kind, key)| ((kind, key, name), true)));
                left.extend(before.as_ref().filter(|before| before.stores_manifest()));
            }
        }
        if changes.is_empty() {
            return Ok(());
        }
        self.with(INDEX, |index| {
            changes.iter().try_for_each(|(key, is_there)| match is_there {
                true => index.insert(key, ()).map(drop),
                false => index.remove(key).map(drop),
            })
        })?;
        left.into_iter().try_for_each(|before| self.drop_unused(&before.record.manifest))
    }

    fn drop_unused(&self, hash: &ManifestHash) -> Result<(), Failure> {
        let (kind, half) = (kind::MANIFEST, half(hash.as_bytes()));
        let is_used = self.with(INDEX, |index| {
            let first = index.range((kind, half, "")..)?.next().transpose()?;
            Ok(first.is_some_and(|(key, _)| (key.value().0, key.value().1) == (kind, half)))
        })?;
        if is_used {
            return Ok(());
        }
        self.remove(MANIFESTS, [hash.as_bytes()])?;
        self.remove(OUTBOARDS, [hash.as_bytes()])
    }

    /// Stores the manifest of `entry`, unless its record implies it, and its outboard, unless the file is small.
    pub(super) fn put_manifest(
        &self,
        entry: &Entry,
        manifest: &[u8],
        outboard: &[u8],
    ) -> Result<(), Failure> {
        if !entry.stores_manifest() {
            return Ok(());
        }
        let hash = &entry.record.manifest;
        self.put(MANIFESTS, [(hash.as_bytes(), manifest)])?;
        if outboard.len() <= SegmentHash::default().len() {
            return Ok(());
        }
        self.put(OUTBOARDS, [(hash.as_bytes(), outboard)])
    }

    /// From now on each of these names gets numbers above this one.
    pub(super) fn use_up<'a>(
        &self,
        mut numbers: impl Iterator<Item = (&'a FileName, Version)>,
    ) -> Result<(), Failure> {
        self.with(VERSIONS, |table| {
            numbers.try_for_each(|(name, number)| {
                let last = table.get(name.as_str())?.map_or(0, |last| last.value());
                table.insert(name.as_str(), number.get().max(last)).map(drop)
            })
        })
    }

    pub(super) fn put_floor(&self, entry: Entry) -> Result<(), Failure> {
        let record = entry.record.clone();
        self.put(FLOORS, [((record.name.as_str(), record.origin.as_bytes()), Some(entry))])
    }

    pub(super) fn put<'k, 'v, K: redb::Key + 'static, V: Value + 'static>(
        &self,
        table: Definition<K, V>,
        rows: impl IntoIterator<Item = (K::SelfType<'k>, V::SelfType<'v>)>,
    ) -> Result<(), Failure> {
        self.with(table, |table| {
            rows.into_iter().try_for_each(|(key, row)| table.insert(&key, &row).map(drop))
        })
    }

    pub(super) fn remove<'k, K: redb::Key + 'static, V: Value + 'static>(
        &self,
        table: Definition<K, V>,
        keys: impl IntoIterator<Item = K::SelfType<'k>>,
    ) -> Result<(), Failure> {
        self.with(table, |table| keys.into_iter().try_for_each(|key| table.remove(&key).map(drop)))
    }

    /// Removes the rows of these keys, and returns of each what `take` makes of it.
    pub(super) fn take<'k, K: redb::Key + 'static, V: Value + 'static, T>(
        &self,
        table: Definition<K, V>,
        keys: impl IntoIterator<Item = K::SelfType<'k>>,
        take: impl Fn(AccessGuard<'_, V>) -> T,
    ) -> Result<Vec<Option<T>>, Failure> {
        self.with(table, |table| keys.into_iter().map(|key| Ok(table.remove(&key)?.map(&take))).collect())
    }

    pub(super) fn with<K: redb::Key + 'static, V: Value + 'static, T>(
        &self,
        table: Definition<K, V>,
        work: impl FnOnce(&mut Table<'_, K, V>) -> Result<T, StorageError>,
    ) -> Result<T, Failure> {
        guarded(|| Ok::<_, redb::Error>(work(&mut self.transaction.open_table(table)?)?))
            .map_err(|error| database(self.path, error))
    }
}

impl<'a> Write<'a> {
    /// Makes it durable. Returns the lock, under which it is made visible.
    pub(super) fn commit(self) -> Result<Writing<'a>, Failure> {
        let transaction = ScopeGuard::into_inner(self.transaction);
        guarded(|| transaction.commit()).map_err(|error| database(self.path, error))?;
        Ok(self.writing)
    }
}

fn name_of(entry: Option<&Entry>) -> &str {
    entry.map_or("", |entry| entry.record.name.as_str())
}
