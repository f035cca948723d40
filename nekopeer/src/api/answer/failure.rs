//! [`Failure`]: why a command failed, as a value, and what follows from its kind.

mod classes;

use std::error::Error;

use hyper::StatusCode;
use nekoproto::Remedy;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{storage::is_full, terminal::Output};

/// Why a command failed. Also the fields of a row about what failed of several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    /// Why: the error and its causes, in one line.
    #[serde(rename = "error")]
    pub(crate) message: String,
    /// What follows from it.
    pub(crate) kind: FailureKind,
    /// What helps, if a setting does; named as this.
    #[schema(value_type = Option<String>)]
    pub(crate) remedy: Option<Remedy>,
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
    /// The peer has enough to do, or somebody else is at it; later it may work.
    Busy,
    /// Another node is not there; later it may work.
    Away,
    /// Another command ended it.
    Cancelled,
    /// A path of this machine leads nowhere.
    NoSuchPath,
}

impl FailureKind {
    /// The exit code of a program that ends with it.
    pub(crate) const fn exit_code(self) -> u8 {
        if matches!(self, Self::NotFound) { 1 } else { 3 }
    }

    /// The status of an HTTP answer that is it, and its title.
    pub(crate) const fn http_status(self) -> (StatusCode, &'static str) {
        match self {
            Self::NotFound | Self::NoSuchPath => (StatusCode::NOT_FOUND, "not found"),
            Self::Conflict => (StatusCode::CONFLICT, "conflict"),
            Self::Cancelled => (StatusCode::CONFLICT, "cancelled"),
            Self::Invalid => (StatusCode::UNPROCESSABLE_ENTITY, "cannot be done"),
            Self::Full => (StatusCode::INSUFFICIENT_STORAGE, "disk full"),
            Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, "busy"),
            Self::Away => (StatusCode::SERVICE_UNAVAILABLE, "another node is away"),
            Self::Moved => (StatusCode::SERVICE_UNAVAILABLE, "the peer ends"),
            Self::Failed => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
        }
    }

    /// Whether the same may work later although its caller changes nothing.
    pub(crate) const fn is_retryable(self) -> bool {
        matches!(self, Self::Full | Self::Busy | Self::Away | Self::Moved)
    }
}

/// What follows from an error, and what helps.
pub(crate) type Class = (FailureKind, Option<Remedy>);

/// An error of which it is known what follows from it.
pub(crate) trait Classified: Error {
    fn class(&self) -> Class;
}

impl<E: Classified> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::of(&error)
    }
}

impl Failure {
    /// A failure of the general kind.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self::with(FailureKind::Failed, message)
    }

    pub(crate) fn with(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), remedy: None }
    }

    /// There is no such thing.
    pub(crate) fn missing(message: String) -> Self {
        Self::with(FailureKind::NotFound, message)
    }

    /// The failure that `error` is.
    pub(crate) fn of(error: &impl Classified) -> Self {
        let (kind, remedy) = error.class();
        Self { message: in_one_line(error), kind, remedy }
    }

    pub(crate) fn print(&self, output: Output) {
        output.error(self, self.remedy);
    }

    /// The failure in an error that a program ends with, with what it is about.
    pub(crate) fn of_any(error: &anyhow::Error) -> Self {
        let is_full = error.downcast_ref().is_some_and(is_full);
        let kind = if is_full { FailureKind::Full } else { FailureKind::Failed };
        let known = error.downcast_ref::<Self>().cloned();
        Self { message: in_one_line(error.as_ref()), ..known.unwrap_or_else(|| Self::with(kind, "")) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{peer::StartError, storage::lock::LockError};

    #[test]
    fn an_error_that_a_program_ends_with_has_the_kind_of_its_cause() {
        let in_use = LockError::InUse { path: "folder".into(), process: None };
        let error = anyhow::Error::from(Failure::from(StartError::from(in_use))).context("cannot repair it");
        let Failure { message, kind, remedy } = Failure::of_any(&error);
        assert_eq!((kind, remedy), (FailureKind::Busy, Some(Remedy::DataDir)));
        assert!(message.starts_with("cannot repair it: the data folder folder is in use"), "{message}");
        let full = anyhow::Error::from(std::io::Error::from(std::io::ErrorKind::StorageFull));
        assert_eq!(Failure::of_any(&full.context("cannot write")).kind, FailureKind::Full);
        assert_eq!(Failure::of_any(&anyhow::anyhow!("other")).kind, FailureKind::Failed);
    }
}
