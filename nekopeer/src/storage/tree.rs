//! A folder that takes the place of another at once.

use std::{io, os::unix::fs::MetadataExt as _, path::Path};

use cap_std::{ambient_authority, fs::Dir};
use nekoproto::Remedy;
use rustix::{
    fs::{AtFlags, CWD, FileType, RenameFlags, Statx, StatxFlags, renameat_with, statat, statx},
    io::Errno,
};
use serde::{Deserialize, Serialize};

use super::{
    error::{changed_meanwhile, error_at},
    no_follow::is_unknown,
    place::Place,
};
use crate::failure::Failure;

/// Which folder it is, whatever its path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FolderId {
    device: u64,
    inode: u64,
}

impl std::fmt::Display for FolderId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x}-{:x}", self.device, self.inode)
    }
}

impl FolderId {
    /// The folder at `path`. Blocking.
    pub(crate) fn of(path: &Path) -> Result<Self, Failure> {
        let metadata = path.symlink_metadata().map_err(error_at(path))?;
        Ok(Self { device: metadata.dev(), inode: metadata.ino() })
    }
}

impl Place {
    /// The folder in this place; `None` if nothing is there. Blocking.
    pub(crate) fn folder_id(&self) -> Result<Option<FolderId>, Failure> {
        found(&self.folder, &self.file_name, &self.path)
    }

    /// Whether files can be moved to it from the folder at `path`: both are on one file system, by one mount. Blocking.
    pub(crate) fn is_on_disk_of(&self, path: &Path) -> bool {
        let flags = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
        let disk = |found: Statx| (found.stx_dev_major, found.stx_dev_minor, found.stx_mnt_id);
        let here = statx(&self.folder, "", AtFlags::EMPTY_PATH, flags).map(disk);
        here.is_ok_and(|here| statx(CWD, path, AtFlags::empty(), flags).map(disk) == Ok(here))
    }

    /// Puts the folder at `staged` in this place: where `replaced` is `None`, only if nothing is there, otherwise only in
    /// place of that folder, which is at `staged` afterwards. It is atomic, and durable. Blocking.
    pub(crate) fn put_folder(&self, staged: &Path, replaced: Option<FolderId>) -> Result<(), Failure> {
        let failed = |error: Errno| match error {
            error if is_unknown(error) => {
                let (path, what) = (self.path.display(), "cannot exchange two folders at once");
                let message = format!("the file system of {path} {what}, so it stays as it is");
                Failure::new(message).remedied(Remedy::Output)
            }
            Errno::EXIST | Errno::NOENT => changed_meanwhile(&self.path),
            error => error_at(&self.path)(error.into()),
        };
        self.check_folder()?;
        let (Some(parent), Some(name)) = (staged.parent(), staged.file_name()) else {
            return Err(changed_meanwhile(staged));
        };
        let from = Dir::open_ambient_dir(parent, ambient_authority()).map_err(error_at(parent))?;
        let rename = |flags| renameat_with(&from, name, &self.folder, &self.file_name, flags);
        match replaced {
            None => rename(RenameFlags::NOREPLACE).map_err(failed)?,
            Some(replaced) => {
                rename(RenameFlags::EXCHANGE).map_err(failed)?;
                if found(&from, Path::new(name), staged).ok().flatten() != Some(replaced) {
                    rename(RenameFlags::EXCHANGE).map_err(failed)?;
                    return Err(changed_meanwhile(&self.path));
                }
            }
        }
        let synced = [&self.folder, &from]
            .into_iter()
            .try_for_each(|folder| folder.open(".").and_then(|folder| folder.sync_all()));
        synced.map_err(error_at(&self.path))
    }
}

fn found(folder: &Dir, name: &Path, path: &Path) -> Result<Option<FolderId>, Failure> {
    let stat = match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error_at(path)(io::Error::from(error))),
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Ok(Some(FolderId { device: stat.st_dev, inode: stat.st_ino })),
        _ => {
            let message = format!("{} is no folder, and a set is one: remove it", path.display());
            Err(Failure::conflict(message).remedied(Remedy::Output))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_the_expected_folder_is_replaced() {
        let temp = tempfile::tempdir().unwrap();
        let path = |name: &str| temp.path().join(name);
        let place = Place::anywhere(&path("set")).unwrap();
        let make = |name: &str, text: &str| {
            std::fs::create_dir(path(name)).unwrap();
            std::fs::write(path(name).join("a"), text).unwrap();
            FolderId::of(&path(name)).unwrap()
        };
        let read = |name: &str| std::fs::read_to_string(path(name).join("a")).unwrap();
        let first = make("first", "1");
        place.put_folder(&path("first"), None).unwrap();
        assert_eq!((read("set"), place.folder_id().unwrap()), ("1".to_owned(), Some(first)));
        let second = make("second", "2");
        let refused = |replaced| {
            let failure = place.put_folder(&path("second"), replaced).unwrap_err();
            failure.message.contains("was changed meanwhile")
        };
        assert!(refused(None) && refused(Some(second)));
        assert_eq!((read("set"), read("second")), ("1".to_owned(), "2".to_owned()));
        place.put_folder(&path("second"), Some(first)).unwrap();
        assert_eq!((read("set"), read("second")), ("2".to_owned(), "1".to_owned()));
        std::fs::rename(path("set"), path("away")).unwrap();
        assert!(refused(Some(second)), "it is gone");
        std::fs::write(path("set"), "a file").unwrap();
        assert!(place.folder_id().unwrap_err().message.contains("is no folder"));
        assert!(refused(Some(second)) && refused(None));
        assert_eq!(std::fs::read_to_string(path("set")).unwrap(), "a file");
    }
}
