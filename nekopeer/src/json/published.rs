//! Files that could not be published.

use serde::Serialize;
use utoipa::ToSchema;

/// A file that could not be published.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Unpublished)]
pub(crate) struct UnpublishedJson {
    /// Why.
    pub(crate) error: String,
    pub(crate) path: String,
}
