//! Rogue nodes, for measurements and tests: each does one thing that no honest node does, over connections whose
//! handshake is right. No program that users run has it.
//!
//! All of it comes from one address, which no honest node has. Whatever they are refused they try again, for as long as the returned future is polled.

mod attack;
mod connections;
pub mod corrupt;
mod guests;
mod holder;
mod http;
mod indexer;
mod junk;
mod order;
mod peer;
mod pretender;
pub(crate) mod raw;
mod script;
mod streams;
mod summary;

pub use attack::{Attack, SQUATTERS};
pub use order::{Order, RogueError};
pub use peer::Silent;
pub use pretender::{Habit, Heard, Pretender};
pub use script::{ScriptedReply, Then, serve_data};
