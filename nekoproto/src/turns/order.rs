//! [`Order`]: who works next, and when others have to be looked at first. Pure.
//!
//! Start-time fair queueing: each flow has a tag, the virtual time up to which it has had its share. The smallest goes
//! first, and who has had less than its share does not wait. The first work of all that are new is that of one flow: so
//! however many come, those that are there share with one more. All that a round may take is counted together; those who wait go on in
//! the next, as many as it has time for.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// A debug build takes this many times as long for each message, and gets as much more time for each.
pub(super) const SCALE: u64 = if cfg!(debug_assertions) { 10 } else { 1 };
/// Work of one thread until the runtime looks for new arrivals.
const ROUND_NS: u64 = 2_000_000 * SCALE;
/// What one that waits is expected to take, until it is known.
const EXPECTED_NS: u64 = 400_000 * SCALE;
/// The least that one is expected to take.
const EXPECTED_MIN_NS: u64 = 5_000 * SCALE;
/// What a flow takes next is expected to be as much as before, of which the last time is one of this many parts.
const EXPECTED_PARTS: u64 = 4;
/// The first work of all that are new gets the share of one more than this many others.
const NEW_WEIGHT: u64 = 7;
/// How far beyond its share a flow goes on while others wait: who does little never waits.
const AHEAD_NS: u64 = 100_000 * SCALE;
/// The most that one piece of work counts: beyond it the thread was taken from this process.
const COUNTED_NS_MAX: u64 = 1_000_000 * SCALE;
/// Those who waited get one of this many parts of a round. The rest is for whoever comes and goes first.
const GRANTED_PARTS: u64 = 2;
/// Where the work of a round was one of this many parts of its time, all begin anew.
const IDLE_PARTS: u64 = 2;

/// Work that shares one part of the time. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    shared: Arc<Shared>,
    /// Work counts one part of this many, less one.
    weight: u64,
}

#[derive(Debug)]
struct Shared {
    tag: AtomicU64,
    /// What it takes at a time.
    expected_ns: AtomicU64,
}

impl Default for Flow {
    fn default() -> Self {
        Self::weighted(0)
    }
}

impl Flow {
    /// One that gets the share of `1 + weight` others.
    pub(crate) fn weighted(weight: u64) -> Self {
        let shared = Shared { tag: AtomicU64::new(0), expected_ns: AtomicU64::new(EXPECTED_NS) };
        Self { shared: Arc::new(shared), weight }
    }

    fn tag(&self) -> u64 {
        self.shared.tag.load(Relaxed)
    }

    fn set_tag(&self, tag: u64) {
        self.shared.tag.store(tag, Relaxed);
    }

    fn expected_ns(&self) -> u64 {
        self.shared.expected_ns.load(Relaxed)
    }

    /// Its work took `ns` this time.
    fn took(&self, ns: u64) {
        let expected = (self.expected_ns() * (EXPECTED_PARTS - 1) + ns) / EXPECTED_PARTS;
        self.shared.expected_ns.store(expected.max(EXPECTED_MIN_NS), Relaxed);
    }

    fn counted(&self, ns: u64) -> u64 {
        ns / (1 + self.weight)
    }
}

/// A place in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    tag: u64,
    number: u64,
    expected_ns: u64,
    is_new: bool,
}

/// Those who wait, each with what wakes it.
#[derive(Debug)]
pub(super) struct Order<W> {
    /// Threads that work.
    threads: u64,
    /// The first work of all flows.
    new: Flow,
    /// Virtual time, in nanoseconds of one flow's work.
    now: u64,
    /// The largest tag.
    latest: u64,
    began: Instant,
    /// Work of this round.
    spent_ns: u64,
    waiting: BTreeMap<Place, W>,
    /// [`renew`](Self::renew) will be called.
    is_renewing: bool,
    places: u64,
}

impl<W: Clone> Order<W> {
    pub(super) fn new(threads: usize, now: Instant) -> Self {
        Self {
            threads: threads as u64,
            new: Flow::weighted(NEW_WEIGHT),
            now: 0,
            latest: 0,
            began: now,
            spent_ns: 0,
            waiting: BTreeMap::new(),
            is_renewing: false,
            places: 0,
        }
    }

    const fn round_ns(&self) -> u64 {
        ROUND_NS * self.threads
    }

    /// Whether the round is over.
    const fn is_spent(&self) -> bool {
        self.spent_ns >= self.round_ns()
    }

    /// Whether somebody may have to wait.
    pub(super) fn is_crowded(&self) -> bool {
        self.is_spent() || !self.waiting.is_empty()
    }

    /// Whether [`renew`](Self::renew) has to be called, which nobody has begun.
    pub(super) fn begins_to_renew(&mut self) -> bool {
        !self.waiting.is_empty() && !std::mem::replace(&mut self.is_renewing, true)
    }

    /// Whether [`renew`](Self::renew) has to be called again.
    pub(super) const fn is_renewing(&self) -> bool {
        self.is_renewing
    }

    /// Adds work of `ns` to `flow`, which began at `from` or begins as soon as it may. Returns when it began.
    fn charge(&mut self, flow: &Flow, from: Option<u64>, ns: u64) -> u64 {
        let begins = match (from, flow.tag()) {
            (Some(from), _) => from,
            (None, 0) => {
                let first = self.new.tag().max(self.now);
                self.new.set_tag(first + self.new.counted(ns));
                first
            }
            (None, tag) => tag.max(self.now),
        };
        flow.set_tag(begins + flow.counted(ns));
        self.latest = self.latest.max(flow.tag());
        begins
    }

    /// Begins a round if the threads had little to do since the last one did.
    fn rest(&mut self, now: Instant) {
        let idle = IDLE_PARTS * self.spent_ns / self.threads;
        if self.waiting.is_empty() && now.saturating_duration_since(self.began) >= Duration::from_nanos(idle)
        {
            (self.began, self.spent_ns, self.now) = (now, 0, self.latest);
        }
    }

    /// One of `flow` has work, and may have waited at `place`. None if it may work at once, otherwise where it waits.
    pub(super) fn enter(
        &mut self,
        flow: &Flow,
        place: Option<Place>,
        wakes: &W,
        now: Instant,
    ) -> Option<Place> {
        if let Some(known) = place.and_then(|place| self.waiting.get_mut(&place)) {
            known.clone_from(wakes);
            return place;
        }
        self.rest(now);
        let goes_first = match (self.waiting.first_key_value(), flow.tag()) {
            (None, _) => true,
            (Some(_), 0) => place.is_some(),
            (Some((first, _)), tag) => {
                place.is_some() || tag <= self.now + AHEAD_NS || tag.max(self.now) < first.tag
            }
        };
        if goes_first && !self.is_spent() {
            return None;
        }
        let place = place.unwrap_or_else(|| self.place(flow));
        self.waiting.insert(place, wakes.clone());
        Some(place)
    }

    /// A place for the next work of `flow`.
    fn place(&mut self, flow: &Flow) -> Place {
        let is_new = flow.tag() == 0;
        let expected_ns = if is_new { self.new.expected_ns() } else { flow.expected_ns() };
        let tag = self.charge(flow, None, expected_ns);
        self.places += 1;
        Place { tag, number: self.places, expected_ns, is_new }
    }

    /// `flow` has worked for `elapsed` until `now`, and so `times` in all, after it had waited at `place`.
    pub(super) fn worked(
        &mut self,
        flow: &Flow,
        place: Option<Place>,
        (elapsed, times): (Duration, u32),
        now: Instant,
    ) {
        let ns = u64::try_from(elapsed.as_nanos()).map_or(COUNTED_NS_MAX, |ns| ns.min(COUNTED_NS_MAX));
        flow.took(ns);
        if place.map_or(flow.tag() == 0, |place| place.is_new) {
            self.new.took(ns);
        }
        let all_ns = ns * u64::from(times);
        self.spent_ns += all_ns;
        // What was expected is replaced by what it was.
        let from = place.map(|place| flow.tag().saturating_sub(flow.counted(place.expected_ns)));
        self.charge(flow, from, all_ns);
        self.rest(now);
    }

    /// The one of `flow` at `place` does not work any more.
    pub(super) fn leave(&mut self, flow: &Flow, place: Place) {
        self.waiting.remove(&place);
        flow.set_tag(flow.tag().saturating_sub(flow.counted(place.expected_ns)));
    }

    /// The runtime has looked for new arrivals: the next round begins. Returns who works in it, first who goes first.
    pub(super) fn renew(&mut self, now: Instant) -> Vec<W> {
        (self.spent_ns, self.began) = (0, now);
        let (mut next, mut expected_ns) = (Vec::new(), 0);
        while expected_ns < self.round_ns() / GRANTED_PARTS
            && let Some((place, wakes)) = self.waiting.pop_first()
        {
            self.now = self.now.max(place.tag);
            expected_ns += place.expected_ns;
            next.push(wakes);
        }
        self.is_renewing = !self.waiting.is_empty();
        next
    }

    /// There is no other round: all work.
    pub(super) fn end(&mut self) -> Vec<W> {
        (self.spent_ns, self.is_renewing) = (0, false);
        std::mem::take(&mut self.waiting).into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    const SLICE: Duration = Duration::from_micros(400 * SCALE);

    /// A runtime of one thread, whose tasks always have work.
    struct Tasks {
        order: Order<usize>,
        now: Instant,
        flows: Vec<Flow>,
        places: Vec<Option<Place>>,
        ready: VecDeque<usize>,
        /// Slices that each had.
        had: Vec<u32>,
    }

    impl Tasks {
        fn new(flows: impl IntoIterator<Item = Flow>) -> Self {
            let (flows, now): (Vec<_>, _) = (flows.into_iter().collect(), Instant::now());
            let (places, had, ready) =
                (vec![None; flows.len()], vec![0; flows.len()], (0..flows.len()).collect());
            Self { order: Order::new(1, now), now, flows, places, ready, had }
        }

        /// Polls the task `n`, which has work of `elapsed`; returns whether it could do it.
        fn poll(&mut self, n: usize, elapsed: Duration) -> bool {
            if let Some(place) = self.order.enter(&self.flows[n], self.places[n], &n, self.now) {
                self.places[n] = Some(place);
                return false;
            }
            self.now += elapsed;
            self.order.worked(&self.flows[n], self.places[n].take(), (elapsed, 1), self.now);
            true
        }

        /// Polls the next; at the end of a round the next one begins.
        fn step(&mut self) -> Option<usize> {
            let n = self.ready.pop_front();
            if n.is_some_and(|n| self.poll(n, SLICE)) {
                self.had[n?] += 1;
                self.ready.push_back(n?);
                return n;
            }
            if self.ready.is_empty() {
                let next = self.order.renew(self.now);
                self.ready.extend(next);
            }
            None
        }

        fn steps(&mut self, slices: u32) {
            while self.had.iter().sum::<u32>() < slices {
                self.step();
            }
        }
    }

    fn flows(count: usize) -> impl Iterator<Item = Flow> {
        (0..count).map(|_| Flow::default())
    }

    #[test]
    fn all_who_always_have_work_get_the_same_and_weights_get_more() {
        let heavy = Flow::weighted(3);
        let mut tasks = Tasks::new(flows(3).chain([(); 4].map(|()| heavy.clone())));
        tasks.steps(700);
        let had = &tasks.had;
        assert!(had[3..].iter().sum::<u32>().abs_diff(400) <= 8, "{had:?}");
        assert!(had[..3].iter().all(|had| had.abs_diff(100) <= 3), "{had:?}");
    }

    #[test]
    fn who_does_little_never_waits_longer_than_a_round_however_many_work() {
        let mut tasks = Tasks::new(flows(101));
        let honest = tasks.ready.pop_back().unwrap();
        let little = Duration::from_micros(1);
        assert!(tasks.poll(honest, little));
        let mut longest = Duration::ZERO;
        for slices in 1..1000 {
            tasks.steps(slices);
            let asked = tasks.now;
            while !tasks.poll(honest, little) {
                let next = tasks.order.renew(tasks.now);
                tasks.ready.extend(next.into_iter().filter(|next| *next != honest));
            }
            longest = longest.max(tasks.now - asked);
        }
        assert!(longest <= little, "{longest:?}");
    }

    /// Goal: many that come, each with some work, delay one that was there by no more than their one share. Each
    /// has a key of its own.
    #[test]
    fn crowd_of_newcomers_gets_no_more_than_its_share() {
        let mut tasks = Tasks::new(flows(2001));
        let honest = tasks.ready.pop_back().unwrap();
        assert!(tasks.poll(honest, SLICE));
        tasks.ready.push_front(honest);
        let mut others = 0;
        while tasks.had[honest] < 100 {
            let Some(n) = tasks.step() else { continue };
            if n != honest {
                others += 1;
                tasks.flows[n] = Flow::default(); // it comes back with another key
            }
        }
        assert!(others <= 850, "{others}");
    }

    #[test]
    fn many_connections_of_one_flow_get_no_more_than_one() {
        let one = Flow::default();
        let mut tasks = Tasks::new((0..50).map(|_| one.clone()).chain([Flow::default()]));
        tasks.steps(200);
        assert!(tasks.had[50] >= 60, "{} of 200", tasks.had[50]);
    }

    #[test]
    fn what_was_done_while_nobody_waited_does_not_count_against_anyone() {
        let mut tasks = Tasks::new(flows(2));
        for _ in 0..1000 {
            assert!(tasks.poll(0, SLICE));
            tasks.now += SLICE; // it is idle for as long
        }
        tasks.steps(100);
        assert!(tasks.had[0].abs_diff(tasks.had[1]) <= 4, "{:?}", tasks.had);
    }

    #[test]
    fn work_of_a_sample_counts_for_all_and_one_that_leaves_holds_up_nobody() {
        let now = Instant::now();
        let (mut order, [first, second]) = (Order::new(1, now), [(); 2].map(|()| Flow::default()));
        order.worked(&first, None, (SLICE, 5), now);
        assert!(order.is_crowded(), "more than a round");
        let [leaves, stays] = [&first, &second].map(|flow| order.enter(flow, None, &flow.weight, now));
        assert!(order.begins_to_renew() && !order.begins_to_renew());
        order.leave(&first, leaves.unwrap());
        assert_eq!(order.renew(now).len(), 1);
        assert_eq!(order.enter(&second, stays, &0, now), None);
        assert!(!order.is_renewing() && !order.is_crowded());
    }

    #[test]
    fn who_goes_on_in_a_round_that_others_used_up_keeps_its_place() {
        let now = Instant::now();
        let (mut order, [greedy, other]) = (Order::new(1, now), [(); 2].map(|()| Flow::default()));
        order.worked(&greedy, None, (SLICE, 5), now);
        let place = order.enter(&other, None, &1, now);
        assert_eq!(order.renew(now), [1]);
        order.worked(&greedy, None, (SLICE, 5), now);
        assert_eq!(order.enter(&other, place, &1, now), place);
        assert!(order.enter(&greedy, None, &0, now).is_some());
        assert_eq!(order.renew(now)[0], 1);
        assert_eq!(order.enter(&other, place, &1, now), None);
    }
}
