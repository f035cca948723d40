//! [`JobRow`]: what is told about one job.

use std::fmt;

use nekoproto::{FileName, Remedy, clock::unix_ms};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::Snapshot;

/// Bytes of a job's name, and of why it failed, at most.
const TEXT_BYTES_MAX: usize = 1024;

/// A long command that runs, or ended lately.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Job)]
pub(crate) struct JobRow {
    /// Whether its caller did not wait for it.
    pub(crate) background: bool,
    /// When it ended, in Unix time in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) ended_ms: Option<u64>,
    /// Why it did not end well.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) error: Option<String>,
    /// What helps, if a setting does; named as this.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>)]
    pub(crate) remedy: Option<Remedy>,
    /// Counts up from 1 while the peer runs.
    pub(crate) id: u64,
    pub(crate) kind: JobKind,
    /// The name it is about; of several, the first and their number.
    pub(crate) name: String,
    #[serde(flatten)]
    #[schema(inline)]
    pub(crate) now: Snapshot,
    /// When it began, in Unix time in milliseconds.
    pub(crate) started_ms: u64,
    pub(crate) state: JobState,
    /// Why it waits.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) why: Option<String>,
}

impl JobRow {
    pub(super) fn new(id: u64, kind: JobKind, name: String, background: bool) -> Self {
        Self {
            id,
            kind,
            name,
            background,
            now: Snapshot::default(),
            state: JobState::Running,
            error: None,
            remedy: None,
            started_ms: unix_ms(),
            ended_ms: None,
            why: None,
        }
    }
}

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum JobKind {
    /// Files are read and shared.
    #[serde(rename = "share")]
    Publish,
    /// A pipe is stored and shared.
    Store,
    /// Files are downloaded.
    Get,
    /// A file is fetched in order and not kept.
    Read,
    /// The peer writes a file by itself: an outdated copy is downloaded anew.
    Refetch,
    /// Files are watched, and shared when they change.
    Watch,
    /// Names are followed.
    Follow,
}

/// Where a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum JobState {
    /// It runs.
    Running,
    /// It waits for its turn.
    Waiting,
    /// It ended well.
    Done,
    /// It failed, or a part of it did.
    Failed,
    /// It was interrupted, by its caller or by another command.
    Cancelled,
}

/// The word that JSON has, too.
impl fmt::Display for JobKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

pub(super) fn called(names: &[FileName], title: String) -> String {
    bounded(match names {
        [] => title,
        [name] => name.to_string(),
        [first, others @ ..] => format!("{first} and {} more", others.len()),
    })
}

pub(super) fn bounded(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.push_str("...");
    }
    text
}
