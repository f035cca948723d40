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
mod pretender;
mod raw;
mod script;
mod streams;

pub use order::{Attack, Order, RogueError};
pub use peer::Silent;
pub use pretender::{Habit, Heard, Pretender};
pub use script::{ScriptedReply, Then, serve_data};
