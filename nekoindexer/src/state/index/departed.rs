//! Remembers the newest version of files that nobody holds any more, so that an older one is not taken for it.

use std::{
    collections::{HashMap, hash_map},
    time::{Duration, Instant},
};

use nekoproto::{ListedRecord, PackedRecord, Record};
use nohash_hasher::BuildNoHashHasher;

use super::name_hash::NameHash;

/// Files in one generation.
const GENERATION_MAX: usize = 16 * 1024;
/// Bytes in one generation: that of so many files with names of the usual length. They are on nobody's account, as
/// whoever held the files has left.
const GENERATION_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes that a file takes beside those of its name.
const FILE_BYTES: usize = 200;
/// A file is forgotten after one to two of these: longer than most holders are away.
const GENERATION_FOR: Duration = Duration::from_secs(30 * 60);

/// The last known versions of files without a holder.
///
/// Two generations: the young one becomes the old one when it is full or [`GENERATION_FOR`] has passed, and
/// what the old one had is forgotten. Files with the same key displace each other.
#[derive(Debug)]
pub(super) struct Departed {
    young: Generation,
    /// Bytes of the young one; what was displaced in it is counted on.
    young_bytes: usize,
    old: Generation,
    /// What is forgotten, and freed bit by bit: lookups would wait for all of it.
    forgotten: hash_map::IntoIter<u64, PackedRecord>,
    turned: Instant,
}

/// Forgotten files that are freed for each one that is remembered: more than one, so that they end before the
/// generation is full.
const FREED_AT_ONCE: usize = 2;

type Generation = HashMap<u64, PackedRecord, BuildNoHashHasher<u64>>;

impl Departed {
    pub(super) fn new(now: Instant) -> Self {
        let (young, old) = <(Generation, Generation)>::default();
        Self { young, young_bytes: 0, old, forgotten: hash_map::IntoIter::default(), turned: now }
    }

    /// The last holder of `record` has left.
    pub(super) fn remember(&mut self, hash: NameHash, record: PackedRecord) {
        if self.young.len() >= GENERATION_MAX || self.young_bytes >= GENERATION_BYTES_MAX {
            self.turn();
        }
        self.forgotten.by_ref().take(FREED_AT_ONCE).for_each(drop);
        self.young_bytes += FILE_BYTES + record.name_bytes().len();
        self.young.insert(key(hash, record.origin().as_bytes()), record);
    }

    /// The version remembered of the file of `record`, if that is newer or contradicts it.
    pub(super) fn instead_of(&self, hash: NameHash, record: &Record) -> Option<ListedRecord> {
        let key = key(hash, record.origin.as_bytes());
        let known = self.young.get(&key).or_else(|| self.old.get(&key))?;
        if known.version() < record.version {
            return None;
        }
        Some(known.unpack()).filter(|known| known.replaces(record) || known.contradicts(record))
    }

    pub(super) fn forget(&mut self, now: Instant) {
        if now.saturating_duration_since(self.turned) >= GENERATION_FOR {
            self.turn();
            self.turned = now;
        }
    }

    fn turn(&mut self) {
        // With room for as many again: what grows is moved, which lookups would wait for, too.
        let young = Generation::with_capacity_and_hasher(self.young.len(), <_>::default());
        let old = std::mem::replace(&mut self.old, std::mem::replace(&mut self.young, young));
        self.young_bytes = 0;
        self.forgotten = old.into_iter();
    }
}

fn key(hash: NameHash, origin: &[u8; 32]) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *origin;
    hash.0 ^ u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::testing::record;

    #[test]
    fn what_left_is_remembered_for_a_while_and_within_a_bound() {
        let now = Instant::now();
        let (mut departed, hash) = (Departed::new(now), NameHash(7));
        let newest = record(1, "a", 3);
        departed.remember(hash, PackedRecord::new(&newest));
        let instead = |departed: &Departed, version| departed.instead_of(hash, &record(1, "a", version));
        assert_eq!(instead(&departed, 2), Some(newest.clone()));
        assert_eq!([3, 4].map(|version| instead(&departed, version)), [None, None]);
        assert_eq!(departed.instead_of(hash, &record(2, "a", 2)), None, "the file of another origin");
        departed.forget(now + GENERATION_FOR);
        assert_eq!(instead(&departed, 2), Some(newest));
        departed.forget(now + 2 * GENERATION_FOR);
        assert_eq!(instead(&departed, 2), None);
        let other = PackedRecord::new(&record(1, "b", 1));
        (0..5 * GENERATION_MAX as u64).for_each(|n| departed.remember(NameHash(n << 8), other.clone()));
        assert!(departed.young.len() + departed.old.len() <= 2 * GENERATION_MAX);
    }

    #[test]
    fn long_names_take_the_place_of_more_files() {
        let mut departed = Departed::new(Instant::now());
        let long = PackedRecord::new(&record(1, &"x".repeat(255), 1));
        (0..2 * GENERATION_MAX as u64).for_each(|n| departed.remember(NameHash(n << 8), long.clone()));
        let files = departed.young.len() + departed.old.len() + departed.forgotten.len();
        assert!(files * (FILE_BYTES + 255) <= 3 * (GENERATION_BYTES_MAX + 500), "{files}");
    }
}
