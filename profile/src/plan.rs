//! What to run and what must come out of it. All of it is pure, and the same for the same seed.

pub mod query;
pub mod topology;
pub mod workload;
