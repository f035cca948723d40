//! Partial files: written in any order in a private folder, found again after an interruption, moved to their place
//! atomically ([`moving`]).

mod moving;

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    ops::Range,
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, fchown},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use nekoproto::{FileName, private_folder};
use parking_lot::Mutex;
use rustix::{fs::OFlags, io::Errno};

use super::{
    digits,
    error::{error_at, not_a_place},
    flock::{self, HeldLock},
    folder::OpenFolder,
    place::Place,
};
use crate::{
    content::stamp::Stamp,
    failure::{Failure, FailureKind},
};

const FOLDER: &str = "parts";
/// What such a folder is called beside a place on another disk: no file can be moved there from the data folder.
const BESIDE: &str = ".neko-parts";
/// Ends the name of a [checkpoint](Partial::save_progress).
const PROGRESS: &str = "progress";
/// Digits of the hash of a data folder in the name of a partial file beside a place.
const OWNER_DIGITS: usize = 8;
/// How long an interrupted download can be resumed after it was written to last.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
/// Time limit for an abandoned download to write what it received and unlock its partial file, on a slow disk.
const LET_GO_WITHIN: Duration = Duration::from_secs(5);
/// Interval between attempts to lock it.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Unit of the blocks in a file's metadata, whatever the file system.
const BLOCK_BYTES: u64 = 512;
const OWNER_WRITES: u32 = 0o600;
/// Zeros per write where a hole cannot be made.
const ZEROS_BYTES: usize = 64 * 1024;

/// The partial file of a name, whatever version is written into it. Only this user can write to its folder, and one
/// process of this peer at a time. Dropping it keeps the file, so that it can be resumed.
#[derive(Debug)]
pub(crate) struct Partial {
    place: Place,
    path: PathBuf,
    file: Arc<File>,
    held: Mutex<Option<HeldLock>>,
    has_progress: AtomicBool,
}

/// Where the partial file of `name` may be whose place is `target`.
pub(in crate::storage) fn partial_paths(data_dir: &Path, name: &FileName, target: &Path) -> [PathBuf; 2] {
    [data_dir.join(FOLDER).join(digits(name)), beside(data_dir, name, target)]
}

/// Beside a place there may be those of several data folders.
fn beside(data_dir: &Path, name: &FileName, target: &Path) -> PathBuf {
    let data_dir = data_dir.canonicalize().unwrap_or_else(|_| data_dir.to_owned());
    let owner = blake3::hash(data_dir.as_os_str().as_encoded_bytes()).to_hex();
    target.with_file_name(BESIDE).join(format!("{}-{}", digits(name), &owner[..OWNER_DIGITS]))
}

/// Makes `old`, an unfinished download of `name` as it was stored before there was a folder for them, its partial file.
pub(in crate::storage) fn adopt(data_dir: &Path, name: &FileName, old: &Path) {
    let is_moved = |path: &PathBuf| {
        path.parent().is_some_and(|folder| private_folder(folder).is_ok()) && fs::rename(old, path).is_ok()
    };
    if !partial_paths(data_dir, name, old).iter().any(is_moved) {
        drop(fs::remove_file(old)); // or it is gone
    }
}

/// Removes the partial files in the data folder that nobody resumed for [`KEPT`]. Blocking.
pub(crate) fn sweep(data_dir: &Path) {
    let is_old = |file: &fs::DirEntry| {
        let written = file.metadata().and_then(|metadata| metadata.modified());
        written.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age > KEPT))
    };
    let found = fs::read_dir(data_dir.join(FOLDER)).into_iter().flatten().flatten();
    found.filter(is_old).for_each(|file| drop(fs::remove_file(file.path()))); // or the next start does
}

/// Whether a download of `name` to a place on the disk of the data folder was interrupted.
pub(crate) fn is_begun(data_dir: &Path, name: &FileName) -> bool {
    usual_path(data_dir, name).exists()
}

fn usual_path(data_dir: &Path, name: &FileName) -> PathBuf {
    data_dir.join(FOLDER).join(digits(name))
}

impl Place {
    /// Where the partial file of `name` for this place is.
    pub(crate) fn partial_path(&self, data_dir: &Path, name: &FileName) -> PathBuf {
        match *self.folder.is_on_disk_of_data.get_or_init(|| self.is_on_disk_of(data_dir)) {
            true => usual_path(data_dir, name),
            false => beside(data_dir, name, &self.path),
        }
    }

    /// A partial file that is never moved to this place, without a name: it is deleted when its last handle is closed.
    pub(crate) fn unnamed_partial(self, folder: &Path) -> Result<Partial, Failure> {
        let file = tempfile::tempfile_in(folder).map_err(error_at(folder))?;
        Ok(Partial::new(self.path.clone(), self, file))
    }

    /// The partial file of `name` for this place: the existing one, or an empty one.
    pub(crate) fn partial(self, data_dir: &Path, name: &FileName) -> Result<Partial, Failure> {
        let path = self.partial_path(data_dir, name);
        let failed = error_at(&path);
        let folder = path.parent().unwrap_or(data_dir);
        let until = Instant::now() + LET_GO_WITHIN;
        let mut how = OpenOptions::new();
        how.read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        let mut is_private = self.folder.has_private_parts.get().is_some();
        loop {
            if !is_private {
                private_folder(folder).map_err(|error| error_at(folder)(io::Error::other(error)))?;
                self.folder.has_private_parts.get_or_init(|| ());
            }
            let file = match how.open(&path) {
                // Another download was the last in the folder, which went with it.
                Err(error) if error.kind() == io::ErrorKind::NotFound && Instant::now() < until => {
                    is_private = false;
                    continue;
                }
                Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
                    return Err(not_a_place(&path, "a symbolic link"));
                }
                opened => opened.map_err(&failed)?,
            };
            match flock::try_lock(&file, &path) {
                Ok(held) if is_at(&path, &file) => {
                    return Ok(Partial {
                        held: Mutex::new(Some(held)),
                        ..Partial::new(path.clone(), self, file)
                    });
                }
                Ok(_) => {} // its last user moved or removed it
                Err(TryLockError::WouldBlock) if Instant::now() >= until => {
                    let what = "is being downloaded by another process: wait for it, or choose another place";
                    return Err(Failure::with(FailureKind::Busy, format!("{} {what}", self.path.display())));
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK_EVERY),
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
        }
    }
}

fn is_at(path: &Path, file: &File) -> bool {
    let stamps =
        path.symlink_metadata().and_then(|there| Ok((Stamp::of(&there), Stamp::of(&file.metadata()?))));
    stamps.is_ok_and(|(there, open)| there.is_same_file(&open))
}

impl Partial {
    fn new(path: PathBuf, place: Place, file: File) -> Self {
        Self {
            place,
            path,
            file: Arc::new(file),
            held: Mutex::default(),
            has_progress: AtomicBool::new(false),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn target(&self) -> &Path {
        &self.place.path
    }

    pub(crate) fn folder(&self) -> (PathBuf, Arc<OpenFolder>) {
        (self.place.folder.path.clone(), Arc::clone(&self.place.folder))
    }

    pub(crate) fn clear(&self) -> Result<(), Failure> {
        self.file.set_len(0).map_err(error_at(&self.place.path))
    }

    pub(crate) fn stamp(&self) -> Result<Stamp, Failure> {
        self.file.metadata().map(|metadata| Stamp::of(&metadata)).map_err(error_at(&self.place.path))
    }

    /// The open file, for readers while it is written.
    pub(crate) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// Another handle, for readers; it does not hold the lock.
    pub(crate) fn reopen(&self) -> Result<Arc<File>, Failure> {
        File::open(&self.path).map(Arc::new).map_err(error_at(&self.place.path))
    }

    pub(crate) fn sync(&self) -> Result<(), Failure> {
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
    pub(crate) fn write_zeros(&self, range: Range<u64>) -> Result<(), Failure> {
        use rustix::fs::{FallocateFlags, fallocate};
        if range.end <= self.bytes()? && !self.is_written(range.clone()) {
            return Ok(());
        }
        if range.end > self.bytes()? {
            // Writes the last byte and does not set the length: that would cut off concurrent writes beyond it.
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

    /// Makes it at least `size` bytes long; what is new is a hole. Nothing else may write meanwhile.
    pub(crate) fn lengthen(&self, size: u64) -> Result<(), Failure> {
        if self.bytes()? >= size {
            return Ok(());
        }
        self.file.set_len(size).map_err(error_at(&self.place.path))
    }

    pub(crate) fn bytes(&self) -> Result<u64, Failure> {
        self.file.metadata().map(|metadata| metadata.len()).map_err(error_at(&self.place.path))
    }

    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), Failure> {
        self.file.read_exact_at(buffer, offset).map_err(error_at(&self.place.path))
    }

    pub(crate) fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), Failure> {
        let written = self.file.write_all_at(bytes, offset).map_err(error_at(&self.place.path));
        written.map_err(|failure| match self.file.metadata() {
            // It has a name: it is not removed when it is closed.
            Ok(metadata)
                if failure.kind == FailureKind::Full && metadata.nlink() > 0 && metadata.blocks() > 0 =>
            {
                let kib = (metadata.blocks() * BLOCK_BYTES).div_ceil(1024);
                let (path, partial) = (self.place.path.display(), self.path.display());
                let help = format!("free some and run it again to go on; or remove {partial}");
                let message =
                    format!("no space is left to write {path}: {help}, which keeps {kib} KiB of it");
                Failure { message, ..failure }
            }
            _ => failure,
        })
    }

    /// Replaces its checkpoint, which goes with it.
    pub(crate) fn save_progress(&self, bytes: &[u8]) -> Result<(), Failure> {
        let (new, path) = (self.path.with_extension("new"), self.path.with_extension(PROGRESS));
        self.has_progress.store(true, Ordering::Relaxed);
        fs::write(&new, bytes).and_then(|()| fs::rename(&new, &path)).map_err(error_at(&path))
    }

    /// Its checkpoint, if there is one that can be read.
    pub(crate) fn progress(&self) -> Option<Vec<u8>> {
        self.has_progress.store(true, Ordering::Relaxed);
        fs::read(self.path.with_extension(PROGRESS)).ok()
    }

    /// It is not in its folder any more.
    fn is_gone(&self) {
        drop(self.held.lock().take());
        if self.has_progress.load(Ordering::Relaxed) {
            drop(fs::remove_file(self.path.with_extension(PROGRESS))); // there may be none
        }
        if let Some(folder) = self.path.parent().filter(|folder| folder.ends_with(BESIDE)) {
            drop(fs::remove_dir(folder)); // others may be in it
        }
    }

    /// Truncates it to `size`, with the group that files in its place have; returns its stamp. Nothing else may change it
    /// before it is moved to its place, and synced before.
    pub(crate) fn complete(&self, size: u64) -> Result<Stamp, Failure> {
        let stamp = self.stamp()?;
        if stamp.size() == size && self.place.folder.group.is_none() {
            return Ok(stamp);
        }
        self.file.set_len(size).map_err(error_at(&self.place.path))?;
        if let Some(group) = self.place.folder.group {
            drop(fchown(&*self.file, None, Some(group))); // or it has the group of this process
        }
        self.stamp()
    }

    pub(crate) fn discard(&self) -> Result<(), Failure> {
        let removed = fs::remove_file(&self.path);
        self.is_gone();
        match removed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()), // already deleted
            removed => removed.map_err(error_at(&self.place.path)),
        }
    }
}
