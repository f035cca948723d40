//! Rogue nodes, for measurements and tests: each does one thing that no honest node does, over connections whose
//! handshake is right. Behind the feature `rogue`; no program that users run has it.
//!
//! Whatever they are refused they try again, for as long as the returned future is polled.

mod connections;
pub mod corrupt;
mod holder;
mod indexer;
mod order;
mod peer;
mod raw;
mod streams;

pub use indexer::{Habit, Neighbor};
pub use order::{Attack, Order, RogueError};
pub use peer::Silent;
