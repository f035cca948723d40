//! The measuring room: runs clusters, drives queries through them, checks every answer against what
//! the topology says must be found, and shows what came of it beside what the machine can do at all.
//!
//! | room | what happens there |
//! |---|---|
//! | `scenarios` | one file for each thing that is measured, the list of commands, what a scenario is and how it is carried out |
//! | `matrix`, `goals` | lists of runs: a table of queries, and what is aimed at beside what is measured |
//! | `compare`, `instructions` | guards: is it worse than before? |
//! | `cluster`, `node` | `Net` starts indexers, peers and clients, in this process or in their own, on chosen threads |
//! | `arena` | a small network of processes, with clients that ask at a steady rate |
//! | `floor` | the round trips that no query can be faster than |
//! | `run` | clients in a closed loop or at a rate, what watches a run, and the files and folders of it |
//! | `plan` | pure: what to run, topology, workload, and what must come out |
//! | `report`, `plot` | showing it: tables, JSON, CSV, goals, pictures |
//! | `outcome` | how the program ends |
//!
//! It is a library for its program and its tests alone.
#![allow(missing_docs, reason = "what a name says is not said again where nobody else calls it")]

pub mod arena;
pub mod cluster;
pub mod compare;
pub(crate) mod floor;
pub mod goals;
pub mod instructions;
pub(crate) mod matrix;
pub mod node;
pub mod outcome;
pub mod plan;
pub mod plot;
pub(crate) mod prelude;
pub mod report;
pub mod run;
pub mod scenarios;
