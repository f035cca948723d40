//! Events.

use std::net::SocketAddr;

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
}

impl From<&Event> for EventRow {
    fn from(event: &Event) -> Self {
        let text = event.to_string();
        let about = |event, name: &nekoproto::FileName| Self {
            event,
            name: Some(name.to_string()),
            ..Self::default()
        };
        let at = |event, indexer: &SocketAddr| Self {
            event,
            indexer: Some(indexer.to_string()),
            ..Self::default()
        };
        let json = match event {
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
            Event::Invalidated { name, held, newest } => {
                Self { version: Some(held.get()), newest: Some(newest.get()), ..about("invalidated", name) }
            }
            Event::Refreshed { name, version, bytes_moved } => Self {
                version: Some(version.get()),
                bytes_moved: Some(*bytes_moved),
                ..about("refreshed", name)
            },
            Event::Followed { name, version } => {
                Self { version: Some(version.get()), ..about("followed", name) }
            }
            Event::RolledBack { name, version } => {
                Self { version: Some(version.get()), ..about("rolled-back", name) }
            }
            Event::Refused { name, version, put_back, why } => Self {
                version: Some(version.get()),
                put_back: put_back.map(nekoproto::Version::get),
                error: Some(why.clone()),
                ..about("refused", name)
            },
            Event::Printed { name, line } => Self { line: Some(line.clone()), ..about("printed", name) },
            Event::NotShown { name, lines } => Self { lines: Some(*lines), ..about("not-shown", name) },
            Event::Dropped(name) => about("dropped", name),
            Event::OriginAway(name) => about("origin-away", name),
            Event::Withdrawn { name, version } => {
                Self { version: version.map(nekoproto::Version::get), ..about("unshared", name) }
            }
            Event::Changed(name) => about("changed", name),
            Event::Renumbered { name, version, .. } => {
                Self { version: Some(version.get()), ..about("renumbered", name) }
            }
            Event::PublishedElsewhere { name, version } => {
                Self { version: Some(version.get()), ..about("shared-elsewhere", name) }
            }
            Event::JobEnded { id, why, .. } => {
                let error = why.as_ref().map(|why| why.text.clone());
                Self { event: "job-ended", id: Some(*id), error, ..Self::default() }
            }
            Event::Failed { name, why } => Self { error: Some(why.clone()), ..about("failed", name) },
        };
        Self { text, ..json }
    }
}
