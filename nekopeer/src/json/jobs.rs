//! Jobs.

use serde::Serialize;
use utoipa::ToSchema;

use crate::commands::{JobRow, JobState};

/// A long command that runs, or ended lately.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Job)]
pub(crate) struct JobJson {
    /// Whether its caller did not wait for it.
    background: bool,
    /// Bytes so far.
    done: u64,
    /// When it ended, in Unix time in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_ms: Option<u64>,
    /// Why it did not end well.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    pub(crate) id: u64,
    /// Bytes of `done` that were here before.
    kept: u64,
    kind: &'static str,
    /// The name it is about; of several, the first and their number.
    name: String,
    /// When it began, in Unix time in milliseconds.
    started_ms: u64,
    state: JobState,
    /// Bytes in total; 0 while unknown.
    total: u64,
}

/// Jobs.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Jobs)]
pub(crate) struct JobsJson {
    /// Those that run, then those that ended lately, the last first.
    pub(crate) jobs: Vec<JobJson>,
}

impl JobJson {
    pub(crate) const fn is_running(&self) -> bool {
        matches!(self.state, JobState::Running)
    }
}

impl From<&JobRow> for JobJson {
    fn from(job: &JobRow) -> Self {
        Self {
            background: job.is_background,
            done: job.now.done,
            ended_ms: job.ended_ms,
            error: job.error.clone(),
            id: job.id,
            kept: job.now.kept,
            kind: job.kind.word(),
            name: job.name.clone(),
            started_ms: job.started_ms,
            state: job.state,
            total: job.now.total,
        }
    }
}
