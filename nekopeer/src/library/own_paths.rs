//! [`OwnPaths`]: what is never shared, known by its path, and files also by device and inode.

use std::{
    fs::Metadata,
    path::{Path, PathBuf},
};

use crate::storage::file_id::FileId;

/// What a peer keeps to itself: its data folder, and files by their paths and by what they are on disk, under whatever name.
#[derive(Debug, Default)]
pub(crate) struct OwnPaths {
    /// Absolute, without symbolic links.
    paths: Vec<PathBuf>,
    files: Vec<FileId>,
}

impl OwnPaths {
    /// Blocking.
    pub(crate) fn new(data_dir: PathBuf, files: Vec<PathBuf>) -> Self {
        let known = files.iter().filter_map(|path| path.metadata().ok());
        let known = known.map(|known| FileId::of_metadata(&known)).collect();
        Self { paths: [data_dir].into_iter().chain(files).collect(), files: known }
    }

    /// Whether `path` is one of them, below one, or another name of one of the files. Blocking.
    pub(crate) fn has(&self, path: &Path) -> bool {
        let is_of_them = |known: Metadata| self.files.contains(&FileId::of_metadata(&known));
        self.paths.iter().any(|own| path.starts_with(own))
            || (!self.files.is_empty() && path.symlink_metadata().is_ok_and(is_of_them))
    }
}
