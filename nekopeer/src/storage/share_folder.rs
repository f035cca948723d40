//! The share folder: every received name is opened through its handle (cap-std), so that no symbolic link
//! leads out of it.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use cap_std::{
    ambient_authority,
    fs::{Dir, MetadataExt},
};
use nekoproto::{FileName, Remedy};
use rustix::fs::{Mode, OFlags};

use super::{
    error::{error_at, not_a_place},
    folder::OpenFolder,
    place::Place,
};
use crate::failure::Failure;

#[derive(Debug)]
pub(crate) struct ShareFolder {
    pub(super) root: PathBuf,
    pub(super) handle: Dir,
}

impl ShareFolder {
    /// Opens the folder at `root`; creates it if needed.
    pub(crate) fn open(root: &Path) -> Result<Self, Failure> {
        let failed = error_at(root);
        std::fs::create_dir_all(root).map_err(&failed)?;
        let root = root.canonicalize().map_err(&failed)?;
        let handle = Dir::open_ambient_dir(&root, ambient_authority()).map_err(&failed)?;
        Ok(Self { root, handle })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where `name` belongs.
    pub(crate) fn path_of(&self, name: &FileName) -> PathBuf {
        self.root.join(name.as_path())
    }

    /// The place of `name`; creates its folders.
    pub(crate) fn place(&self, name: &FileName) -> Result<Place, Failure> {
        let path = self.path_of(name);
        let failed = error_at(&path);
        let (relative, root) = (name.as_path(), self.opened().map_err(&failed)?);
        let file_name = relative.file_name().ok_or_else(|| not_a_place(&path, "a folder"))?.into();
        let folder = match relative.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => match root.open_dir(parent) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    root.create_dir_all(parent).map_err(&failed)?;
                    root.open_dir(parent).map_err(&failed)?
                }
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                    let message =
                        format!("{} needs a folder where a file stands: move that away", path.display());
                    return Err(Failure::conflict(message).remedied(Remedy::Output));
                }
                opened => opened.map_err(&failed)?,
            },
            None => root,
        };
        let folder = OpenFolder::new(folder, path.parent().unwrap_or(&self.root).to_owned())?;
        Ok(Place { folder, file_name, path: path.clone() })
    }

    /// It, opened anew if it was removed and made again since.
    fn opened(&self) -> io::Result<Dir> {
        if self.handle.dir_metadata()?.nlink() > 0 {
            return self.handle.try_clone();
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = rustix::fs::open(&self.root, flags, Mode::empty())?;
        Ok(Dir::from_std_file(File::from(made)))
    }
}
