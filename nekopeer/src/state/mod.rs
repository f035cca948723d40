//! Pure decisions, from facts and the time. No sockets, no files, no clock.

pub(crate) mod changes;
pub(crate) mod choice;
pub(crate) mod contest;
pub(crate) mod copies;
pub(crate) mod freshness;
pub(crate) mod liveness;
pub(crate) mod outdated;
pub(crate) mod pace;
pub(crate) mod portions;
mod queue;
pub(crate) mod readers;
pub(crate) mod registrations;
pub(crate) mod schedule;
pub(crate) mod silence;
pub(crate) mod upload_turns;
pub(crate) mod verdict;
