//! [`Place`]: where a file belongs on disk.

use std::{
    collections::HashMap,
    fs::{self, File},
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use cap_std::{ambient_authority, fs::Dir};
use nekoproto::Remedy;
use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};

use walkdir::{DirEntry, WalkDir};

use super::{
    error::{error_at, not_a_place},
    file_id::FileId,
    folder::OpenFolder,
    no_follow::{self, Occupant},
};
use crate::{content::stamp::Stamp, failure::Failure};

/// Names that are tried for a file whose own is taken.
const NAMES_MAX: u32 = 100;

/// Where a file belongs: an open handle of its folder, and its file name.
#[derive(Debug)]
pub(crate) struct Place {
    pub(super) folder: Arc<OpenFolder>,
    pub(super) file_name: PathBuf,
    pub(super) path: PathBuf,
}

impl Place {
    /// The place of any path that the user gave. Its folder must exist.
    pub(crate) fn anywhere(path: &Path) -> Result<Self, Failure> {
        let failed = error_at(path);
        let path = std::path::absolute(path).map_err(&failed)?;
        let (Some(parent), Some(file_name)) = (path.parent(), path.file_name()) else {
            return Err(not_a_place(&path, "a folder"));
        };
        let folder = Dir::open_ambient_dir(parent, ambient_authority()).map_err(error_at(parent))?;
        let folder = OpenFolder::new(folder, parent.to_owned())?;
        Ok(Self { folder, file_name: PathBuf::from(file_name), path: path.clone() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn stamp(&self) -> Result<Option<Stamp>, Failure> {
        match no_follow::look(&self.folder.handle, &self.file_name).map_err(error_at(&self.path))? {
            Occupant::Nothing => Ok(None),
            Occupant::File(stamp) => Ok(Some(stamp)),
            Occupant::Other(what) => Err(not_a_place(&self.path, what)),
        }
    }

    /// Removes the folder in this place if nothing but folders is in it. Blocking.
    pub(crate) fn remove_empty_folders(&self) {
        let is_folder = |found: &DirEntry| found.file_type().is_dir();
        let found = WalkDir::new(&self.path).contents_first(true).into_iter();
        let folders: Option<Vec<DirEntry>> = found.map(|found| found.ok().filter(is_folder)).collect();
        folders.into_iter().flatten().for_each(|folder| drop(fs::remove_dir(folder.path()))); // or it was filled just now
    }

    /// The same, if it is not in the data folder `data_dir`, an absolute path without links.
    pub(crate) fn outside(self, data_dir: &Path) -> Result<Self, Failure> {
        if !self.folder.is_in(data_dir).map_err(error_at(&self.folder.path))? {
            return Ok(self);
        }
        let what = "would lie in the data folder of this peer, which is for its own files";
        Err(Failure::invalid(format!("{} {what}", self.path.display())).remedied(Remedy::Output))
    }

    pub(crate) fn open(&self) -> Result<File, Failure> {
        no_follow::open(&self.folder.handle, &self.file_name).map_err(error_at(&self.path))
    }
}

/// The folders that places were found in: files of one folder that come together share it.
#[derive(Debug, Default)]
pub(crate) struct FolderCache(HashMap<PathBuf, Arc<OpenFolder>>);

impl FolderCache {
    /// The place at `path`, whose folder `open` finds if no file of it was placed before.
    pub(crate) fn place(
        &mut self,
        path: PathBuf,
        open: impl FnOnce() -> Result<Place, Failure>,
    ) -> Result<Place, Failure> {
        let known = path.parent().and_then(|folder| self.0.get(folder));
        if let (Some(folder), Some(file_name)) = (known, path.file_name()) {
            return Ok(Place { folder: Arc::clone(folder), file_name: file_name.into(), path });
        }
        let place = open()?;
        self.0.insert(place.folder.path.clone(), Arc::clone(&place.folder));
        Ok(place)
    }
}

/// Whether `path` ends with a slash: then it names a folder, whether there is one or not.
pub(crate) fn is_said_folder(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(b"/")
}

/// Makes the folder that `path` names by a slash at its end, and those that lead to it. Blocking.
pub(crate) fn make_said_folder(path: &Path) -> Result<(), Failure> {
    if is_said_folder(path) { fs::create_dir_all(path).map_err(error_at(path)) } else { Ok(()) }
}

/// Makes the names in `folder` durable. A failure is only logged: the files themselves are complete.
pub(crate) fn sync_folder(folder: &Path) {
    if let Err(error) = File::open(folder).and_then(|folder| folder.sync_all()) {
        tracing::warn!(folder = %folder.display(), %error, "cannot make a folder durable");
    }
}

/// Whether both are names of one file. Blocking.
fn is_one_file(a: &Path, b: &Path) -> bool {
    FileId::of(a).is_ok_and(|id| FileId::of(b) == Ok(id))
}

/// Moves the file `from`, which is not to be lost, to `to`, or to a name with `.kept` and a number behind it where that is
/// taken by another file; returns which. Blocking.
pub(crate) fn keep_at(from: &Path, to: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(to.parent().unwrap_or(Path::new("/")))?;
    let name = |n: u32| {
        let mut name = to.as_os_str().to_owned();
        match n {
            0 => {}
            1 => name.push(".kept"),
            n => name.push(format!(".kept{n}")),
        }
        PathBuf::from(name)
    };
    for to in (0..NAMES_MAX).map(name) {
        match renameat_with(CWD, from, CWD, &to, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(to),
            Err(Errno::EXIST) if is_one_file(from, &to) => return fs::remove_file(from).map(|()| to),
            Err(Errno::EXIST) => {}
            Err(error) if no_follow::is_unknown(error) && to.symlink_metadata().is_ok() => {}
            Err(error) if no_follow::is_unknown(error) => return fs::rename(from, &to).map(|()| to),
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
