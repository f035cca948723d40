//! The content of a file: chunks, tree hash, bit fields, stamps; what it has in common with another version.

pub(crate) mod anchors;
pub(crate) mod bitfield;
pub(crate) mod chunker;
pub(crate) mod equal_chunks;
pub(crate) mod outboard;
pub(crate) mod packed;
pub(crate) mod stamp;
pub(crate) mod whole;
