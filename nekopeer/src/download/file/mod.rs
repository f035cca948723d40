//! One file on disk: where it may stand, what of it is there already, how it is put together.

pub(super) mod assembly;
pub(super) mod checkpoint;
pub(super) mod destination;
pub(super) mod look_alikes;
pub(super) mod placement;
pub(super) mod reuse;
