//! What an indexer has done so far, in numbers. Adding to one is a relaxed atomic addition on a cache line that
//! other threads seldom touch.

use std::{
    array,
    cell::Cell,
    ops::Sub,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// Copies of all counters; a thread adds to one of them.
const STRIPES: usize = 8;
/// Buckets of times: up to 1 us, 2 us, 4 us, ... 8.4 s, and longer.
pub(crate) const BUCKETS: usize = 25;
/// Of the answers that asked nobody, one in this many is timed: reading the clock costs a tenth of the answer.
const TIMED_EVERY: u64 = 16;

/// What is counted beside drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Names looked up here alone.
    Search,
    /// Queries, of peers and neighbors.
    Query,
    /// Searches by pattern, of peers and neighbors.
    Find,
    /// Queries for which neighbors were asked.
    Forward,
    /// Calls to neighbors for these.
    Asked,
    /// Calls of registration.
    Registration,
    /// Records of these.
    Record,
    /// Calls of deregistration.
    Deregistration,
    /// Calls of invalidation.
    Invalidation,
    /// Calls that told holders of newer versions.
    HolderTold,
    /// Calls that told neighbors of newer versions.
    NeighborTold,
    /// Route probes that came.
    Probe,
    /// Those that were passed on.
    ProbeForward,
    /// Those that had been here before.
    Circle,
}

/// Why something was not done, or not completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drop {
    /// Too many queries were being forwarded.
    Busy,
    /// The message had come before.
    Duplicate,
    /// Too many message ids are remembered.
    SeenFull,
    /// The TTL is past the limit.
    Ttl,
    /// A signature does not hold.
    Forged,
    /// A limit kept a record from being listed.
    NotListed,
    /// A newer version than the registered one is known.
    Outdated,
    /// A neighbor has answered none of many queries, and was not asked.
    NeighborStuck,
    /// A neighbor did not answer in time, or the connection failed.
    NeighborFailed,
    /// A neighbor refused.
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

impl Work {
    pub(crate) const COUNT: usize = Self::Circle as usize + 1;
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

/// Everything that is counted. The values are those of a moment, each for itself.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    stripes: [Stripe; STRIPES],
}

/// On cache lines of its own, of which processors fetch two at a time.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe {
    work: [AtomicU64; Work::COUNT],
    drops: [AtomicU64; Drop::COUNT],
    alone: Times,
    together: Times,
}

#[derive(Debug, Default)]
struct Times {
    buckets: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
}

/// All counters at one moment, or between two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    work: [u64; Work::COUNT],
    drops: [u64; Drop::COUNT],
    /// How long answers took that asked nobody: a sample.
    pub(crate) alone: Histogram,
    /// How long answers took for which neighbors were asked.
    pub(crate) together: Histogram,
}

/// How many times fell into each bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Histogram {
    pub(crate) buckets: [u64; BUCKETS],
    /// The sum of all times, in nanoseconds.
    pub(crate) sum_ns: u64,
}

thread_local! {
    /// This thread's stripe.
    static STRIPE: Cell<usize> = const { Cell::new(usize::MAX) };
}

impl Counters {
    fn stripe(&self) -> &Stripe {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let mut place = STRIPE.get();
        if place == usize::MAX {
            place = NEXT.fetch_add(1, Relaxed);
            STRIPE.set(place);
        }
        &self.stripes[place % STRIPES]
    }

    /// One more.
    pub(crate) fn count(&self, what: Work) {
        self.add(what, 1);
    }

    /// So many more.
    pub(crate) fn add(&self, what: Work, many: usize) {
        self.stripe().work[what as usize].fetch_add(many as u64, Relaxed);
    }

    /// One more was dropped.
    pub(crate) fn drop(&self, why: Drop) {
        self.stripe().drops[why as usize].fetch_add(1, Relaxed);
    }

    /// So many more were dropped; mostly none.
    pub(crate) fn drop_many(&self, why: Drop, many: usize) {
        if many > 0 {
            self.stripe().drops[why as usize].fetch_add(many as u64, Relaxed);
        }
    }

    /// One more answer alone, to `what`, begun at `began`: one in [`TIMED_EVERY`] is timed.
    pub(crate) fn answered_alone(&self, what: Work, began: Instant) {
        let stripe = self.stripe();
        if stripe.work[what as usize].fetch_add(1, Relaxed).is_multiple_of(TIMED_EVERY) {
            stripe.alone.note(began.elapsed());
        }
    }

    /// One more query, begun at `began`, was answered after `asked` calls to neighbors.
    pub(crate) fn answered_together(&self, asked: usize, began: Instant) {
        let stripe = self.stripe();
        stripe.work[Work::Query as usize].fetch_add(1, Relaxed);
        stripe.work[Work::Forward as usize].fetch_add(1, Relaxed);
        stripe.work[Work::Asked as usize].fetch_add(asked as u64, Relaxed);
        stripe.together.note(began.elapsed());
    }

    /// All values now.
    pub(crate) fn totals(&self) -> Totals {
        let sum = |value: &dyn Fn(&Stripe) -> &AtomicU64| {
            self.stripes.iter().map(|stripe| value(stripe).load(Relaxed)).sum()
        };
        let histogram = |times: &dyn Fn(&Stripe) -> &Times| Histogram {
            buckets: array::from_fn(|n| {
                self.stripes.iter().map(|stripe| times(stripe).buckets[n].load(Relaxed)).sum()
            }),
            sum_ns: self.stripes.iter().map(|stripe| times(stripe).sum_ns.load(Relaxed)).sum(),
        };
        Totals {
            work: array::from_fn(|n| sum(&|stripe| &stripe.work[n])),
            drops: array::from_fn(|n| sum(&|stripe| &stripe.drops[n])),
            alone: histogram(&|stripe| &stripe.alone),
            together: histogram(&|stripe| &stripe.together),
        }
    }
}

impl Times {
    fn note(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket_of(ns)].fetch_add(1, Relaxed);
        self.sum_ns.fetch_add(ns, Relaxed);
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

impl Totals {
    pub(crate) const fn work(&self, what: Work) -> u64 {
        self.work[what as usize]
    }

    pub(crate) const fn drops(&self, why: Drop) -> u64 {
        self.drops[why as usize]
    }

    /// How long all answers took: the sampled ones stand for those that were not timed.
    pub(crate) fn answers(&self) -> Histogram {
        Histogram {
            buckets: array::from_fn(|n| self.alone.buckets[n] * TIMED_EVERY + self.together.buckets[n]),
            sum_ns: self.alone.sum_ns * TIMED_EVERY + self.together.sum_ns,
        }
    }
}

/// What was counted since `before`, an earlier moment of the same counters.
impl Sub<&Self> for Totals {
    type Output = Self;

    fn sub(mut self, before: &Self) -> Self {
        let less = |now: &mut [u64], before: &[u64]| {
            now.iter_mut().zip(before).for_each(|(now, before)| *now = now.saturating_sub(*before));
        };
        less(&mut self.work, &before.work);
        less(&mut self.drops, &before.drops);
        for (now, before) in [(&mut self.alone, &before.alone), (&mut self.together, &before.together)] {
            less(&mut now.buckets, &before.buckets);
            now.sum_ns = now.sum_ns.saturating_sub(before.sum_ns);
        }
        self
    }
}

impl Histogram {
    /// How many times there are.
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
