//! What became of files that were to be published.

use serde::Serialize;
use utoipa::ToSchema;

use super::VersionJson;
use crate::commands::VersionRow;

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
