//! [`FileId`]: identifies a file or a folder by its device and inode, whatever its path is.

use std::{fmt, fs::Metadata, os::unix::fs::MetadataExt, path::Path};

use serde::{Deserialize, Serialize};

use super::error::error_at;
use crate::failure::Failure;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileId {
    pub(super) device: u64,
    pub(super) inode: u64,
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:x}", self.device, self.inode)
    }
}

impl FileId {
    /// What is at `path`, a link as such. Blocking.
    pub(crate) fn of(path: &Path) -> Result<Self, Failure> {
        path.symlink_metadata().map(|found| Self::of_metadata(&found)).map_err(error_at(path))
    }

    pub(crate) fn of_metadata(found: &Metadata) -> Self {
        Self { device: found.dev(), inode: found.ino() }
    }
}
