//! Files on disk: places, partial downloads, atomic replacement, the catalogue, the lock.

pub(crate) mod catalogue;
mod error;
pub(crate) mod lock;
mod no_follow;
mod pack;
pub(crate) mod partial;
pub(crate) mod place;
pub(crate) mod remembered;
pub(crate) mod share_folder;
pub(crate) mod tree;
mod untouched;

pub use self::error::StoreError;
pub(crate) use self::error::is_full;

#[cfg(test)]
mod tests;
