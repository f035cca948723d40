//! The leaf: publishes, finds, downloads, serves, and keeps copies coherent.
//!
//! | room | what happens there |
//! |---|---|
//! | [`state`] | decisions, pure: which hit, which chunk from whom, how fresh |
//! | `publish`, [`chunker`] | from files to signed versions |
//! | `locate`, `download`, `swarm`, `fetch`, `assemble`, `placing` | from a name to a verified file |
//! | `serve`, `calls` | what others ask of this peer |
//! | `session`, `watch`, `subscribers` | registered with indexers; copies kept coherent |
//! | [`catalogue`], [`store`], [`lock`], [`stamp`] | what is on disk |
//! | `clock` | the time, sleep included |
//! | [`cli`] | command line, REPL and demo; the only room that prints |
//!
//! [`Peer::spawn`] gives a running one, in any program.

mod assemble;
mod calls;
pub mod catalogue;
pub mod chunker;
pub mod cli;
mod clock;
pub mod config;
mod download;
pub mod events;
mod fetch;
mod locate;
pub mod lock;
mod peer;
mod placing;
mod progress;
mod publish;
mod serve;
mod session;
mod shared;
pub mod stamp;
pub mod state;
mod status;
pub mod store;
mod subscribers;
mod swarm;
mod watch;

pub use config::{Config, OnStale};
pub use download::{DownloadError, DownloadOptions, Downloaded};
pub use events::Event;
pub use fetch::FetchError;
pub use locate::{Answer, LocateError};
pub use peer::{Peer, PeerHandle, StartError};
pub use progress::Progress;
pub use publish::{PublishError, PublishOptions, PublishOutcome};
pub use status::{Condition, FileStatus};
