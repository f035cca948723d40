//! Why something cannot be published.

use std::{io, path::PathBuf};

use nekoproto::{FileName, NameError};

use crate::{content::chunker::ChunkError, storage::catalogue::CatalogueError};

/// Why something cannot be published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// There is nothing at the path, or it cannot be looked at.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The path makes no allowed name.
    #[error("{path} cannot be shared: {source}")]
    Name {
        /// The path.
        path: PathBuf,
        /// The rule that it breaks.
        source: NameError,
    },
    /// A folder was to be published under one name.
    #[error("{0} is a folder: its files are named by their paths, a name cannot be given")]
    NameForFolder(PathBuf),
    /// Two of the files would have the same name.
    #[error("{first} and {second} would both be shared as {name}")]
    SameName {
        /// The name.
        name: FileName,
        /// One file.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// The path lies in the data folder, beside the private key.
    #[error("{0} lies in the data folder of this peer, which is never shared")]
    OwnData(PathBuf),
    /// There is no such name to withdraw.
    #[error("{0} is not registered here")]
    NotRegistered(FileName),
    /// The file cannot be read as one version.
    #[error(transparent)]
    Chunk(#[from] ChunkError),
    /// The catalogue cannot store it.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
}
