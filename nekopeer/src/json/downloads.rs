//! Finished and failed downloads.

use std::borrow::Cow;

use serde::Serialize;
use utoipa::ToSchema;

use super::VersionJson;
use crate::{commands::DownloadedRow, download::Delivery};

/// A finished download.
#[derive(Serialize, ToSchema)]
#[schema(as = Downloaded)]
pub(crate) struct DownloadedJson<'a> {
    #[serde(flatten)]
    #[schema(inline)]
    version: VersionJson<'a>,
    /// File bytes received over the network.
    bytes_moved: u64,
    freshness: String,
    path: Cow<'a, str>,
    seconds: f64,
    sources: Vec<SourceJson>,
}

/// One source of a download.
#[derive(Serialize, ToSchema)]
#[schema(as = Source)]
struct SourceJson {
    addr: String,
    /// Whether it sent what is not the file's.
    banned: bool,
    bytes: u64,
    node: String,
}

/// A name that could not be had.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Failed)]
pub(crate) struct FailedJson {
    pub(crate) name: String,
    /// Why.
    pub(crate) error: String,
}

impl<'a> From<&'a DownloadedRow> for DownloadedJson<'a> {
    fn from(done: &'a DownloadedRow) -> Self {
        Self {
            version: (&done.record).into(),
            bytes_moved: done.bytes_moved,
            freshness: done.freshness.to_string(),
            path: done.path.0.to_string_lossy(),
            seconds: seconds(done.took_us),
            sources: done.sources.iter().map(SourceJson::from).collect(),
        }
    }
}

impl From<&Delivery> for SourceJson {
    fn from(source: &Delivery) -> Self {
        let Delivery { node, addr, bytes, banned } = source;
        Self { addr: addr.to_string(), banned: *banned, bytes: *bytes, node: node.to_string() }
    }
}

/// Microseconds as seconds.
#[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
pub(crate) fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}
