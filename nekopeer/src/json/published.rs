//! What became of files that were to be published.

use serde::Serialize;
use utoipa::ToSchema;

use super::VersionJson;
use crate::commands::{PublishedRow, Row, VersionRow};

/// A published version.
#[derive(Serialize, ToSchema)]
#[schema(as = Ticketed)]
pub(crate) struct TicketedJson<'a> {
    #[serde(flatten)]
    #[schema(inline)]
    pub(crate) version: VersionJson<'a>,
    /// What to type elsewhere to get it; null while no indexer lists it.
    pub(crate) ticket: Option<&'a str>,
}

impl<'a> From<(&'a VersionRow, &'a Option<String>)> for TicketedJson<'a> {
    fn from((version, ticket): (&'a VersionRow, &'a Option<String>)) -> Self {
        Self { version: version.into(), ticket: ticket.as_deref() }
    }
}

/// A file that could not be published.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Unpublished)]
pub(crate) struct UnpublishedJson {
    /// Why.
    pub(crate) error: String,
    pub(crate) path: String,
}

/// What the watching of files did, with its kind as `event`.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(crate) enum WatchedJson<'a> {
    /// A new version.
    Published(TicketedJson<'a>),
    /// A file is gone, and its name is not offered any more.
    Withdrawn { name: &'a str },
    /// A file cannot be published, or a name not be withdrawn.
    Failed { error: &'a str, path: Option<String>, name: Option<&'a str> },
}

impl<'a> WatchedJson<'a> {
    /// `None` if there is no news in it.
    pub(crate) fn of(row: &'a Row) -> Option<Self> {
        Some(match row {
            Row::Published(PublishedRow::New(version, ticket)) => Self::Published((version, ticket).into()),
            Row::Published(PublishedRow::Failed { path, why }) => {
                Self::Failed { error: why, path: Some(path.0.to_string_lossy().into_owned()), name: None }
            }
            Row::Withdrawn { name, outcome: Ok(()) } => Self::Withdrawn { name: name.as_str() },
            Row::Withdrawn { name, outcome: Err(failure) } => {
                Self::Failed { error: &failure.message, path: None, name: Some(name.as_str()) }
            }
            _ => return None,
        })
    }
}
