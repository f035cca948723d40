//! Tests of single files, by the room they are in.

mod arena;
mod compare;
mod consistency;
mod judge;
mod plan;
mod plot;
mod report;
mod run;
mod transfer;
mod transfer_files;
