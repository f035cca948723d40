//! The superpeer: knows which names exist and who holds which version, and asks its neighbors.
//!
//! Each room imports only rooms below it.
//!
//! | room | what happens there |
//! |---|---|
//! | `indexer` | starts a running indexer and stops it |
//! | `connections` | serves incoming connections, keeps up those to configured neighbors |
//! | `one_node` | one key, one running node: refuses a second one |
//! | `sweep` | frees what has expired |
//! | `service` | checks who calls and whether it is allowed; passes calls to the state and back |
//! | `query`, `find`, `invalidate` | answer queries and searches; spread news |
//! | `walk` | carries a query to the neighbors |
//! | `merging`, `trace` | merge what they answer; note its way |
//! | `shared` | what all tasks of one indexer share |
//! | [`neighbors`] | which neighbors are connected, which are stuck, what each knows of our names |
//! | [`state`] | all decisions: pure, simulated over many seeds |
//! | `routes`, `metrics` | what the indexer answers over HTTP |
//! | `counters`, `figures` | what it has done so far, and in the last seconds |
//! | [`announce`] | multicast announcements |
//! | [`config`] | what an indexer is made of |
//! | [`daemon`] | what both programs have around their work: settings, log, signals, threads, HTTP |
//! | [`visible`] | text that hides nothing |
//! | [`checks`] | checks the signatures of other nodes on threads of their own, at most 32 lists run or wait; peers use it too |
//!
//! [`Indexer::spawn`] gives a running one, in any program.

pub mod announce;
mod call_back;
pub mod checks;
pub mod config;
mod configured;
mod connections;
mod counters;
pub mod daemon;
mod figures;
mod find;
mod indexer;
mod invalidate;
mod merging;
mod metrics;
pub mod neighbors;
mod one_node;
mod probe;
mod query;
mod routes;
mod scans;
mod service;
mod shared;
pub mod state;
mod sweep;
mod trace;
pub mod visible;
mod walk;

pub use config::{Config, ConfigError, Routing};
pub use indexer::{Indexer, IndexerHandle, StartError, identity_in};
pub use probe::ProbeCounts;
pub use routes::dashboard;
