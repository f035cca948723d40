//! [`Failure`]: why something failed, made where it fails, and what follows from that.

use std::{error::Error, io};

use nekoproto::{FileName, NodeId, PrivateError, RecordError, Remedy};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why something failed. Also the fields of a row about what failed of several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Why: the error and its causes, in one line.
    #[serde(rename = "error")]
    pub message: String,
    /// What follows from it.
    pub kind: FailureKind,
    /// What helps, if a setting does; named as this.
    #[schema(value_type = Option<String>)]
    pub remedy: Option<Remedy>,
    /// Whether a later attempt may succeed although the user does nothing.
    #[serde(skip)]
    pub may_pass: bool,
    /// What tells it from others of its kind.
    #[serde(skip)]
    pub reason: Reason,
}

/// What follows from a failure. Programs see the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
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

/// What callers tell apart besides the kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reason {
    /// Nobody asks for it.
    #[default]
    Other,
    /// No node shares the file.
    NotFound,
    /// The origin that was asked for does not share the file.
    NotOfOrigin {
        /// Those that share a file under the name.
        others: Vec<NodeId>,
        /// Whether every indexer in reach answered with all that it knows.
        complete: bool,
    },
    /// The file is not where it was looked for, or only an older version is.
    NotThere,
    /// Its origin unshared the file.
    Withdrawn,
    /// Several origins share files under the name: different ones, or what follows goes on by itself.
    Ambiguous {
        /// The name.
        name: FileName,
        /// The origins.
        origins: Vec<NodeId>,
    },
    /// An earlier version is not kept here.
    NotKept,
    /// The name is being downloaded already.
    AlreadyRunning,
    /// No source delivered all chunks.
    NoSource,
    /// The origin's record contradicts itself.
    OriginLies,
    /// It is not known whether the version is the newest, and that is asked for.
    Unconfirmed,
    /// The name was published or deregistered here, or got a later version, meanwhile.
    Overtaken,
    /// The file that is to be published was changed since it was read.
    ChangedSince,
    /// The file changed during every attempt to read it.
    KeepsChanging,
    /// The peer is stopping.
    Stopped,
    /// The file cannot be published as it is.
    Unfit,
    /// The name is a copy of another origin's file.
    CopyOfOther,
    /// The entry of one name in the catalogue is not what was stored; nothing else is affected.
    DamagedEntry,
    /// No peer runs that takes commands.
    NoPeer,
    /// The catalogue contains something that this program did not write, which is this.
    Damaged(String),
}

impl From<PrivateError> for Failure {
    fn from(error: PrivateError) -> Self {
        Self::general(error).remedied(Remedy::DataDir)
    }
}

impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Self {
        Self::general(error)
    }
}

impl FailureKind {
    /// Whether the same may work later although its caller changes nothing.
    pub(crate) const fn is_retryable(self) -> bool {
        matches!(self, Self::Full | Self::Busy | Self::Away | Self::Moved)
    }
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self::with(FailureKind::Failed, message)
    }

    /// The same, as `error` says.
    pub(crate) fn general(error: impl Error + 'static) -> Self {
        Self::new(in_one_line(&error))
    }

    pub(crate) fn with(kind: FailureKind, message: impl Into<String>) -> Self {
        let (message, may_pass) = (message.into(), kind.is_retryable());
        Self { message, kind, remedy: None, may_pass, reason: Reason::Other }
    }

    pub(crate) fn missing(message: impl Into<String>) -> Self {
        Self::with(FailureKind::NotFound, message)
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::with(FailureKind::Conflict, message)
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::with(FailureKind::Invalid, message)
    }

    pub(crate) fn because(self, reason: Reason) -> Self {
        Self { reason, ..self }
    }

    pub(crate) fn remedied(self, remedy: Remedy) -> Self {
        Self { remedy: Some(remedy), ..self }
    }

    /// The same for a command that has no such setting.
    pub(crate) fn not_remedied(self, remedy: Remedy) -> Self {
        Self { remedy: self.remedy.filter(|known| *known != remedy), ..self }
    }

    /// The same, which a later attempt may not meet.
    pub(crate) fn passing(self) -> Self {
        Self { may_pass: true, ..self }
    }

    /// What follows from it for `name`, one of several that it is about.
    pub(crate) fn for_one(&self, name: &FileName, what: &str) -> Self {
        let message = format!("{name} {what}: {self}");
        Self { message, reason: Reason::Other, ..self.clone() }.passing()
    }
}

/// Failures of a [`FailureList`] whose texts are told; the others are counted.
const TOLD_MAX: usize = 20;

/// Failures of several things, which become one.
#[derive(Debug, Default)]
pub(crate) struct FailureList {
    told: Vec<Failure>,
    more: usize,
}

impl FailureList {
    pub(crate) fn push(&mut self, failure: Failure) {
        if self.told.len() < TOLD_MAX { self.told.push(failure) } else { self.more += 1 }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.told.is_empty()
    }

    /// All of them in one, of the kind of the first, if there are any.
    pub(crate) fn into_result(self) -> Result<(), Failure> {
        let Some((first, others)) = self.told.split_first() else { return Ok(()) };
        let others: String = others.iter().map(|other| format!("; {other}")).collect();
        let more = if self.more == 0 { String::new() } else { format!("; and {} more", self.more) };
        Err(Failure { message: format!("{first}{others}{more}"), ..first.clone() })
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

/// Whether the disk is full, or a quota or file size limit is reached.
pub(crate) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(error.kind(), Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge)
}
