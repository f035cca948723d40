//! What an indexer has done so far, in numbers. Adding to one is a relaxed atomic addition on a cache line that
//! other threads seldom touch.

use std::{
    array,
    cell::Cell,
    fmt,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder, NoLabelSet},
    metrics::{
        MetricType,
        counter::{Atomic, Counter},
    },
};

/// Copies of a counter; a thread adds to one of them.
const STRIPES: usize = 8;
/// Buckets of times: up to 1 us, 2 us, 4 us, ... 8.4 s, and longer.
pub(crate) const BUCKETS: usize = 25;
/// Of the answers that asked nobody, one in this many is timed: reading the clock costs a tenth of the answer.
const TIMED_EVERY: u64 = 16;

/// Why something was not done, or not completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drop {
    /// Too many queries were being forwarded.
    Busy,
    Duplicate,
    /// Too many message ids are remembered.
    SeenFull,
    /// The TTL is past the limit.
    Ttl,
    Forged,
    /// A limit kept a record from being listed.
    NotListed,
    /// A newer version than the registered one is known.
    Outdated,
    /// A neighbor has answered none of many queries, and was not asked.
    NeighborStuck,
    /// A neighbor did not answer in time, or the connection failed.
    NeighborFailed,
    NeighborRefused,
    /// A hit of a neighbor was not to be believed.
    HitLeftOut,
    /// A holder or neighbor did not acknowledge an invalidation.
    NotAcknowledged,
    /// A route probe with more hops or bytes than are allowed.
    ProbeLimits,
    /// Too many route probes at once.
    ProbeBusy,
    /// A route probe had no hops left.
    ProbeHops,
    /// There was no neighbor to pass a route probe on to.
    ProbeNowhere,
    /// The next did not answer a route probe.
    ProbeLost,
}

impl Drop {
    pub(crate) const COUNT: usize = Self::ProbeLost as usize + 1;
    /// All of them, by the names that they have outside.
    pub(crate) const ALL: [(Self, &'static str); Self::COUNT] = [
        (Self::Busy, "busy"),
        (Self::Duplicate, "duplicate"),
        (Self::SeenFull, "seen_full"),
        (Self::Ttl, "ttl"),
        (Self::Forged, "forged"),
        (Self::NotListed, "not_listed"),
        (Self::Outdated, "outdated"),
        (Self::NeighborStuck, "neighbor_stuck"),
        (Self::NeighborFailed, "neighbor_failed"),
        (Self::NeighborRefused, "neighbor_refused"),
        (Self::HitLeftOut, "hit_left_out"),
        (Self::NotAcknowledged, "not_acknowledged"),
        (Self::ProbeLimits, "probe_limits"),
        (Self::ProbeBusy, "probe_busy"),
        (Self::ProbeHops, "probe_hops"),
        (Self::ProbeNowhere, "probe_nowhere"),
        (Self::ProbeLost, "probe_lost"),
    ];
}

/// A number that all threads add to.
pub(crate) type Count = Counter<u64, Striped>;

/// Everything that is counted. The values are those of a moment, each for itself.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Names looked up here alone.
    pub(crate) searches: Count,
    /// Queries, of peers and neighbors.
    pub(crate) queries: Count,
    /// Searches by pattern, of peers and neighbors.
    pub(crate) finds: Count,
    /// Queries for which neighbors were asked.
    pub(crate) forwards: Count,
    /// Calls to neighbors for these.
    pub(crate) asked: Count,
    pub(crate) registrations: Count,
    pub(crate) records: Count,
    pub(crate) deregistrations: Count,
    pub(crate) invalidations: Count,
    /// Calls that told holders of newer versions.
    pub(crate) holders_told: Count,
    /// Calls that told neighbors of newer versions.
    pub(crate) neighbors_told: Count,
    /// Route probes that came.
    pub(crate) probes: Count,
    /// Those that were passed on.
    pub(crate) probe_forwards: Count,
    /// Those that had been here before.
    pub(crate) circles: Count,
    drops: [Count; Drop::COUNT],
    /// How long answers took that asked nobody: a sample.
    pub(crate) alone: Times,
    /// How long answers took for which neighbors were asked.
    pub(crate) together: Times,
}

/// How often each thread added to it, as far as there are stripes.
#[derive(Debug, Default)]
pub(crate) struct Striped([Stripe; STRIPES]);

/// On cache lines of its own, of which processors fetch two at a time.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe(AtomicU64);

thread_local! {
    static STRIPE: Cell<usize> = const { Cell::new(usize::MAX) };
}

impl Atomic<u64> for Striped {
    fn inc(&self) -> u64 {
        self.inc_by(1)
    }

    /// Returns what the stripe of this thread had before.
    fn inc_by(&self, many: u64) -> u64 {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let mut place = STRIPE.get();
        if place == usize::MAX {
            place = NEXT.fetch_add(1, Relaxed);
            STRIPE.set(place);
        }
        self.0[place % STRIPES].0.fetch_add(many, Relaxed)
    }

    fn get(&self) -> u64 {
        self.0.iter().map(|stripe| stripe.0.load(Relaxed)).sum()
    }
}

/// Times that are noted while others read them: the crate's histogram has a lock.
#[derive(Debug, Default)]
pub(crate) struct Times {
    buckets: [Counter; BUCKETS],
    sum_ns: Counter,
}

/// How many times fell into each bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Histogram {
    pub(crate) buckets: [u64; BUCKETS],
    /// The sum of all times, in nanoseconds.
    pub(crate) sum_ns: u64,
}

impl Counters {
    pub(crate) fn drop(&self, why: Drop) {
        self.drops(why).inc();
    }

    /// So many more were dropped; mostly none.
    pub(crate) fn drop_many(&self, why: Drop, many: usize) {
        if many > 0 {
            self.drops(why).inc_by(many as u64);
        }
    }

    /// One more answer alone, counted as `what`, begun at `began`: one in [`TIMED_EVERY`] is timed.
    pub(crate) fn answered_alone(&self, what: &Count, began: Instant) {
        if what.inc().is_multiple_of(TIMED_EVERY) {
            self.alone.note(began.elapsed());
        }
    }

    /// One more query, begun at `began`, was answered after `asked` calls to neighbors.
    pub(crate) fn answered_together(&self, asked: usize, began: Instant) {
        self.queries.inc();
        self.forwards.inc();
        self.asked.inc_by(asked as u64);
        self.together.note(began.elapsed());
    }

    pub(crate) const fn drops(&self, why: Drop) -> &Count {
        &self.drops[why as usize]
    }

    /// Answers: to queries, and to lookups in this index alone.
    pub(crate) fn answered(&self) -> u64 {
        self.queries.get() + self.searches.get()
    }

    /// How long all answers took: the sampled ones stand for those that were not timed.
    pub(crate) fn answers(&self) -> Histogram {
        let (alone, together) = (self.alone.now(), self.together.now());
        Histogram {
            buckets: array::from_fn(|n| alone.buckets[n] * TIMED_EVERY + together.buckets[n]),
            sum_ns: alone.sum_ns * TIMED_EVERY + together.sum_ns,
        }
    }
}

impl Times {
    fn note(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket_of(ns)].inc();
        self.sum_ns.inc_by(ns);
    }

    pub(crate) fn now(&self) -> Histogram {
        Histogram { buckets: array::from_fn(|n| self.buckets[n].get()), sum_ns: self.sum_ns.get() }
    }
}

fn bucket_of(ns: u64) -> usize {
    let us = ns.div_ceil(1000).max(1);
    (us.next_power_of_two().trailing_zeros() as usize).min(BUCKETS - 1)
}

/// The longest time of bucket `n`, in microseconds; the last one has no end.
pub(crate) const fn bucket_ends_us(n: usize) -> Option<u64> {
    if n + 1 < BUCKETS { Some(1 << n) } else { None }
}

impl EncodeMetric for Histogram {
    #[expect(clippy::cast_precision_loss, reason = "seconds")]
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let end = |n| bucket_ends_us(n).map_or(f64::INFINITY, |us| us as f64 / 1e6);
        let buckets: [_; BUCKETS] = array::from_fn(|n| (end(n), self.buckets[n]));
        encoder.encode_histogram::<NoLabelSet>(self.sum_ns as f64 / 1e9, self.count(), &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

impl Histogram {
    /// What was noted since `before`, an earlier moment of the same times.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            buckets: array::from_fn(|n| self.buckets[n].saturating_sub(before.buckets[n])),
            sum_ns: self.sum_ns.saturating_sub(before.sum_ns),
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The time in microseconds that `share` of all do not exceed, within its bucket by proportion; `None` without
    /// any, or where that is longer than the last bucket's beginning.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(crate) fn quantile_us(&self, share: f64) -> Option<f64> {
        let wanted = self.count() as f64 * share;
        let mut below = 0.0;
        for (n, count) in self.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = *count as f64;
            if below + count >= wanted {
                let end = bucket_ends_us(n)? as f64;
                let begin = if n == 0 { 0.0 } else { end / 2.0 };
                return Some(begin + (end - begin) * ((wanted - below) / count));
            }
            below += count;
        }
        None
    }
}

#[cfg(test)]
mod tests;
