//! The measuring room: runs clusters, drives queries through them, checks every answer against what
//! the topology says must be found, and shows what came of it beside what the machine can do at all.
//!
//! | room | what happens there |
//! |---|---|
//! | [`scenario`], [`topology`], [`workload`], [`expected`] | pure: what to run, and what must come out |
//! | [`layout`], [`affinity`], [`node`], [`serve`], [`client`], [`cluster`] | running indexers and peers, on which threads |
//! | [`run`], [`pacer`], [`samples`] | clients that ask, and a sample for each answer |
//! | [`echo`], [`floor`], [`floors`] | the round trips that no query can be faster than |
//! | [`measure`], [`matrix`], [`index`] | one scenario, all of them, one indexer alone |
//! | [`figures`], [`report`], [`plot`], [`outputs`] | showing it: tables, JSON, CSV, pictures |
//! | [`compare`], [`instructions`] | guards: is it worse than before? |
//! | [`args`], [`commands`], [`outcome`], [`interrupt`], [`progress`] | the program |

pub mod affinity;
pub mod args;
pub mod client;
pub mod cluster;
pub mod commands;
pub mod compare;
pub mod echo;
pub mod expected;
pub mod figures;
pub mod floor;
pub mod floors;
pub mod index;
pub mod instructions;
pub mod interrupt;
pub mod layout;
pub mod machine;
pub mod matrix;
pub mod measure;
pub mod node;
pub mod outcome;
pub mod outputs;
pub mod pacer;
pub mod plot;
pub mod progress;
pub mod reference;
pub mod report;
pub mod run;
pub mod samples;
pub mod scenario;
pub mod serve;
pub mod topology;
pub mod workload;
