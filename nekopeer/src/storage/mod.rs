//! Files on disk: places, partial downloads, atomic replacement, the catalogue, the lock.

pub(crate) mod catalogue;
mod error;
pub(crate) mod file_id;
pub(crate) mod flock;
pub(crate) mod folder;
pub(crate) mod lock;
mod no_follow;
pub(crate) mod partial;
pub(crate) mod place;
pub(crate) mod remembered;
pub(crate) mod share_folder;
pub(crate) mod tree;

pub(crate) use self::error::{error_at, folder_away, full, stopped};

/// Digits of the hash of a name in the name of a file.
pub(crate) const DIGITS: usize = 32;

/// What the files of the data folder know `name` by.
pub(crate) fn digits(name: &nekoproto::FileName) -> String {
    blake3::hash(name.as_str().as_bytes()).to_hex()[..DIGITS].to_owned()
}

#[cfg(test)]
mod tests;
