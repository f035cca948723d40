//! Values that keep their rule when they are decoded.
//!
//! On the wire a fixed array of bytes is a length and the bytes (`serde_bytes`), copied at once: serde's own
//! arrays are encoded byte by byte, which took longer than the rest of a message.

pub(crate) mod cut;
pub(crate) mod filter;
pub(crate) mod fixed_list;
mod hex;
pub mod id;
pub mod list;
pub mod manifest;
pub mod name;
pub mod packed;
pub mod policy;
pub mod record;
pub(crate) mod signature;
