//! Message ids already seen, each with the largest TTL it came with. Bounded and expiring.

use std::{
    task::{Context, Poll},
    time::{Duration, Instant},
};

use hashmap_delay::HashMapDelay;
use nekoproto::{MsgId, limits::SEEN_FOR};
use parking_lot::{Mutex, MutexGuard};

/// Locks the ids are spread over, by their low bits. A power of two; few, as an empty map takes 6 KB.
const SHARDS: usize = 4;
/// Ids that are remembered at once, if they spread evenly.
pub const SEEN_MAX: usize = SHARDS * SHARD_IDS_MAX;
/// Ids one shard remembers at once; further messages are refused until some expire.
const SHARD_IDS_MAX: usize = 256 * 1024;
const _: () = assert!(SHARDS.is_power_of_two() && SHARDS <= 256);

/// What this copy of a message is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// The first copy: answer it and forward it.
    First,
    /// A later copy that may travel further than any before: forward it, but do not answer again.
    Deeper,
    /// A later copy that reaches no one new: ignore it.
    Duplicate,
    /// Too many ids are remembered: the message cannot be taken.
    Full,
}

#[derive(Clone, Copy, Debug)]
struct Sighting {
    ttl_hops: u8,
    expires: Instant,
}

/// Remembers message ids. Must be used within a tokio runtime, whose timer the map needs.
///
/// Invariants:
/// - an id is remembered at least as long as asked, at most [`SEEN_FOR`];
/// - the TTL remembered for an id only grows.
#[derive(Debug)]
pub struct Seen {
    shards: Box<[Mutex<HashMapDelay<MsgId, Sighting>>]>,
}

impl Default for Seen {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::new(HashMapDelay::new(SEEN_FOR))).collect() }
    }
}

impl Seen {
    /// Notes a copy of message `id` with `ttl_hops` left. It is remembered for `keep`, which
    /// must cover the life of every other copy.
    pub fn sight(&self, id: MsgId, ttl_hops: u8, keep: Duration, now: Instant) -> Sight {
        let keep = keep.min(SEEN_FOR);
        let mut shard = self.shard(id);
        let full = shard.len() >= SHARD_IDS_MAX;
        let fresh = Sighting { ttl_hops, expires: now + keep };
        match shard.get_mut(&id) {
            // The map drops expired entries only when it is polled, so look at the time too.
            Some(sighting) if sighting.expires <= now => {
                *sighting = fresh; // inserting a known key keeps its old value
                shard.update_timeout(&id, keep);
                Sight::First
            }
            Some(sighting) if sighting.ttl_hops < ttl_hops => {
                sighting.ttl_hops = ttl_hops;
                Sight::Deeper
            }
            Some(_) => Sight::Duplicate,
            None if full => Sight::Full,
            None => {
                shard.insert_at(id, fresh, keep);
                Sight::First
            }
        }
    }

    /// Drops expired ids and never ends; one task of the node does this. It sleeps until the next expiry.
    pub async fn forget_expired(&self) {
        std::future::poll_fn(|cx| {
            for shard in &self.shards {
                forget_expired_of(&mut shard.lock(), cx);
            }
            Poll::Pending
        })
        .await
    }

    fn shard(&self, id: MsgId) -> MutexGuard<'_, HashMapDelay<MsgId, Sighting>> {
        let index = usize::from(id.low_bits()) & (SHARDS - 1);
        self.shards[index].lock()
    }

    /// How many ids are remembered, expired ones that are still there among them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}

/// An empty map reports its end instead of waiting, but its queue still keeps the waker.
fn forget_expired_of(shard: &mut HashMapDelay<MsgId, Sighting>, cx: &mut Context<'_>) {
    while let Poll::Ready(Some(_)) = shard.poll_expired(cx) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: Duration = Duration::from_secs(4);

    #[tokio::test]
    async fn a_copy_with_more_hops_is_deeper_once() {
        let (seen, now, id) = (Seen::default(), Instant::now(), MsgId::from_u128(7));
        let sights: Vec<_> = [2, 1, 2, 3, 3].map(|ttl| seen.sight(id, ttl, KEEP, now)).into();
        use Sight::{Deeper, Duplicate, First};
        assert_eq!(sights, [First, Duplicate, Duplicate, Deeper, Duplicate]);
        assert_eq!(seen.sight(MsgId::from_u128(8), 0, KEEP, now), First);
    }

    #[tokio::test]
    async fn an_expired_id_is_new_again_even_before_it_is_dropped() {
        let (seen, now, id) = (Seen::default(), Instant::now(), MsgId::from_u128(7));
        seen.sight(id, 5, KEEP, now);
        assert_eq!(seen.sight(id, 1, KEEP, now + KEEP), Sight::First);
        assert_eq!(seen.sight(id, 1, KEEP, now + KEEP), Sight::Duplicate);
        assert_eq!(seen.sight(id, 2, KEEP, now + KEEP), Sight::Deeper);
    }

    #[tokio::test(start_paused = true)]
    async fn expired_ids_leave_memory() {
        let seen = std::sync::Arc::new(Seen::default());
        let janitor = tokio::spawn({
            let seen = seen.clone();
            async move { seen.forget_expired().await }
        });
        for round in 0..3u32 {
            for n in 0..100u32 {
                seen.sight(MsgId::from_u128((round * 100 + n).into()), 1, KEEP, Instant::now());
            }
            assert_eq!(seen.len(), 100);
            tokio::time::sleep(KEEP + Duration::from_secs(1)).await; // paused time: jumps
            assert_eq!(seen.len(), 0, "round {round}");
        }
        janitor.abort();
    }

    #[tokio::test]
    async fn memory_is_bounded() {
        let (seen, now) = (Seen::default(), Instant::now());
        let full = (0..(SHARD_IDS_MAX as u128 + 1))
            .map(|n| seen.sight(MsgId::from_u128(n << 8), 1, KEEP, now)) // all in one shard
            .filter(|sight| *sight == Sight::Full)
            .count();
        assert_eq!((full, seen.len()), (1, SHARD_IDS_MAX));
    }
}
