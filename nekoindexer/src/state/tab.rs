//! [`Tab`]: the bytes that one thing takes of the account of the node for which it is kept.

pub use nekoproto::budget::{Lease as Tab, Pool};
