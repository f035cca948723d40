//! Message ids already seen, each with the largest TTL it came with. Bounded for each caller, and expiring.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
    time::{Duration, Instant},
};

use nekoproto::{MsgId, NodeId, NodeTag, budget::Account, limits::SEEN_FOR};
use parking_lot::{Mutex, MutexGuard};

use super::caller::Caller;

/// Locks the ids are spread over, by their low bits. A power of two.
const SHARDS: usize = 16;
const _: () = assert!(SHARDS.is_power_of_two() && SHARDS <= 256);
/// A shard with room for this many times its ids gives memory back.
const SPARSE: usize = 4;

/// What this copy of a message is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// The first copy: answer it and forward it.
    First,
    /// A later copy that may travel further than any before: forward it, but do not answer again.
    Deeper,
    /// A later copy that reaches no one new: ignore it.
    Duplicate,
    /// Too many ids of this caller are remembered: the message cannot be taken.
    Full,
}

#[derive(Clone, Copy, Debug)]
struct Sighting {
    /// The second in which it is forgotten.
    due: u32,
    ttl_hops: u8,
}

/// Remembers message ids, on the account of those from whom they came first.
///
/// Invariants:
/// - an id is remembered at least as long as asked, at most [`SEEN_FOR`] and a second, unless the account of its caller
///   is evicted;
/// - the TTL remembered for an id only grows.
///
/// Locks: first a shard, then the ids of a caller.
#[derive(Debug)]
pub struct Seen {
    made: Instant,
    shards: Box<[Mutex<HashMap<MsgId, Sighting>>]>,
    /// All that are connected, or have ids here; a node in two roles is two of them.
    callers: Mutex<HashMap<(NodeId, bool), Arc<Caller>>>,
}

impl Seen {
    /// Nothing was seen; seconds are counted from `now`.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { made: now, shards, callers: Mutex::default() }
    }

    /// The caller that `node` is, as a peer or as `neighbor`: over another connection it is the same as before, as long
    /// as ids of it are remembered.
    pub fn caller(&self, node: NodeId, neighbor: Option<NodeTag>, account: Account) -> Arc<Caller> {
        let mut callers = self.callers.lock();
        let new = || Arc::new(Caller::new(neighbor, Some(account)));
        let (caller, evicted) = match callers.entry((node, neighbor.is_some())) {
            Entry::Vacant(free) => (Arc::clone(free.insert(new())), None),
            Entry::Occupied(mut known) => {
                let evicted = known.get().is_evicted().then(|| known.insert(new()));
                (Arc::clone(known.get()), evicted)
            }
        };
        drop(callers);
        if let Some(evicted) = evicted {
            self.forget(&evicted, 0);
        }
        caller
    }

    /// Notes a copy of message `id` of `caller` with `ttl_hops` left. It is remembered for `keep`, which
    /// must cover the life of every other copy.
    pub fn sight(&self, caller: &Caller, id: MsgId, ttl_hops: u8, keep: Duration, now: Instant) -> Sight {
        let due = self.second(now + keep.min(SEEN_FOR)).saturating_add(1);
        let fresh = Sighting { due, ttl_hops };
        match self.shard(id).entry(id) {
            // They are dropped now and then, so look at the time too.
            Entry::Occupied(known) if known.get().due > self.second(now) => {
                let sighting = known.into_mut();
                if sighting.ttl_hops >= ttl_hops {
                    return Sight::Duplicate;
                }
                sighting.ttl_hops = ttl_hops;
                Sight::Deeper
            }
            _ if !caller.remember(id, due) => Sight::Full,
            entry => {
                entry.insert_entry(fresh);
                Sight::First
            }
        }
    }

    /// Drops the ids that have expired by `now` and those of evicted accounts, and callers that have left. One task of
    /// the node does this, each second.
    pub fn forget_expired(&self, now: Instant) {
        let now = self.second(now);
        let callers: Vec<_> = self.callers.lock().values().map(Arc::clone).collect();
        callers.iter().for_each(|caller| self.forget(caller, now));
        drop(callers);
        // Under the lock nobody takes another clone.
        self.callers.lock().retain(|_, caller| Arc::strong_count(caller) > 1 || caller.remembered() > 0);
        for shard in &self.shards {
            let mut shard = shard.lock();
            let few = shard.len() * SPARSE;
            if shard.capacity() > few {
                shard.shrink_to(few / 2);
            }
        }
    }

    fn forget(&self, caller: &Caller, now: u32) {
        let is_evicted = caller.is_evicted();
        while let Some(ids) = caller.next_due(now) {
            for id in ids {
                if let Entry::Occupied(known) = self.shard(id).entry(id)
                    && (is_evicted || known.get().due <= now)
                {
                    known.remove(); // an id that came again after it had expired is due later
                }
            }
        }
    }

    fn second(&self, at: Instant) -> u32 {
        u32::try_from(at.saturating_duration_since(self.made).as_secs()).unwrap_or(u32::MAX)
    }

    fn shard(&self, id: MsgId) -> MutexGuard<'_, HashMap<MsgId, Sighting>> {
        let index = usize::from(id.low_bits()) & (SHARDS - 1);
        self.shards[index].lock()
    }

    /// How many ids are remembered, expired ones that are still there among them.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use nekoproto::{Identity, budget::Budget};

    use super::{super::caller::ID_BYTES, *};

    const KEEP: Duration = Duration::from_secs(4);
    const SECOND: Duration = Duration::from_secs(1);

    fn id(n: usize) -> MsgId {
        MsgId::from_u128(n as u128)
    }

    fn caller(seen: &Seen, budget: &Arc<Budget>, n: u8) -> Arc<Caller> {
        let node = Identity::from_seed(&[n; 32]).id();
        seen.caller(node, None, budget.account([127, 0, 0, 1].into(), node))
    }

    fn table() -> (Seen, Arc<Budget>) {
        (Seen::new(Instant::now()), Budget::new(0))
    }

    #[test]
    fn a_copy_with_more_hops_is_deeper_once() {
        let now = Instant::now();
        let (seen, caller) = (Seen::new(now), Caller::new(None, None));
        let sights: Vec<_> = [2, 1, 2, 3, 3].map(|ttl| seen.sight(&caller, id(7), ttl, KEEP, now)).into();
        use Sight::{Deeper, Duplicate, First};
        assert_eq!(sights, [First, Duplicate, Duplicate, Deeper, Duplicate]);
        assert_eq!(seen.sight(&caller, id(8), 0, KEEP, now), First);
    }

    #[test]
    fn an_expired_id_is_new_again_even_before_it_is_dropped() {
        let now = Instant::now();
        let (seen, caller) = (Seen::new(now), Caller::new(None, None));
        let sight = |ttl, at| seen.sight(&caller, id(7), ttl, KEEP, at);
        sight(5, now);
        assert_eq!(sight(1, now + KEEP), Sight::Duplicate, "remembered at least as long as asked");
        let later = now + KEEP + SECOND;
        assert_eq!([1, 1, 2].map(|ttl| sight(ttl, later)), [Sight::First, Sight::Duplicate, Sight::Deeper]);
        seen.forget_expired(later);
        assert_eq!(sight(2, later), Sight::Duplicate, "its second life is as long as its first");
    }

    #[test]
    fn expired_ids_leave_memory() {
        let (seen, budget) = table();
        let now = Instant::now();
        for round in 0..3u32 {
            let (one, at) = (caller(&seen, &budget, 1), now + 9 * round * SECOND);
            for n in 0..10_000 {
                seen.sight(&one, id(n), 1, KEEP, at);
            }
            drop(one);
            seen.forget_expired(at + KEEP);
            assert_eq!((seen.remembered(), seen.callers.lock().len()), (10_000, 1), "round {round}");
            assert!(budget.used() > 9_000 * ID_BYTES);
            seen.forget_expired(at + KEEP + 2 * SECOND);
            assert_eq!((seen.remembered(), seen.callers.lock().len(), budget.used()), (0, 0, 0));
        }
        assert!(seen.shards.iter().all(|shard| shard.lock().capacity() == 0));
    }

    /// Goal: whoever sends more ids than its share is not taken any more, also over a new connection; others are.
    #[test]
    fn one_caller_fills_its_own_share_alone() {
        let ((seen, budget), now) = (table(), Instant::now());
        let greedy = caller(&seen, &budget, 1);
        let mut ids = 0..;
        let taken =
            ids.by_ref().take_while(|n| seen.sight(&greedy, id(*n), 1, SEEN_FOR, now) == Sight::First);
        let taken = taken.count();
        assert_eq!(taken, budget.max() / 3 / 4 / ID_BYTES);
        drop(greedy);
        seen.forget_expired(now + KEEP);
        let again = caller(&seen, &budget, 1);
        assert_eq!(seen.sight(&again, id(1_000_000), 1, KEEP, now), Sight::Full, "over another connection");
        assert_eq!(seen.sight(&again, id(0), 1, KEEP, now), Sight::Duplicate, "what is known needs no room");
        let other = caller(&seen, &budget, 2);
        assert!((2_000_000..2_010_000).all(|n| seen.sight(&other, id(n), 1, KEEP, now) == Sight::First));
    }

    #[test]
    fn ids_of_an_evicted_account_are_forgotten_at_once() {
        let ((seen, budget), now) = (table(), Instant::now());
        let (evicted, other) = (caller(&seen, &budget, 1), caller(&seen, &budget, 2));
        assert!((0..9000).all(|n| seen.sight(&evicted, id(n), 1, KEEP, now) == Sight::First));
        seen.sight(&other, id(9000), 1, KEEP, now);
        let node = Identity::from_seed(&[1; 32]).id();
        budget.account([127, 0, 0, 1].into(), node).evicted().cancel();
        let again = caller(&seen, &budget, 1);
        assert_eq!(seen.sight(&evicted, id(9001), 1, KEEP, now), Sight::Full, "nobody would forget it");
        assert!(!Arc::ptr_eq(&evicted, &again));
        assert_eq!((seen.remembered(), budget.used()), (1, 0));
        assert_eq!(seen.sight(&again, id(0), 1, KEEP, now), Sight::First);
    }
}
