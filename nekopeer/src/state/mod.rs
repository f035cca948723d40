//! What a peer decides: pure, from facts and the time to decisions. No socket, no file, no clock.

pub(crate) mod choice;
pub(crate) mod freshness;
pub(crate) mod registrations;
pub(crate) mod schedule;
