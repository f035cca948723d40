//! Files that are published and held here.

use std::borrow::Cow;

use nekoproto::Version;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    commands::{Detail, FileRow, ReaderRow},
    state::freshness::OnStale,
    storage::catalogue::Why,
};

/// A file that is published or held here.
#[derive(Serialize, ToSchema)]
#[schema(as = File)]
pub(crate) struct FileJson<'a> {
    /// BLAKE3 of the file, in hexadecimal digits.
    content: String,
    /// Whether it is the newest version: fresh, stale, unverified, withdrawn; or changed or
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
    /// Whether it is a folder, all of which is one version.
    set: bool,
    /// In bytes.
    size: u64,
    /// How far a copy that is read may be behind: strict, bounded or serve-stale.
    staleness: String,
    version: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(flatten)]
    detail: Option<DetailJson>,
}

/// What else is known of a file that was asked about by name.
#[derive(Serialize, ToSchema)]
#[schema(as = FileDetail)]
struct DetailJson {
    /// Seconds that its copy counts as fresh here at most, where the reader has said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    bound_secs: Option<u32>,
    /// Earlier versions that are kept here, the last that was replaced first.
    kept: Vec<u64>,
    /// Seconds that a copy counts as fresh under push.
    lease_secs: u32,
    /// What happens to an outdated copy, where the reader has said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    on_stale: Option<OnStale>,
    /// Up to this version none takes the place by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    passed_over: Option<u64>,
    /// Why: `failed` for the command of a follower, or `rolled-back`.
    #[serde(skip_serializing_if = "Option::is_none")]
    passed_over_why: Option<&'static str>,
    /// When this version was published, in Unix time in milliseconds by its origin's clock; 0 if that does not say.
    published_ms: u64,
    /// Of an own file: the peers that have a lease on news of it.
    readers: Vec<ReaderJson>,
    /// Seconds that a copy counts as fresh under pull.
    ttr_secs: u32,
}

/// A peer that has a lease on news of a file.
#[derive(Serialize, ToSchema)]
#[schema(as = Reader)]
struct ReaderJson {
    addr: String,
    /// Milliseconds for which an earlier version may still count as fresh there, at most.
    lease_ends_in_ms: u64,
    node: String,
    /// The last version that it acknowledged.
    version: u64,
}

impl DetailJson {
    fn of(file: &FileRow, detail: &Detail) -> Self {
        let reader = |reader: &ReaderRow| ReaderJson {
            addr: reader.holder.addr.to_string(),
            lease_ends_in_ms: reader.ends_in_ms,
            node: reader.holder.node.to_string(),
            version: reader.version.get(),
        };
        Self {
            bound_secs: detail.preference.bound_secs,
            kept: detail.kept.iter().map(|version| version.get()).collect(),
            lease_secs: detail.policy.lease_secs(),
            on_stale: detail.preference.on_stale,
            passed_over: detail.passed_over.map(|(version, _)| version.get()),
            passed_over_why: detail.passed_over.map(|(_, why)| match why {
                Why::Failed => "failed",
                Why::RolledBack => "rolled-back",
            }),
            published_ms: file.record.published_ms,
            readers: detail.readers.iter().map(reader).collect(),
            ttr_secs: detail.policy.ttr_secs(),
        }
    }
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
            set: record.is_set,
            size: record.size,
            staleness: record.staleness.to_string(),
            version: record.version.get(),
            detail: file.detail.as_deref().map(|detail| DetailJson::of(file, detail)),
        }
    }
}

/// Whether it is published here, in one word.
pub(crate) const fn role(file: &FileRow) -> &'static str {
    if file.own { "origin" } else { "copy" }
}
