//! Entries of a folder, taken for what they are: no link is followed, and nothing waits for another program.

use std::{fs::File, io, os::fd::AsFd, path::Path};

use cap_std::fs::Dir;
use rustix::{
    fs::{
        AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, Stat, StatxFlags, linkat, openat, renameat,
        renameat_with, statat, statx, unlinkat,
    },
    io::Errno,
};

use super::error::DEVICE;
use crate::content::stamp::Stamp;

/// What has a name in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occupant {
    Nothing,
    File(Stamp),
    /// Anything else, in words.
    Other(&'static str),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Moved {
    ToItsPlace,
    /// Something else than expected is in the place, and is left there.
    Occupied,
}

/// What `name`, one component, is in `folder`.
pub(super) fn look(folder: impl AsFd, name: &Path) -> io::Result<Occupant> {
    match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Occupant::of(&stat)),
        Err(Errno::NOENT) => Ok(Occupant::Nothing),
        Err(error) => Err(error.into()),
    }
}

/// Opens the file `name`, one component, in `folder` for reading.
pub(super) fn open(folder: &Dir, name: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match openat(folder, name, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        // a link, a folder, a socket or a pipe that nobody reads
        Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO) => return Err(io::ErrorKind::InvalidInput.into()),
        Err(error) => return Err(error.into()),
    };
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Moves the file `from`, which only this process changes, to the name `to` in `folder`: if `replaced` is `None` only where
/// nothing has that name, otherwise only in place of the file with that stamp, which is removed. It is atomic: at each
/// moment `to` is the file before or the new one. What turns out to be another file than the expected is moved back.
///
/// A file system that can neither refuse to replace nor exchange two names compares right before the move.
pub(super) fn rename(from: &Path, folder: &Dir, to: &Path, replaced: Option<Stamp>) -> io::Result<Moved> {
    let renamed = |flags| renameat_with(CWD, from, folder, to, flags);
    match replaced {
        None => match renamed(RenameFlags::NOREPLACE) {
            Ok(()) => Ok(Moved::ToItsPlace),
            Err(Errno::EXIST) => Ok(Moved::Occupied),
            Err(error) if is_unknown(error) => link(from, folder, to, replaced),
            Err(error) => Err(error.into()),
        },
        Some(stamp) => match renamed(RenameFlags::EXCHANGE) {
            Ok(()) if look(CWD, from)?.is_moved(&stamp) => {
                unlinkat(CWD, from, AtFlags::empty())?;
                Ok(Moved::ToItsPlace)
            }
            Ok(()) => {
                renamed(RenameFlags::EXCHANGE)?;
                Ok(Moved::Occupied)
            }
            Err(Errno::NOENT) => Ok(Moved::Occupied), // it was removed
            Err(error) if is_unknown(error) => compare_and_rename(from, folder, to, replaced),
            Err(error) => Err(error.into()),
        },
    }
}

/// As [`rename`] to a name that nothing has, by a second name.
fn link(from: &Path, folder: &Dir, to: &Path, replaced: Option<Stamp>) -> io::Result<Moved> {
    match linkat(CWD, from, folder, to, AtFlags::empty()) {
        Ok(()) => {
            unlinkat(CWD, from, AtFlags::empty())?;
            refresh(folder, to);
            Ok(Moved::ToItsPlace)
        }
        Err(Errno::EXIST) => Ok(Moved::Occupied),
        Err(_) => compare_and_rename(from, folder, to, replaced), // no file has two names there
    }
}

fn compare_and_rename(from: &Path, folder: &Dir, to: &Path, replaced: Option<Stamp>) -> io::Result<Moved> {
    if look(folder, to)? != replaced.map_or(Occupant::Nothing, Occupant::File) {
        return Ok(Moved::Occupied);
    }
    renameat(CWD, from, folder, to)?;
    refresh(folder, to);
    Ok(Moved::ToItsPlace)
}

/// Has the system ask the file system for the times of a file: of one in user space (FUSE) it shows guesses for a second.
fn refresh(folder: &Dir, to: &Path) {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_FORCE_SYNC;
    let _ = statx(folder, to, flags, StatxFlags::BASIC_STATS); // it is looked at once more
}

/// Whether the file system does not know the way of renaming that it was asked for.
pub(super) fn is_unknown(error: Errno) -> bool {
    [Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP].contains(&error)
}

impl Occupant {
    fn of(stat: &Stat) -> Self {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Self::File(Stamp::of_stat(stat)),
            FileType::Symlink => Self::Other("a symbolic link"),
            FileType::Directory => Self::Other("a folder"),
            FileType::Fifo => Self::Other("a named pipe"),
            FileType::Socket => Self::Other("a socket"),
            _ => Self::Other(DEVICE),
        }
    }

    /// Whether it is the file that had this stamp before it was moved, and was not written since.
    fn is_moved(&self, before: &Stamp) -> bool {
        matches!(self, Self::File(now) if before.is_moved_to(now))
    }
}

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;

    use super::*;

    type Way = fn(&Path, &Dir, &Path, Option<Stamp>) -> io::Result<Moved>;

    #[test]
    fn nothing_but_what_was_expected_is_replaced_whatever_the_file_system_knows() {
        let ways: [(Way, bool); 5] = [
            (rename, false),
            (link, false),
            (compare_and_rename, false),
            (rename, true),
            (compare_and_rename, true),
        ];
        for (way, replaced) in ways {
            let temp = tempfile::tempdir().unwrap();
            let folder = Dir::open_ambient_dir(temp.path(), ambient_authority()).unwrap();
            let path = |name: &str| temp.path().join(name);
            let stamp = || match look(&folder, Path::new("to")).unwrap() {
                Occupant::File(stamp) => Some(stamp),
                _ => None,
            };
            let moved = |expected| way(&path("from"), &folder, Path::new("to"), expected).unwrap();
            std::fs::write(path("from"), "new").unwrap();
            std::fs::write(path("to"), "before").unwrap();
            let expected = replaced.then(stamp).flatten();
            std::fs::write(path("to"), "changed").unwrap();
            assert_eq!(moved(expected), Moved::Occupied);
            assert_eq!(std::fs::read(path("to")).unwrap(), b"changed");
            std::fs::remove_file(path("to")).unwrap();
            std::os::unix::fs::symlink("elsewhere", path("to")).unwrap();
            assert_eq!(moved(expected), Moved::Occupied);
            assert!(path("to").is_symlink() && std::fs::read(path("from")).unwrap() == b"new");
            std::fs::remove_file(path("to")).unwrap();
            if replaced {
                assert_eq!(moved(expected), Moved::Occupied, "it is gone");
                std::fs::write(path("to"), "before").unwrap();
            }
            assert_eq!(moved(stamp()), Moved::ToItsPlace);
            assert_eq!(std::fs::read(path("to")).unwrap(), b"new");
            assert!(!path("from").exists());
        }
    }
}
