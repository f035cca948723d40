//! The open database, and what was committed last, which is read without waiting for a writer.

#[cfg(test)]
use std::sync::atomic::{AtomicU64, Ordering};
use std::{
    ffi::OsStr,
    fmt,
    ops::Bound,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use nekoproto::{ContentHash, FileName, ManifestHash, NodeId, codec};
use parking_lot::RwLock;
use redb::{Database, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTableMetadata};

use super::{
    entry::{Copy, Entry, from_row},
    error::CatalogueError,
    schema::{
        AVERAGES, CONTENTS, Definition, FILES, FLOORS, HalfHash, MANIFEST_USERS, MANIFESTS, OUTBOARDS,
        PARTIALS, PLACING, PROGRESS, SIZES, UNTOLD, half,
    },
    untold::Row,
    write::Write,
};

/// Size of the database's page cache in bytes.
const CACHE_BYTES: usize = 4 * 1024 * 1024;

/// The open database. It is its own index: opening it loads nothing, and a lookup decodes what it returns.
pub(super) struct Tables {
    /// Replaced after each commit, so that it does not keep old pages from being used again for long.
    committed: RwLock<Arc<Committed>>,
    database: Database,
    pub(super) path: PathBuf,
    #[cfg(test)]
    rows_read: AtomicU64,
}

/// The state after one commit.
struct Committed {
    transaction: ReadTransaction,
    files: ReadOnlyTable<&'static str, &'static [u8]>,
    contents: ReadOnlyTable<(&'static HalfHash, &'static str), ()>,
    untold: ReadOnlyTable<&'static str, &'static [u8]>,
    floors: ReadOnlyTable<(&'static str, &'static [u8; 32]), &'static [u8]>,
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
    /// Opens the database in the file `path`, or creates it. An older form is brought to this one.
    pub(super) fn open(path: &Path, node: NodeId) -> Result<Self, CatalogueError> {
        let opened = Database::builder().set_cache_size(CACHE_BYTES).create(path);
        let database = opened.map_err(|error| CatalogueError::database(path, error))?;
        let write = begin(&database, path)?;
        if write.prepare(node)? {
            write.commit()?;
        }
        let committed = RwLock::new(Arc::new(Committed::of(&database, path)?));
        let path = path.to_owned();
        Ok(Self {
            committed,
            database,
            path,
            #[cfg(test)]
            rows_read: AtomicU64::new(0),
        })
    }

    pub(super) fn begin(&self) -> Result<Write<'_>, CatalogueError> {
        begin(&self.database, &self.path)
    }

    /// Makes a transaction durable, then visible.
    pub(super) fn commit(&self, write: Write<'_>) -> Result<(), CatalogueError> {
        write.commit()?;
        self.show()
    }

    fn show(&self) -> Result<(), CatalogueError> {
        *self.committed.write() = Arc::new(Committed::of(&self.database, &self.path)?);
        Ok(())
    }

    /// The number of entries.
    pub(super) fn len(&self) -> Result<usize, CatalogueError> {
        let committed = self.committed();
        let len = committed.files.len().map_err(|error| self.failed(error))?;
        Ok(usize::try_from(len).unwrap_or(usize::MAX))
    }

    /// The entry of `name`.
    pub(super) fn get(&self, name: &str) -> Result<Option<Entry>, CatalogueError> {
        let committed = self.committed();
        let row = committed.files.get(name).map_err(|error| self.failed(error))?;
        row.map(|row| self.decode(name, row.value())).transpose()
    }

    /// At most `limit` entries from `start` on.
    pub(super) fn page(&self, start: &PageStart, limit: usize) -> Result<Page, CatalogueError> {
        let committed = self.committed();
        let after = start.0.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let files = committed.files.range::<&str>((after, Bound::Unbounded));
        let (mut entries, mut last) = (Vec::with_capacity(limit), None);
        for row in files.map_err(|error| self.failed(error))?.take(limit) {
            let (name, row) = row.map_err(|error| self.failed(error))?;
            entries.push(self.decode(name.value(), row.value()));
            last = Some(name);
        }
        let next =
            last.filter(|_| entries.len() == limit).map(|name| PageStart(Some(name.value().to_owned())));
        Ok(Page { entries, next })
    }

    /// Entries with this content, at most `limit`.
    pub(super) fn with_content(
        &self,
        content: &ContentHash,
        limit: usize,
    ) -> Result<Vec<Entry>, CatalogueError> {
        let committed = self.committed();
        let has = |entry: &Entry| entry.record.content == *content;
        self.named_in(&committed.contents, half(content.as_bytes()), limit, has)
    }

    /// Entries with this manifest, at most `limit`.
    pub(super) fn with_manifest(
        &self,
        hash: &ManifestHash,
        limit: usize,
    ) -> Result<Vec<Entry>, CatalogueError> {
        let committed = self.committed();
        let has = |entry: &Entry| entry.record.manifest == *hash;
        self.named_in(&self.table_of(&committed, MANIFEST_USERS)?, half(hash.as_bytes()), limit, has)
    }

    fn named_in(
        &self,
        index: &ReadOnlyTable<(&'static HalfHash, &'static str), ()>,
        key: &HalfHash,
        limit: usize,
        has: impl Fn(&Entry) -> bool,
    ) -> Result<Vec<Entry>, CatalogueError> {
        let mut entries = Vec::new();
        for found in index.range((key, "")..).map_err(|error| self.failed(error))?.take(limit) {
            let (found, _) = found.map_err(|error| self.failed(error))?;
            let (half, name) = found.value();
            if half != key {
                break;
            }
            // A damaged entry does not hide the others.
            entries.extend(self.get(name).ok().flatten().filter(&has));
        }
        Ok(entries)
    }

    /// Names of entries with a stored manifest, at most `limit`, those of the most similar size first.
    pub(super) fn near_in_size(&self, size: u64, limit: usize) -> Result<Vec<String>, CatalogueError> {
        let committed = self.committed();
        let sizes = self.table_of(&committed, SIZES)?;
        let mut near = Vec::new();
        let below = sizes.range(..(size, "")).map_err(|error| self.failed(error))?.rev().take(limit);
        let above = sizes.range((size, "")..).map_err(|error| self.failed(error))?.take(limit);
        for found in below.chain(above) {
            let (found, _) = found.map_err(|error| self.failed(error))?;
            near.push((found.value().0.abs_diff(size), found.value().1.to_owned()));
        }
        near.sort_unstable();
        near.truncate(limit);
        Ok(near.into_iter().map(|(_, name)| name).collect())
    }

    /// The version of `name` that not every indexer has listed. A damaged row counts as none.
    pub(super) fn untold(&self, name: &FileName) -> Result<Option<Row>, CatalogueError> {
        let committed = self.committed();
        let row = committed.untold.get(name.as_str()).map_err(|error| self.failed(error))?;
        Ok(row.and_then(|row| codec::decode(row.value()).ok()))
    }

    /// Whether `is_it` returns true of one of these versions.
    pub(super) fn any_untold(&self, is_it: impl Fn(&str, &Row) -> bool) -> Result<bool, CatalogueError> {
        let committed = self.committed();
        let rows = committed.untold.range::<&str>(..).map_err(|error| self.failed(error))?;
        for row in rows {
            let (name, row) = row.map_err(|error| self.failed(error))?;
            if codec::decode(row.value()).is_ok_and(|row| is_it(name.value(), &row)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// At most `max` names of entries, those after `last` in the order of their text.
    pub(super) fn names_after(&self, last: &str, max: usize) -> Result<Vec<FileName>, CatalogueError> {
        let committed = self.committed();
        let rows = committed.files.range::<&str>((Bound::Excluded(last), Bound::Unbounded));
        let mut names = Vec::new();
        for row in rows.map_err(|error| self.failed(error))?.take(max) {
            let (name, _) = row.map_err(|error| self.failed(error))?;
            names.extend(FileName::new(name.value())); // what is no name has no entry either
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
        self.read(PARTIALS, name.as_str(), |path| PathBuf::from(OsStr::from_bytes(path)))
    }

    /// What is remembered of copies of `name` that are held no more; a damaged row is left out.
    pub(super) fn floors(&self, name: &FileName) -> Result<Vec<Entry>, CatalogueError> {
        let committed = self.committed();
        let name = name.as_str();
        let all = (name, &[0; 32])..=(name, &[u8::MAX; 32]);
        let rows = committed.floors.range(all).map_err(|error| self.failed(error))?;
        let floors = rows.map(|row| row.map(|(_, row)| from_row(name, row.value())));
        let floors = floors.collect::<Result<Vec<_>, _>>().map_err(|error| self.failed(error))?;
        Ok(floors.into_iter().flatten().collect())
    }

    /// The copy that is about to be moved to its place under `name`; none if its row is damaged.
    pub(super) fn placing(&self, name: &FileName) -> Result<Option<Copy>, CatalogueError> {
        let copy = self.read(PLACING, name.as_str(), |(row, manifest, outboard)| {
            let entry = from_row(name.as_str(), row)?;
            Some(Copy { entry, manifest: manifest.to_vec(), outboard: outboard.to_vec() })
        });
        Ok(copy?.flatten())
    }

    /// The names of all copies that are about to be moved to their places.
    pub(super) fn all_placing(&self) -> Result<Vec<FileName>, CatalogueError> {
        let committed = self.committed();
        let rows =
            self.table_of(&committed, PLACING)?.range::<&str>(..).map_err(|error| self.failed(error))?;
        let names = rows.map(|row| row.map(|(name, _)| FileName::new(name.value())));
        let names = names.collect::<Result<Vec<_>, _>>().map_err(|error| self.failed(error))?;
        Ok(names.into_iter().flatten().collect())
    }

    pub(super) fn progress(&self, path: &Path) -> Result<Option<Vec<u8>>, CatalogueError> {
        self.read(PROGRESS, path.as_os_str().as_bytes(), <[u8]>::to_vec)
    }

    /// Number of rows decoded since the start.
    #[cfg(test)]
    pub(super) fn rows_read(&self) -> u64 {
        self.rows_read.load(Ordering::Relaxed)
    }

    /// Number of rows of the tables that follow from the entries.
    #[cfg(test)]
    pub(super) fn counts(&self) -> Result<Counts, CatalogueError> {
        let committed = self.committed();
        let count = |length: Result<u64, redb::StorageError>| length.map_err(|error| self.failed(error));
        Ok(Counts {
            files: count(self.table_of(&committed, FILES)?.len())?,
            contents: count(self.table_of(&committed, CONTENTS)?.len())?,
            users: count(self.table_of(&committed, MANIFEST_USERS)?.len())?,
            sizes: count(self.table_of(&committed, SIZES)?.len())?,
            manifests: count(self.table_of(&committed, MANIFESTS)?.len())?,
        })
    }

    fn decode(&self, name: &str, row: &[u8]) -> Result<Entry, CatalogueError> {
        #[cfg(test)]
        self.rows_read.fetch_add(1, Ordering::Relaxed);
        from_row(name, row)
            .ok_or_else(|| CatalogueError::DamagedEntry { path: self.path.clone(), name: name.to_owned() })
    }

    fn read<K: redb::Key + 'static, V: redb::Value + 'static, T>(
        &self,
        table: Definition<K, V>,
        key: K::SelfType<'_>,
        take: impl FnOnce(V::SelfType<'_>) -> T,
    ) -> Result<Option<T>, CatalogueError> {
        let committed = self.committed();
        let found = self.table_of(&committed, table)?.get(key).map_err(|error| self.failed(error))?;
        Ok(found.map(|found| take(found.value())))
    }

    fn table_of<K: redb::Key + 'static, V: redb::Value + 'static>(
        &self,
        committed: &Committed,
        table: Definition<K, V>,
    ) -> Result<ReadOnlyTable<K, V>, CatalogueError> {
        committed.transaction.open_table(table).map_err(|error| self.failed(error))
    }

    /// What was committed last. Keep it until all that was read from it is dropped: a commit must not meet a page that
    /// is still read in a transaction that has ended.
    fn committed(&self) -> Arc<Committed> {
        Arc::clone(&self.committed.read())
    }

    fn failed(&self, error: impl Into<redb::Error>) -> CatalogueError {
        CatalogueError::database(&self.path, error)
    }
}

impl Committed {
    fn of(database: &Database, path: &Path) -> Result<Self, CatalogueError> {
        let failed = |error: redb::Error| CatalogueError::database(path, error);
        let transaction = database.begin_read().map_err(|error| failed(error.into()))?;
        let files = transaction.open_table(FILES).map_err(|error| failed(error.into()))?;
        let contents = transaction.open_table(CONTENTS).map_err(|error| failed(error.into()))?;
        let untold = transaction.open_table(UNTOLD).map_err(|error| failed(error.into()))?;
        let floors = transaction.open_table(FLOORS).map_err(|error| failed(error.into()))?;
        Ok(Self { transaction, files, contents, untold, floors })
    }
}

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tables").field("path", &self.path).finish_non_exhaustive()
    }
}

fn begin<'a>(database: &Database, path: &'a Path) -> Result<Write<'a>, CatalogueError> {
    let transaction = database.begin_write().map_err(|error| CatalogueError::database(path, error))?;
    Ok(Write { transaction, path })
}
