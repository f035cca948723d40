//! Why a download failed.

use std::path::PathBuf;

use nekoproto::{FileName, VerifiedRecord, Version};

use crate::{
    indexers::SearchError,
    storage::{StoreError, catalogue::CatalogueError},
};

/// Why a download failed. What stood in the file's place still stands there, and what came of
/// the new file is kept for the next try.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// Nobody was asked.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// Nobody offers the file.
    #[error("nobody offers {name}{}", if *.complete { "" } else { " (but not every indexer answered)" })]
    NotFound {
        /// The name.
        name: FileName,
        /// Whether everybody in reach was asked.
        complete: bool,
    },
    /// Several origins publish different files under the name.
    #[error("{} origins publish different files as {name}: choose one with --origin {}", .origins.len(),
        .origins.iter().map(|record| record.origin.short()).collect::<Vec<_>>().join(" or "))]
    Ambiguous {
        /// The name.
        name: FileName,
        /// Their records.
        origins: Vec<VerifiedRecord>,
    },
    /// It is this peer's own file.
    #[error("{0} is published by this peer itself")]
    Own(FileName),
    /// The name is being downloaded already.
    #[error("{0} is being downloaded already")]
    AlreadyRunning(FileName),
    /// A file stands there that is no copy of ours.
    #[error("{0} exists and is not a copy from here: move it away, or replace it with --force")]
    Exists(PathBuf),
    /// What stands there is the same name to file systems that do not tell case, or one Unicode form
    /// of a letter from another.
    #[error("{name} and {} are one name on many systems, which tell neither case nor the form of letters: \
        choose another place with -o, or keep both with --force", .existing.display())]
    Collides {
        /// The name.
        name: FileName,
        /// What stands there.
        existing: PathBuf,
    },
    /// What was found is older than what is here.
    #[error("only version {found} of {name} can be found, and version {held} is here")]
    Older {
        /// The name.
        name: FileName,
        /// The newest version found.
        found: Version,
        /// The version here.
        held: Version,
    },
    /// No source delivered all of it.
    #[error("no source delivers {name} to its end: {why}; what came is kept, run it again to go on")]
    SourcesExhausted {
        /// The name.
        name: FileName,
        /// What the last one did.
        why: String,
    },
    /// The origin's record contradicts itself.
    #[error("{0}: the origin signed a content hash that its own chunks do not have")]
    OriginLies(FileName),
    /// Nobody could be asked for any of several names.
    #[error("{name} cannot be looked for: {why}")]
    NobodyAsked {
        /// The name.
        name: FileName,
        /// Why.
        why: String,
    },
    /// It came with others, which could not be made durable together.
    #[error("{name} cannot be stored: {why}")]
    NotStored {
        /// The name.
        name: FileName,
        /// Why.
        why: String,
    },
    /// The pipe that it goes to, or comes from, broke.
    #[error("{name}: the pipe broke: {why}")]
    Pipe {
        /// The name.
        name: FileName,
        /// What the system said.
        why: std::io::Error,
    },
    /// The file cannot be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The catalogue cannot store it.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
}

impl DownloadError {
    /// Whether trying again later may help.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Search(_) | Self::NotFound { .. } | Self::AlreadyRunning(_) | Self::SourcesExhausted { .. }
        )
    }
}

/// No source delivered all of `record`; `why` is what the last one did.
pub(super) fn exhausted(record: &VerifiedRecord, why: Option<String>) -> DownloadError {
    let why = why.unwrap_or_else(|| "it has no source".to_owned());
    DownloadError::SourcesExhausted { name: record.name.clone(), why }
}
