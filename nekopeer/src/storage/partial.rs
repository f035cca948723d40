//! Partial files: written in any order, found again after an interruption, moved to their place atomically.

use std::{
    fs::{File, TryLockError},
    io,
    ops::Range,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use nekoproto::ContentHash;
use rustix::{fs::fstat, process::geteuid};

use super::{
    error::{StoreError, error_at},
    no_follow::{self, Entry, Moved},
    place::Place,
    untouched::Untouched,
};
use crate::content::stamp::Stamp;

/// Prefix of the names of partial files; no shared name may have it.
pub const PARTIAL_PREFIX: &str = ".neko-part-";
/// Time limit for an abandoned download to write what it received and unlock its partial file, on a slow disk.
const LET_GO_WITHIN: Duration = Duration::from_secs(5);
/// Interval between attempts to lock it.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Unit of the blocks in a file's metadata, whatever the file system.
const BLOCK_BYTES: u64 = 512;
/// Mode bits that make a program run as its owner or group; no download has them.
const SET_ID_BITS: u32 = 0o6000;
/// Zeros per write where a hole cannot be made.
const ZEROS_BYTES: usize = 64 * 1024;

/// A partial file, in the folder of its place. Dropping it keeps the file, so that it can be resumed.
#[derive(Debug)]
pub(crate) struct Partial {
    place: Place,
    file: Arc<File>,
    name: PathBuf,
    /// Whoever else writes into it is noticed.
    untouched: Untouched,
}

impl Place {
    fn partial_name(&self, content: &ContentHash) -> PathBuf {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.file_name.as_os_str().as_encoded_bytes()).update(content.as_bytes());
        let digest = hasher.finalize().to_hex();
        PathBuf::from(format!("{PARTIAL_PREFIX}{}", &digest[..32]))
    }

    pub(crate) fn partial_path(&self, content: &ContentHash) -> PathBuf {
        self.path.with_file_name(self.partial_name(content))
    }

    /// The partial file with `content` for this place: the existing one, or an empty one.
    pub(crate) fn partial(self, content: &ContentHash) -> Result<Partial, StoreError> {
        let name = self.partial_name(content);
        let until = Instant::now() + LET_GO_WITHIN;
        loop {
            let file = self.open_partial(&name)?;
            match file.try_lock() {
                Ok(()) if self.is_still(&name, &file)? => {
                    let untouched = Untouched::new(&file).map_err(error_at(&self.path))?;
                    return Ok(Partial { place: self, file: Arc::new(file), name, untouched });
                }
                Ok(()) => {} // its last user renamed or removed it
                Err(TryLockError::WouldBlock) if Instant::now() >= until => {
                    return Err(StoreError::Busy(self.path));
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK_EVERY),
                Err(TryLockError::Error(source)) => return Err(error_at(&self.path)(source)),
            }
        }
    }

    /// Opens the partial file `name`, or makes it. What is written into it is written nowhere else: it has no other
    /// name.
    fn open_partial(&self, name: &Path) -> Result<File, StoreError> {
        let path = self.path.with_file_name(name);
        let no_file = |what| StoreError::NotAPlace { path: path.clone(), what };
        let file = match no_follow::open(&self.folder, name, true) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                return Err(match no_follow::look(&self.folder, name).map_err(error_at(&path))? {
                    Entry::Other(what) => no_file(what),
                    _ => StoreError::Swapped(path), // just now
                });
            }
            opened => opened.map_err(error_at(&path))?,
        };
        let found = file.metadata().map_err(error_at(&path))?;
        if found.nlink() > 1 {
            return Err(no_file("a file with a second name, a hard link"));
        }
        // The download keeps owner and mode. Some file systems give all files one owner, that of the folder.
        let folder = fstat(&self.folder).map_err(|error| error_at(&path)(error.into()))?;
        if ![geteuid().as_raw(), folder.st_uid].contains(&found.uid()) {
            return Err(no_file("a file of another user"));
        }
        if found.mode() & SET_ID_BITS != 0 {
            return Err(no_file("a file that runs as its owner, set-uid or set-gid"));
        }
        Ok(file)
    }

    /// Whether `name` in this folder is the open `file`.
    fn is_still(&self, name: &Path, file: &File) -> Result<bool, StoreError> {
        let open = file.metadata().map_err(error_at(&self.path))?;
        match no_follow::look(&self.folder, name).map_err(error_at(&self.path))? {
            Entry::File(there) => Ok(there.is_same_file(&Stamp::of(&open))),
            Entry::Nothing | Entry::Other(_) => Ok(false),
        }
    }
}

impl Partial {
    pub(crate) fn path(&self) -> PathBuf {
        self.place.path.with_file_name(&self.name)
    }

    /// The path that it is moved to.
    pub(crate) fn target(&self) -> &Path {
        &self.place.path
    }

    /// Truncates it to 0 bytes.
    pub(crate) fn clear(&self) -> Result<(), StoreError> {
        self.change(|file| file.set_len(0)).map_err(error_at(&self.place.path))
    }

    /// Changes the file; what others write into it meanwhile is noticed.
    fn change<T>(&self, change: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
        self.untouched.change(&self.file, || change(&self.file))
    }

    /// Whether it is certain that no other program wrote into it since it was opened, or since this was asked last. If
    /// not, it has to be read.
    pub(crate) fn is_untouched(&self) -> Result<bool, StoreError> {
        self.untouched.is_proven(&self.file).map_err(error_at(&self.place.path))
    }

    /// Its stamp, unless another program was seen to write into it.
    pub(crate) fn stamp(&self) -> Result<Option<Stamp>, StoreError> {
        self.untouched.left(&self.file).map_err(error_at(&self.place.path))
    }

    /// The open file, for readers while it is written.
    pub(crate) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// Another handle, for readers; it does not hold the lock.
    pub(crate) fn reopen(&self) -> Result<Arc<File>, StoreError> {
        let opened = no_follow::open(&self.place.folder, &self.name, false);
        opened.map(Arc::new).map_err(error_at(&self.place.path))
    }

    /// Removes its name; the file is deleted when its last handle is closed.
    pub(crate) fn unlink(&self) -> Result<(), StoreError> {
        self.place.folder.remove_file(&self.name).map_err(error_at(&self.place.path))
    }

    /// Makes all writes so far durable.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(error_at(&self.place.path))
    }

    /// Whether any byte of `range` was ever written; true if the file system cannot tell.
    pub(crate) fn is_written(&self, range: Range<u64>) -> bool {
        match rustix::fs::seek(&*self.file, rustix::fs::SeekFrom::Data(range.start)) {
            Ok(data) => data < range.end,
            Err(rustix::io::Errno::NXIO) => false, // a hole up to the end of the file
            Err(_) => true,
        }
    }

    /// Makes `range` a hole, which reads as zeros, or writes zeros.
    pub(crate) fn write_zeros(&self, range: Range<u64>) -> Result<(), StoreError> {
        use rustix::fs::{FallocateFlags, fallocate};
        if range.end <= self.bytes()? && !self.is_written(range.clone()) {
            return Ok(());
        }
        if range.end > self.bytes()? {
            // Writes the last byte and does not set the length: that would cut off concurrent writes beyond it.
            self.write_at(&[0], range.end - 1)?;
        }
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let punched = self.change(|file| Ok(fallocate(file, hole, range.start, range.end - range.start)?));
        if punched.is_ok() {
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

    /// Makes it at least `size` bytes long; what is new is a hole. Nothing else may write meanwhile.
    pub(crate) fn lengthen(&self, size: u64) -> Result<(), StoreError> {
        if self.bytes()? >= size {
            return Ok(());
        }
        self.change(|file| file.set_len(size)).map_err(error_at(&self.place.path))
    }

    /// Length of the file in bytes.
    pub(crate) fn bytes(&self) -> Result<u64, StoreError> {
        self.file.metadata().map(|metadata| metadata.len()).map_err(error_at(&self.place.path))
    }

    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), StoreError> {
        self.file.read_exact_at(buffer, offset).map_err(error_at(&self.place.path))
    }

    pub(crate) fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), StoreError> {
        let written =
            self.change(|file| file.write_all_at(bytes, offset)).map_err(error_at(&self.place.path));
        written.map_err(|error| match (error, self.file.metadata()) {
            // It has a name: it is not removed when it is closed.
            (StoreError::Full(path), Ok(metadata)) if metadata.nlink() > 0 => {
                let bytes = metadata.blocks() * BLOCK_BYTES;
                StoreError::FullDownload { path, partial: self.path(), bytes }
            }
            (error, _) => error,
        })
    }

    /// Truncates it to `size` and makes it durable; returns its stamp.
    pub(crate) fn complete(&self, size: u64) -> Result<Stamp, StoreError> {
        let stamp = self.cut(size)?;
        self.file.sync_all().map_err(error_at(&self.place.path))?;
        Ok(stamp)
    }

    /// Truncates it to `size`; returns its stamp. Nothing else may change it before it is moved to its place.
    pub(crate) fn cut(&self, size: u64) -> Result<Stamp, StoreError> {
        if self.bytes()? != size {
            self.change(|file| file.set_len(size)).map_err(error_at(&self.place.path))?;
        }
        self.stamp()?.ok_or_else(|| StoreError::Swapped(self.path()))
    }

    /// Moves it, which is [complete](Self::complete), to its place atomically. The place must be empty or hold the file
    /// with the stamp `replaceable`.
    pub(crate) fn commit_synced(self, replaceable: Option<Stamp>) -> Result<Stamp, StoreError> {
        let path = self.place.path.clone();
        let folder = self.place.folder.open(".").map_err(error_at(&path))?;
        let stamp = self.rename(replaceable)?;
        folder.sync_all().map_err(error_at(&path))?;
        Ok(stamp)
    }

    /// As [`commit_synced`](Self::commit_synced); does not sync the folder. That it is this file that moved, as it was
    /// when it was complete, and that is in the place then, is seen by its stamp.
    pub(crate) fn rename(self, replaceable: Option<Stamp>) -> Result<Stamp, StoreError> {
        let (place, failed) = (&self.place, error_at(&self.place.path));
        if !place.is_still(&self.name, &self.file)? {
            return Err(StoreError::Swapped(self.path()));
        }
        place.check_folder()?;
        let changed = || StoreError::ChangedMeanwhile(place.path.clone());
        if place.stamp()? != replaceable {
            return Err(changed());
        }
        let own = self.stamp()?.ok_or_else(|| StoreError::Swapped(self.path()))?;
        let moved = no_follow::rename(&place.folder, &self.name, &place.file_name, (own, replaceable));
        match moved.map_err(&failed)? {
            Moved::ToItsPlace(stamp) => {
                place.check_folder()?;
                Ok(stamp)
            }
            Moved::Swapped => Err(StoreError::Swapped(self.path())),
            Moved::Occupied => Err(changed()),
        }
    }

    /// Makes many durable at once: syncs each file system that they are on.
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

    pub(crate) fn discard(self) -> Result<(), StoreError> {
        match self.place.folder.remove_file(&self.name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()), // already deleted
            removed => removed.map_err(error_at(&self.place.path)),
        }
    }
}
