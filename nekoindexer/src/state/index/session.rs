//! One holder's registrations over one connection.

use std::{
    collections::HashSet,
    net::IpAddr,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use nekoproto::{
    NodeAddrs, NodeId, Via,
    budget::{Account, Reservation},
};
use nohash_hasher::BuildNoHashHasher;
use parking_lot::{Mutex, MutexGuard};

use super::name_hash::NameHash;
use crate::state::holders::Listed;

/// Names one session may register.
pub const SESSION_NAMES_MAX: usize = 1_000_000;

/// Bytes that a listed name takes beside those of its text: its record, its places in tables and in our summary.
const NAME_BYTES: usize = 340;
/// How often its text is kept: in its record, and in the log of names.
const TEXTS: usize = 2;

/// [`Session::left_ms`] of one whose connection is open.
const CONNECTED: u64 = u64::MAX;
/// A holder may come back within this time without giving way to others; see [`Entry::found`](super::entry::Entry::found).
const LEFT_FOR_MS: u64 = 2_000;
/// Memory of this many times the names of a session is given back, from some on.
const SPARSE: usize = 4;
const SPARSE_FROM: usize = 64;

/// Identifies one connection of a holder, so that its next connection is another session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub(super) u64);

/// One holder's registrations over one connection: what it holds, and how long it is listed.
#[derive(Debug)]
pub struct Session {
    id: SessionId,
    at: NodeAddrs,
    site: IpAddr,
    /// Who has it connect to those who cannot connect to it: nobody on its own machine.
    via: Via,
    /// It was not reached there: it connects to those who look for it.
    is_unreachable: AtomicBool,
    /// End of the lease in milliseconds since the index was made.
    lease_ends_ms: AtomicU64,
    /// When its connection ended, in milliseconds since the index was made. While it is open it may register anew when the
    /// lease has ended: [`CONNECTED`].
    left_ms: AtomicU64,
    /// How often it has withdrawn everything.
    withdrawals: AtomicU64,
    /// Whether it registered a complete copy: else it ends with its connection.
    has_complete: AtomicBool,
    names: Mutex<SessionNames>,
}

/// Hashes of names: the text of a name is kept once, in the index.
pub(super) type NameHashes = HashSet<NameHash, BuildNoHashHasher<NameHash>>;

/// The names of a session. Two names of one session with the same hash are counted as one, and
/// deregistered together.
#[derive(Debug, Default)]
pub(super) struct SessionNames {
    hashes: NameHashes,
    reserved: Reservation,
    /// The session was removed; nothing may be added to it any more.
    closed: bool,
}

impl Session {
    pub(super) fn new(
        id: SessionId,
        (at, site): (NodeAddrs, IpAddr),
        account: Option<Account>,
        lease_ends_ms: u64,
    ) -> Self {
        let names = SessionNames { reserved: Reservation::of_table(account), ..SessionNames::default() };
        // Behind a forwarder on this machine it is seen at loopback, and says where it is.
        let is_local = at.addrs().iter().all(|addr| addr.ip().is_loopback());
        Self {
            id,
            via: if is_local { Via::Nobody } else { Via::Sender },
            at,
            site,
            is_unreachable: AtomicBool::new(false),
            lease_ends_ms: AtomicU64::new(lease_ends_ms),
            left_ms: AtomicU64::new(CONNECTED),
            withdrawals: AtomicU64::new(0),
            has_complete: AtomicBool::new(false),
            names: Mutex::new(names),
        }
    }

    /// Its id.
    #[must_use]
    pub const fn id(&self) -> SessionId {
        self.id
    }

    pub(super) fn node(&self) -> NodeId {
        self.at.node()
    }

    pub(super) const fn site(&self) -> IpAddr {
        self.site
    }

    pub(super) fn listed(&self, partial: bool) -> Listed {
        let unreachable = self.is_unreachable.load(Ordering::Relaxed);
        Listed::here(self.at.clone(), self.via, unreachable, partial)
    }

    /// Whether it can be connected to: from now on those who look for it are told so.
    pub(crate) fn note_reached(&self, is_reached: bool) {
        self.is_unreachable.store(!is_reached, Ordering::Relaxed);
    }

    /// How many names it has registered.
    #[must_use]
    pub fn count(&self) -> usize {
        self.names().hashes.len()
    }

    /// Whether its account had to give back all it has.
    #[must_use]
    pub fn is_evicted(&self) -> bool {
        self.names().reserved.is_evicted()
    }

    /// How often it has withdrawn everything: a registration that began before the last time is void.
    #[must_use]
    pub fn withdrawals(&self) -> u64 {
        self.withdrawals.load(Ordering::Relaxed)
    }

    pub(super) fn note_withdrawal(&self) {
        self.withdrawals.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn note_complete(&self) {
        self.has_complete.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_complete(&self) -> bool {
        self.has_complete.load(Ordering::Relaxed)
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

    pub(super) fn disconnected(&self, now_ms: u64) {
        self.left_ms.store(now_ms, Ordering::Relaxed);
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.left_ms.load(Ordering::Relaxed) == CONNECTED
    }

    /// Whether its connection is open or has ended just now.
    pub(super) fn is_here(&self, now_ms: u64) -> bool {
        self.left_ms.load(Ordering::Relaxed).saturating_add(LEFT_FOR_MS) > now_ms
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
    /// Adds a name of `len` bytes unless it is there already; false if there is no room for it.
    pub(super) fn insert(&mut self, hash: NameHash, len: usize) -> bool {
        if self.closed || self.contains(hash) {
            return !self.closed;
        }
        let has_room = self.hashes.len() < SESSION_NAMES_MAX;
        has_room && self.reserved.set(self.reserved.used() + bytes(len)).is_ok() && self.hashes.insert(hash)
    }

    pub(super) fn len(&self) -> usize {
        self.hashes.len()
    }

    pub(super) fn contains(&self, hash: NameHash) -> bool {
        self.hashes.contains(&hash)
    }

    pub(super) fn remove(&mut self, hash: NameHash, len: usize) {
        if self.hashes.remove(&hash) {
            if self.hashes.capacity() > SPARSE * self.hashes.len().max(SPARSE_FROM) {
                self.hashes.shrink_to(SPARSE / 2 * self.hashes.len());
            }
            let left = self.reserved.used().saturating_sub(bytes(len)); // of two with one hash the first was counted
            let _ = self.reserved.set(left); // less than before
        }
    }

    /// Takes all names away. With `close`, no name can be added afterwards.
    pub(super) fn clear(&mut self, close: bool) -> NameHashes {
        self.closed |= close;
        let _ = self.reserved.set(0); // less than before
        std::mem::take(&mut self.hashes)
    }
}

/// What a name of `len` bytes takes.
const fn bytes(len: usize) -> usize {
    NAME_BYTES + TEXTS * len
}

#[cfg(test)]
mod tests {
    use nekoproto::budget::Budget;

    use super::*;
    use crate::state::testing::account;

    #[test]
    fn a_full_session_has_room_for_what_it_has() {
        let mut names = SessionNames::default();
        let hash = |n: usize| NameHash((n as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        for n in 0..SESSION_NAMES_MAX {
            assert!(names.insert(hash(n), 9));
        }
        assert!(!names.insert(hash(SESSION_NAMES_MAX), 9) && names.insert(hash(0), 9));
        names.remove(hash(1), 9);
        assert!(names.insert(hash(SESSION_NAMES_MAX), 9));
        assert_eq!(names.clear(true).len(), SESSION_NAMES_MAX);
        assert!(!names.insert(hash(0), 9), "closed");
    }

    #[test]
    fn names_are_on_the_account_of_their_node_and_long_ones_take_more() {
        let budget = Budget::new(0);
        let account = account(&budget, 1);
        for (len, expected) in [(20, 13_100), (1000, 2_090)] {
            let mut names = SessionNames {
                reserved: Reservation::of_table(Some(account.clone())),
                ..SessionNames::default()
            };
            let fit = (0..).take_while(|n| names.insert(NameHash(*n), len)).count();
            assert!((expected..expected * 11 / 10).contains(&fit), "{fit} of {len} bytes");
            assert!(names.insert(NameHash(0), len), "what is there stays");
            names.remove(NameHash(1), len);
            assert!(names.insert(NameHash(u64::MAX), len));
            drop(names);
            assert_eq!(budget.used(), 0);
        }
    }

    /// Goal: names that are withdrawn one by one leave no memory behind that is on nobody's account.
    #[test]
    fn withdrawn_names_leave_memory() {
        let mut names = SessionNames::default();
        (0..100_000).for_each(|n| assert!(names.insert(NameHash(n), 9)));
        (10..100_000).for_each(|n| names.remove(NameHash(n), 9));
        assert!((0..10).all(|n| names.contains(NameHash(n))));
        assert!(names.hashes.capacity() < 1_000, "{}", names.hashes.capacity());
    }
}
