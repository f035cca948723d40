//! The integration tests of the crate, in one binary so that they are linked once.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a helper of tests fails by panicking")]

mod access;
mod common;
mod control;
mod crowds;
mod data;
mod golden;
mod handshake;
mod link;
mod overload;
mod pages;
mod tls;
