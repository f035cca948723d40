//! The tables of the catalogue's database; the only file that uses redb.

use std::{
    collections::HashMap,
    ffi::OsStr,
    ops::Bound,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use nekoproto::{FileName, ManifestHash, NodeId, Version, codec};
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};

use super::{
    entry::{Entry, StoredEntry},
    error::CatalogueError,
    untold::Row,
};
use crate::content::outboard::SegmentHash;

/// Size of the database's page cache in bytes.
const CACHE_BYTES: usize = 4 * 1024 * 1024;
/// Number of the stored forms; changes with each of them.
const SCHEMA: u64 = 1;

/// `schema` and `node`: identify this database.
const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");
/// Name -> stored entry.
const ENTRIES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("entries");
/// Name -> its last version number; never removed.
const VERSIONS: TableDefinition<'_, &str, u64> = TableDefinition::new("versions");
/// Name -> average chunk length of its last version, in bytes; never removed. Missing for names last
/// published before this table existed.
const AVERAGES: TableDefinition<'_, &str, u32> = TableDefinition::new("averages");
/// Hash -> encoded manifest.
const MANIFESTS: TableDefinition<'_, &[u8; 32], &[u8]> = TableDefinition::new("manifests");
/// Name -> path of its partial download.
const PARTIALS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("partials");
/// Hash of a manifest -> outboard of its file.
const OUTBOARDS: TableDefinition<'_, &[u8; 32], &[u8]> = TableDefinition::new("outlines");
/// Name -> the version published here that not every indexer has listed, see [`Row`].
const UNTOLD: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("untold");
/// Path of a partial download -> its checkpoint.
const PROGRESS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("progress");

/// The open database.
#[derive(Debug)]
pub(super) struct Tables {
    database: Database,
    path: PathBuf,
}

/// One transaction. Dropped without a commit, it changes nothing.
pub(super) struct Write<'a> {
    transaction: WriteTransaction,
    tables: &'a Tables,
}

impl Tables {
    pub(super) fn open(path: &Path, node: NodeId) -> Result<Self, CatalogueError> {
        let opened = Database::builder().set_cache_size(CACHE_BYTES).create(path);
        let failed = |error: redb::DatabaseError| CatalogueError::Database {
            path: path.to_owned(),
            source: Box::new(error.into()),
        };
        let tables = Self { database: opened.map_err(failed)?, path: path.to_owned() };
        let write = tables.begin()?;
        write.check_meta(node)?;
        write.commit()?;
        Ok(tables)
    }

    pub(super) fn begin(&self) -> Result<Write<'_>, CatalogueError> {
        let transaction = self.database.begin_write().map_err(|error| self.failed(error))?;
        Ok(Write { transaction, tables: self })
    }

    pub(super) fn load(&self) -> Result<Vec<Entry>, CatalogueError> {
        let read = self.database.begin_read().map_err(|error| self.failed(error))?;
        let table = read.open_table(ENTRIES).map_err(|error| self.failed(error))?;
        let mut entries = Vec::new();
        for row in table.iter().map_err(|error| self.failed(error))? {
            let (name, bytes) = row.map_err(|error| self.failed(error))?;
            let stored: StoredEntry = codec::decode(bytes.value())
                .map_err(|error| self.damaged(format!("{}: {error}", name.value())))?;
            let entry = Entry::try_from(stored)
                .map_err(|error| self.damaged(format!("{}: {error}", name.value())))?;
            entries.push(entry);
        }
        Ok(entries)
    }

    pub(super) fn load_untold(&self) -> Result<HashMap<FileName, Row>, CatalogueError> {
        let read = self.database.begin_read().map_err(|error| self.failed(error))?;
        let table = read.open_table(UNTOLD).map_err(|error| self.failed(error))?;
        let mut rows = HashMap::new();
        for row in table.iter().map_err(|error| self.failed(error))? {
            let (name, bytes) = row.map_err(|error| self.failed(error))?;
            let damaged = |why: String| self.damaged(format!("{}: {why}", name.value()));
            let row = codec::decode(bytes.value()).map_err(|error| damaged(error.to_string()))?;
            rows.insert(FileName::new(name.value()).map_err(|error| damaged(error.to_string()))?, row);
        }
        Ok(rows)
    }

    /// At most `max` names of entries, those after `last` in the order of their text.
    pub(super) fn names_after(&self, last: &str, max: usize) -> Result<Vec<FileName>, CatalogueError> {
        let read = self.database.begin_read().map_err(|error| self.failed(error))?;
        let table = read.open_table(ENTRIES).map_err(|error| self.failed(error))?;
        let after = (Bound::Excluded(last), Bound::Unbounded);
        let rows = table.range::<&str>(after).map_err(|error| self.failed(error))?;
        let mut names = Vec::new();
        for row in rows.take(max) {
            let (name, _) = row.map_err(|error| self.failed(error))?;
            names.extend(FileName::new(name.value())); // what is no name has no entry in memory either
        }
        Ok(names)
    }

    pub(super) fn manifest(&self, hash: &ManifestHash) -> Result<Option<Vec<u8>>, CatalogueError> {
        self.read(MANIFESTS, hash.as_bytes(), <[u8]>::to_vec)
    }

    pub(super) fn average(&self, name: &FileName) -> Result<Option<u32>, CatalogueError> {
        self.read(AVERAGES, name.as_str(), |average| average)
    }

    pub(super) fn outboard(&self, hash: &ManifestHash) -> Result<Option<Vec<u8>>, CatalogueError> {
        self.read(OUTBOARDS, hash.as_bytes(), <[u8]>::to_vec)
    }

    pub(super) fn partial(&self, name: &FileName) -> Result<Option<PathBuf>, CatalogueError> {
        self.read(PARTIALS, name.as_str(), path)
    }

    pub(super) fn progress(&self, path: &Path) -> Result<Option<Vec<u8>>, CatalogueError> {
        self.read(PROGRESS, path.as_os_str().as_bytes(), <[u8]>::to_vec)
    }

    fn read<K: redb::Key + 'static, V: redb::Value + 'static, T>(
        &self,
        table: TableDefinition<'_, K, V>,
        key: K::SelfType<'_>,
        take: impl FnOnce(V::SelfType<'_>) -> T,
    ) -> Result<Option<T>, CatalogueError> {
        let read = self.database.begin_read().map_err(|error| self.failed(error))?;
        let table = read.open_table(table).map_err(|error| self.failed(error))?;
        let found = table.get(key).map_err(|error| self.failed(error))?;
        Ok(found.map(|found| take(found.value())))
    }

    fn failed(&self, error: impl Into<redb::Error>) -> CatalogueError {
        CatalogueError::Database { path: self.path.clone(), source: Box::new(error.into()) }
    }

    fn damaged(&self, what: String) -> CatalogueError {
        CatalogueError::Damaged { path: self.path.clone(), what }
    }
}

impl Write<'_> {
    /// Creates every table, and verifies that the database is this node's, with this schema.
    fn check_meta(&self, node: NodeId) -> Result<(), CatalogueError> {
        self.with(VERSIONS, |_| Ok(()))?;
        self.with(AVERAGES, |_| Ok(()))?;
        self.with(MANIFESTS, |_| Ok(()))?;
        self.with(ENTRIES, |_| Ok(()))?;
        self.with(PARTIALS, |_| Ok(()))?;
        self.with(PROGRESS, |_| Ok(()))?;
        self.with(OUTBOARDS, |_| Ok(()))?;
        self.with(UNTOLD, |_| Ok(()))?;
        let expected = [("schema", SCHEMA.to_le_bytes().to_vec()), ("node", node.as_bytes().to_vec())];
        for (key, value) in expected {
            let found = self.with(META, |table| {
                let found = table.get(key)?.map(|found| found.value().to_vec());
                if found.is_none() {
                    table.insert(key, value.as_slice())?;
                }
                Ok(found)
            })?;
            match found {
                Some(found) if found != value && key == "node" => {
                    return Err(CatalogueError::OtherIdentity(self.tables.path.clone()));
                }
                Some(found) if found != value => {
                    return Err(self.tables.damaged("another program version wrote it".to_owned()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn put_entry(&self, entry: &Entry) -> Result<(), CatalogueError> {
        let bytes = codec::encode(&StoredEntry::from(entry))
            .map_err(|error| self.tables.damaged(error.to_string()))?;
        self.with(ENTRIES, |table| {
            table.insert(entry.record.name.as_str(), bytes.as_slice())?;
            Ok(())
        })
    }

    pub(super) fn remove_entry(&self, name: &FileName) -> Result<(), CatalogueError> {
        self.with(ENTRIES, |table| {
            table.remove(name.as_str())?;
            Ok(())
        })
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
        self.with(VERSIONS, |table| {
            table.insert(name.as_str(), version.get())?;
            Ok(())
        })
    }

    /// Stores these rows, removes those without a value.
    pub(super) fn set_untold<'a>(
        &self,
        rows: impl Iterator<Item = (&'a FileName, Option<Row>)>,
    ) -> Result<(), CatalogueError> {
        self.with(UNTOLD, |table| {
            for (name, row) in rows {
                let bytes = row.as_ref().and_then(|row| codec::encode(row).ok()); // a row is small
                match bytes {
                    Some(bytes) => drop(table.insert(name.as_str(), bytes.as_slice())?),
                    None => drop(table.remove(name.as_str())?),
                }
            }
            Ok(())
        })
    }

    /// Commits without waiting for the disk: the change lasts once a later one does.
    pub(super) fn commit_lazily(mut self) -> Result<(), CatalogueError> {
        let failed = |error: redb::SetDurabilityError| self.tables.failed(error);
        self.transaction.set_durability(Durability::None).map_err(failed)?;
        self.commit()
    }

    pub(super) fn set_average(&self, name: &FileName, average: u32) -> Result<(), CatalogueError> {
        self.with(AVERAGES, |table| {
            table.insert(name.as_str(), average)?;
            Ok(())
        })
    }

    pub(super) fn set_partial(
        &self,
        name: &FileName,
        to: Option<&Path>,
    ) -> Result<Option<PathBuf>, CatalogueError> {
        self.with(PARTIALS, |table| {
            let before = match to {
                Some(path) => table.insert(name.as_str(), path.as_os_str().as_bytes())?,
                None => table.remove(name.as_str())?,
            };
            Ok(before.map(|bytes| path(bytes.value())))
        })
    }

    pub(super) fn set_progress(&self, path: &Path, note: Option<&[u8]>) -> Result<(), CatalogueError> {
        let path = path.as_os_str().as_bytes();
        self.with(PROGRESS, |table| {
            match note {
                Some(note) => drop(table.insert(path, note)?),
                None => drop(table.remove(path)?),
            }
            Ok(())
        })
    }

    pub(super) fn commit(self) -> Result<(), CatalogueError> {
        let Self { transaction, tables } = self;
        transaction.commit().map_err(|error| tables.failed(error))
    }

    fn with<K: redb::Key + 'static, V: redb::Value + 'static, T>(
        &self,
        table: TableDefinition<'_, K, V>,
        work: impl FnOnce(&mut redb::Table<'_, K, V>) -> Result<T, redb::StorageError>,
    ) -> Result<T, CatalogueError> {
        let mut table = self.transaction.open_table(table).map_err(|error| self.tables.failed(error))?;
        work(&mut table).map_err(|error| self.tables.failed(error))
    }
}

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}
