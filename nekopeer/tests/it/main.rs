//! The integration tests of the peer, in one binary to link them once.
#![allow(clippy::unwrap_used, reason = "what helps a test fails by panicking")]

mod aging;
mod browser;
mod common;
mod consistency;
mod demo;
mod hostile;
mod http_client;
mod http_figures;
mod http_rest;
mod intruders;
mod jobs;
mod numbering;
mod one_number;
mod origins;
mod places;
mod program;
mod program_commands;
mod program_damage;
mod program_failures;
mod program_full_disk;
mod program_kills;
mod program_pipes;
mod program_shells;
mod publishing;
mod refetch;
mod registration;
mod repl_script;
mod repl_terminal;
mod resume;
mod schedule;
mod sessions;
mod sharing;
mod transfer;
