//! [`Failure`]: why a command failed, as a value.

use std::error::Error;

use serde::{Deserialize, Serialize};

use super::VersionRow;
use crate::{download::DownloadError, indexers::SearchError, publish::PublishError};

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    /// What follows from it.
    pub(crate) kind: FailureKind,
    /// The error and its causes, in one line.
    pub(crate) message: String,
    /// Files of several origins, of which the user has to choose one.
    pub(crate) choices: Vec<VersionRow>,
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
}

impl Failure {
    /// A failure of the general kind.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { kind: FailureKind::Failed, message: message.into(), choices: Vec::new() }
    }

    /// There is no such thing.
    pub(crate) fn missing(message: String) -> Self {
        Self { kind: FailureKind::NotFound, ..Self::new(message) }
    }

    fn of(kind: FailureKind, error: &dyn Error) -> Self {
        Self { kind, ..Self::new(in_one_line(error)) }
    }
}

impl From<&DownloadError> for Failure {
    fn from(error: &DownloadError) -> Self {
        let is_missing = matches!(error, DownloadError::NotFound { .. } | DownloadError::ChosenGone { .. });
        let choices = match error {
            DownloadError::Ambiguous { origins, .. } => origins.iter().map(VersionRow::from).collect(),
            _ => Vec::new(),
        };
        let kind = if is_missing { FailureKind::NotFound } else { FailureKind::Failed };
        Self { choices, ..Self::of(kind, error) }
    }
}

impl From<DownloadError> for Failure {
    fn from(error: DownloadError) -> Self {
        Self::from(&error)
    }
}

impl From<PublishError> for Failure {
    fn from(error: PublishError) -> Self {
        let is_missing = matches!(error, PublishError::NotRegistered(_));
        Self::of(if is_missing { FailureKind::NotFound } else { FailureKind::Failed }, &error)
    }
}

impl From<SearchError> for Failure {
    fn from(error: SearchError) -> Self {
        Self::of(FailureKind::Failed, &error)
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
