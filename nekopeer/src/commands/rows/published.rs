//! What became of files that were to be published, and of names that were to be withdrawn.

use nekoproto::FileName;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::VersionRow;

/// A published version.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct Ticketed {
    #[serde(flatten)]
    #[schema(inline)]
    pub(crate) version: VersionRow,
    /// What to type elsewhere to get it; null while no indexer lists it.
    pub(crate) ticket: Option<String>,
}

/// What became of one file or name.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Publishing)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(crate) enum PublishedRow {
    /// A new version.
    Published(Ticketed),
    /// It equals the version published before.
    Unchanged(Ticketed),
    /// A name is not offered any more.
    Withdrawn {
        #[schema(value_type = String)]
        name: FileName,
    },
    /// A file cannot be published, or a name not be withdrawn.
    Failed {
        error: String,
        path: Option<String>,
        #[schema(value_type = Option<String>)]
        name: Option<FileName>,
    },
}
