//! Why an operation of the catalogue fails.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use nekoproto::{FileName, PrivateError, RecordError};

use crate::storage::error::is_full;

/// Why an operation failed. The database is as before.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// The database failed.
    #[error(
        "the catalogue {path} failed: {source}; run this again, and if it stays so restore the data folder from a copy"
    )]
    Database {
        /// Its file.
        path: PathBuf,
        /// The database's error.
        source: Box<redb::Error>,
    },
    /// The disk is full, or a quota or file size limit is reached. The next operation tries again.
    #[error("no space is left to write {0}: free some and try again, what is there already is kept")]
    Full(PathBuf),
    /// The database contains something that this program did not write.
    #[error(
        "the catalogue {path} is damaged ({what}): run nekopeer repair, which rebuilds it from the files and from what \
         indexers know, or restore the data folder from a copy"
    )]
    Damaged {
        /// Its file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The entry of one name is not what was stored; nothing else is affected.
    #[error(
        "the entry of {name} in the catalogue {path} is damaged: unshare {name}, then share or get it again"
    )]
    DamagedEntry {
        /// The catalogue's file.
        path: PathBuf,
        /// Whose entry.
        name: String,
    },
    /// Another version of the program wrote the database.
    #[error(
        "the catalogue {path} has format {found}, and this nekopeer reads format {known}: use the nekopeer that wrote it, \
         or move it away and run nekopeer repair, which rebuilds it from the files and from what \
         indexers know"
    )]
    OtherFormat {
        /// Its file.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The format that this program reads.
        known: u64,
    },
    /// The database belongs to another key.
    #[error(
        "the catalogue {0} belongs to another key than peer.key: restore both from the same copy, or move the catalogue away"
    )]
    OtherIdentity(PathBuf),
    /// Others may write to it.
    #[error(transparent)]
    Exposed(#[from] PrivateError),
    /// The name is a copy of another origin's file.
    #[error("{name} is this peer's copy of a file of origin {}: share it under another name, or unshare the copy first", .origin.short())]
    CopyOfOther {
        /// The name.
        name: FileName,
        /// Whose file it is.
        origin: nekoproto::NodeId,
    },
    /// The name was published or deregistered here, or got a later version, during the download.
    #[error(
        "{0} was shared, unshared or refreshed here meanwhile; what was downloaded is no copy of it: run this again"
    )]
    Overtaken(FileName),
    /// The file that is to be published was changed since it was read.
    #[error("{0} was changed while it was shared: share it again when it is complete")]
    ChangedSince(PathBuf),
    /// The version that is about to be replaced cannot be kept. It stays in its place.
    #[error("cannot keep the version before at {path}: {source}; the newer one waits until that works")]
    NotKept {
        /// Where it is kept.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// New numbers are to be above all that were given, and the clock says that there was no time for any.
    #[error(
        "the clock of this machine stands before 2026, and the numbers of new versions follow it: set it, then run this again"
    )]
    ClockNotSet,
    /// The version counter of a name is at its maximum.
    #[error("no version number is left for {0}: share it under another name")]
    VersionsUsedUp(FileName),
    /// The record cannot be signed.
    #[error(transparent)]
    Record(#[from] RecordError),
}

impl CatalogueError {
    /// A version that is to be kept cannot be written to `path`.
    pub(super) fn not_kept(path: &Path, source: std::io::Error) -> Self {
        match source {
            source if is_full(&source) => Self::Full(path.to_owned()),
            source => Self::NotKept { path: path.to_owned(), source },
        }
    }

    pub(super) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), what: what.into() }
    }

    pub(super) fn database(path: &Path, error: impl Into<redb::Error>) -> Self {
        match error.into() {
            redb::Error::Io(error) if is_full(&error) => Self::Full(path.to_owned()),
            error if is_damage(&error) => Self::damaged(path, error.to_string()),
            error => Self::Database { path: path.to_owned(), source: Box::new(error) },
        }
    }
}

/// Whether the file is not what the database wrote. Its lock is poisoned by a panic that damage caused.
fn is_damage(error: &redb::Error) -> bool {
    use redb::Error as Of;
    match error {
        Of::Io(error) => matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof),
        Of::Corrupted(_) | Of::LockPoisoned(_) | Of::RepairAborted | Of::UpgradeRequired(_) => true,
        Of::TableDoesNotExist(_) | Of::TableIsMultimap(_) | Of::TableTypeMismatch { .. } => true,
        Of::TypeDefinitionChanged { .. } => true,
        _ => false,
    }
}
