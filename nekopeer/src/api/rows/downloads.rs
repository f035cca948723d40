//! Finished downloads.

use nekoproto::Freshness;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::VersionRow;
use crate::{
    download::{Delivery, Downloaded},
    library::status::UNSHARED,
};

/// A finished download.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Downloaded)]
pub(crate) struct DownloadedRow {
    #[serde(flatten)]
    #[schema(inline)]
    pub(crate) version: VersionRow,
    /// File bytes received over the network.
    pub(crate) bytes_moved: u64,
    /// Why it may not be the newest version.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) doubt: Option<String>,
    freshness: String,
    /// The ids of other origins that share the same bytes under the name, if none was named.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(crate) other_origins: Vec<String>,
    pub(crate) path: String,
    pub(crate) seconds: f64,
    pub(crate) sources: Vec<SourceRow>,
    /// Whether this version stood in its place before.
    pub(crate) was_here: bool,
}

/// One source of a download.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Source)]
pub(crate) struct SourceRow {
    pub(crate) addr: String,
    /// Whether it sent what is not the file's.
    pub(crate) banned: bool,
    bytes: u64,
    pub(crate) node: String,
}

impl DownloadedRow {
    /// A download of the newest version, which is kept.
    pub(crate) fn newest(done: &Downloaded) -> Self {
        let doubt = done.is_unshared.then_some(UNSHARED).or_else(|| about(done.freshness));
        Self { doubt: doubt.map(ToOwned::to_owned), ..Self::of(done) }
    }

    /// One of an earlier version, or of which no copy is kept: that a later one is out is no news.
    pub(crate) fn of(done: &Downloaded) -> Self {
        Self {
            version: (&done.record).into(),
            bytes_moved: done.bytes_moved,
            doubt: done.is_unshared.then(|| UNSHARED.to_owned()),
            freshness: done.freshness.to_string(),
            other_origins: done.others.iter().map(ToString::to_string).collect(),
            path: done.path.to_string_lossy().into_owned(),
            seconds: done.took.as_secs_f64(),
            sources: done.sources.iter().map(SourceRow::from).collect(),
            was_here: done.was_here,
        }
    }
}

impl From<&Delivery> for SourceRow {
    fn from(source: &Delivery) -> Self {
        let Delivery { node, addr, bytes, banned } = source;
        Self { addr: addr.to_string(), banned: *banned, bytes: *bytes, node: node.to_string() }
    }
}

const fn about(freshness: Freshness) -> Option<&'static str> {
    match freshness {
        Freshness::Fresh => None,
        Freshness::Unverified => {
            Some("the origin could not be asked whether this is still the newest version")
        }
        Freshness::Stale => Some("a source says that a newer version is out"),
    }
}
