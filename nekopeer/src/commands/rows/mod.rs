//! [`Row`]: one row of an answer, as the JSON text that `--json` prints, that the HTTP door sends and that tables are
//! made of. The description of the HTTP door is generated from the types of the rows.

mod downloads;
mod events;
mod files;
mod found;
mod published;
mod trace;

use nekoproto::FileName;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use utoipa::ToSchema;

pub(crate) use self::{
    downloads::DownloadedRow,
    events::EventRow,
    files::{Detail, FileRow},
    found::{FoundRow, MatchRow, VersionRow},
    published::{PublishedRow, Ticketed},
    trace::{HopRow, TraceRow, Unasked},
};
use super::{Failure, FailureKind};

/// One row: a JSON value as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Row(Box<str>);

impl Row {
    /// `value` as a row.
    pub(crate) fn of(value: &impl Serialize) -> Self {
        // Plain fields: serialising them cannot fail.
        Self(serde_json::to_string(value).unwrap_or_default().into())
    }

    /// The JSON text.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// The value. A row is read by the program version that wrote it: `None` if it is of another type.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(&self.0).ok()
    }
}

/// A name for which a command failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Failed)]
pub(crate) struct FailedRow {
    #[schema(value_type = String)]
    pub(crate) name: FileName,
    /// Why.
    pub(crate) error: String,
    /// What follows from it.
    pub(crate) kind: FailureKind,
}

impl FailedRow {
    pub(crate) fn of(name: &FileName, failure: Failure) -> Self {
        Self { name: name.clone(), error: failure.message, kind: failure.kind }
    }
}

/// A version that was waited for and is in its place.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ReachedRow {
    pub(crate) name: FileName,
    pub(crate) version: u64,
}

/// How fast the peer sends and fetches.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Throttle)]
pub(crate) struct ThrottleRow {
    /// Bytes a second that are sent at most; null: no limit.
    pub(crate) limit_up: Option<u64>,
    /// Bytes a second that are fetched at most; null: no limit.
    pub(crate) limit_down: Option<u64>,
    /// Whether downloads are paused.
    pub(crate) paused: bool,
}

/// What to type elsewhere to get a file.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Ticket)]
pub(crate) struct TicketRow {
    #[schema(value_type = String)]
    pub(crate) name: FileName,
    pub(crate) ticket: String,
}
