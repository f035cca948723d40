//! One file on disk: its destination, the chunks already present, its assembly.

pub(super) mod assembly;
pub(super) mod bases;
pub(super) mod checkpoint;
pub(super) mod destination;
#[cfg(test)]
pub(super) mod kills;
pub(super) mod placement;
pub(super) mod reuse;
pub(super) mod room;
mod way;
