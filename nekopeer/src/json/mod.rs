//! Rows as JSON: what `--json` prints and what the HTTP door answers with. The description of the HTTP door is
//! generated from these types.

mod downloads;
mod events;
mod files;
mod found;
mod jobs;
mod published;
mod trace;

pub(crate) use self::{
    downloads::{DownloadedJson, FailedJson, seconds},
    events::EventJson,
    files::{FileJson, role},
    found::{FoundJson, MatchJson, VersionJson},
    jobs::{JobJson, JobsJson},
    published::{TicketedJson, UnpublishedJson, WatchedJson},
    trace::TraceJson,
};
