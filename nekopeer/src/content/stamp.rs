//! [`Stamp`]: detects without reading whether a file is still the one that was hashed.

use std::{
    fs::{File, Metadata, symlink_metadata},
    io,
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::fs::{AtFlags, Mode, OFlags, Stat, open, statat};
use serde::{Deserialize, Serialize};

/// A file modified this shortly before it was hashed may be modified again within the same tick of the
/// file system's clock, so its stamp proves nothing. The coarsest tick is 2 s.
pub(crate) const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// Size, times and inode of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    size: u64,
    modified_ns: i128,
    changed_ns: i128,
    inode: u64,
    /// The number of the file's file system.
    pub(crate) device: u64,
}

/// Looks at many files: the folder of the last one stays open, from which its neighbors are one step away.
#[derive(Debug, Default)]
pub(crate) struct Looker(Option<(PathBuf, OwnedFd)>);

impl Looker {
    /// The stamp of what is at `path`; a symbolic link is not followed. Blocking.
    pub(crate) fn stamp(&mut self, path: &Path) -> io::Result<Stamp> {
        let (Some(folder), Some(file)) = (path.parent(), path.file_name()) else {
            return symlink_metadata(path).map(|metadata| Stamp::of(&metadata));
        };
        if self.0.as_ref().is_none_or(|(opened, _)| opened != folder) {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            self.0 = open(folder, flags, Mode::empty()).ok().map(|opened| (folder.to_owned(), opened));
        }
        match &self.0 {
            Some((_, folder)) => Ok(Stamp::of_stat(&statat(folder, file, AtFlags::SYMLINK_NOFOLLOW)?)),
            None => symlink_metadata(path).map(|metadata| Stamp::of(&metadata)), // it may not be listed
        }
    }
}

/// Opens the file at `path` for reading. Blocking, but not for another program, as opening a pipe would.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC; // no matter to files
    let file = File::from(open(path, flags, Mode::empty())?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

pub(crate) fn is_executable(metadata: &Metadata) -> bool {
    metadata.mode() & 0o100 != 0
}

pub(crate) fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn ns(secs: i64, nanos: impl Into<i128>) -> i128 {
    i128::from(secs) * 1_000_000_000 + nanos.into()
}

impl Stamp {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self {
            size: metadata.size(),
            modified_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
            inode: metadata.ino(),
            device: metadata.dev(),
        }
    }

    pub(crate) fn of_stat(stat: &Stat) -> Self {
        Self {
            size: stat.st_size.cast_unsigned(),
            modified_ns: ns(stat.st_mtime, stat.st_mtime_nsec),
            changed_ns: ns(stat.st_ctime, stat.st_ctime_nsec),
            inode: stat.st_ino,
            device: stat.st_dev,
        }
    }

    /// Size of the file in bytes.
    pub(crate) const fn size(&self) -> u64 {
        self.size
    }

    /// Whether a file with this stamp has stamp `there` after it was moved: a move changes nothing but the time of
    /// the last change.
    pub(crate) fn is_moved_to(&self, there: &Self) -> bool {
        Self { changed_ns: there.changed_ns, ..*self } == *there
    }

    pub(crate) const fn is_same_file(&self, other: &Self) -> bool {
        self.inode == other.inode && self.device == other.device
    }

    /// Whether the file that had this stamp at `path` was removed: nothing is there, or a folder, on the file system that
    /// the file was on. One that is not mounted takes no file with it, and what cannot be looked at is not removed. Blocking.
    pub(crate) fn is_removed_from(&self, path: &Path) -> bool {
        for above in path.ancestors() {
            match symlink_metadata(above) {
                Ok(found) => return found.dev() == self.device && (above != path || found.is_dir()),
                Err(error) if is_missing(&error) => {}
                Err(_) => return false,
            }
        }
        false
    }

    /// Whether an equal stamp proves that the file, hashed at `hashed_at_ns`, is unchanged.
    pub(crate) fn is_settled(&self, hashed_at_ns: i128) -> bool {
        let after_ns = i128::try_from(SETTLED_AFTER.as_nanos()).unwrap_or(i128::MAX);
        self.changed_ns.saturating_add(after_ns) < hashed_at_ns
    }
}

/// Nanoseconds since 1970 by the wall clock. Compared with file times only.
pub(crate) fn now_ns() -> i128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i128::try_from(since.as_nanos()).unwrap_or(i128::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_removed_only_where_its_file_system_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let (below, file) = (dir.path().join("m"), dir.path().join("m/a/f"));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "").unwrap();
        let here = Stamp::of(&file.metadata().unwrap());
        let unmounted = Stamp { device: here.device + 1, ..here };
        let is_removed = || [here, unmounted].map(|stamp| stamp.is_removed_from(&file));
        assert_eq!(is_removed(), [false, false]);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(is_removed(), [true, false]);
        std::fs::create_dir(&file).unwrap();
        assert_eq!(is_removed(), [true, false], "a folder is in its place");
        std::fs::remove_dir_all(&below).unwrap();
        assert_eq!(is_removed(), [true, false]);
        std::fs::write(&below, "").unwrap();
        assert_eq!(is_removed(), [true, false], "a file is in place of a folder");
        std::fs::remove_file(&below).unwrap();
        std::os::unix::fs::symlink(&below, &below).unwrap();
        assert_eq!(is_removed(), [false, false], "it cannot be looked at");
    }
}
