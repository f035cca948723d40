//! The leaf: publishes, finds, downloads, serves, and keeps copies coherent.
//!
//! | room | what happens there |
//! |---|---|
//! | [`state`] | decisions, pure: which hit, which chunk from whom, how fresh |
//! | `publish`, [`chunker`] | from files to signed versions |
//! | `locate`, `download`, `obtain`, `swarm`, `fetch`, `assemble`, `placing` | from a name to a verified file |
//! | `local`, `resume` | what is on disk of it already |
//! | `bulk`, `reading`, `intake` | many files at once; to a pipe; from a pipe |
//! | `serve`, `uploads`, `partials`, `calls` | what others ask of this peer |
//! | `session`, `watch`, `subscribers` | registered with indexers; copies kept coherent |
//! | [`catalogue`], [`store`], [`lock`], [`stamp`] | what is on disk |
//! | `rate`, [`bits`], [`treehash`], `cores`, `clock` | limits, sets of chunks, hashes in any order, threads, time |
//! | [`cli`] | command line, REPL and demo; the only room that prints |
//!
//! [`Peer::spawn`] gives a running one, in any program.

mod assemble;
pub mod bits;
mod bulk;
mod calls;
pub mod catalogue;
pub mod chunker;
pub mod cli;
mod clock;
pub mod config;
mod cores;
mod download;
pub mod events;
mod fetch;
mod intake;
mod local;
mod locate;
pub mod lock;
mod obtain;
mod partials;
mod peer;
mod placing;
mod progress;
mod publish;
mod rate;
mod reading;
mod resume;
mod serve;
mod session;
mod shared;
pub mod stamp;
pub mod state;
mod status;
pub mod store;
mod subscribers;
mod swarm;
pub mod treehash;
mod uploads;
mod watch;

pub use config::{Config, OnStale};
pub use download::{Delivery, DownloadError, DownloadOptions, Downloaded};
pub use events::Event;
pub use fetch::FetchError;
pub use locate::{Answer, LocateError};
pub use peer::{Peer, PeerHandle, StartError};
pub use progress::{Progress, SourceProgress};
pub use publish::{PublishError, PublishOptions, PublishOutcome};
pub use status::{Condition, FileStatus};
