//! [`Places`]: a bounded number of places for connections. When all are taken, the least worthy gives way to the
//! newcomer; so nobody keeps others out by staying.
//!
//! Who gives way: an idle connection, of the tenant that has the most of them, that was never used or else was not used for the
//! longest time. A busy one only where none is idle, and only to a node that has fewer.

use std::{
    cmp::Reverse,
    collections::{HashMap, hash_map::Entry},
    net::IpAddr,
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicU64, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
};

use parking_lot::Mutex;
use slab::Slab;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{budget::site_of, values::NodeId};

/// Places that are freed at once when all are taken, so that not every newcomer has all of them compared: this many, or
/// one of so many parts.
const FREED: usize = 8;
/// See [`FREED`].
const FREED_PARTS: usize = 512;

/// Who has a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tenant {
    /// The nodes at one address: an IPv4 address, or a /64 of IPv6.
    Site(IpAddr),
    /// A node of this machine.
    Node(NodeId),
    /// Programs of this machine that cannot be told apart.
    Local,
}

impl Tenant {
    /// The tenant at `addr`; nodes of this machine are told apart by their keys, once these are proven.
    #[must_use]
    pub fn at(addr: IpAddr, node: Option<NodeId>) -> Self {
        match (site_of(addr), node) {
            (Some(site), _) => Self::Site(site),
            (None, Some(node)) => Self::Node(node),
            (None, None) => Self::Local,
        }
    }
}

/// A bounded number of places. Clones share them.
#[derive(Clone, Debug)]
pub struct Places(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    max: usize,
    table: Mutex<Table>,
    freed: Notify,
    replaced: AtomicU64,
}

/// Invariant: each tenant's count is the number of entries with it, and none is 0.
#[derive(Debug, Default)]
struct Table {
    taken: Slab<Taken>,
    counts: HashMap<Tenant, Arc<AtomicUsize>>,
    /// Counts comparisons; serves as the clock of `Taken::last`.
    now: u64,
}

#[derive(Debug)]
struct Taken {
    tenant: Tenant,
    /// How many places this tenant has.
    count: Arc<AtomicUsize>,
    presence: Presence,
    /// When it was opened, or was last seen to have been used.
    last: u64,
}

/// Whether one connection is used, and whether it has to end. Clones are the same.
#[derive(Clone, Debug)]
pub struct Presence(Arc<Flags>);

#[derive(Debug)]
struct Flags {
    /// Since the last comparison.
    was_used: AtomicBool,
    ever_used: AtomicBool,
    is_busy: AtomicBool,
    ended: CancellationToken,
}

impl Presence {
    /// Of a connection that ends with `ended`.
    #[must_use]
    pub fn new(ended: CancellationToken) -> Self {
        let flag = || AtomicBool::new(false);
        Self(Arc::new(Flags { was_used: flag(), ever_used: flag(), is_busy: flag(), ended }))
    }

    /// Something came over it.
    pub fn used(&self) {
        self.0.was_used.store(true, Relaxed);
        self.0.ever_used.store(true, Relaxed);
    }

    /// Whether work for the other end is under way.
    pub fn set_busy(&self, is_busy: bool) {
        self.0.is_busy.store(is_busy, SeqCst);
    }

    /// Cancelled when the connection has to end.
    #[must_use]
    pub fn ended(&self) -> &CancellationToken {
        &self.0.ended
    }
}

/// One place, until dropped.
#[derive(Debug)]
pub struct Place {
    places: Places,
    key: usize,
    presence: Presence,
}

impl Place {
    /// That of the connection that has it.
    #[must_use]
    pub const fn presence(&self) -> &Presence {
        &self.presence
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.places.0.table.lock();
        let is_here = |taken: &Taken| Arc::ptr_eq(&taken.presence.0, &self.presence.0);
        if table.taken.get(self.key).is_some_and(is_here) {
            table.free(self.key);
        }
        drop(table);
        self.places.0.freed.notify_one();
    }
}

impl Places {
    /// `max` places, none of them taken.
    #[must_use]
    pub fn new(max: usize) -> Self {
        let (table, freed, replaced) = <_>::default();
        Self(Arc::new(Shared { max: max.max(1), table, freed, replaced }))
    }

    /// How many there are.
    #[must_use]
    pub fn max(&self) -> usize {
        self.0.max
    }

    /// How many are taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.0.table.lock().taken.len()
    }

    /// Connections that were ended for a newcomer.
    #[must_use]
    pub fn replaced(&self) -> u64 {
        self.0.replaced.load(Relaxed)
    }

    /// A place for `tenant`; `None` if all are busy and no tenant of one has more than this one would have.
    #[must_use]
    pub fn enter(&self, tenant: Tenant, presence: Presence) -> Option<Place> {
        let mut table = self.0.table.lock();
        if table.taken.len() >= self.0.max {
            let ends = table.give_way(tenant, self.freed_at_once());
            if ends.is_empty() {
                return None;
            }
            self.0.replaced.fetch_add(ends.len() as u64, Relaxed);
            for ended in ends {
                ended.0.ended.cancel();
            }
        }
        let key = table.take(tenant, presence.clone());
        Some(Place { places: self.clone(), key, presence })
    }

    /// Waits until a place becomes free.
    pub async fn freed(&self) {
        self.0.freed.notified().await;
    }

    fn freed_at_once(&self) -> usize {
        self.0.max.div_ceil(FREED_PARTS).max(FREED.min(self.0.max / FREED))
    }

    /// Ends some idle connections: the system lacks descriptors.
    pub fn thin_out(&self) {
        let mut table = self.0.table.lock();
        let ends = table.least_worthy(self.freed_at_once());
        self.0.replaced.fetch_add(ends.len() as u64, Relaxed);
        ends.into_iter().map(|key| table.free(key)).for_each(|presence| presence.0.ended.cancel());
    }
}

impl Table {
    fn take(&mut self, tenant: Tenant, presence: Presence) -> usize {
        let count = Arc::clone(self.counts.entry(tenant).or_default());
        count.fetch_add(1, Relaxed);
        self.taken.insert(Taken { tenant, count, presence, last: self.now })
    }

    fn free(&mut self, key: usize) -> Presence {
        let Taken { tenant, count, presence, .. } = self.taken.remove(key);
        if count.fetch_sub(1, Relaxed) == 1
            && let Entry::Occupied(none) = self.counts.entry(tenant)
        {
            none.remove();
        }
        presence
    }

    /// Frees up to `wanted` places for a connection of `newcomer`, at least one if there is one for it.
    fn give_way(&mut self, newcomer: Tenant, wanted: usize) -> Vec<Presence> {
        let mut keys = self.least_worthy(wanted);
        if keys.is_empty() {
            let after = self.counts.get(&newcomer).map_or(0, |count| count.load(Relaxed)) + 1;
            let order = |key, taken: &Taken| (taken.count.load(Relaxed), Reverse((taken.last, key)));
            let most = self.taken.iter().max_by_key(|(key, taken)| order(*key, taken));
            keys.extend(most.filter(|(_, taken)| taken.count.load(Relaxed) > after).map(|(key, _)| key));
        }
        keys.into_iter().map(|key| self.free(key)).collect()
    }

    /// Up to `wanted` idle ones, the least worthy.
    fn least_worthy(&mut self, wanted: usize) -> Vec<usize> {
        self.now += 1;
        let now = self.now;
        let mut idle = Vec::new();
        for (key, taken) in &mut self.taken {
            let flags = &taken.presence.0;
            if flags.was_used.swap(false, Relaxed) {
                taken.last = now;
            }
            if !flags.is_busy.load(SeqCst) {
                let used = flags.ever_used.load(Relaxed);
                idle.push((Reverse(taken.count.load(Relaxed)), used, taken.last, key));
            }
        }
        if idle.len() > wanted {
            idle.select_nth_unstable(wanted);
            idle.truncate(wanted);
        }
        idle.into_iter().map(|(.., key)| key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Tenant {
        Tenant::at(text.parse().unwrap(), None)
    }

    fn enter(places: &Places, tenant: Tenant) -> Option<Place> {
        places.enter(tenant, Presence::new(CancellationToken::new()))
    }

    fn ended(place: &Place) -> bool {
        place.presence.ended().is_cancelled()
    }

    #[test]
    fn the_one_with_the_most_gives_way_and_places_come_back() {
        let places = Places::new(4);
        let honest = enter(&places, at("192.0.2.1")).unwrap();
        let mut greedy: Vec<Place> = (0..3).map(|_| enter(&places, at("192.0.2.2")).unwrap()).collect();
        greedy[0].presence.used();
        let other = enter(&places, at("192.0.2.3")).unwrap();
        assert!(!ended(&honest) && !ended(&greedy[0]) && !ended(&other), "the used one stays");
        assert_eq!(greedy.iter().filter(|place| ended(place)).count(), 1);
        assert_eq!((places.taken(), places.replaced()), (4, 1));
        greedy.clear();
        assert_eq!(places.taken(), 2, "a place that was given away is not given back twice");
        drop((honest, other));
        assert!(places.0.table.lock().counts.is_empty());
    }

    #[test]
    fn who_waits_longest_unused_gives_way_first_and_the_busy_last() {
        let places = Places::new(3);
        let own: Vec<Place> = (0..3).map(|_| enter(&places, Tenant::Local).unwrap()).collect();
        own[0].presence.set_busy(true);
        own[1].presence.used();
        let fourth = enter(&places, Tenant::Local).unwrap();
        assert!(ended(&own[2]), "never used");
        fourth.presence.used();
        let _fifth = enter(&places, Tenant::Local).unwrap();
        assert!(ended(&own[1]) && !ended(&fourth), "used longer ago");
        assert!(!ended(&own[0]));
    }

    #[test]
    fn a_busy_one_gives_way_only_to_who_has_fewer() {
        let places = Places::new(4);
        let busy = |tenant| {
            let place = enter(&places, tenant).unwrap();
            place.presence.set_busy(true);
            place
        };
        let _greedy: Vec<Place> = (0..3).map(|_| busy(at("192.0.2.2"))).collect();
        let honest = busy(at("192.0.2.1"));
        assert!(enter(&places, at("192.0.2.2")).is_none(), "it has the most itself");
        let other = busy(at("192.0.2.3"));
        assert!(!ended(&honest) && !ended(&other));
        assert!(enter(&places, at("192.0.2.4")).is_some());
        assert_eq!(places.replaced(), 2);
    }

    #[test]
    fn nodes_of_this_machine_are_told_apart_by_their_keys() {
        let node = |seed| crate::identity::Identity::from_seed(&[seed; 32]).id();
        let ip: IpAddr = "127.0.0.1".parse().unwrap();
        assert_ne!(Tenant::at(ip, Some(node(1))), Tenant::at(ip, Some(node(2))));
        assert_eq!(Tenant::at(ip, None), at("::1"));
        assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:1"));
        assert_ne!(at("2001:db8:0:1::1"), at("2001:db8::1"));
    }

    /// Goal: a node that comes again and again never loses its connection to one who takes all he gets.
    #[test]
    fn crowd_of_one_never_displaces_another() {
        let places = Places::new(2000);
        let node = |seed| Tenant::Node(crate::identity::Identity::from_seed(&[seed; 32]).id());
        let honest: Vec<Place> = (1..20).map(|seed| enter(&places, node(seed)).unwrap()).collect();
        let crowd: Vec<Place> = (0..10_000).map(|_| enter(&places, node(0)).unwrap()).collect();
        assert!(!honest.iter().any(ended));
        assert!(!ended(crowd.last().unwrap()), "the newcomer has its place");
        assert!(places.taken() <= 2000);
    }
}
