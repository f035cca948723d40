//! [`Failure`]: why a command failed, as a value.

use std::{error::Error, io};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    download::DownloadError,
    indexers::SearchError,
    publish::PublishError,
    sets::SetError,
    storage::{StoreError, catalogue::CatalogueError},
};

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    /// What follows from it.
    pub(crate) kind: FailureKind,
    /// The error and its causes, in one line.
    pub(crate) message: String,
}

/// What follows from a failure. Programs see the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FailureKind {
    /// There is no such thing.
    NotFound,
    /// The peer was about to end and did not carry it out, or not to its end; it can be repeated elsewhere.
    Moved,
    /// Anything else.
    Failed,
    /// It contradicts what is there, or is not clear: the caller has to choose.
    Conflict,
    /// What was asked for cannot be.
    Invalid,
    /// The disk is full.
    Full,
    /// The peer has enough to do; later it may work.
    Busy,
    /// Another node is not there; later it may work.
    Away,
    /// Another command ended it.
    Cancelled,
    /// A path of this machine leads nowhere.
    NoSuchPath,
}

impl Failure {
    /// A failure of the general kind.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { kind: FailureKind::Failed, message: message.into() }
    }

    /// A failure of another kind.
    pub(crate) fn with(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, ..Self::new(message) }
    }

    /// An error of the command line.
    pub(crate) fn of_error(error: &anyhow::Error) -> Self {
        Self::new(in_one_line(error.as_ref()))
    }

    /// There is no such thing.
    pub(crate) fn missing(message: String) -> Self {
        Self::with(FailureKind::NotFound, message)
    }

    fn of(kind: FailureKind, error: &dyn Error) -> Self {
        Self::with(kind, in_one_line(error))
    }
}

impl From<&DownloadError> for Failure {
    fn from(error: &DownloadError) -> Self {
        Self::of(error.into(), error)
    }
}

impl From<DownloadError> for Failure {
    fn from(error: DownloadError) -> Self {
        Self::from(&error)
    }
}

impl From<CatalogueError> for Failure {
    fn from(error: CatalogueError) -> Self {
        Self::of((&error).into(), &error)
    }
}

impl From<PublishError> for Failure {
    fn from(error: PublishError) -> Self {
        Self::of((&error).into(), &error)
    }
}

impl From<SearchError> for Failure {
    fn from(error: SearchError) -> Self {
        Self::of((&error).into(), &error)
    }
}

impl From<&DownloadError> for FailureKind {
    fn from(error: &DownloadError) -> Self {
        match error {
            DownloadError::NotFound { .. }
            | DownloadError::NotKept { .. }
            | DownloadError::NobodyKeeps { .. }
            | DownloadError::Withdrawn { .. }
            | DownloadError::OriginGone { .. }
            | DownloadError::NotOfOrigin { .. } => Self::NotFound,
            DownloadError::Name { .. } => Self::Invalid,
            DownloadError::Search(error) => error.into(),
            DownloadError::Store(error) => error.into(),
            DownloadError::Catalogue(error) => error.into(),
            DownloadError::Set(error) => error.into(),
            DownloadError::Pipe { why, .. } => match why.kind() {
                // What was to be stored did not come to its end.
                io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => Self::Invalid,
                _ => Self::Failed,
            },
            DownloadError::Ambiguous { .. }
            | DownloadError::Own(_)
            | DownloadError::AlreadyRunning(_)
            | DownloadError::Judged(_)
            | DownloadError::Exists(_)
            | DownloadError::NotPublished(_)
            | DownloadError::Older { .. } => Self::Conflict,
            DownloadError::Unconfirmed(_)
            | DownloadError::SourcesExhausted { .. }
            | DownloadError::NobodyAsked { .. } => Self::Away,
            _ => Self::Failed,
        }
    }
}

impl From<&PublishError> for FailureKind {
    fn from(error: &PublishError) -> Self {
        match error {
            PublishError::NotRegistered(_) => Self::NotFound,
            PublishError::Unreadable { source, .. } => match source.kind() {
                // Nothing can stand at a path that is too long, either.
                io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename => Self::NoSuchPath,
                _ => Self::Invalid,
            },
            PublishError::NameForFolder(_) | PublishError::SameName { .. } => Self::Conflict,
            PublishError::Catalogue(error) => error.into(),
            PublishError::Set(error) => error.into(),
            PublishError::NotStored { source, .. } => (&**source).into(),
            PublishError::Chunk(_) => Self::Failed,
            _ => Self::Invalid,
        }
    }
}

impl From<&SearchError> for FailureKind {
    fn from(error: &SearchError) -> Self {
        match error {
            SearchError::NoIndexer | SearchError::Unreachable { .. } => Self::Away,
            SearchError::Refused(_) => Self::Failed,
            SearchError::Pattern(_) => Self::Invalid,
        }
    }
}

impl From<&StoreError> for FailureKind {
    fn from(error: &StoreError) -> Self {
        match error {
            StoreError::Full(_) | StoreError::FullDownload { .. } | StoreError::TooLarge { .. } => Self::Full,
            StoreError::NoExchange(_) => Self::Failed,
            StoreError::NotAFolder(_)
            | StoreError::Busy(_)
            | StoreError::ChangedMeanwhile(_)
            | StoreError::NotAPlace { .. }
            | StoreError::Swapped(_)
            | StoreError::FolderMoved(_) => Self::Conflict,
            StoreError::Escapes(_) | StoreError::InDataFolder(_) => Self::Invalid,
            StoreError::Io { source, .. } => match source.kind() {
                // A file stands where a folder is needed, or the other way round.
                io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory | io::ErrorKind::AlreadyExists => {
                    Self::Conflict
                }
                io::ErrorKind::InvalidFilename => Self::Invalid,
                _ => Self::Failed,
            },
        }
    }
}

impl From<&SetError> for FailureKind {
    fn from(error: &SetError) -> Self {
        match error {
            SetError::Store(error) => error.into(),
            SetError::Catalogue(error) => error.into(),
            SetError::Exists(_) | SetError::Changed(_) | SetError::IsFolder(_) => Self::Conflict,
            SetError::Unreadable { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Self::NoSuchPath
            }
            SetError::Write(source) if source.kind() == io::ErrorKind::StorageFull => Self::Full,
            SetError::KeepsChanging(_)
            | SetError::Write(_)
            | SetError::Read(_)
            | SetError::Damaged(_)
            | SetError::Stopped => Self::Failed,
            SetError::NotAFolder(_)
            | SetError::NotOne(_)
            | SetError::NotAFile { .. }
            | SetError::Name { .. }
            | SetError::Unreadable { .. }
            | SetError::Rules(_)
            | SetError::Bad(_) => Self::Invalid,
        }
    }
}

impl From<&CatalogueError> for FailureKind {
    fn from(error: &CatalogueError) -> Self {
        match error {
            CatalogueError::Full(_) => Self::Full,
            CatalogueError::CopyOfOther { .. } => Self::Conflict,
            _ => Self::Failed,
        }
    }
}

/// An error and its causes in one line. Most errors quote their cause already.
pub(crate) fn in_one_line(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}
