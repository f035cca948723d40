//! [`OwnPaths`]: what is never shared, known by its path, and files also by device and inode.

use std::{
    fs::Metadata,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// What a peer keeps to itself: its data folder, and files by their paths and by what they are on disk, under whatever name.
#[derive(Debug, Default)]
pub(crate) struct OwnPaths {
    /// Absolute, without symbolic links.
    paths: Vec<PathBuf>,
    /// Device and inode of each of the files.
    files: Vec<(u64, u64)>,
}

impl OwnPaths {
    /// Blocking.
    pub(crate) fn new(data_dir: PathBuf, files: Vec<PathBuf>) -> Self {
        let known = files.iter().filter_map(|path| path.metadata().ok());
        let known = known.map(|known| (known.dev(), known.ino())).collect();
        Self { paths: [data_dir].into_iter().chain(files).collect(), files: known }
    }

    /// Whether `path` is one of them, below one, or another name of one of the files. Blocking.
    pub(crate) fn has(&self, path: &Path) -> bool {
        let is_of_them = |known: Metadata| self.files.contains(&(known.dev(), known.ino()));
        self.paths.iter().any(|own| path.starts_with(own))
            || (!self.files.is_empty() && path.symlink_metadata().is_ok_and(is_of_them))
    }
}
