//! Entries of a folder, taken for what they are: no link is followed, and nothing waits for another program.

use std::{fs::File, io, path::Path};

use cap_std::fs::Dir;
use rustix::{
    fs::{
        AtFlags, FileType, Mode, OFlags, RenameFlags, Stat, linkat, openat, renameat_with, statat, unlinkat,
    },
    io::Errno,
};

use crate::content::stamp::Stamp;

/// What has a name in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Nothing,
    File(Stamp),
    /// Anything else, in words.
    Other(&'static str),
}

/// How a file came to its place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Moved {
    ToItsPlace,
    /// Something else than expected is in the place, and is left there.
    Occupied,
}

/// What `name`, one component, is in `folder`.
pub(super) fn look(folder: &Dir, name: &Path) -> io::Result<Entry> {
    match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Entry::of(&stat)),
        Err(Errno::NOENT) => Ok(Entry::Nothing),
        Err(error) => Err(error.into()),
    }
}

/// Opens the file `name`, one component, in `folder`; also for writing, and made if nothing is there, if `is_ours`.
///
/// # Errors
/// `InvalidInput`: it is no file. Otherwise the system failed.
pub(super) fn open(folder: &Dir, name: &Path, is_ours: bool) -> io::Result<File> {
    let how = if is_ours { OFlags::RDWR | OFlags::CREATE } else { OFlags::RDONLY };
    let flags = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match openat(folder, name, flags, Mode::from_raw_mode(0o666)) {
        Ok(file) => File::from(file),
        // a link, a folder, a socket or a pipe that nobody reads
        Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO) => return Err(io::ErrorKind::InvalidInput.into()),
        Err(error) => return Err(error.into()),
    };
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Gives the file `from` the name `to` in the same folder: if `replaced` is `None` only where nothing has that name,
/// otherwise only in place of the file with that stamp, which is removed. It is atomic: at each moment `to` is the
/// file before or the new one.
///
/// A file system that can neither refuse to replace nor exchange two names compares right before the move.
///
/// # Errors
/// Both names are as before, unless the system failed to undo an exchange.
pub(super) fn rename(folder: &Dir, from: &Path, to: &Path, replaced: Option<Stamp>) -> io::Result<Moved> {
    match replaced {
        None => match renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(Moved::ToItsPlace),
            Err(Errno::EXIST) => Ok(Moved::Occupied),
            Err(error) if is_unknown(error) => link(folder, from, to),
            Err(error) => Err(error.into()),
        },
        Some(stamp) => match renameat_with(folder, from, folder, to, RenameFlags::EXCHANGE) {
            Ok(()) if look(folder, from)?.was(&stamp) => {
                unlinkat(folder, from, AtFlags::empty())?;
                Ok(Moved::ToItsPlace)
            }
            Ok(()) => {
                renameat_with(folder, from, folder, to, RenameFlags::EXCHANGE)?;
                Ok(Moved::Occupied)
            }
            Err(Errno::NOENT) => Ok(Moved::Occupied), // it was removed
            Err(error) if is_unknown(error) => compare_and_rename(folder, from, to, Some(stamp)),
            Err(error) => Err(error.into()),
        },
    }
}

/// As [`rename`] to a name that nothing has, by a second name.
fn link(folder: &Dir, from: &Path, to: &Path) -> io::Result<Moved> {
    match linkat(folder, from, folder, to, AtFlags::empty()) {
        Ok(()) => {
            unlinkat(folder, from, AtFlags::empty())?;
            Ok(Moved::ToItsPlace)
        }
        Err(Errno::EXIST) => Ok(Moved::Occupied),
        Err(_) => compare_and_rename(folder, from, to, None), // no file has two names there
    }
}

fn compare_and_rename(folder: &Dir, from: &Path, to: &Path, replaced: Option<Stamp>) -> io::Result<Moved> {
    if look(folder, to)? != replaced.map_or(Entry::Nothing, Entry::File) {
        return Ok(Moved::Occupied);
    }
    folder.rename(from, folder, to)?;
    Ok(Moved::ToItsPlace)
}

/// Whether the file system does not know the way of renaming that it was asked for.
fn is_unknown(error: Errno) -> bool {
    [Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP].contains(&error)
}

impl Entry {
    fn of(stat: &Stat) -> Self {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Self::File(Stamp::of_stat(stat)),
            FileType::Symlink => Self::Other("a symbolic link"),
            FileType::Directory => Self::Other("a folder"),
            FileType::Fifo => Self::Other("a named pipe"),
            FileType::Socket => Self::Other("a socket"),
            _ => Self::Other("a device"),
        }
    }

    /// Whether it is the file that had this stamp before it was moved.
    fn was(&self, stamp: &Stamp) -> bool {
        matches!(self, Self::File(now) if stamp.is_moved_to(now))
    }
}

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;

    use super::*;

    type Way = fn(&Dir, &Path, &Path, Option<Stamp>) -> io::Result<Moved>;

    fn every_way(replaced: bool) -> Vec<Way> {
        let link: Way = |folder, from, to, _| link(folder, from, to);
        let ways: [Way; 2] = [rename, compare_and_rename];
        ways.into_iter().chain((!replaced).then_some(link)).collect()
    }

    #[test]
    fn nothing_but_what_was_expected_is_replaced_whatever_the_file_system_knows() {
        for replaced in [false, true] {
            for way in every_way(replaced) {
                let temp = tempfile::tempdir().unwrap();
                let folder = Dir::open_ambient_dir(temp.path(), ambient_authority()).unwrap();
                let path = |name: &str| temp.path().join(name);
                let (from, to) = (Path::new("from"), Path::new("to"));
                let stamp = || match look(&folder, to).unwrap() {
                    Entry::File(stamp) => Some(stamp),
                    _ => None,
                };
                std::fs::write(path("from"), "new").unwrap();
                std::fs::write(path("to"), "before").unwrap();
                let expected = replaced.then(stamp).flatten();
                std::fs::write(path("to"), "changed").unwrap();
                assert_eq!(way(&folder, from, to, expected).unwrap(), Moved::Occupied);
                assert_eq!(std::fs::read(path("to")).unwrap(), b"changed");
                std::fs::remove_file(path("to")).unwrap();
                std::os::unix::fs::symlink("elsewhere", path("to")).unwrap();
                assert_eq!(way(&folder, from, to, expected).unwrap(), Moved::Occupied);
                assert!(path("to").is_symlink() && std::fs::read(path("from")).unwrap() == b"new");
                std::fs::remove_file(path("to")).unwrap();
                if replaced {
                    assert_eq!(way(&folder, from, to, expected).unwrap(), Moved::Occupied, "it is gone");
                    std::fs::write(path("to"), "before").unwrap();
                }
                assert_eq!(way(&folder, from, to, stamp()).unwrap(), Moved::ToItsPlace);
                assert_eq!(std::fs::read(path("to")).unwrap(), b"new");
                assert!(!path("from").exists());
            }
        }
    }
}
