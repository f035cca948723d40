//! Why a folder cannot be a set, or a set not unfolded.

use std::{io, path::PathBuf};

use nekoproto::{FileName, NameError};

use crate::{
    rules::RulesError,
    storage::{StoreError, catalogue::CatalogueError},
};

pub(crate) const SET_FILES_MAX: usize = 100_000;

/// Things that cannot be in a set, of which one error tells.
pub(super) const SHOWN_MAX: usize = 20;

fn and_more(more: usize) -> String {
    if more == 0 { String::new() } else { format!("; and {more} more") }
}

/// What is wrong with the files of a set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSet {
    /// There are none.
    #[error("there are no files in it")]
    Empty,
    /// There are too many.
    #[error(
        "it has {0} files, and a set has at most {SET_FILES_MAX}: share parts of it as sets of their own"
    )]
    TooManyFiles(usize),
    /// Their paths take too much room.
    #[error("the paths of its files are too long together: share parts of it as sets of their own")]
    LongIndex,
    /// A path occurs twice, or is a folder of another.
    #[error("{0} is in it twice, or in a folder that is a file of it")]
    NoTree(FileName),
    /// Nothing at the end of the bytes says which files there are.
    #[error("it has no list of its files, or not a valid one")]
    NoIndex,
    /// The sizes of the files are not those of the bytes.
    #[error("its files have other sizes than its list says")]
    OtherSize,
    /// The bytes of a file are others than its list says.
    #[error("{0} has other bytes than its list says")]
    OtherBytes(FileName),
}

/// Why a folder cannot be a set, or a set not unfolded. What is in the folder's place is as before.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    /// The path is no folder.
    #[error("{0} is no folder: a set is one, and a file is shared as it is")]
    NotAFolder(PathBuf),
    /// Not one path was given.
    #[error("a set is one folder, not {0} paths: share each as a set of its own")]
    NotOne(usize),
    /// Something in the folder is neither a file nor a folder, or a link that leads nowhere or out of it.
    #[error("{path} is {what}: a set has files only, move it away or leave it out with --exclude")]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// The path of a file cannot be that of a set's file.
    #[error("{path} cannot be in a set: {source}; rename it or leave it out with --exclude")]
    Name {
        /// The path.
        path: PathBuf,
        /// The rule that it breaks.
        source: NameError,
    },
    /// Something in the folder cannot be read.
    #[error("cannot read {path}: {source}; make it readable, or leave it out with --exclude")]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Several things in the folder cannot be in a set.
    #[error("{}{}", shown.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "), and_more(*.more))]
    Several {
        /// Why not, of the first of them.
        shown: Vec<SetError>,
        /// How many more there are.
        more: usize,
    },
    /// Files changed while they were read, again and again.
    #[error("{0} keeps changing: share the folder when nothing is writing there")]
    KeepsChanging(PathBuf),
    /// The set's own file cannot be written.
    #[error("the set cannot be stored in the data folder: {0}")]
    Write(io::Error),
    /// The set's own file cannot be read.
    #[error("the set's file in the data folder cannot be read: {0}")]
    Read(io::Error),
    /// The set's own file is not what was verified.
    #[error("the set's file in the data folder was changed or is missing: get {0} again")]
    Damaged(FileName),
    /// What is published under the name is no tree of files.
    #[error("it is no valid set: {0}")]
    Bad(#[from] BadSet),
    /// The folder in its place has something that is not of the version there.
    #[error("{0} was changed or put there by another program: move it away")]
    Changed(PathBuf),
    /// There is a folder in its place that is none of this peer's.
    #[error("{0} exists and is not a set from here: move it away")]
    Exists(PathBuf),
    /// It was to be read as a file.
    #[error("{0} is a set, which is a folder: nekopeer get {0} brings it")]
    IsFolder(FileName),
    /// It is not known what in the folder is in it.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// The peer stops.
    #[error("the peer is stopping")]
    Stopped,
    /// The place cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The catalogue failed.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
}
