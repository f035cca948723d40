//! The superpeer: knows which names exist and who holds which version, and asks its neighbors.
//!
//! Each room imports only rooms below it.
//!
//! | room | what happens there |
//! |---|---|
//! | `indexer` | starts a running indexer and stops it |
//! | `connections` | serves incoming connections, keeps up those to configured neighbors |
//! | `sweep` | frees what has expired |
//! | `service` | checks who calls and whether it is allowed; passes calls to the state and back |
//! | `query`, `find`, `invalidate` | carry plans out over the network |
//! | `shared` | what all tasks of one indexer share |
//! | [`neighbors`] | which neighbors are connected, which are stuck, what each knows of our names |
//! | [`state`] | all decisions: pure, simulated over many seeds |
//! | [`config`] | defaults, file, command line |
//! | [`threads`], [`logging`] | how many threads the program runs on; where its log goes |
//!
//! [`Indexer::spawn`] gives a running one, in any program.

pub mod config;
mod connections;
mod find;
mod indexer;
mod invalidate;
pub mod logging;
pub mod neighbors;
mod query;
mod scans;
mod service;
mod shared;
pub mod state;
mod sweep;
pub mod threads;

pub use config::{Config, ConfigError, Routing};
pub use indexer::{Indexer, IndexerHandle, StartError};
