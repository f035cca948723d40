//! Why a publish fails.

use std::{io, path::PathBuf};

use nekoproto::{FileName, NameError, Remedy, policy::BadPolicy};

use crate::{
    content::chunker::ChunkError,
    failure::{
        Class, Classified, Failure,
        FailureKind::{Conflict, Failed, Invalid, NoSuchPath, NotFound},
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
    /// The catalogue cannot store it.
    #[error(transparent)]
    Catalogue(#[from] Failure),
    /// It is not known what in the folder is published.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// The folder of a set cannot be published.
    #[error(transparent)]
    Set(Failure),
}

impl Classified for PublishError {
    fn class(&self) -> Class {
        let kind = match self {
            Self::Catalogue(failure) | Self::Set(failure) | Self::NotStored { source: failure, .. } => {
                return (failure.kind, failure.remedy);
            }
            Self::NotRegistered(_) => NotFound,
            Self::Unreadable { source, .. } => match source.kind() {
                // Nothing can stand at a path that is too long, either.
                io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename => NoSuchPath,
                _ => Invalid,
            },
            Self::NameForFolder(_) | Self::SameName { .. } => Conflict,
            Self::Chunk(_) => Failed,
            Self::Rules(RulesError::Unreadable { .. }) => return (Invalid, Some(Remedy::Exclude)),
            Self::Name { .. } | Self::OwnData(_) | Self::Policy(_) | Self::Rules(_) => Invalid,
        };
        (kind, None)
    }
}
