//! Where a file belongs: a handle of its folder, and the last part of its name.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use cap_std::{ambient_authority, fs::Dir};

use super::error::{StoreError, error_at};
use crate::content::stamp::Stamp;

/// Where a file belongs.
#[derive(Debug)]
pub(crate) struct Place {
    pub(super) folder: Dir,
    pub(super) file_name: PathBuf,
    pub(super) path: PathBuf,
}

impl Place {
    /// A place that the user named, anywhere. Its folder must exist.
    ///
    /// # Errors
    /// There is no such folder, or the path names none.
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

    /// The stamp of the file that stands there now, if any. A symbolic link is looked at, not
    /// followed.
    ///
    /// # Errors
    /// A folder stands there, or it cannot be told.
    pub(crate) fn stamp(&self) -> Result<Option<Stamp>, StoreError> {
        match self.folder.symlink_metadata(&self.file_name) {
            Ok(metadata) if metadata.is_dir() => Err(StoreError::NotAPlace(self.path.clone())),
            Ok(metadata) if metadata.is_symlink() => Ok(None),
            Ok(_) => self.open().and_then(|file| {
                file.metadata().map(|metadata| Some(Stamp::of(&metadata))).map_err(error_at(&self.path))
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error_at(&self.path)(error)),
        }
    }

    /// Whether anything stands there.
    ///
    /// # Errors
    /// It cannot be told.
    pub(crate) fn is_taken(&self) -> Result<bool, StoreError> {
        match self.folder.symlink_metadata(&self.file_name) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error_at(&self.path)(error)),
        }
    }

    /// Opens the file that stands there, for reading.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub(crate) fn open(&self) -> Result<File, StoreError> {
        self.folder.open(&self.file_name).map(cap_std::fs::File::into_std).map_err(error_at(&self.path))
    }
}

/// Makes durable which names are in `folder`. A failure is only told: the files are whole in any case.
pub(crate) fn sync_folder(folder: &Path) {
    if let Err(error) = File::open(folder).and_then(|folder| folder.sync_all()) {
        tracing::warn!(folder = %folder.display(), %error, "cannot make a folder durable");
    }
}
