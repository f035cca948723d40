//! One transaction that changes the database.

use std::{cell::RefCell, path::Path};

use nekoproto::{
    FileName, ManifestHash, Record, Version,
    codec::{self, CodecError},
};
use parking_lot::ReentrantMutexGuard;
use redb::{AccessGuard, Database, ReadableTable, Table, WriteTransaction};

use super::{
    entry::{Entry, PassedOver, from_row, to_row},
    error::CatalogueError,
    guard::{Guarded, guarded},
    placing::ToPlace,
    schema::{
        AVERAGES, CONTENTS, Definition, FILES, FLOORS, MANIFEST_USERS, MANIFESTS, OUTBOARDS, PASSING,
        PLACING, SIZES, UNTOLD, VERSIONS, WITHDRAWN, half,
    },
    untold::Row,
};
use crate::content::outboard::SegmentHash;

/// The open database, locked by who writes or opens it; none while it cannot be opened.
pub(super) type Writing<'a> = ReentrantMutexGuard<'a, RefCell<Option<Guarded<Database>>>>;

/// One transaction. Dropped without a commit, it changes nothing.
pub(super) struct Write<'a> {
    pub(super) transaction: Guarded<WriteTransaction>,
    /// The database's file.
    pub(super) path: &'a Path,
    /// Kept until the transaction has ended: a database is not closed before.
    pub(super) writing: Writing<'a>,
}

/// What happens to the keys of an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    New,
    Gone,
}

impl Write<'_> {
    /// Stores entries in place of those under their names, and removes the manifests that none uses now. Call
    /// it after [`put_manifest`](Self::put_manifest).
    pub(super) fn put_entries(&self, entries: &[Entry]) -> Result<(), CatalogueError> {
        let rows = entries.iter().map(|entry| self.row(entry)).collect::<Result<Vec<_>, _>>()?;
        let mut replaced = Vec::with_capacity(entries.len());
        self.with(FILES, |files| {
            for (entry, row) in entries.iter().zip(rows) {
                let name = entry.record.name.as_str();
                let before = files.insert(name, row.as_slice())?;
                replaced.push(before.and_then(|before| from_row(name, before.value())));
            }
            Ok(())
        })?;
        let changed =
            replaced.iter().zip(entries).filter(|(before, entry)| !has_same_keys(before.as_ref(), entry));
        let changes = changed.flat_map(|(before, entry)| {
            before.iter().map(|before| (before, Change::Gone)).chain([(entry, Change::New)])
        });
        self.change_indexes(changes.collect())
    }

    fn row(&self, entry: &Entry) -> Result<Vec<u8>, CatalogueError> {
        let too_long = |error: CodecError| CatalogueError::Damaged {
            path: self.path.to_owned(),
            what: error.to_string(),
        };
        to_row(entry).map_err(too_long)
    }

    /// Removes the entry of `name`, and its manifest if none uses it now; whether there was one, even a damaged
    /// one.
    pub(super) fn remove_entry(&self, name: &FileName) -> Result<bool, CatalogueError> {
        let removed = self.with(FILES, |table| {
            let row = table.remove(name.as_str())?;
            Ok(row.map(|row| from_row(name.as_str(), row.value())))
        })?;
        // The indexes keep the keys of a damaged entry; a lookup that they lead to finds no entry.
        self.change_indexes(removed.iter().flatten().map(|entry| (entry, Change::Gone)).collect())?;
        Ok(removed.is_some())
    }

    fn change_indexes(&self, changes: Vec<(&Entry, Change)>) -> Result<(), CatalogueError> {
        // A withdrawal has no file: it is found by its name alone.
        let (withdrawals, mut changes): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(|(entry, _)| entry.record.is_withdrawal());
        let keys = withdrawals
            .iter()
            .map(|(entry, change)| ((entry.record.published_ms, entry.record.name.as_str()), *change));
        self.change_index(WITHDRAWN, keys.collect())?;
        let keys = changes.iter().map(|(entry, change)| {
            ((half(entry.record.content.as_bytes()), entry.record.name.as_str()), *change)
        });
        self.change_index(CONTENTS, keys.collect())?;
        let keys = changes.iter().map(|(entry, change)| {
            ((half(entry.record.manifest.as_bytes()), entry.record.name.as_str()), *change)
        });
        self.change_index(MANIFEST_USERS, keys.collect())?;
        changes.retain(|(entry, _)| entry.stores_manifest());
        let keys =
            changes.iter().map(|(entry, change)| ((entry.record.size, entry.record.name.as_str()), *change));
        self.change_index(SIZES, keys.collect())?;
        let gone = changes.iter().filter(|(_, change)| *change == Change::Gone);
        gone.map(|(entry, _)| &entry.record.manifest).try_for_each(|manifest| self.drop_unused(manifest))
    }

    /// Changes an index in the order of its keys, so that each of its pages is changed once. Changes of one key
    /// keep their order.
    fn change_index<'k, K: redb::Key + 'static>(
        &self,
        index: Definition<K, ()>,
        mut changes: Vec<(K::SelfType<'k>, Change)>,
    ) -> Result<(), CatalogueError>
    where
        K::SelfType<'k>: Ord,
    {
        if changes.is_empty() {
            return Ok(());
        }
        changes.sort_by(|(a, _), (b, _)| a.cmp(b));
        self.with(index, |index| {
            changes.iter().try_for_each(|(key, change)| match change {
                Change::New => index.insert(key, ()).map(drop),
                Change::Gone => index.remove(key).map(drop),
            })
        })
    }

    /// Removes a manifest unless an entry uses it.
    fn drop_unused(&self, hash: &ManifestHash) -> Result<(), CatalogueError> {
        let half = half(hash.as_bytes());
        let is_used = self.with(MANIFEST_USERS, |users| {
            let first = users.range((half, "")..)?.next().transpose()?;
            Ok(first.is_some_and(|(key, _)| key.value().0 == half))
        })?;
        if is_used { Ok(()) } else { self.remove_manifest(hash) }
    }

    pub(super) fn put_manifest(
        &self,
        hash: &ManifestHash,
        manifest: &[u8],
        outboard: &[u8],
    ) -> Result<(), CatalogueError> {
        self.with(MANIFESTS, |table| table.insert(hash.as_bytes(), manifest).map(drop))?;
        if outboard.len() > SegmentHash::default().len() {
            self.with(OUTBOARDS, |table| table.insert(hash.as_bytes(), outboard).map(drop))?;
        }
        Ok(())
    }

    pub(super) fn remove_manifest(&self, hash: &ManifestHash) -> Result<(), CatalogueError> {
        self.with(MANIFESTS, |table| table.remove(hash.as_bytes()).map(drop))?;
        self.with(OUTBOARDS, |table| table.remove(hash.as_bytes()).map(drop))
    }

    pub(super) fn version(&self, name: &FileName) -> Result<Option<Version>, CatalogueError> {
        let number =
            self.with(VERSIONS, |table| Ok(table.get(name.as_str())?.map(|number| number.value())))?;
        Ok(number.and_then(Version::new))
    }

    pub(super) fn set_version(&self, name: &FileName, version: Version) -> Result<(), CatalogueError> {
        self.set_versions(std::iter::once((name, version)))
    }

    pub(super) fn set_versions<'a>(
        &self,
        mut versions: impl Iterator<Item = (&'a FileName, Version)>,
    ) -> Result<(), CatalogueError> {
        self.with(VERSIONS, |table| {
            versions.try_for_each(|(name, version)| table.insert(name.as_str(), version.get()).map(drop))
        })
    }

    /// Stores these rows, removes those without a value.
    pub(super) fn set_untold<'a>(
        &self,
        rows: impl Iterator<Item = (&'a FileName, Option<&'a Row>)>,
    ) -> Result<(), CatalogueError> {
        self.with(UNTOLD, |table| {
            for (name, row) in rows {
                let bytes = row.and_then(|row| codec::encode(row).ok()); // a row is small
                match bytes {
                    Some(bytes) => drop(table.insert(name.as_str(), bytes.as_slice())?),
                    None => drop(table.remove(name.as_str())?),
                }
            }
            Ok(())
        })
    }

    pub(super) fn set_averages<'a>(
        &self,
        mut averages: impl Iterator<Item = (&'a FileName, u32)>,
    ) -> Result<(), CatalogueError> {
        self.with(AVERAGES, |table| {
            averages.try_for_each(|(name, average)| table.insert(name.as_str(), average).map(drop))
        })
    }

    pub(super) fn put_floor(&self, entry: &Entry) -> Result<(), CatalogueError> {
        let (row, record) = (self.row(entry)?, &entry.record);
        let key = (record.name.as_str(), record.origin.as_bytes());
        self.with(FLOORS, |table| table.insert(key, row.as_slice()).map(drop))
    }

    pub(super) fn put_placing<'a>(
        &self,
        copies: impl Iterator<Item = &'a ToPlace<'a>>,
    ) -> Result<(), CatalogueError> {
        let mut rows = Vec::new();
        for ToPlace { copy, passed_over, .. } in copies {
            rows.push((copy, self.row(&copy.entry)?));
            if let Some(row) = passed_over.and_then(|passed| codec::encode(&passed).ok()) {
                let name = copy.entry.record.name.as_str();
                self.with(PASSING, |table| table.insert(name, row.as_slice()).map(drop))?;
            }
        }
        self.with(PLACING, |table| {
            rows.iter().try_for_each(|(copy, row)| {
                let placed = (row.as_slice(), copy.manifest.as_slice(), copy.outboard.as_slice());
                table.insert(copy.entry.record.name.as_str(), placed).map(drop)
            })
        })
    }

    /// Returns for each name whether it had a row, and what its copy passes over.
    pub(super) fn end_placing<'a>(
        &self,
        names: impl Iterator<Item = &'a FileName> + Clone,
    ) -> Result<Vec<(bool, Option<PassedOver>)>, CatalogueError> {
        let mut passing = self.with(PASSING, |table| {
            let decode = |row: AccessGuard<'_, &[u8]>| codec::decode(row.value()).ok(); // was stored here
            let each = names.clone().map(|name| Ok(table.remove(name.as_str())?.and_then(decode)));
            each.collect::<Result<Vec<_>, _>>()
        })?;
        self.with(PLACING, |table| {
            let rows = names.zip(passing.drain(..));
            rows.map(|(name, passed)| Ok((table.remove(name.as_str())?.is_some(), passed))).collect()
        })
    }

    /// Opens a table, and works in it.
    pub(super) fn with<K: redb::Key + 'static, V: redb::Value + 'static, T>(
        &self,
        table: Definition<K, V>,
        work: impl FnOnce(&mut Table<'_, K, V>) -> Result<T, redb::StorageError>,
    ) -> Result<T, CatalogueError> {
        guarded(|| Ok::<_, redb::Error>(work(&mut self.transaction.open_table(table)?)?))
            .map_err(|error| CatalogueError::database(self.path, error))
    }
}

impl<'a> Write<'a> {
    /// Makes it durable. Returns the lock, under which it is made visible.
    pub(super) fn commit(self) -> Result<Writing<'a>, CatalogueError> {
        let transaction = self.transaction.into_inner();
        guarded(|| transaction.commit()).map_err(|error| CatalogueError::database(self.path, error))?;
        Ok(self.writing)
    }
}

/// Whether `entry` is found by the same keys as the one that it replaces.
fn has_same_keys(before: Option<&Entry>, entry: &Entry) -> bool {
    let keys = |entry: &Entry| {
        let Record { content, manifest, size, published_ms, .. } = *entry.record;
        let withdrawn_at = entry.record.is_withdrawal().then_some(published_ms);
        (content, manifest, size, withdrawn_at)
    };
    before.is_some_and(|before| keys(before) == keys(entry))
}
