//! What became of files that were to be published, or to be published no longer.

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

/// Names that are offered no longer.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = Withdrawn)]
pub(crate) struct WithdrawnJson {
    pub(crate) withdrawn: Vec<String>,
}
