//! Tests of the profiler as a library and as a program, in one binary.
#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

mod broken;
mod common;
mod load;
mod program;
mod proof;
mod query;
mod transfer;
mod unit;
