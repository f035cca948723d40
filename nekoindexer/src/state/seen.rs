//! Message ids already seen, each with the largest TTL it came with, in maps whose entries expire. Bounded for each caller.

use std::{
    collections::HashMap,
    hash::{Hash, Hasher},
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{FutureExt, StreamExt};
use hashmap_delay::HashMapDelay;
use nekoproto::{MsgId, NodeId, budget::Account, limits::SEEN_FOR};
use parking_lot::{Mutex, MutexGuard};

use super::caller::{Caller, CallerRole, Remembered};

/// Locks the ids are spread over, by their low bits. A power of two; few, as an empty map takes 6 KB.
const SHARDS: usize = 4;
const _: () = assert!(SHARDS.is_power_of_two() && SHARDS <= 256);
/// A shard that had this many times its ids gives memory back.
const SPARSE: usize = 4;
const SECOND: Duration = Duration::from_secs(1);

/// A message as it is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageKey {
    /// Its id.
    pub id: MsgId,
    /// Copies that crossed a link from a guest are another message, so that a guest's copy hides none of the others.
    pub from_guest: bool,
}

impl Hash for MessageKey {
    /// By its random id: each insertion hashes it several times, and the two copies of one id are told apart by equality.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl From<MsgId> for MessageKey {
    /// The copies that crossed trusted links only.
    fn from(id: MsgId) -> Self {
        Self { id, from_guest: false }
    }
}

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

#[derive(Debug)]
struct Sighting {
    /// The second in which it is forgotten.
    due: u32,
    ttl_hops: u8,
    place: Remembered,
}

#[derive(Debug, Default)]
struct Shard {
    ids: HashMapDelay<MessageKey, Sighting>,
    /// The most ids that this map had.
    most: usize,
}

/// Remembers message ids, on the account of those from whom they came first. To be used within a tokio runtime, whose
/// timer the maps need.
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
    shards: [Mutex<Shard>; SHARDS],
    /// All that are connected, or have ids here; a node in two roles is two of them.
    callers: Mutex<HashMap<(NodeId, CallerRole), Arc<Caller>>>,
}

impl Seen {
    /// Nothing was seen; seconds are counted from `now`.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self { made: now, shards: Default::default(), callers: Mutex::default() }
    }

    /// The caller that `node` is in that role: over another connection it is the same as before, as long as ids of it are
    /// remembered.
    pub fn caller(&self, node: NodeId, role: CallerRole, account: Account) -> Arc<Caller> {
        let new = || Arc::new(Caller::new((node, role), Some(account.clone())));
        let mut callers = self.callers.lock();
        let known = callers.entry((node, role)).or_insert_with(new);
        let evicted = known.is_evicted().then(|| mem::replace(known, new()));
        let caller = Arc::clone(known);
        drop(callers);
        if evicted.is_some_and(|evicted| evicted.remembered() > 0) {
            self.forget_evicted();
        }
        caller
    }

    /// Notes a copy of `message` of `caller` with `ttl_hops` left. It is remembered for `keep`, which
    /// must cover the life of every other copy; one that goes further prolongs that.
    pub fn sight(
        &self,
        caller: &Caller,
        message: MessageKey,
        ttl_hops: u8,
        keep: Duration,
        now: Instant,
    ) -> Sight {
        let keep = keep.min(SEEN_FOR); // a map panics at an expiry in years
        let (due, now) = (self.second(now + keep).saturating_add(1), self.second(now));
        let mut shard = self.shard(message.id);
        match shard.ids.get_mut(&message) {
            // They are dropped now and then, so look at the time too.
            Some(known) if known.due > now => {
                if known.ttl_hops >= ttl_hops {
                    return Sight::Duplicate;
                }
                known.ttl_hops = ttl_hops;
                if known.due < due {
                    known.due = due;
                    shard.ids.update_timeout(&message, keep + SECOND);
                }
                return Sight::Deeper;
            }
            Some(_) => drop(shard.ids.remove(&message)), // inserted again, an id keeps its old value
            None => {}
        }
        let Some(place) = caller.remember() else { return Sight::Full };
        shard.ids.insert_at(message, Sighting { due, ttl_hops, place }, keep + SECOND);
        shard.most = shard.most.max(shard.ids.len());
        Sight::First
    }

    /// Whether a copy of `message` with `ttl_hops` left would reach no one new. Notes nothing.
    pub fn is_duplicate(&self, message: MessageKey, ttl_hops: u8, now: Instant) -> bool {
        let now = self.second(now);
        let shard = self.shard(message.id);
        shard.ids.get(&message).is_some_and(|known| known.due > now && known.ttl_hops >= ttl_hops)
    }

    /// Drops the ids that have expired by `now` and those of evicted accounts, and callers that have left. One task of
    /// the node does this, each second, on a blocking thread: in a task tokio ends a poll after some 128 timers.
    pub fn forget_expired(&self, now: Instant) {
        let now = self.second(now);
        for shard in &self.shards {
            // Locked for one id at a time. An empty map says that it ends, and goes on when it has ids again.
            while let Some(Some(_)) = shard.lock().ids.next().now_or_never() {}
            shard.lock().give_memory_back(now);
        }
        let is_due = |caller: &Arc<Caller>| caller.is_evicted() && caller.remembered() > 0;
        if self.callers.lock().values().any(is_due) {
            self.forget_evicted();
        }
        // Under the lock nobody takes another clone.
        self.callers.lock().retain(|_, caller| Arc::strong_count(caller) > 1 || caller.remembered() > 0);
    }

    fn forget_evicted(&self) {
        self.shards.iter().for_each(|shard| shard.lock().ids.retain(|_, known| !known.place.is_evicted()));
    }

    fn second(&self, at: Instant) -> u32 {
        u32::try_from(at.saturating_duration_since(self.made).as_secs()).unwrap_or(u32::MAX)
    }

    fn shard(&self, id: MsgId) -> MutexGuard<'_, Shard> {
        self.shards[usize::from(id.low_bits()) & (SHARDS - 1)].lock()
    }

    /// How many ids are remembered, expired ones that are still there among them.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().ids.len()).sum()
    }
}

impl Shard {
    /// A map keeps the room of the ids that have left: the few that are there move to a new one.
    fn give_memory_back(&mut self, now: u32) {
        if self.ids.len() * SPARSE >= self.most {
            return;
        }
        let mut old = mem::take(&mut self.ids);
        let left: Vec<MessageKey> = old.keys().copied().collect();
        for (id, known) in left.into_iter().filter_map(|id| Some((id, old.remove(&id)?))) {
            let keep = Duration::from_secs(known.due.saturating_sub(now).into());
            self.ids.insert_at(id, known, keep + SECOND);
        }
        self.most = self.ids.len();
    }
}

#[cfg(test)]
mod tests {
    use nekoproto::{
        Identity,
        budget::{BUDGET_DEFAULT, Budget},
        limits::SEEN_OF_PEER_MAX,
    };
    use tokio::{task::spawn_blocking, time::sleep};

    use super::{super::caller::ID_BYTES, *};

    const KEEP: Duration = Duration::from_secs(4);
    const SECOND: Duration = Duration::from_secs(1);

    fn id(n: usize) -> MessageKey {
        MsgId::from_u128(n as u128).into()
    }

    fn peer() -> Caller {
        Caller::new((Identity::from_seed(&[1; 32]).id(), CallerRole::Peer), None)
    }

    fn caller(seen: &Seen, budget: &Arc<Budget>, n: u8) -> Arc<Caller> {
        let node = Identity::from_seed(&[n; 32]).id();
        seen.caller(node, CallerRole::Peer, budget.account([127, 0, 0, 1].into(), node))
    }

    fn table() -> (Arc<Seen>, Arc<Budget>) {
        (Arc::new(Seen::new(Instant::now())), Budget::new(0))
    }

    /// What the node does when `time` has passed: then it is `now`. Time is paused, and jumps.
    async fn pass(seen: &Arc<Seen>, time: Duration, now: Instant) {
        sleep(time).await;
        let seen = Arc::clone(seen);
        spawn_blocking(move || seen.forget_expired(now)).await.unwrap();
    }

    #[tokio::test]
    async fn a_copy_with_more_hops_is_deeper_once() {
        let now = Instant::now();
        let (seen, caller) = (Seen::new(now), peer());
        let sights: Vec<_> = [2, 1, 2, 3, 3].map(|ttl| seen.sight(&caller, id(7), ttl, KEEP, now)).into();
        use Sight::{Deeper, Duplicate, First};
        assert_eq!(sights, [First, Duplicate, Duplicate, Deeper, Duplicate]);
        assert_eq!(seen.sight(&caller, id(8), 0, KEEP, now), First);
    }

    /// Goal: a guest that sends the id of a message ahead hides none of the copies that crossed trusted links.
    #[tokio::test]
    async fn a_copy_of_a_guest_hides_only_copies_of_guests() {
        let (now, caller) = (Instant::now(), peer());
        let seen = Seen::new(now);
        let of_guest = MessageKey { from_guest: true, ..id(7) };
        assert_eq!(seen.sight(&caller, of_guest, 16, KEEP, now), Sight::First);
        assert!(seen.is_duplicate(of_guest, 16, now) && !seen.is_duplicate(id(7), 0, now));
        assert_eq!(seen.sight(&caller, id(7), 1, KEEP, now), Sight::First);
        assert_eq!(seen.sight(&caller, of_guest, 1, KEEP, now), Sight::Duplicate);
    }

    #[tokio::test(start_paused = true)]
    async fn a_copy_that_goes_further_prolongs_what_is_remembered() {
        let ((seen, _), now, caller) = (table(), Instant::now(), peer());
        seen.sight(&caller, id(7), 1, KEEP, now);
        assert_eq!(seen.sight(&caller, id(7), 2, 4 * KEEP, now), Sight::Deeper);
        pass(&seen, 2 * KEEP, now + 2 * KEEP).await;
        assert_eq!(seen.sight(&caller, id(7), 2, KEEP, now + 2 * KEEP), Sight::Duplicate);
    }

    #[tokio::test(start_paused = true)]
    async fn an_expired_id_is_new_again_even_before_it_is_dropped() {
        let ((seen, _), now, caller) = (table(), Instant::now(), peer());
        let sight = |ttl, at| seen.sight(&caller, id(7), ttl, KEEP, at);
        sight(5, now);
        assert_eq!(sight(1, now + KEEP), Sight::Duplicate, "remembered at least as long as asked");
        let later = now + KEEP + SECOND;
        sleep(later - now).await;
        assert_eq!([1, 1, 2].map(|ttl| sight(ttl, later)), [Sight::First, Sight::Duplicate, Sight::Deeper]);
        pass(&seen, KEEP, later).await;
        assert_eq!(sight(2, later), Sight::Duplicate, "its second life is as long as its first");
    }

    #[tokio::test(start_paused = true)]
    async fn expired_ids_leave_memory() {
        let (seen, budget) = table();
        let now = Instant::now();
        for round in 0..3u32 {
            let (one, at) = (caller(&seen, &budget, 1), now + 9 * round * SECOND);
            for n in 0..10_000 {
                seen.sight(&one, id(n), 1, KEEP, at);
            }
            drop(one);
            pass(&seen, KEEP, at + KEEP).await;
            assert_eq!((seen.remembered(), seen.callers.lock().len()), (10_000, 1), "round {round}");
            assert!(budget.used() > 9_000 * ID_BYTES);
            pass(&seen, 2 * SECOND, at + KEEP + 2 * SECOND).await;
            assert_eq!((seen.remembered(), seen.callers.lock().len(), budget.used()), (0, 0, 0));
        }
        let is_new = |shard: &Mutex<Shard>| format!("{:?}", shard.lock().ids).contains("cap: 0");
        assert!(seen.shards.iter().all(is_new), "the maps have no room for what has left");
    }

    #[tokio::test(start_paused = true)]
    async fn ids_that_are_left_where_most_have_expired_are_known_until_they_are_due() {
        let ((seen, _), now, caller) = (table(), Instant::now(), peer());
        let sight = |n, keep, at| seen.sight(&caller, id(n), 1, keep, at);
        (0..1000).for_each(|n| assert_eq!(sight(n, KEEP, now), Sight::First));
        (1000..1010).for_each(|n| assert_eq!(sight(n, 3 * KEEP, now), Sight::First));
        pass(&seen, 2 * KEEP, now + 2 * KEEP).await;
        assert!(seen.remembered() == 10 && seen.shards.iter().all(|shard| shard.lock().most < 10));
        assert!((1000..1010).all(|n| sight(n, KEEP, now + 3 * KEEP) == Sight::Duplicate));
        pass(&seen, 2 * KEEP, now + 4 * KEEP).await;
        assert_eq!(seen.remembered(), 0);
    }

    /// Goal: whoever sends more ids than its share is not taken any more, also over a new connection; others are.
    #[tokio::test]
    async fn one_caller_fills_its_own_share_alone() {
        let (seen, budget, now) = (table().0, Budget::new(BUDGET_DEFAULT), Instant::now());
        let greedy = caller(&seen, &budget, 1);
        let mut ids = 0..;
        let taken =
            ids.by_ref().take_while(|n| seen.sight(&greedy, id(*n), 1, SEEN_FOR, now) == Sight::First);
        let taken = taken.count();
        assert_eq!(taken, SEEN_OF_PEER_MAX);
        drop(greedy);
        seen.forget_expired(now + KEEP);
        let again = caller(&seen, &budget, 1);
        assert_eq!(seen.sight(&again, id(1_000_000), 1, KEEP, now), Sight::Full, "over another connection");
        assert_eq!(seen.sight(&again, id(0), 1, KEEP, now), Sight::Duplicate, "what is known needs no room");
        let other = caller(&seen, &budget, 2);
        assert!((2_000_000..2_010_000).all(|n| seen.sight(&other, id(n), 1, KEEP, now) == Sight::First));
    }

    #[tokio::test]
    async fn ids_of_an_evicted_account_are_forgotten_at_once() {
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
