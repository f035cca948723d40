//! What became of files that were to be shared, and of names that were to be unshared.

use nekoproto::FileName;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::VersionRow;
use crate::api::Failure;

/// A shared version.
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
#[schema(as = Sharing)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(crate) enum PublishedRow {
    /// A new version.
    #[serde(rename = "shared")]
    Published(Ticketed),
    /// It equals the version shared before.
    Unchanged(Ticketed),
    /// A name is no longer shared.
    #[serde(rename = "unshared")]
    Withdrawn {
        #[schema(value_type = String)]
        name: FileName,
    },
    /// A file cannot be shared, or a name not be unshared.
    Failed {
        #[serde(flatten)]
        #[schema(inline)]
        why: Failure,
        path: Option<String>,
        #[schema(value_type = Option<String>)]
        name: Option<FileName>,
    },
}

/// What is told beside the versions.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct PublishedFields {
    pub(crate) failed: Vec<UnpublishedRow>,
    /// Names of copies of other origins' files, which stay copies.
    pub(crate) copies: Vec<FileName>,
    /// Names of files of folders that were unshared by name, and stay so.
    pub(crate) withdrawn: Vec<FileName>,
    /// Names of files of folders that are shared and were removed; they stay shared.
    pub(crate) missing: Vec<FileName>,
    /// What to type elsewhere to get all of them, if they are the files of one folder.
    pub(crate) ticket: Option<String>,
    pub(crate) skipped: SkippedFields,
    /// Files of these lists that are not listed here because they are too many.
    pub(crate) more: usize,
    pub(crate) indexers_told: u64,
    /// Whether each version is listed by an indexer; until then its number may change.
    pub(crate) confirmed: bool,
}

/// What in folders was not shared, by cause. What is below a folder that was not is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Skipped)]
pub(crate) struct SkippedFields {
    pub(crate) hidden_files: u64,
    pub(crate) hidden_folders: u64,
    /// Symbolic links.
    pub(crate) links: u64,
    /// What `.nekoignore` files name.
    pub(crate) ignored: u64,
    /// What globs exclude.
    pub(crate) excluded: u64,
    /// What is neither a file nor a folder.
    pub(crate) others: u64,
    /// What this peer was told to keep secret.
    pub(crate) secret: u64,
    /// Those of all that were shared before, and stay so until they are unshared.
    pub(crate) still_shared: u64,
}

/// A file that cannot be shared.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = NotShared)]
pub(crate) struct UnpublishedRow {
    #[serde(flatten)]
    #[schema(inline)]
    pub(crate) why: Failure,
    pub(crate) path: String,
}
