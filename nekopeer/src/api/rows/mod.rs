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
use serde_json::value::{RawValue, to_raw_value};
use utoipa::ToSchema;

pub(crate) use self::{
    downloads::DownloadedRow,
    events::EventRow,
    files::{Detail, EarlierRow, FileRow},
    found::{FoundRow, IndexersRow, MatchRow, Matches, VersionRow},
    published::{PublishedFields, PublishedRow, SkippedFields, Ticketed, UnpublishedRow},
    trace::{HopRow, TraceRow, Unasked},
};
use super::{Done, Failure, FailureKind, Outcome};

/// One row: a JSON value as text.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Row(Box<RawValue>);

impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Row {}

impl Row {
    pub(crate) fn of(value: &impl Serialize) -> Self {
        // Plain fields: serialising them cannot fail.
        Self(to_raw_value(value).unwrap_or_default())
    }

    pub(crate) fn text(&self) -> &str {
        self.0.get()
    }

    /// The value. A row is read by the program version that wrote it: `None` if it is of another type.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(self.text()).ok()
    }
}

/// A name for which a command failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Failed)]
pub(crate) struct FailedRow {
    #[schema(value_type = String)]
    pub(crate) name: FileName,
    #[serde(flatten)]
    #[schema(inline)]
    pub(crate) why: Failure,
}

/// The end of an answer about names of which some `failed`; if nothing was done for `any`, that is a failure.
pub(in crate::api) fn parted(any: bool, failed: Vec<FailedRow>) -> Result<Done, Failure> {
    match failed.as_slice() {
        [only] if !any => Err(only.why.clone()),
        all => Ok(Done::with(outcome_of(all), &serde_json::json!({ "failed": failed }))),
    }
}

pub(in crate::api) fn outcome_of(failed: &[FailedRow]) -> Outcome {
    match failed {
        [] => Outcome::All,
        all if all.iter().all(|failed| failed.why.kind == FailureKind::NotFound) => Outcome::NotFound,
        _ => Outcome::Part,
    }
}
