//! What nodes say to each other. Wire types: a changed message means another protocol version.

pub mod data;
pub mod error;
pub mod hello;
pub mod indexer;
pub mod peer;
pub(crate) mod summary;
