//! [`Failure`]: why a command failed, as a value.

use std::{error::Error, io};

use serde::{Deserialize, Serialize};

use crate::{
    download::DownloadError,
    indexers::SearchError,
    publish::PublishError,
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

/// What follows from a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
}

impl Failure {
    /// A failure of the general kind.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { kind: FailureKind::Failed, message: message.into() }
    }

    fn of(kind: FailureKind, error: &dyn Error) -> Self {
        Self { kind, message: in_one_line(error) }
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
            DownloadError::NotFound { .. } => Self::NotFound,
            DownloadError::Search(error) => error.into(),
            DownloadError::Store(error) => error.into(),
            DownloadError::Catalogue(error) => error.into(),
            DownloadError::Ambiguous { .. }
            | DownloadError::Own(_)
            | DownloadError::AlreadyRunning(_)
            | DownloadError::Exists(_)
            | DownloadError::NotPublished(_)
            | DownloadError::Collides { .. }
            | DownloadError::Older { .. } => Self::Conflict,
            DownloadError::Unsettled(_)
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
            PublishError::Unreadable { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Self::NotFound
            }
            PublishError::NameForFolder(_) | PublishError::SameName { .. } => Self::Conflict,
            PublishError::Catalogue(error) => error.into(),
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
        }
    }
}

impl From<&StoreError> for FailureKind {
    fn from(error: &StoreError) -> Self {
        match error {
            StoreError::Full(_) | StoreError::FullDownload { .. } => Self::Full,
            StoreError::Busy(_) | StoreError::ChangedMeanwhile(_) => Self::Conflict,
            StoreError::Escapes(_) | StoreError::NotAPlace(_) => Self::Invalid,
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
