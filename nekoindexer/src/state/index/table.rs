//! The table of entries by name: many small tables, each under a lock of its own.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use hashbrown::HashTable;
use nekoproto::FileName;

use super::entry::Entry;

/// Tables that the names are spread over. So many that one of them grows in well under a millisecond
/// when there are a million names, and that two threads seldom meet.
const SHARDS: usize = 256;
const _: () = assert!(SHARDS.is_power_of_two());

/// Entries by name. The text of a name is in its record only.
#[derive(Debug)]
pub(super) struct Table {
    shards: Box<[RwLock<Shard>]>,
    /// Its keys are secret, so that nobody can make names that meet in one place.
    hasher: RandomState,
}

/// A part of the table.
///
/// Invariants: each entry has one slot, which says where it is.
#[derive(Debug, Default)]
pub(super) struct Shard {
    slots: HashTable<Slot>,
    entries: Vec<Entry>,
}

/// Where an entry is. With a part of its hash, so that neither growing nor a name that is not there
/// touches a record: with a million names, that is memory which is in no cache.
#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u32,
    at: u32,
}

impl Table {
    pub(super) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| RwLock::default()).collect();
        Self { shards, hasher: RandomState::new() }
    }

    pub(super) fn hash(&self, name: &FileName) -> u64 {
        self.hasher.hash_one(name.as_str().as_bytes())
    }

    pub(super) fn hash_of(&self, entry: &Entry) -> u64 {
        self.hasher.hash_one(entry.name_bytes())
    }

    /// What `read` says of the entry of `name`, if there is one.
    pub(super) fn read<T>(&self, name: &FileName, read: impl FnOnce(&Entry) -> T) -> Option<T> {
        let hash = self.hash(name);
        let shard = self.shard(hash).read().unwrap_or_else(PoisonError::into_inner);
        shard.find(hash, is(name)).map(|at| read(&shard.entries[at]))
    }

    /// Changes the entry of `name`, whose hash is `hash`; `insert` makes one where there is none.
    pub(super) fn change<T>(
        &self,
        hash: u64,
        name: &FileName,
        change: impl FnOnce(&mut Entry) -> T,
        insert: impl FnOnce() -> (Option<Entry>, T),
    ) -> T {
        let mut shard = self.write(hash);
        if let Some(at) = shard.find(hash, is(name)) {
            return change(&mut shard.entries[at]);
        }
        let (entry, result) = insert();
        if let Some(entry) = entry {
            shard.insert(hash, entry);
        }
        result
    }

    /// Asks `remove` of each entry with this hash for which `is_meant` whether it must go; says how
    /// many went.
    pub(super) fn remove(
        &self,
        hash: u64,
        is_meant: impl Fn(&Entry) -> bool,
        mut remove: impl FnMut(&mut Entry) -> bool,
    ) -> usize {
        let mut shard = self.write(hash);
        let mut gone = 0;
        // An entry that stays is not meant any more, or this would not end.
        while let Some(at) = shard.find(hash, |entry| is_meant(entry) && self.hash_of(entry) == hash) {
            if remove(&mut shard.entries[at]) {
                shard.remove(hash, at, |entry| self.hash_of(entry));
                gone += 1;
            }
        }
        gone
    }

    pub(super) fn len(&self) -> usize {
        self.shards().map(|shard| shard.entries.len()).sum()
    }

    /// The tables, one after the other, each locked while it is looked at.
    pub(super) fn shards(&self) -> impl Iterator<Item = RwLockReadGuard<'_, Shard>> {
        self.shards.iter().map(|shard| shard.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write(&self, hash: u64) -> RwLockWriteGuard<'_, Shard> {
        self.shard(hash).write().unwrap_or_else(PoisonError::into_inner)
    }

    fn shard(&self, hash: u64) -> &RwLock<Shard> {
        let [lowest, ..] = hash.to_le_bytes(); // bits that no slot uses
        &self.shards[usize::from(lowest) % SHARDS]
    }
}

impl Shard {
    /// All entries.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn find(&self, hash: u64, is_it: impl Fn(&Entry) -> bool) -> Option<usize> {
        let hash = part(hash);
        let is_it = |slot: &Slot| slot.hash == hash && is_it(&self.entries[slot.at as usize]);
        self.slots.find(spread(hash), is_it).map(|slot| slot.at as usize)
    }

    fn insert(&mut self, hash: u64, entry: Entry) {
        // Four thousand million entries of one shard would fill the memory of any machine first.
        let Ok(at) = u32::try_from(self.entries.len()) else { return };
        let hash = part(hash);
        self.entries.push(entry);
        self.slots.insert_unique(spread(hash), Slot { hash, at }, |slot| spread(slot.hash));
    }

    /// Removes the entry at `at`; the last one takes its place.
    fn remove(&mut self, hash: u64, at: usize, hash_of: impl Fn(&Entry) -> u64) {
        if let Ok(slot) = self.slots.find_entry(spread(part(hash)), |slot| slot.at as usize == at) {
            slot.remove();
        }
        self.entries.swap_remove(at);
        let moved_from = self.entries.len();
        if let Some(moved) = self.entries.get(at)
            && let Some(slot) =
                self.slots.find_mut(spread(part(hash_of(moved))), |slot| slot.at as usize == moved_from)
            && let Ok(at) = u32::try_from(at)
        {
            slot.at = at;
        }
    }
}

fn is(name: &FileName) -> impl Fn(&Entry) -> bool {
    move |entry| entry.name_bytes() == name.as_str().as_bytes()
}

/// The part of a hash that is kept.
const fn part(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// A hash made of that part: a table of slots uses the lowest bits and the seven highest.
const fn spread(part: u32) -> u64 {
    (part as u64) << 32 | part as u64
}
