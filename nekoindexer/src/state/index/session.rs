//! One holder's registrations over one connection.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwapOption;
use nekoproto::{NodeId, VerifiedReach};
use nohash_hasher::BuildNoHashHasher;
use parking_lot::{Mutex, MutexGuard};

use super::name_hash::NameHash;
use crate::state::holders::Listed;

/// Names one session may register.
pub const SESSION_NAMES_MAX: usize = 1_000_000;

/// Identifies one connection of a holder, so that its next connection is another session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub(super) u64);

/// One holder's registrations over one connection: what it holds, and how long it is listed.
#[derive(Debug)]
pub struct Session {
    id: SessionId,
    pub(super) node: NodeId,
    /// Where it can be reached, in its own words, and which of these addresses were seen.
    reach: ArcSwapOption<(VerifiedReach, u8)>,
    /// End of the lease in milliseconds since the index was made.
    lease_ends_ms: AtomicU64,
    /// Its connection is open: when the lease ends it loses its registrations, and may make new ones.
    connected: AtomicBool,
    /// How often it has withdrawn everything.
    withdrawals: AtomicU64,
    names: Mutex<SessionNames>,
}

/// Hashes of names: the text of a name is kept once, in the index.
pub(super) type NameHashes = HashSet<NameHash, BuildNoHashHasher<NameHash>>;

/// The names of a session. Two names of one session with the same hash are counted as one, and
/// deregistered together.
#[derive(Debug, Default)]
pub(super) struct SessionNames {
    hashes: NameHashes,
    /// The session was removed; nothing may be added to it any more.
    closed: bool,
}

impl Session {
    pub(super) fn new(id: SessionId, node: NodeId, lease_ends_ms: u64) -> Self {
        Self {
            id,
            node,
            reach: ArcSwapOption::empty(),
            lease_ends_ms: AtomicU64::new(lease_ends_ms),
            connected: AtomicBool::new(true),
            withdrawals: AtomicU64::new(0),
            names: Mutex::default(),
        }
    }

    /// Its id.
    #[must_use]
    pub const fn id(&self) -> SessionId {
        self.id
    }

    /// From now on it is listed with this word, at the addresses whose bit is set in `addrs`; without one, if none is.
    pub fn introduce(&self, reach: VerifiedReach, addrs: u8) {
        self.reach.store((addrs != 0).then(|| Arc::new((reach, addrs))));
    }

    /// Whether it can be listed.
    #[must_use]
    pub fn is_introduced(&self) -> bool {
        self.reach.load().is_some()
    }

    /// It as a holder of a version, or of a part of it.
    pub(super) fn listed(&self, partial: bool) -> Option<Listed> {
        let reach = self.reach.load();
        let (reach, addrs) = &**reach.as_ref()?;
        Some(Listed::here(reach.clone(), *addrs, partial))
    }

    /// How many names it has registered.
    #[must_use]
    pub fn count(&self) -> usize {
        self.names().hashes.len()
    }

    /// How often it has withdrawn everything: a registration that began before the last time is void.
    #[must_use]
    pub fn withdrawals(&self) -> u64 {
        self.withdrawals.load(Ordering::Relaxed)
    }

    pub(super) fn note_withdrawal(&self) {
        self.withdrawals.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn names(&self) -> MutexGuard<'_, SessionNames> {
        self.names.lock()
    }

    pub(super) fn renew(&self, lease_ends_ms: u64) {
        self.lease_ends_ms.store(lease_ends_ms, Ordering::Relaxed);
    }

    pub(super) fn is_listed_at(&self, now_ms: u64) -> bool {
        self.lease_ends_ms.load(Ordering::Relaxed) > now_ms
    }

    pub(super) fn disconnected(&self) {
        self.connected.store(false, Ordering::Relaxed);
    }

    pub(super) fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Relaxed)
    }
}

/// Names that were taken from a session, and are to be unlisted.
#[derive(Debug)]
pub struct Withdrawn(pub(super) NameHashes);

impl Withdrawn {
    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl SessionNames {
    /// Whether one more name may be added, or this one is there already.
    pub(super) fn has_room_for(&self, hash: NameHash) -> bool {
        !self.closed && (self.hashes.len() < SESSION_NAMES_MAX || self.contains(hash))
    }

    pub(super) fn contains(&self, hash: NameHash) -> bool {
        self.hashes.contains(&hash)
    }

    pub(super) fn insert(&mut self, hash: NameHash) {
        self.hashes.insert(hash);
    }

    pub(super) fn remove(&mut self, hash: NameHash) {
        self.hashes.remove(&hash);
    }

    /// Takes all names away. With `close`, no name can be added afterwards.
    pub(super) fn clear(&mut self, close: bool) -> NameHashes {
        self.closed |= close;
        std::mem::take(&mut self.hashes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_session_has_room_for_what_it_has() {
        let mut names = SessionNames::default();
        let hash = |n: usize| NameHash((n as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        for n in 0..SESSION_NAMES_MAX {
            assert!(names.has_room_for(hash(n)));
            names.insert(hash(n));
        }
        assert!(!names.has_room_for(hash(SESSION_NAMES_MAX)) && names.has_room_for(hash(0)));
        names.remove(hash(1));
        assert!(names.has_room_for(hash(SESSION_NAMES_MAX)));
        assert_eq!(names.clear(true).len(), SESSION_NAMES_MAX - 1);
        assert!(!names.has_room_for(hash(0)), "closed");
    }
}
