//! The leaf: publishes, finds, downloads, serves, and keeps copies coherent.
//!
//! Each room imports only rooms below it:
//!
//! | room | what happens there |
//! |---|---|
//! | [`cli`] | command line, REPL and demo; the only room that prints |
//! | `peer` | builds the rooms, and hands out [`PeerHandle`] |
//! | `watch` | acts on news: downloads anew, drops, publishes again, passes on, asks origins |
//! | `publish` | from files to signed versions |
//! | `download` | from a name to a verified file |
//! | `peers` | calls to other peers; asks origins whether copies are the newest |
//! | `indexers` | keeps what is offered registered; searches |
//! | `serve` | answers other nodes: control calls, manifests, file bytes |
//! | `library` | what this peer knows of its files; notes news |
//! | `state` | decisions, pure: which hit, which chunk from whom, how fresh, what an indexer is to be told |
//! | `storage` | catalogue, share folder, partial files, lock |
//! | `content` | chunks, tree hash, bit fields, stamps |
//! | `util` | time, rates, progress, tasks |
//!
//! [`Peer::spawn`] gives a running one, in any program.

pub mod cli;
mod config;
mod content;
mod download;
mod indexers;
mod library;
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
pub use download::{Delivery, DownloadError, DownloadOptions, Downloaded};
pub use indexers::{Answer, SearchError};
pub use library::{
    events::Event,
    status::{Condition, FileStatus},
};
pub use peer::{Peer, PeerHandle, StartError};
pub use publish::{PublishError, PublishOptions, PublishOutcome};
pub use state::{choice::Candidate, freshness::OnStale};
pub use storage::{StoreError, catalogue::CatalogueError, lock::LockError, partial::PARTIAL_PREFIX};
pub use util::progress::{Progress, SourceProgress};
