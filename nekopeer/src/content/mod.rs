//! The content of a file: chunks, tree hash, bit fields, stamps.

pub(crate) mod bitfield;
pub(crate) mod chunker;
pub(crate) mod outboard;
pub(crate) mod stamp;
pub(crate) mod whole;
