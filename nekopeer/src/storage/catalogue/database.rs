//! The open database: one writer at a time, readers of what was committed last, and a failed one opened again.

use std::{
    cell::RefCell,
    ffi::OsStr,
    fmt,
    fs::{self, File},
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use nekoproto::{FileName, NodeId, Remedy, only_own};
use parking_lot::{ReentrantMutex, RwLock};
use redb::{
    Database, DatabaseError, Error, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable,
    StorageError, TableError, TableHandle, WriteTransaction,
};

use tempfile::NamedTempFile;

use super::{
    Entry,
    error::{damaged, database},
    guard::{Guarded, guarded, guarded_part},
    reader::READERS,
    row::{Definition, TableRow},
    schema::{FILES, INDEX, META, SCHEMA, SCHEMA_BEFORE},
    untold::{UNTOLD, Untold},
    write::{Write, Writing},
};
use crate::{failure::Failure, storage::partial::adopt};

const CACHE_BYTES: usize = 4 * 1024 * 1024;

/// How long a reader of a failed database waits for who writes or opens it; then it fails. A limit, because the
/// writer may itself wait for the threads that read.
const OPENED_WITHIN: Duration = Duration::from_secs(10);

/// The open database. It is its own index: opening it loads nothing, and a lookup decodes what it returns.
///
/// After an error of the disk redb refuses everything but to be closed and opened again, which repairs it. The next
/// operation does that, a read too, once: if the disk still fails, it says so, and the one after it tries again.
pub(super) struct Tables {
    pub(super) path: PathBuf,
    node: NodeId,
    /// Replaced after each commit, so that it does not keep old pages from being used again for long. Dropped before
    /// the database.
    committed: RwLock<Option<Arc<Guarded<Committed>>>>,
    /// Locked by who writes or opens it, without readers: redb ends their transactions when it closes a database, and
    /// they begin anew. Reentrant, so that who reads while writing is told from who has to wait.
    database: ReentrantMutex<RefCell<Option<Guarded<Database>>>>,
    #[cfg(test)]
    pub(super) faults: Arc<super::faults::Faults>,
    #[cfg(test)]
    pub(super) rows_read: std::sync::atomic::AtomicU64,
}

/// The state after one commit.
///
/// What a table returns does not keep the transaction open that it was read in: drop it before this. Readers that
/// did not let commits free pages that were still read, which redb's debug build asserts (`read_page_ref_counts`)
/// and then writes nothing more. Commits without durability have no part in that. The transaction is dropped before
/// the tables, which keep it open: its own tree would end it a moment before it lets go of its root page.
pub(super) struct Committed {
    transaction: ReadTransaction,
    /// Those that are read most: to open one takes as long as to find a row.
    pub(super) files: ReadOnlyTable<&'static str, TableRow<Entry>>,
    pub(super) untold: ReadOnlyTable<&'static str, TableRow<Untold>>,
}

impl Tables {
    pub(super) fn open(path: &Path, node: NodeId) -> Result<Self, Failure> {
        let live = Self {
            path: path.to_owned(),
            node,
            database: ReentrantMutex::default(),
            committed: RwLock::default(),
            #[cfg(test)]
            faults: Arc::default(),
            #[cfg(test)]
            rows_read: Default::default(),
        };
        if !path.try_exists().map_err(|error| live.failed(StorageError::from(error)))? {
            create(path).map_err(|error| live.failed(error))?;
        }
        live.open_file()?;
        Ok(live)
    }

    /// Begins a transaction when none is in progress: what is read from then on stays true until its result is
    /// visible. Opens a failed database again.
    pub(super) fn begin(&self) -> Result<Write<'_>, Failure> {
        let writing = self.database.lock();
        let mut begun = begin_write(&writing);
        if let Err(error) = begun {
            tracing::warn!(path = %self.path.display(), %error, "the catalogue is opened again");
            self.open_file()?;
            begun = begin_write(&writing);
        }
        let transaction = begun.map_err(|error| self.failed(error))?;
        Ok(Write { transaction, path: &self.path, writing })
    }

    /// Makes a transaction durable, then visible.
    pub(super) fn commit(&self, write: Write<'_>) -> Result<(), Failure> {
        let writing = write.commit()?;
        let database = writing.borrow();
        self.show(database.as_ref()).map_err(|error| self.failed(error))
    }

    /// Does `work` with what was committed last; once more, if the database had failed and could be opened again.
    /// `work` returns nothing that redb lent it.
    pub(super) fn read<T>(&self, work: impl Fn(&Committed) -> Result<T, Error>) -> Result<T, Failure> {
        let read = || {
            let committed = self.committed.read().clone();
            let committed = committed.ok_or(Error::DatabaseClosed)?;
            guarded(|| work(&committed))
        };
        let mut result = read();
        if matches!(result, Err(Error::PreviousIo | Error::DatabaseClosed))
            && !self.database.is_owned_by_current_thread()
            && let Some(_writing) = self.database.try_lock_for(OPENED_WITHIN)
        {
            drop(self.begin()?);
            result = read();
        }
        result.map_err(|error| self.failed(error))
    }

    /// Opens the file, after closing it if it is open, and shows what is in it.
    fn open_file(&self) -> Result<(), Failure> {
        let writing = self.database.lock();
        drop(writing.take()); // the file is unlocked
        self.examine()?;
        let database = guarded_part(|| self.file()).map_err(|error| self.failed(error))?;
        let transaction = guarded_part(|| database.begin_write()).map_err(|error| self.failed(error))?;
        let write = Write { transaction, path: &self.path, writing: self.database.lock() };
        if write.prepare(self.node)? {
            drop(write.commit()?);
        }
        self.show(Some(&database)).map_err(|error| self.failed(error))?;
        writing.replace(Some(database));
        Ok(())
    }

    fn examine(&self) -> Result<(), Failure> {
        let found =
            fs::symlink_metadata(&self.path).map_err(|error| self.failed(StorageError::from(error)))?;
        match (found.is_file(), found.len()) {
            (false, _) => Err(damaged(&self.path, "it is no file")),
            (true, 0) => Err(damaged(&self.path, "it is empty")),
            (true, _) => Ok(only_own(&self.path, &found)?),
        }
    }

    #[cfg(not(test))]
    fn file(&self) -> Result<Database, DatabaseError> {
        Database::builder().set_cache_size(CACHE_BYTES).open(&self.path)
    }

    #[cfg(test)]
    fn file(&self) -> Result<Database, DatabaseError> {
        let backend = self.faults.backend(&self.path)?;
        Database::builder().set_cache_size(CACHE_BYTES).create_with_backend(backend)
    }

    /// What is committed now is what is read from now on; nothing is, if that fails.
    fn show(&self, database: Option<&Guarded<Database>>) -> Result<(), Error> {
        let committed = database.ok_or(Error::DatabaseClosed);
        let committed = committed.and_then(|database| guarded_part(|| Committed::of(database)));
        let committed = committed.map(Arc::new);
        *self.committed.write() = committed.as_ref().ok().cloned();
        committed.map(drop)
    }

    fn failed(&self, error: impl Into<Error>) -> Failure {
        database(&self.path, error)
    }
}

impl Write<'_> {
    /// Whether this is to be committed: a new database, or one of the format before.
    fn prepare(&self, node: NodeId) -> Result<bool, Failure> {
        let path = self.path.display();
        let meta = |key| self.with(META, |table| Ok(table.get(key)?.map(|found| found.value().to_vec())));
        if meta("node")?.is_some_and(|found| found != node.as_bytes()) {
            return Err(Failure::new(format!(
                "the catalogue {path} belongs to another key than peer.key: restore both from the same copy, or move the \
                 catalogue away"
            )));
        }
        match meta("schema")?.map(|found| found.try_into().map_or(0, u64::from_le_bytes)) {
            Some(SCHEMA) => return Ok(false),
            Some(SCHEMA_BEFORE) => self.rewrite()?,
            Some(found) => {
                let message = format!(
                    "the catalogue {path} has format {found}, and this nekopeer reads format {SCHEMA}: use the nekopeer that \
                     wrote it, or move it away and run nekopeer repair, which rebuilds it from the files and from what \
                     indexers know"
                );
                return Err(Failure::new(message).remedied(Remedy::DataDir));
            }
            None => self.with(FILES, |_| Ok(())).and_then(|()| self.with(UNTOLD, |_| Ok(())))?,
        }
        self.put(META, [("node", &node.as_bytes()[..]), ("schema", &SCHEMA.to_le_bytes()[..])])?;
        Ok(true)
    }

    /// Brings what is in [`SCHEMA_BEFORE`] to the present format: makes the index from the entries, in place of the tables
    /// that were indexes, adds the field that readers lack, and moves the partial files that were noted to their folder.
    fn rewrite(&self) -> Result<(), Failure> {
        let rewritten = guarded(|| {
            let (files, mut index) =
                (self.transaction.open_table(FILES)?, self.transaction.open_table(INDEX)?);
            for row in files.iter()? {
                let (name, entry) = row?;
                for (kind, key) in entry.value().iter().flat_map(Entry::keys) {
                    index.insert((kind, key, name.value()), ())?;
                }
            }
            let mut readers = self.transaction.open_table(Definition::<&str, &[u8]>::new(READERS.name()))?;
            let rows = readers
                .iter()?
                .map(|row| row.map(|(name, row)| (name.value().to_owned(), row.value().to_vec())));
            for (name, row) in rows.collect::<Result<Vec<_>, _>>()? {
                readers.insert(&*name, &*[&row[..], &[0]].concat())?; // no `keep_max`
            }
            for row in self.transaction.open_table(Definition::<&str, &[u8]>::new("partials"))?.iter()? {
                let (name, path) = row?;
                if let (Ok(name), Some(data_dir)) = (FileName::new(name.value()), self.path.parent()) {
                    adopt(data_dir, &name, OsStr::from_bytes(path.value()).as_ref());
                }
            }
            for old in ["contents", "manifest users", "sizes", "withdrawn", "partials", "progress"] {
                self.transaction.delete_table(Definition::<&str, ()>::new(old))?;
            }
            Ok::<(), Error>(())
        });
        rewritten.map_err(|error| database(self.path, error))
    }
}

impl Committed {
    fn of(database: &Database) -> Result<Self, Error> {
        let transaction = database.begin_read()?;
        let (files, untold) = (transaction.open_table(FILES)?, transaction.open_table(UNTOLD)?);
        Ok(Self { transaction, files, untold })
    }

    /// A table; `None` if nothing was ever stored in it.
    pub(super) fn table<K: redb::Key + 'static, V: redb::Value + 'static>(
        &self,
        table: Definition<K, V>,
    ) -> Result<Option<ReadOnlyTable<K, V>>, Error> {
        match self.transaction.open_table(table) {
            Ok(table) => Ok(Some(table)),
            Err(TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tables").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Creates an empty database in the file `path`. It is complete before it has that name: a process that is killed
/// meanwhile leaves none, and not a part of one that nobody can open.
fn create(path: &Path) -> Result<(), Error> {
    let create = |folder: &Path| {
        let fresh = NamedTempFile::new_in(folder)?; // private, and what is left of it is removed with the lock
        drop(Database::create(fresh.path()).map_err(io::Error::other)?);
        fresh.persist(path)?;
        File::open(folder)?.sync_all()
    };
    Ok(path.parent().map_or(Ok(()), create).map_err(StorageError::from)?)
}

fn begin_write(writing: &Writing<'_>) -> Result<Guarded<WriteTransaction>, Error> {
    let database = writing.borrow();
    let database = database.as_ref().ok_or(Error::DatabaseClosed)?;
    guarded_part(|| database.begin_write())
}
