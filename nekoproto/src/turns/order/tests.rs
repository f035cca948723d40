//! Shares of flows, on a runtime of one thread that is simulated.

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
