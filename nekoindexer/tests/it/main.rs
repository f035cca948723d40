//! The tests of the indexer: running ones on free ports, and its decisions under simulation. One program,
//! so that it is linked once.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a helper of tests fails by panicking")]

mod call_back;
mod common;
mod config;
mod find;
mod guests;
mod heartbeats;
mod hostile;
mod http_door;
mod http_indexer;
mod leases;
mod links;
mod neighbors;
mod network;
mod overload;
mod probe;
mod program;
mod shares;
mod signals;
mod sim;
mod summaries;
mod trace;
mod updates;
