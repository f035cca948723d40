//! A disk that is full on demand, below the database.

use std::{
    fs::OpenOptions,
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use redb::{DatabaseError, StorageBackend, backends::FileBackend};

/// When writing to a file begins to fail: after a number of changes, until it is set again.
#[derive(Debug)]
pub(super) struct Faults(AtomicU64, AtomicU64);

#[derive(Debug)]
struct Failing {
    file: FileBackend,
    faults: Arc<Faults>,
}

impl Default for Faults {
    fn default() -> Self {
        Self(AtomicU64::new(u64::MAX), AtomicU64::new(0))
    }
}

impl Faults {
    /// The disk is full after `changes` to it.
    pub(super) fn begin_after(&self, changes: u64) {
        self.0.store(changes, Ordering::Relaxed);
    }

    /// How often a change was made durable.
    pub(super) fn syncs(&self) -> u64 {
        self.1.load(Ordering::Relaxed)
    }

    pub(super) fn end(&self) {
        self.begin_after(u64::MAX);
    }

    pub(super) fn backend(
        self: &Arc<Self>,
        path: &Path,
    ) -> Result<impl StorageBackend + use<>, DatabaseError> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).open(path);
        let file = FileBackend::new(file.map_err(redb::StorageError::from)?)?;
        Ok(Failing { file, faults: Arc::clone(self) })
    }

    fn change(&self) -> io::Result<()> {
        let left = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| match left {
            0 | u64::MAX => Some(left),
            left => Some(left - 1),
        });
        if left == Ok(0) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl StorageBackend for Failing {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.faults.change()?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.faults.change()?;
        self.faults.1.fetch_add(1, Ordering::Relaxed);
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.faults.change()?;
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}
