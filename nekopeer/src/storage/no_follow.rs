//! Entries of a folder, taken for what they are: no link is followed, and nothing waits for another program.

use std::{fs::File, io, path::Path};

use cap_std::fs::Dir;
use rustix::{
    fs::{
        AtFlags, FileType, Mode, OFlags, RenameFlags, Stat, linkat, openat, renameat_with, statat, unlinkat,
    },
    io::Errno,
};

use super::error::DEVICE;
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
    /// It has this stamp there.
    ToItsPlace(Stamp),
    /// Something else than expected is in the place, and is left there.
    Occupied,
    /// What was to be moved is not what it was any more.
    Swapped,
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

/// Gives the file `from`, which has the stamp `own`, the name `to` in the same folder: if `replaced` is `None` only where
/// nothing has that name, otherwise only in place of the file with that stamp, which is removed. It is atomic: at each
/// moment `to` is the file before or the new one. What turns out to be something else is moved back.
///
/// A file system that can neither refuse to replace nor exchange two names compares right before the move.
pub(super) fn rename(
    folder: &Dir,
    from: &Path,
    to: &Path,
    (own, replaced): (Stamp, Option<Stamp>),
) -> io::Result<Moved> {
    match replaced {
        None => match renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE) {
            Ok(()) => match look(folder, to)?.of_moved(&own) {
                Some(now) => Ok(Moved::ToItsPlace(now)),
                None => {
                    renameat_with(folder, to, folder, from, RenameFlags::NOREPLACE)?;
                    Ok(Moved::Swapped)
                }
            },
            Err(Errno::EXIST) => Ok(Moved::Occupied),
            Err(error) if is_unknown(error) => link(folder, from, to, own),
            Err(error) => Err(error.into()),
        },
        Some(stamp) => match renameat_with(folder, from, folder, to, RenameFlags::EXCHANGE) {
            Ok(()) => {
                let now = look(folder, to)?.of_moved(&own);
                if let Some(now) = now
                    && look(folder, from)?.of_moved(&stamp).is_some()
                {
                    unlinkat(folder, from, AtFlags::empty())?;
                    return Ok(Moved::ToItsPlace(now));
                }
                renameat_with(folder, from, folder, to, RenameFlags::EXCHANGE)?;
                Ok(if now.is_some() { Moved::Occupied } else { Moved::Swapped })
            }
            Err(Errno::NOENT) => Ok(Moved::Occupied), // it was removed
            Err(error) if is_unknown(error) => compare_and_rename(folder, from, to, (own, replaced)),
            Err(error) => Err(error.into()),
        },
    }
}

/// As [`rename`] to a name that nothing has, by a second name.
fn link(folder: &Dir, from: &Path, to: &Path, own: Stamp) -> io::Result<Moved> {
    match linkat(folder, from, folder, to, AtFlags::empty()) {
        Ok(()) => match look(folder, to)?.of_moved(&own) {
            Some(_) => {
                unlinkat(folder, from, AtFlags::empty())?;
                Ok(look(folder, to)?.of_moved(&own).map_or(Moved::Swapped, Moved::ToItsPlace))
            }
            None => {
                unlinkat(folder, to, AtFlags::empty())?;
                Ok(Moved::Swapped)
            }
        },
        Err(Errno::EXIST) => Ok(Moved::Occupied),
        Err(_) => compare_and_rename(folder, from, to, (own, None)), // no file has two names there
    }
}

fn compare_and_rename(
    folder: &Dir,
    from: &Path,
    to: &Path,
    (own, replaced): (Stamp, Option<Stamp>),
) -> io::Result<Moved> {
    if look(folder, to)? != replaced.map_or(Entry::Nothing, Entry::File) {
        return Ok(Moved::Occupied);
    }
    if look(folder, from)?.of_moved(&own).is_none() {
        return Ok(Moved::Swapped);
    }
    folder.rename(from, folder, to)?;
    Ok(look(folder, to)?.of_moved(&own).map_or(Moved::Swapped, Moved::ToItsPlace))
}

/// Whether the file system does not know the way of renaming that it was asked for.
pub(super) fn is_unknown(error: Errno) -> bool {
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
            _ => Self::Other(DEVICE),
        }
    }

    /// The stamp now, if it is the file that had this stamp before it was moved, and was not written since.
    fn of_moved(&self, before: &Stamp) -> Option<Stamp> {
        match self {
            Self::File(now) if before.is_moved_to(now) => Some(*now),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use cap_std::ambient_authority;

    use super::*;

    type Way = fn(&Dir, &Path, &Path, (Stamp, Option<Stamp>)) -> io::Result<Moved>;

    fn every_way(replaced: bool) -> Vec<Way> {
        let link: Way = |folder, from, to, (own, _)| link(folder, from, to, own);
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
                let own = Stamp::of(&std::fs::metadata(path("from")).unwrap());
                std::fs::write(path("to"), "before").unwrap();
                let expected = replaced.then(stamp).flatten();
                std::fs::write(path("to"), "changed").unwrap();
                assert_eq!(way(&folder, from, to, (own, expected)).unwrap(), Moved::Occupied);
                assert_eq!(std::fs::read(path("to")).unwrap(), b"changed");
                std::fs::remove_file(path("to")).unwrap();
                std::os::unix::fs::symlink("elsewhere", path("to")).unwrap();
                assert_eq!(way(&folder, from, to, (own, expected)).unwrap(), Moved::Occupied);
                assert!(path("to").is_symlink() && std::fs::read(path("from")).unwrap() == b"new");
                std::fs::remove_file(path("to")).unwrap();
                if replaced {
                    assert_eq!(
                        way(&folder, from, to, (own, expected)).unwrap(),
                        Moved::Occupied,
                        "it is gone"
                    );
                    std::fs::write(path("to"), "before").unwrap();
                }
                // What is moved is not what it was: both stay as they are.
                let now = stamp();
                let was = |path: &Path| std::fs::symlink_metadata(path).map(|found| Stamp::of(&found)).ok();
                let swaps: [fn(&Path); 2] = [
                    |path| std::fs::write(path, "written into").unwrap(),
                    |path| {
                        std::fs::remove_file(path).unwrap();
                        std::os::unix::fs::symlink("elsewhere", path).unwrap();
                    },
                ];
                std::fs::rename(path("from"), path("kept")).unwrap();
                for swap in swaps {
                    std::fs::copy(path("kept"), path("from")).unwrap();
                    let own = was(&path("from")).unwrap();
                    swap(&path("from"));
                    let swapped = std::fs::symlink_metadata(path("from")).unwrap();
                    assert_eq!(way(&folder, from, to, (own, now)).unwrap(), Moved::Swapped);
                    assert_eq!(std::fs::symlink_metadata(path("from")).unwrap().ino(), swapped.ino());
                    assert_eq!(std::fs::read(path("to")).ok(), replaced.then(|| b"before".to_vec()));
                    std::fs::remove_file(path("from")).unwrap();
                }
                std::fs::rename(path("kept"), path("from")).unwrap();
                let own = was(&path("from")).unwrap();
                let moved = way(&folder, from, to, (own, stamp())).unwrap();
                assert!(matches!(moved, Moved::ToItsPlace(now) if Some(now) == was(&path("to"))));
                assert_eq!(std::fs::read(path("to")).unwrap(), b"new");
                assert!(!path("from").exists());
            }
        }
    }
}
