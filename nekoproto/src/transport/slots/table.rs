//! [`Table`]: the slots that are taken, and which of them is evicted first.

use std::{
    cmp::Reverse,
    collections::{HashMap, hash_map::Entry},
    hash::Hash,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use slab::Slab;

use super::{Activity, SlotOwner};

/// How many slots each has. Invariant: none has 0.
#[derive(Debug)]
struct Counts<K>(HashMap<K, Arc<AtomicUsize>>);

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> Counts<K> {
    fn add(&mut self, key: K) -> Arc<AtomicUsize> {
        let count = Arc::clone(self.0.entry(key).or_default());
        count.fetch_add(1, Relaxed);
        count
    }

    fn remove(&mut self, key: K) {
        if let Entry::Occupied(known) = self.0.entry(key)
            && known.get().fetch_sub(1, Relaxed) == 1
        {
            known.remove();
        }
    }

    fn of(&self, key: &K) -> usize {
        self.0.get(key).map_or(0, |count| count.load(Relaxed))
    }
}

/// The slots that are taken.
#[derive(Debug, Default)]
pub(super) struct Table {
    taken: Slab<Taken>,
    sites: Counts<IpAddr>,
    tenants: Counts<SlotOwner>,
    weight: u64,
    /// Counts comparisons; serves as the clock of `Taken::last`.
    now: u64,
}

#[derive(Debug)]
struct Taken {
    owner: SlotOwner,
    of_site: Arc<AtomicUsize>,
    of_node: Arc<AtomicUsize>,
    activity: Activity,
    weight: u64,
    /// When it was taken, or was last seen to have been used.
    last: u64,
}

impl Taken {
    fn counts(&self) -> [usize; 2] {
        [&self.of_site, &self.of_node].map(|count| count.load(Relaxed))
    }
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.taken.len()
    }

    pub(super) const fn weight(&self) -> u64 {
        self.weight
    }

    pub(super) fn activity(&self, key: usize) -> Option<&Activity> {
        self.taken.get(key).map(|taken| &taken.activity)
    }

    /// How many the node of `owner` has; 0 if it is not known.
    pub(super) fn of_node(&self, owner: SlotOwner) -> usize {
        owner.node.map_or(0, |_| self.tenants.of(&owner))
    }

    pub(super) fn take(&mut self, owner: SlotOwner, activity: Activity) -> usize {
        let (of_site, of_node) = (self.sites.add(owner.site), self.tenants.add(owner));
        self.taken.insert(Taken { owner, of_site, of_node, activity, weight: 0, last: self.now })
    }

    pub(super) fn grow(&mut self, key: usize, weight: u64) -> bool {
        let Some(taken) = self.taken.get_mut(key) else { return false };
        taken.weight += weight;
        self.weight += weight;
        true
    }

    pub(super) fn free(&mut self, key: usize) -> Activity {
        let Taken { owner, activity, weight, .. } = self.taken.remove(key);
        self.sites.remove(owner.site);
        self.tenants.remove(owner);
        self.weight -= weight;
        activity
    }

    /// That of the same node that is evicted first.
    pub(super) fn oldest_of(&mut self, owner: SlotOwner) -> Option<usize> {
        self.look();
        let own = self.taken.iter().filter(|(_, taken)| taken.owner == owner);
        let order = |(key, taken): &(usize, &Taken)| {
            let is_busy = taken.activity.idle(Duration::ZERO, Instant::now()).is_none();
            (is_busy, taken.activity.was_ever_used(), taken.last, *key)
        };
        own.min_by_key(order).map(|(key, _)| key)
    }

    /// A busy one that is evicted for `newcomer`.
    pub(super) fn busiest(&self, newcomer: SlotOwner) -> Option<usize> {
        let [of_site, of_node] = [self.sites.of(&newcomer.site), self.tenants.of(&newcomer)];
        let has_more = |taken: &Taken| match taken.counts() {
            [_, theirs] if taken.owner.site == newcomer.site => theirs > of_node + 1,
            [theirs, _] => theirs > of_site + 1,
        };
        let more = self.taken.iter().filter(|(_, taken)| has_more(taken));
        more.max_by_key(|(key, taken)| (taken.counts(), Reverse((taken.last, *key)))).map(|(key, _)| key)
    }

    /// Up to `wanted` of those that `may` and are idle for so long, the first to be evicted.
    pub(super) fn idle(
        &mut self,
        wanted: usize,
        at_least: Duration,
        now: Instant,
        may: impl Fn(usize) -> bool,
    ) -> Vec<usize> {
        self.look();
        let idle = self.taken.iter().filter_map(|(key, taken)| {
            let since = taken.activity.idle(at_least, now).filter(|_| may(key))?;
            let used = taken.activity.was_ever_used();
            Some((Reverse(taken.counts()), used, since, taken.last, key))
        });
        let mut idle: Vec<_> = idle.collect();
        if idle.len() > wanted {
            idle.select_nth_unstable(wanted);
            idle.truncate(wanted);
        }
        idle.into_iter().map(|(.., key)| key).collect()
    }

    /// Notes which were used since the last time.
    fn look(&mut self) {
        self.now += 1;
        for (_, taken) in &mut self.taken {
            if taken.activity.was_used_since_last() {
                taken.last = self.now;
            }
        }
    }

    #[cfg(test)]
    pub(super) fn counts_nobody(&self) -> bool {
        self.sites.0.is_empty() && self.tenants.0.is_empty()
    }
}
