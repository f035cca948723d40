//! [`OpenFolder`]: keeps a folder open for the files that are moved into it, and what is true of it for all of them.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use cap_std::fs::{Dir, MetadataExt as _};

use super::{
    error::{error_at, folder_away},
    file_id::FileId,
};
use crate::failure::Failure;

/// Mode bit of a folder that gives its files its own group.
const SET_GROUP: u32 = 0o2000;

#[derive(Debug)]
pub(crate) struct OpenFolder {
    pub(super) handle: Dir,
    pub(super) path: PathBuf,
    /// Whether files can be moved to it from the data folder, once that is known.
    pub(super) is_on_disk_of_data: OnceLock<bool>,
    /// Set once the folder with the partial files of its files is known to be private.
    pub(super) has_private_parts: OnceLock<()>,
    /// The group that it gives its files.
    pub(super) group: Option<u32>,
    id: FileId,
}

impl OpenFolder {
    pub(super) fn new(handle: Dir, path: PathBuf) -> Result<Arc<Self>, Failure> {
        let found = handle.dir_metadata().map_err(error_at(&path))?;
        let group = (found.mode() & SET_GROUP != 0).then_some(found.gid());
        let (is_on_disk_of_data, has_private_parts) = Default::default();
        let id = FileId { device: found.dev(), inode: found.ino() };
        Ok(Arc::new(Self { handle, path, is_on_disk_of_data, has_private_parts, group, id }))
    }

    pub(crate) fn is_there(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|there| FileId::of_metadata(&there) == self.id)
    }

    /// The same, as an error for the file that belongs at `path` in it.
    pub(super) fn check(&self, path: &Path) -> Result<(), Failure> {
        if self.is_there() { Ok(()) } else { Err(folder_away(path)) }
    }

    /// Whether it is in the data folder `data_dir`, an absolute path without links.
    pub(super) fn is_in(&self, data_dir: &Path) -> io::Result<bool> {
        Ok(self.path.canonicalize()?.starts_with(data_dir))
    }
}
