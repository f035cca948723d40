//! The open database: one writer at a time, readers of what was committed last, and a failed one opened again.

use std::{
    cell::RefCell,
    ffi::OsStr,
    fmt,
    fs::{self, File, OpenOptions},
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use nekoproto::{NodeId, only_own, open_private};
use parking_lot::{ReentrantMutex, RwLock};
use redb::{
    Database, DatabaseError, Error, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable,
    StorageError, TableHandle, WriteTransaction, backends::FileBackend,
};

use super::{
    error::CatalogueError,
    guard::{Guarded, guarded},
    schema::{self, CONTENTS, Definition, FILES, FLOORS, HalfHash, META, PARTIALS, PROGRESS, SCHEMA, UNTOLD},
    write::{Write, Writing},
};

/// Size of the database's page cache in bytes.
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
    pub(super) files: ReadOnlyTable<&'static str, &'static [u8]>,
    pub(super) contents: ReadOnlyTable<(&'static HalfHash, &'static str), ()>,
    pub(super) untold: ReadOnlyTable<&'static str, &'static [u8]>,
    pub(super) floors: ReadOnlyTable<(&'static str, &'static [u8; 32]), &'static [u8]>,
}

impl Tables {
    /// Opens the database in the file `path`, or creates it.
    pub(super) fn open(path: &Path, node: NodeId) -> Result<Self, CatalogueError> {
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
    pub(super) fn begin(&self) -> Result<Write<'_>, CatalogueError> {
        let writing = self.database.lock();
        let mut begun = begin_write(&writing);
        if let Err(error) = begun {
            tracing::warn!(path = %self.path.display(), %error, "the catalogue is opened again");
            self.open_file()?;
            begun = begin_write(&writing);
        }
        let transaction = begun.map(Guarded::new).map_err(|error| self.failed(error))?;
        Ok(Write { transaction, path: &self.path, writing })
    }

    /// Makes a transaction durable, then visible.
    pub(super) fn commit(&self, write: Write<'_>) -> Result<(), CatalogueError> {
        let writing = write.commit()?;
        let database = writing.borrow();
        self.show(database.as_ref()).map_err(|error| self.failed(error))
    }

    /// Does `work` with what was committed last; once more, if the database had failed and could be opened again.
    /// `work` returns nothing that redb lent it.
    pub(super) fn read<T>(&self, work: impl Fn(&Committed) -> Result<T, Error>) -> Result<T, CatalogueError> {
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
    fn open_file(&self) -> Result<(), CatalogueError> {
        let writing = self.database.lock();
        drop(writing.take()); // the file is unlocked
        self.examine()?;
        let database = guarded(|| self.file()).map(Guarded::new).map_err(|error| self.failed(error))?;
        let transaction = guarded(|| database.begin_write()).map_err(|error| self.failed(error))?;
        let transaction = Guarded::new(transaction);
        let write = Write { transaction, path: &self.path, writing: self.database.lock() };
        if write.prepare(self.node)? {
            drop(write.commit()?);
        }
        self.show(Some(&database)).map_err(|error| self.failed(error))?;
        writing.replace(Some(database));
        Ok(())
    }

    /// Whether the file may be the catalogue.
    fn examine(&self) -> Result<(), CatalogueError> {
        let found =
            fs::symlink_metadata(&self.path).map_err(|error| self.failed(StorageError::from(error)))?;
        match (found.is_file(), found.len()) {
            (false, _) => Err(CatalogueError::damaged(&self.path, "it is no file")),
            (true, 0) => Err(CatalogueError::damaged(&self.path, "it is empty")),
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
        let committed = committed.and_then(|database| guarded(|| Committed::of(database)));
        let committed = committed.map(Guarded::new).map(Arc::new);
        *self.committed.write() = committed.as_ref().ok().cloned();
        committed.map(drop)
    }

    fn failed(&self, error: impl Into<Error>) -> CatalogueError {
        CatalogueError::database(&self.path, error)
    }
}

impl Write<'_> {
    /// Creates the tables that are missing; whether anything is to be committed.
    pub(super) fn prepare(&self, node: NodeId) -> Result<bool, CatalogueError> {
        let path = || self.path.to_owned();
        let meta = |key| self.with(META, |table| Ok(table.get(key)?.map(|found| found.value().to_vec())));
        if meta("node")?.is_some_and(|found| found != node.as_bytes()) {
            return Err(CatalogueError::OtherIdentity(path()));
        }
        let schema = meta("schema")?.map(|found| found.try_into().map_or(0, u64::from_le_bytes));
        if let Some(found) = schema.filter(|found| *found != SCHEMA) {
            return Err(CatalogueError::OtherFormat { path: path(), found, known: SCHEMA });
        }
        let before = self.tables()?;
        self.end_noted_partials()?;
        self.create_tables()?;
        if schema.is_some() && self.tables()? == before {
            return Ok(false);
        }
        self.with(META, |table| {
            table.insert("node", node.as_bytes().as_slice())?;
            table.insert("schema", SCHEMA.to_le_bytes().as_slice()).map(|_| true)
        })
    }

    fn tables(&self) -> Result<usize, CatalogueError> {
        let tables = guarded(|| Ok::<_, redb::Error>(self.transaction.list_tables()?.count()));
        tables.map_err(|error| CatalogueError::database(self.path, error))
    }

    /// Removes the partial files that were noted here before they had a folder of their own: their downloads begin anew.
    fn end_noted_partials(&self) -> Result<(), CatalogueError> {
        let removed = guarded(|| {
            let tables: Vec<_> = self.transaction.list_tables()?.collect();
            if !tables.iter().any(|table| table.name() == PARTIALS.name()) {
                return Ok::<_, redb::Error>(());
            }
            for row in self.transaction.open_table(PARTIALS)?.iter()? {
                drop(fs::remove_file(OsStr::from_bytes(row?.1.value()))); // or it is gone
            }
            self.transaction.delete_table(PARTIALS)?;
            self.transaction.delete_table(PROGRESS)?;
            Ok(())
        });
        removed.map_err(|error| CatalogueError::database(self.path, error))
    }

    fn create_tables(&self) -> Result<(), CatalogueError> {
        macro_rules! create {
            ($($table:ident)*) => { $(self.with(schema::$table, |_| Ok(()))?;)* };
        }
        create!(FILES CONTENTS MANIFEST_USERS SIZES VERSIONS AVERAGES PIPED MANIFESTS FLOORS PLACING);
        create!(PASSING OUTBOARDS UNTOLD READERS KEPT WITHDRAWN TREES HEARD);
        Ok(())
    }
}

impl Committed {
    fn of(database: &Database) -> Result<Self, Error> {
        let transaction = database.begin_read()?;
        Ok(Self {
            files: transaction.open_table(FILES)?,
            contents: transaction.open_table(CONTENTS)?,
            untold: transaction.open_table(UNTOLD)?,
            floors: transaction.open_table(FLOORS)?,
            transaction,
        })
    }

    pub(super) fn table<K: redb::Key + 'static, V: redb::Value + 'static>(
        &self,
        table: Definition<K, V>,
    ) -> Result<ReadOnlyTable<K, V>, Error> {
        Ok(self.transaction.open_table(table)?)
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
    let fresh = path.with_extension("redb.new");
    match fs::remove_file(&fresh) {
        Err(_) if fresh.is_dir() => {
            let what = format!("{} is a folder, move it away", fresh.display());
            return Err(StorageError::from(io::Error::other(what)).into());
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(StorageError::from(error).into()),
        _ => {} // what a killed process left
    }
    let mut options = OpenOptions::new();
    let file = open_private(&fresh, options.read(true).write(true).create_new(true));
    let file = FileBackend::new(file.map_err(StorageError::from)?)?;
    drop(Database::builder().create_with_backend(file)?);
    let sync = || path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all());
    Ok(fs::rename(&fresh, path).and_then(|()| sync()).map_err(StorageError::from)?)
}

fn begin_write(writing: &Writing<'_>) -> Result<WriteTransaction, Error> {
    let database = writing.borrow();
    let database = database.as_ref().ok_or(Error::DatabaseClosed)?;
    guarded(|| database.begin_write())
}
