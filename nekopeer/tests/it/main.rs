//! The integration tests of the peer, in one binary to link them once.
#![allow(clippy::unwrap_used, reason = "what helps a test fails by panicking")]

mod aging;
mod common;
mod consistency;
mod demo;
mod hostile;
mod intruders;
mod places;
mod program;
mod program_commands;
mod program_failures;
mod program_pipes;
mod publishing;
mod repl_script;
mod repl_terminal;
mod resume;
mod schedule;
mod sessions;
mod sharing;
mod transfer;
