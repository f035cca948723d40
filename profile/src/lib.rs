//! The measuring room: runs clusters, drives queries through them, checks every answer against what
//! the topology says must be found, and shows what came of it beside what the machine can do at all.
//!
//! | room | what happens there |
//! |---|---|
//! | `plan` | pure: scenario, topology, workload, and what must come out |
//! | `cluster`, `node` | running indexers and peers, in this process or in their own, on chosen threads |
//! | `run` | clients that ask, in a closed loop or at a rate, and a sample for each answer |
//! | `floor` | the round trips that no query can be faster than |
//! | `measure`, `matrix`, `index`, `connections` | one scenario, all of them, one indexer alone, a crowd |
//! | `relay`, `pipeline`, `batch` | probes round a ring, messages down a line, names in batches |
//! | `transfer` | files from peer to peer: how fast beside a plain copy, what it takes, from whom |
//! | `arena`, `hostile`, `soak` | a small network of processes; attacks on it, and long runs |
//! | `load` | workers publish and look up, an auditor follows: is what was acknowledged there in the end? |
//! | `consistency` | the nodes' own decisions on simulated links, in virtual time |
//! | `goals` | what is aimed at, beside what is measured, in one run |
//! | `report`, `plot` | showing it: tables, JSON, CSV, pictures |
//! | `compare`, `instructions` | guards: is it worse than before? |
//! | `commands`, `outcome` | the program: arguments, exit codes |
//!
//! It is a library for its program and its tests alone.

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
pub mod report;
pub mod run;
pub(crate) mod scenario;
pub mod scenarios;
