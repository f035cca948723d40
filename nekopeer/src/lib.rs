//! The peer: publishes, finds, downloads and serves files, and keeps copies coherent.
//!
//! Each room imports only rooms below it in this table:
//!
//! | room | what happens there |
//! |---|---|
//! | [`cli`] | command line, REPL and demo; the only room that prints |
//! | `door` | one running peer a folder: hands commands to it over a local socket |
//! | `commands` | commands and their answers as values, and carrying them out |
//! | `peer` | builds the rooms, and hands out [`PeerHandle`] |
//! | `listing` | lists the files piece by piece, after asking their origins |
//! | `watch` | acts on news: refetches, drops, republishes, forwards, confirms with origins |
//! | `publish` | from files to signed versions |
//! | `download` | from a name to a verified file |
//! | `peers` | calls to other peers; confirms copies with their origins |
//! | `indexers` | keeps offers registered; searches |
//! | `serve` | answers other nodes: control calls, manifests, file bytes |
//! | `library` | the files of this peer and their freshness; records news |
//! | `state` | pure decisions: which hit, which chunk from which source, how fresh, what to register |
//! | `storage` | catalogue, share folder, partial files, lock |
//! | `content` | chunks, tree hash, bit fields, stamps |
//! | `util` | time, rates, progress, tasks |
//!
//! [`Peer::spawn`] starts a peer inside any program.

pub mod cli;
mod commands;
mod config;
mod content;
mod door;
mod download;
mod indexers;
mod library;
mod listing;
mod peer;
mod peers;
mod publish;
mod serve;
mod state;
mod storage;
mod util;
mod watch;

pub use config::Config;
pub use content::chunker::ChunkError;
pub use download::{Delivery, DownloadError, DownloadOptions, Downloaded, Downloads};
pub use indexers::{Answer, SearchError};
pub use library::{
    events::Event,
    status::{Condition, FileStatus},
};
pub use listing::Listing;
pub use peer::{Peer, PeerHandle, StartError};
pub use publish::{PolicyChange, PublishError, PublishOptions, PublishOutcome, Publishing};
pub use state::{
    choice::Candidate,
    freshness::{Doubt, OnStale},
};
pub use storage::{StoreError, catalogue::CatalogueError, lock::LockError, partial::PARTIAL_PREFIX};
pub use util::progress::{Progress, SourceProgress};
