//! [`Order`]: who works next, and when others have to be looked at first. Pure.
//!
//! Start-time fair queueing: each flow has a tag, the virtual time up to which it has had its share. The smallest goes
//! first; whoever has done little has the virtual time of now. One that is new goes behind all: so however many come, those
//! that are there wait for no more than one of them. All that a round may take is counted together.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// Work of one thread until the runtime looks for new arrivals.
pub(super) const ROUND: Duration = Duration::from_millis(1);
/// What one that waits is expected to take, until it is known.
const EXPECTED_NS: u64 = 200_000;
/// How far behind those that have had their share a new one begins at most: many that come together do not go first, and
/// wait for no more than this of each other.
const NEW_BEHIND_NS: u64 = 1_000_000;
/// The most that one piece of work counts: beyond it the thread was taken from this process.
const COUNTED_NS_MAX: u64 = 1_000_000;

/// Work that shares one part of the time. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flow {
    tag: Arc<AtomicU64>,
    /// Work counts one part of this many, less one.
    weight: u64,
}

impl Flow {
    /// One that gets the share of `1 + weight` others.
    pub(crate) fn weighted(weight: u64) -> Self {
        Self { weight, ..Self::default() }
    }

    fn counted(&self, ns: u64) -> u64 {
        ns.min(COUNTED_NS_MAX) / (1 + self.weight)
    }
}

/// A place in the order: the tag, whether it is new, and a number.
pub(super) type Place = (u64, bool, u64);

/// Those who wait, each with what wakes it.
#[derive(Debug)]
pub(super) struct Order<W> {
    /// Threads that work.
    threads: usize,
    /// Virtual time, in nanoseconds of one flow's work.
    now: u64,
    /// The largest tag.
    latest: u64,
    /// Work of this round.
    spent_ns: u64,
    waiting: BTreeMap<Place, W>,
    /// Of those who waited, those who may work and have not done it yet.
    granted: usize,
    /// The round is over, and [`renew`](Self::renew) will be called.
    is_renewing: bool,
    places: u64,
}

impl<W> Order<W> {
    pub(super) const fn new(threads: usize) -> Self {
        let waiting = BTreeMap::new();
        Self { threads, now: 0, latest: 0, spent_ns: 0, waiting, granted: 0, is_renewing: false, places: 0 }
    }

    /// Whether the round is over: it begins again with [`renew`](Self::renew).
    pub(super) fn is_spent(&self) -> bool {
        self.spent_ns >= u64::try_from(ROUND.as_nanos()).unwrap_or(u64::MAX) * self.threads as u64
    }

    /// Whether [`renew`](Self::renew) has to be called, which nobody has begun.
    pub(super) fn begins_to_renew(&mut self) -> bool {
        self.is_spent() && !std::mem::replace(&mut self.is_renewing, true)
    }

    /// Whether one that does not wait may work at once.
    pub(super) fn is_free(&self) -> bool {
        self.waiting.is_empty() && self.granted < self.threads && !self.is_spent()
    }

    /// The virtual time at which work of `flow` begins.
    fn begins(&self, flow: &Flow) -> u64 {
        match flow.tag.load(Relaxed) {
            0 => self.latest.min(self.now + NEW_BEHIND_NS), // it is new
            tag => tag.max(self.now),
        }
    }

    /// Waits for the turn of `flow`.
    pub(super) fn wait(&mut self, flow: &Flow, wakes: W) -> Place {
        let is_new = flow.tag.load(Relaxed) == 0;
        let tag = self.begins(flow);
        let after = tag + flow.counted(EXPECTED_NS);
        flow.tag.store(after, Relaxed);
        self.latest = self.latest.max(after);
        self.places += 1;
        let place = (tag, is_new, self.places);
        self.waiting.insert(place, wakes);
        place
    }

    /// Replaces what wakes the one at `place`; false if it may work.
    pub(super) fn still_waits(&mut self, place: Place, wakes: impl FnOnce(&mut W)) -> bool {
        self.waiting.get_mut(&place).map(wakes).is_some()
    }

    /// The next that may work now.
    pub(super) fn next(&mut self) -> Option<W> {
        if self.granted >= self.threads || self.is_spent() {
            return None;
        }
        let ((tag, ..), wakes) = self.waiting.pop_first()?;
        self.now = self.now.max(tag);
        self.granted += 1;
        Some(wakes)
    }

    /// `flow` has worked for `ns`, after it had waited at `place`.
    pub(super) fn worked(&mut self, flow: &Flow, place: Option<Place>, ns: u64) {
        self.spent_ns += ns;
        let began = match place {
            Some(_) => {
                self.granted -= 1;
                flow.tag.load(Relaxed).saturating_sub(flow.counted(EXPECTED_NS))
            }
            None => self.begins(flow),
        };
        let tag = began + flow.counted(ns);
        flow.tag.store(tag, Relaxed);
        self.latest = self.latest.max(tag);
    }

    /// The one at `place` does not work any more.
    pub(super) fn leave(&mut self, place: Place) {
        if self.waiting.remove(&place).is_none() {
            self.granted -= 1;
        }
    }

    /// The runtime has looked for new arrivals: the next round begins. Where nobody waits, all begin anew.
    pub(super) fn renew(&mut self) {
        (self.spent_ns, self.is_renewing) = (0, false);
        if self.waiting.is_empty() && self.granted == 0 {
            self.now = self.latest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE_NS: u64 = 400_000;

    /// Lets everyone in `order` work until `until_ns` have been spent, each with more work after its slice; returns
    /// what each name had.
    fn work(order: &mut Order<usize>, flows: &[Flow], until_ns: u64) -> Vec<u64> {
        let (mut had, mut spent) = (vec![0; flows.len()], 0);
        let mut places: Vec<_> = flows.iter().enumerate().map(|(n, flow)| order.wait(flow, n)).collect();
        while spent < until_ns {
            let Some(n) = order.next() else {
                order.renew();
                continue;
            };
            order.worked(&flows[n], Some(places[n]), SLICE_NS);
            places[n] = order.wait(&flows[n], n);
            had[n] += SLICE_NS;
            spent += SLICE_NS;
        }
        had
    }

    #[test]
    fn all_who_always_have_work_get_the_same_and_weights_get_more() {
        let flows = [Flow::default(), Flow::default(), Flow::weighted(3), Flow::default()];
        let had = work(&mut Order::new(1), &flows, 700 * SLICE_NS);
        assert!(had[2].abs_diff(400 * SLICE_NS) <= 8 * SLICE_NS, "{had:?}");
        assert!([0, 1, 3].iter().all(|n| had[*n].abs_diff(100 * SLICE_NS) <= 2 * SLICE_NS), "{had:?}");
    }

    #[test]
    fn who_has_done_little_is_next_however_many_wait() {
        let mut order = Order::new(1);
        let (honest, greedy): (_, Vec<_>) = (Flow::default(), (0..100).map(|_| Flow::default()).collect());
        order.worked(&honest, None, 1);
        work(&mut order, &greedy, 1000 * SLICE_NS);
        order.renew();
        let place = order.wait(&honest, 1000);
        let before = std::iter::from_fn(|| {
            let next = order.next()?;
            (next != 1000).then(|| order.worked(&greedy[next], Some((0, false, 0)), SLICE_NS))
        });
        assert!(before.count() <= 3, "at most those that began together with it");
        assert!(!order.still_waits(place, |_| {}) || order.is_spent());
    }

    /// Goal: many that come, each with some work, delay one that was there by little. Each has a key of its own.
    #[test]
    fn crowd_of_newcomers_gets_no_more_than_one_that_was_there() {
        let (mut order, honest) = (Order::new(1), Flow::default());
        order.worked(&honest, None, SLICE_NS / 20);
        let mut crowd: Vec<_> = (0..2000).map(|_| Flow::default()).collect();
        let places: Vec<_> = crowd.iter().enumerate().map(|(n, flow)| order.wait(flow, n)).collect();
        for _ in 0..20 {
            let (_, mut before) = (order.wait(&honest, usize::MAX), 0);
            loop {
                match order.next() {
                    None => order.renew(),
                    Some(usize::MAX) => break order.worked(&honest, Some((0, false, 0)), SLICE_NS / 20),
                    Some(n) => {
                        order.worked(&crowd[n], Some(places[n]), SLICE_NS);
                        crowd.push(Flow::default()); // it comes back with another key
                        before += 1;
                    }
                }
            }
            assert!(before <= 1, "{before}");
        }
    }

    #[test]
    fn many_connections_of_one_flow_get_no_more_than_one() {
        let one = Flow::default();
        let flows: Vec<_> = (0..50).map(|_| one.clone()).chain([Flow::default()]).collect();
        let had = work(&mut Order::new(1), &flows, 200 * SLICE_NS);
        assert!(had[50] >= 60 * SLICE_NS, "{} of {}", had[50] / SLICE_NS, 200);
    }

    #[test]
    fn what_was_done_while_nobody_waited_does_not_count_against_anyone() {
        let (mut order, busy, other) = (Order::<usize>::new(1), Flow::default(), Flow::default());
        for _ in 0..1000 {
            assert!(order.is_free());
            order.worked(&busy, None, SLICE_NS);
            order.renew();
        }
        let had = work(&mut order, &[busy, other], 100 * SLICE_NS);
        assert!(had[0].abs_diff(had[1]) <= 2 * SLICE_NS, "{had:?}");
    }

    #[test]
    fn one_that_leaves_passes_its_turn_on() {
        let (mut order, flow) = (Order::new(1), Flow::default());
        let [first, second, third] = [1, 2, 3].map(|n| order.wait(&flow, n));
        assert_eq!(order.next(), Some(1));
        assert_eq!(order.next(), None, "one at a time");
        order.leave(second);
        order.leave(first);
        assert_eq!(order.next(), Some(3));
        order.worked(&flow, Some(third), 1);
        assert!(order.is_free());
    }
}
