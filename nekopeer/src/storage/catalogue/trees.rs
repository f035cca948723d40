//! The folders that sets were unfolded to.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, path::PathBuf};

use nekoproto::{ContentHash, FileName};
use serde::{Deserialize, Serialize};

use super::{Catalogue, row::Stored, schema::TREES};
use crate::{content::stamp::Stamp, failure::Failure, storage::file_id::FileId};

/// Where a set is unfolded to, and what is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trees {
    pub(crate) path: PathBuf,
    /// The one that is there, and the one that is about to take its place: a process may end between.
    pub(crate) trees: Vec<Tree>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tree {
    /// The hash of the set's one file.
    pub(crate) content: ContentHash,
    pub(crate) folder: FileId,
    /// By path, as components.
    pub(crate) files: Vec<TreeFile>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TreeFile {
    pub(crate) path: FileName,
    pub(crate) is_executable: bool,
    pub(crate) content: ContentHash,
    pub(crate) stamp: Stamp,
}

impl Trees {
    pub(crate) fn of(&self, folder: FileId) -> Option<&Tree> {
        self.trees.iter().find(|tree| tree.folder == folder)
    }

    /// Whether what was at the path is removed, and not only out of reach. Blocking.
    pub(crate) fn are_removed(&self) -> bool {
        let mut files = self.trees.iter().filter_map(|tree| tree.files.first());
        files.all(|file| file.stamp.is_removed_from(&self.path))
    }
}

impl Tree {
    pub(crate) fn file(&self, path: &FileName) -> Option<&TreeFile> {
        let found = self.files.binary_search_by(|file| file.path.as_path().cmp(path.as_path()));
        found.ok().map(|index| &self.files[index])
    }
}

fn path(bytes: &[u8]) -> PathBuf {
    OsStr::from_bytes(bytes).into()
}

impl Catalogue {
    /// Where the set `name` is unfolded to. Blocking.
    pub(crate) fn trees(&self, name: &FileName) -> Result<Option<Trees>, Failure> {
        let trees =
            |(at, trees): (&[u8], &[u8])| Some(Trees { path: path(at), trees: Stored::of_bytes(trees)? });
        Ok(self.tables.value(TREES, name.as_str(), trees)?.flatten())
    }

    /// The path of the folder of the set `name`. Blocking.
    pub(crate) fn place_of_trees(&self, name: &FileName) -> Result<Option<PathBuf>, Failure> {
        self.tables.value(TREES, name.as_str(), |(at, _)| path(at))
    }

    /// The names of all sets here. Blocking.
    pub(crate) fn sets(&self) -> Result<Vec<FileName>, Failure> {
        self.tables.rows(TREES, .., usize::MAX, |name, _| FileName::new(name).ok())
    }

    /// Notes where the set `name` is unfolded to, or that it is not any more. Blocking.
    pub(crate) fn set_trees(&self, name: &FileName, trees: Option<&Trees>) -> Result<(), Failure> {
        let write = self.tables.begin()?;
        match trees {
            None => write.remove(TREES, [name.as_str()]),
            Some(Trees { path, trees }) => write
                .put(TREES, [(name.as_str(), (path.as_os_str().as_bytes(), trees.to_bytes().as_slice()))]),
        }?;
        self.tables.commit(write)
    }
}
