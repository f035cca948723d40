//! Files that are published and held here.

use std::borrow::Cow;

use nekoproto::Version;
use serde::Serialize;
use utoipa::ToSchema;

use crate::commands::FileRow;

/// A file that is published or held here.
#[derive(Serialize, ToSchema)]
#[schema(as = File)]
pub(crate) struct FileJson<'a> {
    /// BLAKE3 of the file, in hexadecimal digits.
    content: String,
    /// Whether it is the newest version: fresh, stale, unverified, withdrawn, unsettled, contested; or changed or
    /// missing on disk.
    condition: String,
    /// When the origin of a copy confirmed it last, in Unix time in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    confirmed_ms: Option<u64>,
    /// Until when the copy counts as fresh for that, in Unix time in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    fresh_until_ms: Option<u64>,
    /// The same as `condition`.
    freshness: String,
    /// How copies are kept coherent: push, pull or hybrid.
    mode: String,
    name: &'a str,
    /// The newest later version known.
    newest: Option<u64>,
    /// The id of the peer that publishes it.
    origin: String,
    /// Whether that is this peer.
    own: bool,
    path: Cow<'a, str>,
    /// The same as `mode`.
    policy: String,
    /// `origin` or `copy`.
    role: &'static str,
    /// In bytes.
    size: u64,
    version: u64,
}

impl<'a> From<&'a FileRow> for FileJson<'a> {
    fn from(file: &'a FileRow) -> Self {
        let FileRow { record, path, confirmed, .. } = file;
        Self {
            content: record.content.to_string(),
            condition: file.condition.to_string(),
            confirmed_ms: confirmed.map(|confirmed| confirmed.at_ms),
            fresh_until_ms: confirmed.map(|confirmed| confirmed.until_ms),
            freshness: file.condition.to_string(),
            mode: record.mode.to_string(),
            name: record.name.as_str(),
            newest: file.newest.map(Version::get),
            origin: record.origin.to_string(),
            own: file.own,
            path: path.0.to_string_lossy(),
            policy: record.mode.to_string(),
            role: role(file),
            size: record.size,
            version: record.version.get(),
        }
    }
}

/// Whether it is published here, in one word.
pub(crate) const fn role(file: &FileRow) -> &'static str {
    if file.own { "origin" } else { "copy" }
}
