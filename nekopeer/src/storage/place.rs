//! [`Place`]: where a file belongs on disk.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use cap_std::{ambient_authority, fs::Dir};

use super::error::{StoreError, error_at};
use crate::content::stamp::Stamp;

/// Where a file belongs: an open handle of its folder, and its file name.
#[derive(Debug)]
pub(crate) struct Place {
    pub(super) folder: Dir,
    pub(super) file_name: PathBuf,
    pub(super) path: PathBuf,
}

impl Place {
    /// The place of any path that the user gave. Its folder must exist.
    ///
    /// # Errors
    /// The folder does not exist, or the path names no file.
    pub(crate) fn anywhere(path: &Path) -> Result<Self, StoreError> {
        let failed = error_at(path);
        let path = std::path::absolute(path).map_err(&failed)?;
        let (Some(parent), Some(file_name)) = (path.parent(), path.file_name()) else {
            return Err(StoreError::NotAPlace(path));
        };
        let folder = Dir::open_ambient_dir(parent, ambient_authority()).map_err(error_at(parent))?;
        Ok(Self { folder, file_name: PathBuf::from(file_name), path: path.clone() })
    }

    /// The absolute path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The stamp of the file in this place, if any. A symbolic link is not followed.
    ///
    /// # Errors
    /// A folder or a pipe is in its place, or the system failed.
    pub(crate) fn stamp(&self) -> Result<Option<Stamp>, StoreError> {
        match self.folder.symlink_metadata(&self.file_name) {
            Ok(metadata) if metadata.is_symlink() => Ok(None),
            // Opening a pipe would wait for another program.
            Ok(metadata) if !metadata.is_file() => Err(StoreError::NotAPlace(self.path.clone())),
            Ok(_) => self.open().and_then(|file| {
                file.metadata().map(|metadata| Some(Stamp::of(&metadata))).map_err(error_at(&self.path))
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error_at(&self.path)(error)),
        }
    }

    /// Whether a file or folder is in this place.
    ///
    /// # Errors
    /// The system failed.
    pub(crate) fn is_taken(&self) -> Result<bool, StoreError> {
        match self.folder.symlink_metadata(&self.file_name) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error_at(&self.path)(error)),
        }
    }

    /// Opens the file in this place for reading.
    ///
    /// # Errors
    /// It does not exist, or cannot be read.
    pub(crate) fn open(&self) -> Result<File, StoreError> {
        self.folder.open(&self.file_name).map(cap_std::fs::File::into_std).map_err(error_at(&self.path))
    }
}

/// Makes the names in `folder` durable. A failure is only logged: the files themselves are complete.
pub(crate) fn sync_folder(folder: &Path) {
    if let Err(error) = File::open(folder).and_then(|folder| folder.sync_all()) {
        tracing::warn!(folder = %folder.display(), %error, "cannot make a folder durable");
    }
}
