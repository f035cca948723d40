//! Subscribers: peers that confirmed a copy, and are told of new versions directly for one lease. Beside them the readers that
//! were heard in the last 7 days are listed, and stored.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    hash::{BuildHasher, RandomState},
    ops::{Bound, RangeInclusive},
    sync::Arc,
    time::{Duration, Instant},
};

use nekoproto::{FileName, Holder, IdDigits, Label, NodeId, Record, Version, clock::unix_ms};
use parking_lot::Mutex;
use slab::Slab;
use tokio::time::sleep;
use tracing::warn;

use super::Library;
use crate::{failure::Failure, state::readers::LastHeard, util::clock};

/// Maximum number of subscribers of one name. Further peers learn of new versions from their indexers or by
/// asking.
pub(crate) const SUBSCRIBERS_MAX: usize = 1024;
/// Maximum number of subscriptions in all, some fifty bytes each, and of one node.
const SUBSCRIPTIONS_MAX: usize = 1 << 20;
const OF_NODE_MAX: u32 = 1 << 18;
/// Subscriptions that are looked at with each new one: those that have ended are removed.
const SWEPT_AT_ONCE: usize = 8;

/// Interval between two looks at whether there is a new reader or version to be stored: a kill loses what came since.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Looks after which later times are stored, too.
const TIMES_EVERY: u32 = 60;

/// The subscriptions at this origin. Ended ones are removed when their name is used, and in turn.
#[derive(Debug)]
pub(crate) struct Subscribers(Mutex<SubscriberTable>);

/// A subscription takes some thirty bytes, since there may be one for each name and reader. Two names of one hash
/// share their subscribers: a few are told of a file that they do not hold, which is no news to them.
///
/// Invariant: `nodes` and `holders` have each node with a subscription, and the number of its subscriptions.
#[derive(Debug)]
struct SubscriberTable {
    hasher: RandomState,
    began: Instant,
    /// Hash of the name and index of the holder -> its subscription.
    ends: BTreeMap<(u64, u32), Subscription>,
    swept: (u64, u32),
    /// Until when a peer may hold a fresh copy that was not subscribed for want of room.
    refused_until: u64,
    holders: Slab<(Holder, u32)>,
    nodes: HashMap<NodeId, u32>,
}

#[derive(Clone, Copy, Debug)]
struct Subscription {
    end: u64,
    /// The last version that the holder confirmed or acknowledged.
    version: Version,
    holds: Version,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subscribed {
    pub(crate) holder: Holder,
    pub(crate) label: Option<Label>,
    /// The last version that it confirmed or acknowledged: that it knows, not that it holds.
    pub(crate) version: Version,
    /// The last version that it confirmed: that it holds.
    pub(crate) holds: Version,
    /// Until when its copy of an earlier version may count as fresh.
    pub(crate) ends_in: Duration,
    /// When it was heard last, in milliseconds since 1970, if that was noted beside its lease.
    pub(crate) heard_ms: Option<u64>,
}

impl Default for Subscribers {
    fn default() -> Self {
        Self::new(Instant::now())
    }
}

impl Subscribed {
    pub(crate) fn named(&self) -> String {
        named(self.label.as_ref(), &self.holder.node.short())
    }
}

/// A reader as it is shown: what it is called, as it says, and the first digits of its id, which it proved.
pub(crate) fn named(label: Option<&impl fmt::Display>, digits: &str) -> String {
    label.map_or_else(|| digits.to_owned(), |label| format!("{label} ({digits})"))
}

impl Subscribers {
    /// None yet; time is counted from `began`.
    pub(crate) fn new(began: Instant) -> Self {
        let (hasher, ends, swept, refused_until, holders, nodes) = Default::default();
        Self(Mutex::new(SubscriberTable { hasher, began, ends, swept, refused_until, holders, nodes }))
    }

    /// Subscribes `holder`, which knows of `version` and holds `holds`, to `name` until `now + lease`.
    pub(crate) fn subscribe(
        &self,
        name: &FileName,
        version: Version,
        holds: Version,
        holder: Holder,
        lease: Duration,
        now: Instant,
    ) {
        let table = &mut *self.0.lock();
        let (hash, end) = (table.hasher.hash_one(name), table.ms(now + lease));
        table.sweep(now);
        let known = table.remove_ended(hash, now);
        if let Some(index) = table.nodes.get(&holder.node)
            && let Some(before) = table.ends.get_mut(&(hash, *index))
        {
            *before = Subscription { end, version: before.version.max(version), holds };
            return;
        }
        let of_node = table.nodes.get(&holder.node).map_or(0, |index| table.holders[*index as usize].1);
        if known >= SUBSCRIBERS_MAX || table.ends.len() >= SUBSCRIPTIONS_MAX || of_node >= OF_NODE_MAX {
            table.refused_until = table.refused_until.max(end);
        } else {
            let index = *table.nodes.entry(holder.node).or_insert_with(|| {
                u32::try_from(table.holders.insert((holder, 0))).unwrap_or(u32::MAX) // memory ends before
            });
            table.holders[index as usize].1 += 1;
            table.ends.insert((hash, index), Subscription { end, version, holds });
        }
    }

    pub(crate) fn of(&self, name: &FileName, now: Instant) -> Vec<Subscribed> {
        let table = &mut *self.0.lock();
        let hash = table.hasher.hash_one(name);
        table.remove_ended(hash, now);
        let (known, now) = (table.ends.range((hash, 0)..=(hash, u32::MAX)), table.ms(now));
        let subscribed = known.map(|((_, index), Subscription { end, version, holds })| Subscribed {
            holder: table.holders[*index as usize].0,
            label: None,
            version: *version,
            holds: *holds,
            ends_in: Duration::from_millis(end.saturating_sub(now)),
            heard_ms: None,
        });
        subscribed.collect()
    }

    /// Whether everyone whose copy may count as fresh is a subscriber, where a confirmation counts for `bound`: nobody
    /// confirmed one before this process began, or found no room.
    pub(crate) fn knows_all(&self, bound: Duration, now: Instant) -> bool {
        let table = &*self.0.lock();
        let now = table.ms(now);
        u128::from(now) >= bound.as_millis() && now >= table.refused_until
    }

    pub(crate) fn acknowledge(&self, name: &FileName, version: Version, node: &NodeId) {
        let table = &mut *self.0.lock();
        let (hash, index) = (table.hasher.hash_one(name), table.nodes.get(node).copied());
        if let Some(known) = index.and_then(|index| table.ends.get_mut(&(hash, index))) {
            known.version = known.version.max(version);
        }
    }

    /// Where `node` is told from now on what it subscribes to, if that is anything: a peer that starts again has another port.
    pub(crate) fn moved(&self, holder: Holder) {
        let table = &mut *self.0.lock();
        if let Some(index) = table.nodes.get(&holder.node) {
            table.holders[*index as usize].0 = holder;
        }
    }

    /// Where `node` is, if it subscribes to `name` and has not acknowledged this version.
    pub(crate) fn behind(
        &self,
        name: &FileName,
        version: Version,
        node: &NodeId,
        now: Instant,
    ) -> Option<Holder> {
        let table = &*self.0.lock();
        let index = *table.nodes.get(node)?;
        let known = table.ends.get(&(table.hasher.hash_one(name), index))?;
        let is_behind = known.end > table.ms(now) && known.version < version;
        is_behind.then(|| table.holders[index as usize].0)
    }
}

impl SubscriberTable {
    fn ms(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.began).as_millis()).unwrap_or(u64::MAX)
    }

    /// Removes the subscriptions of a name that have ended; returns the number of the others.
    fn remove_ended(&mut self, hash: u64, now: Instant) -> usize {
        let of_name = (hash, 0)..=(hash, u32::MAX);
        self.remove_ended_in(of_name.clone(), now);
        self.ends.range(of_name).count()
    }

    fn sweep(&mut self, now: Instant) {
        let next = self.ends.range((Bound::Excluded(self.swept), Bound::Unbounded));
        let last = next.take(SWEPT_AT_ONCE).last().map(|(key, _)| *key);
        self.remove_ended_in(self.swept..=last.unwrap_or((u64::MAX, u32::MAX)), now);
        self.swept = last.unwrap_or_default();
    }

    fn remove_ended_in(&mut self, keys: RangeInclusive<(u64, u32)>, now: Instant) {
        let now = self.ms(now);
        let ended: Vec<_> = self.ends.extract_if(keys, |_, known| known.end <= now).collect();
        for ((_, index), _) in ended {
            let (holder, subscriptions) = &mut self.holders[index as usize];
            *subscriptions -= 1;
            if *subscriptions == 0 {
                self.nodes.remove(&holder.node);
                self.holders.remove(index as usize);
            }
        }
    }
}

impl Library {
    /// The readers of `name`: those with a lease, and without one those that were heard in the last days.
    pub(crate) fn readers_of(&self, name: &FileName) -> Vec<Subscribed> {
        let mut known = self.subscribers.of(name, clock::now());
        let readers = self.readers.lock();
        for (node, LastHeard { addr, holds, heard_ms, .. }) in readers.of(name, unix_ms()) {
            let (holder, ends_in, heard_ms) = (Holder::new(node, addr), Duration::ZERO, Some(heard_ms));
            match known.iter_mut().find(|known| known.holder.node == node) {
                Some(known) => (known.holds, known.heard_ms) = (holds, heard_ms),
                None => {
                    known.push(Subscribed { holder, label: None, version: holds, holds, ends_in, heard_ms })
                }
            }
        }
        known.iter_mut().for_each(|known| known.label = readers.label(&known.holder.node));
        known.sort_unstable_by_key(|known| known.heard_ms);
        known
    }

    /// The readers of an earlier version than `record` that are remembered from before this process began, if their lease may
    /// not have ended: an indexer tells only those of them that offer a copy.
    pub(crate) fn remembered(&self, record: &Record) -> Vec<Holder> {
        let (now_ms, lease) = (unix_ms(), record.policy.bound());
        if !record.policy.pushes() || self.subscribers.knows_all(lease, clock::now()) {
            return Vec::new();
        }
        // The times on disk may be as much older.
        let heard_within = lease + LOOK_EVERY * TIMES_EVERY;
        let is_behind = |known: &LastHeard| {
            let heard = Duration::from_millis(now_ms.saturating_sub(known.heard_ms));
            known.holds < record.version && heard < heard_within
        };
        let known = self.readers.lock().of(&record.name, now_ms).into_iter();
        known
            .filter(|(_, known)| is_behind(known))
            .map(|(node, known)| Holder::new(node, known.addr))
            .collect()
    }

    /// Forgets the readers whose ids begin with `digits`, durably; returns their ids. A lease stays. Blocking.
    pub(crate) fn forget_readers(&self, digits: &IdDigits) -> Result<BTreeSet<NodeId>, Failure> {
        let forgotten = self.readers.lock().forget(|node| digits.begin(node));
        self.store_readers(false).map(|()| forgotten)
    }

    fn store_readers(&self, with_times: bool) -> Result<(), Failure> {
        let heard = self.readers.lock().take_changed(unix_ms(), with_times);
        heard.map_or(Ok(()), |(heard, labels)| self.catalogue.set_heard(&heard, &labels))
    }

    pub(crate) async fn keep_readers_stored(self: Arc<Self>) {
        let (mut is_last, mut looks) = (false, 0);
        while !is_last {
            is_last = self.tasks.stop.run_until_cancelled(sleep(LOOK_EVERY)).await.is_none();
            looks = (looks + 1) % TIMES_EVERY;
            let with_times = is_last || looks == 0;
            if let Err(error) = self.blocking(move |library| library.store_readers(with_times)).await {
                warn!(%error, "who read files here is not stored"); // with what is heard next
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use testkit::values::identity;

    use super::*;

    fn holder(n: u16) -> Holder {
        Holder::new(identity(n).id(), SocketAddr::from(([127, 0, 0, 1], n + 1)))
    }

    fn of(subscribers: &Subscribers, name: &FileName, now: Instant) -> Vec<Holder> {
        subscribers.of(name, now).iter().map(|subscribed| subscribed.holder).collect()
    }

    #[test]
    fn subscriber_is_behind_until_it_acknowledges_or_its_lease_ends() {
        let (subscribers, name, now) = (Subscribers::default(), FileName::new("a").unwrap(), Instant::now());
        let (lease, node, version) = (Duration::from_secs(5), holder(1).node, |n| Version::new(n).unwrap());
        subscribers.subscribe(&name, version(3), version(3), holder(1), lease, now);
        let is_behind = |n, now| subscribers.behind(&name, version(n), &node, now).is_some();
        assert!(!is_behind(3, now) && is_behind(4, now) && !is_behind(4, now + lease));
        subscribers.acknowledge(&name, version(4), &node);
        subscribers.acknowledge(&name, version(2), &node); // late
        assert!(!is_behind(4, now) && is_behind(5, now));
        subscribers.subscribe(&name, version(3), version(3), holder(1), lease, now + lease / 2); // asked before it heard
        let known = subscribers.of(&name, now + lease);
        assert_eq!((known[0].version, known[0].ends_in), (version(4), lease / 2));
        let moved = Holder::new(node, holder(9).addr);
        subscribers.moved(moved);
        assert_eq!(subscribers.behind(&name, version(9), &node, now), Some(moved));
        assert_eq!(subscribers.behind(&name, version(9), &holder(2).node, now), None);
    }

    #[test]
    fn a_subscription_ends_with_its_lease_and_is_renewed_by_asking() {
        let (subscribers, name, now) = (Subscribers::default(), FileName::new("a").unwrap(), Instant::now());
        let lease = Duration::from_secs(5);
        subscribers.subscribe(&name, Version::FIRST, Version::FIRST, holder(1), lease, now);
        subscribers.subscribe(&name, Version::FIRST, Version::FIRST, holder(2), lease, now);
        subscribers.subscribe(&name, Version::FIRST, Version::FIRST, holder(1), lease, now + lease / 2);
        assert_eq!(of(&subscribers, &name, now).len(), 2);
        assert_eq!(of(&subscribers, &name, now + lease), [holder(1)]);
        assert!(subscribers.of(&name, now + 2 * lease).is_empty());
    }

    #[test]
    fn subscribers_are_bounded_and_ended_ones_make_room() {
        let (subscribers, name, now) = (Subscribers::default(), FileName::new("a").unwrap(), Instant::now());
        let lease = Duration::from_secs(5);
        for n in 0..=u16::try_from(SUBSCRIBERS_MAX).unwrap() {
            subscribers.subscribe(&name, Version::FIRST, Version::FIRST, holder(n), lease, now);
        }
        assert_eq!(subscribers.of(&name, now).len(), SUBSCRIBERS_MAX);
        subscribers.subscribe(&name, Version::FIRST, Version::FIRST, holder(5000), lease, now + lease);
        assert_eq!(of(&subscribers, &name, now + lease), [holder(5000)]);
    }

    #[test]
    fn ended_subscriptions_to_names_that_nobody_asks_about_again_are_removed() {
        let (subscribers, now) = (Subscribers::default(), Instant::now());
        let lease = Duration::from_secs(5);
        for n in 0..1000 {
            let name = FileName::new(&format!("f{n}")).unwrap();
            subscribers.subscribe(&name, Version::FIRST, Version::FIRST, holder(1), lease, now);
        }
        let name = FileName::new("a").unwrap();
        for _ in 0..1000 {
            subscribers.subscribe(&name, Version::FIRST, Version::FIRST, holder(2), lease, now + lease);
        }
        let table = subscribers.0.lock();
        assert_eq!((table.ends.len(), table.holders.len(), table.nodes.len()), (1, 1, 1));
    }
}
