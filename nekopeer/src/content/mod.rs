//! What a file is made of: chunks, the tree of its hash, which parts are there, whether it is unchanged.

pub(crate) mod bitfield;
pub(crate) mod chunker;
pub(crate) mod outboard;
pub(crate) mod stamp;
