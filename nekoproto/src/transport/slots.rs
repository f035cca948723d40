//! [`Slots`]: a bounded number of connections, or of whatever else nodes take. When all are taken, the newcomer evicts
//! another; so nobody keeps others out by staying.
//!
//! Who is evicted: an idle one of the address that has most slots, of the node there that has most; one that was never
//! used, or else idle or unused for the longest time. A busy one only where none is idle, and only for an address, or a
//! node of the same address, that has fewer.

mod activity;
mod table;
#[cfg(test)]
mod tests;

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::Notify;

pub use self::activity::Activity;
use self::table::Table;
use crate::{budget::site_of, values::NodeId};

/// Slots that are freed at once when all are taken, so that not every newcomer has all of them compared: this many, or
/// one of so many parts.
const FREED: usize = 8;
/// See [`FREED`].
const FREED_PARTS: usize = 512;

/// Who has a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotOwner {
    /// Its address: an IPv4 address, or a /64 of IPv6.
    pub site: IpAddr,
    /// The node, if that is proven.
    pub node: Option<NodeId>,
}

impl SlotOwner {
    /// Programs of this machine that cannot be told apart.
    pub const LOCAL: Self = Self { site: IpAddr::V4(Ipv4Addr::LOCALHOST), node: None };

    /// The node at `addr`, or all of them that are not told apart.
    #[must_use]
    pub fn at(addr: IpAddr, node: Option<NodeId>) -> Self {
        Self { site: site_of(addr), node }
    }
}

/// How many [`Slots`] there are.
#[derive(Clone, Copy, Debug)]
pub struct SlotLimits {
    /// Slots in all.
    pub all: usize,
    /// Slots of one node; a further one of the same node evicts its oldest idle one, or else its oldest.
    pub each: usize,
    /// The weight of all together.
    pub weight: u64,
    /// The time after which an idle one may be evicted.
    pub idle_after: Duration,
}

impl SlotLimits {
    /// `all` slots, and no other limit.
    #[must_use]
    pub const fn new(all: usize) -> Self {
        Self { all, each: usize::MAX, weight: u64::MAX, idle_after: Duration::ZERO }
    }
}

/// A bounded number of slots. Clones share them.
#[derive(Clone, Debug)]
pub struct Slots(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limits: SlotLimits,
    table: Mutex<Table>,
    freed: Notify,
    evicted: AtomicU64,
}

/// One slot, until dropped or given to another.
#[derive(Debug)]
pub struct Slot {
    slots: Slots,
    key: usize,
    activity: Activity,
}

impl Slot {
    /// That of whoever has it.
    #[must_use]
    pub const fn activity(&self) -> &Activity {
        &self.activity
    }

    /// Adds `weight` to its own, at the cost of idle slots where all have too much; false if even that is not enough.
    #[must_use]
    pub fn grow(&self, weight: u64, now: Instant) -> bool {
        let Shared { limits, table, .. } = &*self.slots.0;
        let mut table = table.lock();
        while table.weight().saturating_add(weight) > limits.weight {
            let idle = table.idle(1, limits.idle_after, now, |key| key != self.key);
            if idle.is_empty() {
                return false;
            }
            self.slots.evict(&mut table, idle);
        }
        self.is_in(&table) && table.grow(self.key, weight)
    }

    fn is_in(&self, table: &Table) -> bool {
        table.activity(self.key).is_some_and(|activity| activity.is(&self.activity))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut table = self.slots.0.table.lock();
        if self.is_in(&table) {
            table.free(self.key);
        }
        drop(table);
        self.slots.0.freed.notify_one();
    }
}

impl Slots {
    /// `all` slots, none of them taken.
    #[must_use]
    pub fn new(all: usize) -> Self {
        Self::with(SlotLimits::new(all))
    }

    /// Slots within `limits`, none of them taken.
    #[must_use]
    pub fn with(limits: SlotLimits) -> Self {
        let (table, freed, evicted) = <_>::default();
        Self(Arc::new(Shared {
            limits: SlotLimits { all: limits.all.max(1), ..limits },
            table,
            freed,
            evicted,
        }))
    }

    /// How many there are.
    #[must_use]
    pub fn max(&self) -> usize {
        self.0.limits.all
    }

    /// How many are taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.0.table.lock().len()
    }

    /// The weight of all that are taken.
    #[must_use]
    pub fn weight(&self) -> u64 {
        self.0.table.lock().weight()
    }

    /// How many were evicted so far.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.0.evicted.load(Relaxed)
    }

    /// A slot for `owner`; `None` if all are busy and nobody has more than it would have.
    #[must_use]
    pub fn enter(&self, owner: SlotOwner, activity: Activity) -> Option<Slot> {
        self.enter_within(self.max(), owner, activity, Instant::now())
    }

    /// The same, where `max` is how many there are `now`.
    #[must_use]
    pub fn enter_within(
        &self,
        max: usize,
        owner: SlotOwner,
        activity: Activity,
        now: Instant,
    ) -> Option<Slot> {
        let limits = &self.0.limits;
        let mut table = self.0.table.lock();
        if table.of_node(owner) >= limits.each {
            let oldest = table.oldest_of(owner);
            self.evict(&mut table, oldest);
        }
        let taken = table.len();
        if taken >= max.max(1) {
            let wanted = (taken + 1 - max.max(1)).max(self.freed_at_once());
            let mut evicted = table.idle(wanted, limits.idle_after, now, |_| true);
            if evicted.is_empty() {
                evicted.extend(table.busiest(owner));
            }
            if evicted.is_empty() {
                return None;
            }
            self.evict(&mut table, evicted);
        }
        let key = table.take(owner, activity.clone());
        Some(Slot { slots: self.clone(), key, activity })
    }

    /// Waits until a slot becomes free.
    pub async fn freed(&self) {
        self.0.freed.notified().await;
    }

    fn freed_at_once(&self) -> usize {
        let all = self.max();
        all.div_ceil(FREED_PARTS).max(FREED.min(all / FREED))
    }

    /// Evicts up to `count` idle ones.
    pub fn thin_out(&self, count: usize) {
        let mut table = self.0.table.lock();
        let idle = table.idle(count, self.0.limits.idle_after, Instant::now(), |_| true);
        self.evict(&mut table, idle);
    }

    fn evict(&self, table: &mut Table, keys: impl IntoIterator<Item = usize>) {
        for key in keys {
            table.free(key).ended().cancel();
            self.0.evicted.fetch_add(1, Relaxed);
        }
    }
}
