//! What a peer decides: pure, from facts and the time to decisions. No socket, no file, no clock.

pub mod choice;
pub mod freshness;
pub mod schedule;
