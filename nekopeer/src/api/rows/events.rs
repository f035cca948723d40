//! Events.

use std::net::SocketAddr;

use nekoproto::Version;
use serde::Serialize;
use utoipa::ToSchema;

use crate::library::events::{Event, key_in_use};

/// Something that happened in the background. Fields that do not belong to its kind are left out.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[schema(as = Event)]
pub(crate) struct EventRow {
    /// What happened; also the name of the server-sent event.
    pub(crate) event: &'static str,
    /// The same for people.
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    indexer: Option<String>,
    /// The newest version known.
    #[serde(skip_serializing_if = "Option::is_none")]
    newest: Option<u64>,
    /// The version that this is about; of an invalidated copy the one on disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    /// File bytes received over the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_moved: Option<u64>,
    /// A line that a command printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<String>,
    /// A number of lines that are not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<u64>,
    /// A number of files.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<u64>,
    /// The id of a job.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    /// The version that is back in the place of a refused one.
    #[serde(skip_serializing_if = "Option::is_none")]
    put_back: Option<u64>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The id of a reader.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    /// What people call it, as it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
}

impl From<&Event> for EventRow {
    fn from(event: &Event) -> Self {
        let of = |kind| Self {
            event: kind,
            text: event.to_string(),
            name: event.name().map(ToString::to_string),
            ..Self::default()
        };
        let at = |kind, indexer: &SocketAddr| Self { indexer: Some(indexer.to_string()), ..of(kind) };
        let version = |kind, version: &Version| Self { version: Some(version.get()), ..of(kind) };
        match event {
            Event::Connected(indexer) => at("connected", indexer),
            Event::Away { indexer, why } => Self { error: Some(why.text.clone()), ..at("away", indexer) },
            Event::NotListed(indexer) => at("not-listed", indexer),
            Event::KeyInUse { indexer, at: other, for_secs } => {
                Self { error: Some(key_in_use(*other, *for_secs)), ..at("key-in-use", indexer) }
            }
            Event::NotReached { indexer, .. } => at("not-reached", indexer),
            Event::Full { indexer, files } => Self { files: Some(*files as u64), ..at("full", indexer) },
            Event::Registered { indexer, files } => {
                Self { files: Some(*files as u64), ..at("registered", indexer) }
            }
            Event::Invalidated { held, newest, .. } => {
                Self { newest: Some(newest.get()), ..version("invalidated", held) }
            }
            Event::Refreshed { version: now, bytes_moved, .. } => {
                Self { bytes_moved: Some(*bytes_moved), ..version("refreshed", now) }
            }
            Event::Followed { version: now, .. } => version("followed", now),
            Event::RolledBack { version: now, .. } => version("rolled-back", now),
            Event::Refused { version: refused, put_back, why, .. } => Self {
                put_back: put_back.map(Version::get),
                error: Some(why.clone()),
                ..version("refused", refused)
            },
            Event::Printed { line, .. } => Self { line: Some(line.clone()), ..of("printed") },
            Event::NotShown { lines, .. } => Self { lines: Some(*lines), ..of("not-shown") },
            Event::Dropped(_) => of("dropped"),
            Event::OriginAway(_) => of("origin-away"),
            Event::Withdrawn { version, .. } => Self { version: version.map(Version::get), ..of("unshared") },
            Event::Changed(_) => of("changed"),
            Event::Renumbered { version: now, .. } => version("renumbered", now),
            Event::PublishedElsewhere { version: there, .. } => version("shared-elsewhere", there),
            Event::JobEnded { id, why, .. } => {
                Self { id: Some(*id), error: why.as_ref().map(|why| why.text.clone()), ..of("job-ended") }
            }
            Event::Read { version: now, more, reader, label, .. } => Self {
                files: Some(*more as u64 + 1),
                node: Some(reader.to_string()),
                label: label.as_ref().map(ToString::to_string),
                ..version("read", now)
            },
            Event::Failed { why, .. } => Self { error: Some(why.clone()), ..of("failed") },
        }
    }
}
