//! Why a publish fails.

use std::{io, path::PathBuf};

use nekoproto::{FileName, NameError, Remedy, policy::BadPolicy};

use crate::{
    content::chunker::ChunkError,
    failure::{
        Failure,
        FailureKind::{Conflict, Failed, Invalid, NoSuchPath, NotFound},
        in_one_line,
    },
    rules::RulesError,
};

/// Why a path cannot be published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The path does not exist or cannot be read.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The path does not give a valid name.
    #[error("{path} cannot be shared: {source}; give it another name")]
    Name {
        /// The path.
        path: PathBuf,
        /// The rule that it breaks.
        source: NameError,
    },
    /// A name was given for a folder.
    #[error("{0} is a folder: its files are named by their paths, a name cannot be given")]
    NameForFolder(PathBuf),
    /// Two files would have the same name.
    #[error("{first} and {second} would both be shared as {name}: share each under a name of its own")]
    SameName {
        /// The name.
        name: FileName,
        /// One file.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// The path is in the data folder, which contains the private key, or one that this peer keeps secret.
    #[error(
        "{0} is kept secret by this peer: its data folder, network secret and list of allowed nodes are never shared"
    )]
    OwnData(PathBuf),
    /// The name to withdraw is not registered.
    #[error("{0} is not shared here: ls lists what is")]
    NotRegistered(FileName),
    /// The policy is out of its bounds.
    #[error(transparent)]
    Policy(#[from] BadPolicy),
    /// The catalogue cannot store it, nor the others of its batch.
    #[error("{path} is not shared: {source}")]
    NotStored {
        /// The path.
        path: PathBuf,
        /// Why.
        source: Failure,
    },
    /// The file cannot be read as one version.
    #[error(transparent)]
    Chunk(#[from] ChunkError),
    /// The catalogue cannot store it, or the folder cannot be a set.
    #[error(transparent)]
    Catalogue(#[from] Failure),
    /// It is not known what in the folder is published.
    #[error(transparent)]
    Rules(#[from] RulesError),
}

impl From<PublishError> for Failure {
    fn from(error: PublishError) -> Self {
        Self::of(&error)
    }
}

impl Failure {
    pub(crate) fn of(error: &PublishError) -> Self {
        use PublishError as Of;
        let (kind, remedy) = match error {
            Of::Catalogue(failure) | Of::NotStored { source: failure, .. } => (failure.kind, failure.remedy),
            Of::NotRegistered(_) => (NotFound, None),
            Of::Unreadable { source, .. } => match source.kind() {
                // Nothing can stand at a path that is too long, either.
                io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename => (NoSuchPath, None),
                _ => (Invalid, None),
            },
            Of::NameForFolder(_) | Of::SameName { .. } => (Conflict, None),
            Of::Chunk(_) => (Failed, None),
            Of::Rules(RulesError::Unreadable { .. }) => (Invalid, Some(Remedy::Exclude)),
            Of::Name { .. } | Of::OwnData(_) | Of::Policy(_) | Of::Rules(_) => (Invalid, None),
        };
        Self { remedy, ..Self::with(kind, in_one_line(error)) }
    }
}
