//! The measuring room: spawns a cluster, drives queries through it, checks every answer against
//! what the topology says must be found, and reports.
//!
//! | room | what happens there |
//! |---|---|
//! | [`scenario`] | pure: who is whose neighbor, what a query must find |
//! | [`cluster`] | running indexers and clients |
//! | [`run`] | the closed loop, and the samples it takes |
//! | [`floor`] | the raw TCP round trip that every figure is set beside |
//! | [`report`], [`plot`] | table, JSON, scatter and histogram |

pub mod args;
pub mod cluster;
pub mod floor;
pub mod plot;
pub mod report;
pub mod run;
pub mod scenario;
