//! The keyed hash that stands for a name in the index and in its sessions.

use std::hash::BuildHasher;

/// The keyed hash of a name. The key is secret, so that nobody can make names that share a bucket.
/// All its bits are equally good: maps use it as it is, without hashing it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct NameHash(pub(super) u64);

impl nohash_hasher::IsEnabled for NameHash {}

impl NameHash {
    /// The hash of a name's UTF-8 under `key`.
    pub(super) fn of(name: &[u8], key: &impl BuildHasher) -> Self {
        Self(key.hash_one(name))
    }
}
