//! A download on its way: written in any order, found again after an interruption, put in its place at once.

use std::{
    fs::{File, TryLockError},
    io,
    ops::Range,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use cap_std::fs::{MetadataExt as _, OpenOptions};
use nekoproto::ContentHash;

use super::{
    error::{StoreError, error_at},
    place::Place,
};
use crate::content::stamp::Stamp;

/// How the names of partial downloads begin; no shared name may.
pub const PARTIAL_PREFIX: &str = ".neko-part-";
/// Time for a download that was given up to write what it has received and let go of its partial.
const LET_GO_WITHIN: Duration = Duration::from_secs(1);
/// How often that is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Zeros written at once where no hole can be made.
const ZEROS_BYTES: usize = 64 * 1024;

/// A download on its way, beside its place. Dropping it leaves it there, to go on with later.
#[derive(Debug)]
pub(crate) struct Partial {
    place: Place,
    file: Arc<File>,
    name: PathBuf,
}

impl Place {
    fn partial_name(&self, content: &ContentHash) -> PathBuf {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.file_name.as_os_str().as_encoded_bytes()).update(content.as_bytes());
        let digest = hasher.finalize().to_hex();
        PathBuf::from(format!("{PARTIAL_PREFIX}{}", &digest[..32]))
    }

    /// Where a partial download of `content` for this place lies, if there is one.
    pub(crate) fn partial_path(&self, content: &ContentHash) -> PathBuf {
        self.path.with_file_name(self.partial_name(content))
    }

    /// The partial download of `content` for this place: the one that is there, or an empty one.
    ///
    /// # Errors
    /// It cannot be made, or another process is at it. Blocks for up to a second to find out.
    pub(crate) fn partial(self, content: &ContentHash) -> Result<Partial, StoreError> {
        let name = self.partial_name(content);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true);
        let until = Instant::now() + LET_GO_WITHIN;
        loop {
            let file = self.folder.open_with(&name, &options).map_err(error_at(&self.path))?.into_std();
            match file.try_lock() {
                Ok(()) if self.is_still(&name, &file)? => {
                    return Ok(Partial { place: self, file: Arc::new(file), name });
                }
                Ok(()) => {} // whoever had it put it in its place, or removed it
                Err(TryLockError::WouldBlock) if Instant::now() >= until => {
                    return Err(StoreError::Busy(self.path));
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK_EVERY),
                Err(TryLockError::Error(source)) => return Err(error_at(&self.path)(source)),
            }
        }
    }

    /// Whether `name` in this folder is the open `file`.
    fn is_still(&self, name: &Path, file: &File) -> Result<bool, StoreError> {
        let open = file.metadata().map_err(error_at(&self.path))?;
        match self.folder.symlink_metadata(name) {
            Ok(there) => Ok((there.dev(), there.ino()) == (open.dev(), open.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error_at(&self.path)(error)),
        }
    }
}

impl Partial {
    /// Where it lies now.
    pub(crate) fn path(&self) -> PathBuf {
        self.place.path.with_file_name(&self.name)
    }

    /// Where it will stand.
    pub(crate) fn target(&self) -> &Path {
        &self.place.path
    }

    /// Empties it.
    ///
    /// # Errors
    /// The system failed.
    pub(crate) fn clear(&self) -> Result<(), StoreError> {
        self.file.set_len(0).map_err(error_at(&self.place.path))
    }

    /// The open file, to be read by others while it is being written.
    pub(crate) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// Another handle of it, to be read by others: it does not hold the lock.
    ///
    /// # Errors
    /// The system failed.
    pub(crate) fn reopen(&self) -> Result<Arc<File>, StoreError> {
        let opened = self.place.folder.open(&self.name).map(cap_std::fs::File::into_std);
        opened.map(Arc::new).map_err(error_at(&self.place.path))
    }

    /// Takes it out of its folder: it is gone when nobody has it open any more.
    ///
    /// # Errors
    /// The system failed.
    pub(crate) fn unlink(&self) -> Result<(), StoreError> {
        self.place.folder.remove_file(&self.name).map_err(error_at(&self.place.path))
    }

    /// Makes durable what was written so far.
    ///
    /// # Errors
    /// The system failed.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(error_at(&self.place.path))
    }

    /// Whether any of `range` was ever written. Where the file system cannot tell, it is said to be.
    pub(crate) fn is_written(&self, range: Range<u64>) -> bool {
        match rustix::fs::seek(&*self.file, rustix::fs::SeekFrom::Data(range.start)) {
            Ok(data) => data < range.end,
            Err(rustix::io::Errno::NXIO) => false, // nothing but a hole up to the end
            Err(_) => true,
        }
    }

    /// Makes `range` a hole, which reads as zeros, or writes the zeros.
    ///
    /// # Errors
    /// `Full`, or the system failed.
    pub(crate) fn write_zeros(&self, range: Range<u64>) -> Result<(), StoreError> {
        use rustix::fs::{FallocateFlags, fallocate};
        if range.end <= self.bytes()? && !self.is_written(range.clone()) {
            return Ok(());
        }
        if range.end > self.bytes()? {
            // Its last byte, and not a length: others write further on meanwhile, and must not be cut off.
            self.write_at(&[0], range.end - 1)?;
        }
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if fallocate(&*self.file, hole, range.start, range.end - range.start).is_ok() {
            return Ok(());
        }
        let zeros = vec![0; ZEROS_BYTES];
        let mut at = range.start;
        while at < range.end {
            let len = usize::try_from(range.end - at).unwrap_or(ZEROS_BYTES).min(ZEROS_BYTES);
            self.write_at(&zeros[..len], at)?;
            at += len as u64;
        }
        Ok(())
    }

    /// Bytes from its beginning to the last one written.
    ///
    /// # Errors
    /// The system failed.
    pub(crate) fn bytes(&self) -> Result<u64, StoreError> {
        self.file.metadata().map(|metadata| metadata.len()).map_err(error_at(&self.place.path))
    }

    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// There are not so many bytes.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), StoreError> {
        self.file.read_exact_at(buffer, offset).map_err(error_at(&self.place.path))
    }

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// `Full`, or the system failed; some of the bytes may have been written.
    pub(crate) fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), StoreError> {
        self.file.write_all_at(bytes, offset).map_err(error_at(&self.place.path))
    }

    /// Cuts it to `size`, makes it durable, and puts it in its place at once, where nothing but the
    /// file with the stamp `replaceable` may stand.
    ///
    /// # Errors
    /// What stood in its place still stands there.
    pub(crate) fn commit(self, size: u64, replaceable: Option<Stamp>) -> Result<Stamp, StoreError> {
        let failed = error_at(&self.place.path);
        self.file.set_len(size).map_err(&failed)?;
        self.file.sync_all().map_err(&failed)?;
        let folder = self.place.folder.try_clone().map_err(&failed)?;
        drop(failed);
        let path = self.place.path.clone();
        let stamp = self.commit_synced(size, replaceable)?;
        folder.open(".").and_then(|folder| folder.sync_all()).map_err(error_at(&path))?;
        Ok(stamp)
    }

    /// As [`commit`](Self::commit), for a file that is durable already; its folder is not made so.
    ///
    /// # Errors
    /// What stood in its place still stands there.
    pub(crate) fn commit_synced(self, size: u64, replaceable: Option<Stamp>) -> Result<Stamp, StoreError> {
        let Self { place, file, name } = self;
        let failed = error_at(&place.path);
        if file.metadata().map_err(&failed)?.len() != size {
            file.set_len(size).map_err(&failed)?;
        }
        if place.stamp()? != replaceable {
            return Err(StoreError::ChangedMeanwhile(place.path.clone()));
        }
        place.folder.rename(&name, &place.folder, &place.file_name).map_err(&failed)?;
        file.metadata().map(|metadata| Stamp::of(&metadata)).map_err(&failed)
    }

    /// Makes many durable at once: each file system that they are on is told to write all it has.
    ///
    /// # Errors
    /// The system failed; some may be durable.
    pub(crate) fn sync_all<'a>(partials: impl Iterator<Item = &'a Self>) -> Result<(), StoreError> {
        let mut devices = Vec::new();
        for partial in partials {
            let failed = error_at(&partial.place.path);
            let device = partial.file.metadata().map_err(&failed)?.dev();
            if !devices.contains(&device) {
                devices.push(device);
                rustix::fs::syncfs(&*partial.file).map_err(io::Error::from).map_err(&failed)?;
            }
        }
        Ok(())
    }

    /// Removes it.
    ///
    /// # Errors
    /// The system failed.
    pub(crate) fn discard(self) -> Result<(), StoreError> {
        match self.place.folder.remove_file(&self.name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()), // gone already: as wanted
            removed => removed.map_err(error_at(&self.place.path)),
        }
    }
}
