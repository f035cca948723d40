//! The peer: publishes, finds, downloads and serves files, and keeps copies coherent.
//!
//! [`Peer::spawn`] starts a peer inside any program. `docs/architecture.md` says what happens in which module, and
//! which may import which.

mod api;
mod changes;
pub mod cli;
mod config;
mod content;
mod door;
mod download;
mod failure;
mod figures;
mod follow;
mod http;
mod indexers;
mod library;
mod listing;
mod peer;
mod peers;
mod publish;
mod reading;
mod rules;
mod serve;
mod sets;
pub mod simulate;
mod state;
mod storage;
mod terminal;
mod util;
mod watch;

pub use config::Config;
pub use download::{Delivery, DownloadOptions, Downloaded};
pub use failure::{Failure, FailureKind, Reason};
pub use http::files::routes as file_routes;
pub use indexers::{Answer, Found, via::Via};
pub use library::{
    events::Event,
    status::{Condition, FileStatus},
};
pub use peer::{Limits, Peer, PeerHandle};
pub use publish::{PolicyChange, PublishError, PublishOptions, PublishOutcome};
pub use rules::{Rules, RulesError, SkipCause, Skipped};
pub use state::{choice::Candidate, freshness::OnStale};
pub use util::progress::{Progress, SourceProgress};
