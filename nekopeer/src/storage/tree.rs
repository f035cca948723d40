//! A folder that takes the place of another at once.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Once,
};

use cap_std::{ambient_authority, fs::Dir};
use nekoproto::Remedy;
use rustix::{
    fs::{AtFlags, CWD, FileType, RenameFlags, Statx, StatxFlags, renameat, renameat_with, statat, statx},
    io::Errno,
};

use super::{
    error::{changed_meanwhile, error_at},
    file_id::FileId,
    no_follow::is_unknown,
    place::Place,
};
use crate::{content::stamp::now_ns, failure::Failure};

impl Place {
    /// The folder in this place; `None` if nothing is there. Blocking.
    pub(crate) fn folder_id(&self) -> Result<Option<FileId>, Failure> {
        found(&self.folder.handle, &self.file_name, &self.path)
    }

    /// Whether files can be moved to it from the folder at `path`: both are on one file system, by one mount. Blocking.
    pub(crate) fn is_on_disk_of(&self, path: &Path) -> bool {
        let flags = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
        let disk = |found: Statx| (found.stx_dev_major, found.stx_dev_minor, found.stx_mnt_id);
        let here = statx(&self.folder.handle, "", AtFlags::EMPTY_PATH, flags).map(disk);
        here.is_ok_and(|here| statx(CWD, path, AtFlags::empty(), flags).map(disk) == Ok(here))
    }

    /// Puts the folder at `staged` in this place: where `replaced` is `None`, only if nothing is there, otherwise only in
    /// place of that folder, which is at `staged` afterwards. It is durable, and atomic but on a file system that cannot
    /// exchange two names: there nothing is in the place for a moment. Blocking.
    pub(crate) fn put_folder(&self, staged: &Path, replaced: Option<FileId>) -> Result<(), Failure> {
        let failed = |error: Errno| match error {
            Errno::EXIST | Errno::NOENT | Errno::NOTEMPTY | Errno::NOTDIR => changed_meanwhile(&self.path),
            error => error_at(&self.path)(error.into()),
        };
        self.folder.check(&self.path)?;
        let (Some(parent), Some(name)) = (staged.parent(), staged.file_name()) else {
            return Err(changed_meanwhile(staged));
        };
        let from = Dir::open_ambient_dir(parent, ambient_authority()).map_err(error_at(parent))?;
        let rename = |flags| renameat_with(&from, name, &self.folder.handle, &self.file_name, flags);
        let flags = if replaced.is_none() { RenameFlags::NOREPLACE } else { RenameFlags::EXCHANGE };
        match (rename(flags), replaced) {
            (Err(error), _) if is_unknown(error) => {
                self.put_in_steps(&from, Path::new(name), replaced).map_err(failed)?;
            }
            (Err(error), _) => return Err(failed(error)),
            (Ok(()), None) => {}
            (Ok(()), Some(replaced)) => {
                if found(&from, Path::new(name), staged).ok().flatten() != Some(replaced) {
                    rename(RenameFlags::EXCHANGE).map_err(failed)?;
                    return Err(changed_meanwhile(&self.path));
                }
            }
        }
        let synced = [&self.folder.handle, &from]
            .into_iter()
            .try_for_each(|folder| folder.open(".").and_then(|folder| folder.sync_all()));
        synced.map_err(error_at(&self.path))
    }

    /// As [`put_folder`](Self::put_folder), by renames that no file system lacks. What turns out not to be expected is moved back.
    fn put_in_steps(&self, from: &Dir, name: &Path, replaced: Option<FileId>) -> Result<(), Errno> {
        let there = || found(&self.folder.handle, &self.file_name, &self.path).map_err(|_| Errno::EXIST);
        if there()? != replaced {
            return Err(Errno::EXIST);
        }
        if replaced.is_none() {
            return renameat(from, name, &self.folder.handle, &self.file_name);
        }
        static TOLD: Once = Once::new();
        let note = "cannot exchange two folders at once: while one of its sets changes, nothing is in the place for a moment";
        TOLD.call_once(|| tracing::warn!("the file system of {} {note}", self.path.display()));
        // Where this ends in between, it is kept there, and the next start puts the version in place.
        let aside = PathBuf::from(format!("kept-{:032}", now_ns()));
        renameat(&self.folder.handle, &self.file_name, from, &aside)?;
        let is_it = found(from, &aside, &self.path).ok().flatten() == replaced;
        let put = match is_it {
            true => renameat(from, name, &self.folder.handle, &self.file_name),
            false => Err(Errno::EXIST),
        };
        match put {
            Ok(()) => renameat(from, &aside, from, name),
            Err(error) => renameat(from, &aside, &self.folder.handle, &self.file_name).and(Err(error)),
        }
    }
}

fn found(folder: &Dir, name: &Path, path: &Path) -> Result<Option<FileId>, Failure> {
    let stat = match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error_at(path)(io::Error::from(error))),
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Ok(Some(FileId { device: stat.st_dev, inode: stat.st_ino })),
        FileType::RegularFile => Err(no_folder(path).remedied(Remedy::Force)),
        _ => Err(no_folder(path).remedied(Remedy::Output)),
    }
}

fn no_folder(path: &Path) -> Failure {
    Failure::conflict(format!("{} is no folder, and a set is one: move it away", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At once, or by the steps of a file system that cannot exchange two names.
    #[test]
    fn nothing_but_the_expected_folder_is_replaced() {
        for in_steps in [false, true] {
            let temp = tempfile::tempdir().unwrap();
            let path = |name: &str| temp.path().join(name);
            let place = Place::anywhere(&path("set")).unwrap();
            let make = |text: &str| {
                std::fs::create_dir(path("new")).unwrap();
                std::fs::write(path("new/a"), text).unwrap();
                FileId::of(&path("new")).unwrap()
            };
            let put = |replaced| match in_steps {
                true => {
                    place.put_in_steps(&place.folder.handle, Path::new("new"), replaced).map_err(|_| None)
                }
                false => place.put_folder(&path("new"), replaced).map_err(|failure| Some(failure.message)),
            };
            // Of the steps only that they fail is known: who calls them says why.
            let refused = |replaced| {
                put(replaced).unwrap_err().is_none_or(|message| message.contains("was changed meanwhile"))
            };
            let there = || {
                let [set, new] = ["set/a", "new/a"].map(|name| std::fs::read_to_string(path(name)).ok());
                [(place.folder_id().unwrap(), set), (FileId::of(&path("new")).ok(), new)]
            };
            let of = |id, text: &str| (Some(id), Some(text.to_owned()));
            let first = make("1");
            put(None).unwrap();
            assert_eq!(there(), [of(first, "1"), (None, None)], "in steps: {in_steps}");
            let second = make("2");
            assert!(refused(None) && refused(Some(second)), "another one is there, in steps: {in_steps}");
            assert_eq!(there(), [of(first, "1"), of(second, "2")], "in steps: {in_steps}");
            put(Some(first)).unwrap();
            assert_eq!(there(), [of(second, "2"), of(first, "1")], "in steps: {in_steps}");
            assert_eq!(temp.path().read_dir().unwrap().count(), 2, "nothing else is left");
            std::fs::rename(path("set"), path("away")).unwrap();
            assert!(refused(Some(second)), "it is gone, in steps: {in_steps}");
            std::fs::write(path("set"), "a file").unwrap();
            assert!(place.folder_id().unwrap_err().message.contains("is no folder"));
            assert!(refused(Some(second)) && refused(None), "a file is there, in steps: {in_steps}");
            assert_eq!(std::fs::read_to_string(path("set")).unwrap(), "a file");
            assert!(path("new").is_dir());
        }
    }
}
