//! The names that wait for something, and which origin's turn it is: a bounded number of turns at once, fair by origin.

use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

use nekoproto::{FileName, NodeId};
use slab::Slab;

/// Origins without a waiting name of which it is remembered that they answered.
const REMEMBERED_MAX: usize = 4096;
/// Minimum and maximum pause before a failed attempt is repeated.
pub(super) const PAUSE_MIN: Duration = Duration::from_millis(500);
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) all: usize,
    /// Turns of doubtful origins, so that some are left for those that answer.
    pub(super) doubtful: usize,
    /// Turns of one origin; a doubtful one has one at a time.
    pub(super) each: usize,
    pub(super) names: usize,
}

/// A name, and when it is due: at once if at no time. Those that are due at once come first.
pub(super) type Waiting = (Option<Instant>, FileName);

/// Invariants: each origin that has a waiting name and may have a further turn is in the line of its kind. One that has
/// neither a waiting name nor a turn is forgotten, unless it answered last and few are remembered.
#[derive(Debug)]
pub(super) struct Queue {
    limits: Limits,
    pub(super) origins: Slab<Origin>,
    indexes: HashMap<NodeId, u32>,
    /// Those that answered last, and the doubtful ones: by the time of their turn, then by who waits longest for one.
    lines: [BTreeSet<PlaceInLine>; 2],
    /// Turns of each kind.
    running: [usize; 2],
    turns: u64,
}

/// When an origin's turn is, when it had one last, and its index.
type PlaceInLine = (Option<Instant>, u64, u32);

#[derive(Debug)]
pub(super) struct Origin {
    node: NodeId,
    waiting: BTreeSet<Waiting>,
    running: usize,
    /// Whether it did not answer last, or was never asked.
    is_doubtful: bool,
    /// Its last turn: when, and which of all.
    last: (Option<Instant>, u64),
    failures: u32,
    /// Before this only what is due at once has a turn.
    pause_until: Option<Instant>,
}

impl Origin {
    /// When the first name is due.
    fn next_at(&self) -> Option<Option<Instant>> {
        self.waiting.first().map(|(at, _)| at.map(|at| self.pause_until.map_or(at, |until| until.max(at))))
    }

    fn place(&self, index: u32, each: usize) -> Option<PlaceInLine> {
        let at = self.next_at().filter(|_| self.running < if self.is_doubtful { 1 } else { each })?;
        Some((at.max(self.last.0), self.last.1, index))
    }
}

impl Queue {
    pub(super) fn new(limits: Limits) -> Self {
        let (origins, indexes, lines, running, turns) = Default::default();
        Self { limits, origins, indexes, lines, running, turns }
    }

    /// The index of an origin, which is good while it has a waiting name or a turn.
    pub(super) fn index(&mut self, node: NodeId) -> u32 {
        *self.indexes.entry(node).or_insert_with(|| {
            let (waiting, running, last, failures, pause_until) = Default::default();
            let origin = Origin { node, waiting, running, is_doubtful: true, last, failures, pause_until };
            u32::try_from(self.origins.insert(origin)).unwrap_or(u32::MAX) // memory ends before
        })
    }

    pub(super) fn node(&self, index: u32) -> NodeId {
        self.origins[index as usize].node
    }

    pub(super) fn add(&mut self, index: u32, waiting: Waiting) {
        self.change(index, |origin| origin.waiting.insert(waiting));
    }

    pub(super) fn remove(&mut self, index: u32, waiting: &Waiting) {
        self.change(index, |origin| origin.waiting.remove(waiting));
    }

    /// Begins the next turn: whose it is, and its names, which do not wait any more. [`end`](Self::end) ends it.
    pub(super) fn begin(&mut self, now: Instant) -> Option<(u32, Vec<FileName>)> {
        let (.., index) = self.first().filter(|(at, ..)| *at <= Some(now))?;
        self.turns += 1;
        let (last, most) = ((Some(now), self.turns), self.limits.names);
        let names = self.change(index, |origin| {
            (origin.running, origin.last) = (origin.running + 1, last);
            let mut names = Vec::new();
            while names.len() < most && origin.next_at().is_some_and(|at| at <= Some(now)) {
                names.extend(origin.waiting.pop_first().map(|(_, name)| name));
            }
            names
        });
        Some((index, names))
    }

    /// A turn of an origin ends; whether that answered, if that is known. However many names wait for one that did not, none
    /// is tried again before a pause. `random` is uniform in 0..1.
    pub(super) fn end(&mut self, index: u32, is_answered: Option<bool>, now: Instant, random: f64) {
        self.change(index, |origin| {
            origin.running = origin.running.saturating_sub(1);
            origin.is_doubtful = is_answered.map_or(origin.is_doubtful, |is_answered| !is_answered);
            match is_answered {
                Some(true) => (origin.failures, origin.pause_until) = (0, None),
                Some(false) => {
                    origin.pause_until = Some(now + pause(origin.failures, random));
                    origin.failures = origin.failures.saturating_add(1);
                }
                None => {}
            }
        });
    }

    pub(super) fn next_at(&self, now: Instant) -> Option<Instant> {
        self.first().map(|(at, ..)| at.unwrap_or(now))
    }

    fn first(&self) -> Option<PlaceInLine> {
        let [sure, doubtful] = &self.lines;
        let doubtful = doubtful.first().filter(|_| self.running[1] < self.limits.doubtful);
        let first = sure.first().into_iter().chain(doubtful).min();
        first.filter(|_| self.running.iter().sum::<usize>() < self.limits.all).copied()
    }

    fn change<T>(&mut self, index: u32, change: impl FnOnce(&mut Origin) -> T) -> T {
        let (origin, each) = (&mut self.origins[index as usize], self.limits.each);
        let (kind, place) = (usize::from(origin.is_doubtful), origin.place(index, each));
        self.running[kind] -= origin.running;
        let result = change(origin);
        let (now_kind, now_place) = (usize::from(origin.is_doubtful), origin.place(index, each));
        self.running[now_kind] += origin.running;
        if (kind, place) != (now_kind, now_place) {
            place.map(|place| self.lines[kind].remove(&place));
            now_place.map(|place| self.lines[now_kind].insert(place));
        }
        let is_idle = origin.waiting.is_empty() && origin.running == 0;
        if is_idle && (origin.is_doubtful || self.origins.len() > REMEMBERED_MAX) {
            self.indexes.remove(&self.origins.remove(index as usize).node);
        }
        result
    }
}

/// The pause after `failures` earlier failures; `random` is uniform in 0..1.
pub(super) fn pause(failures: u32, random: f64) -> Duration {
    let ceiling = PAUSE_MIN.saturating_mul(2u32.saturating_pow(failures)).min(PAUSE_MAX);
    let floor = PAUSE_MIN / 2;
    floor + (ceiling - floor).mul_f64(random.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_origin_has_its_turn_and_those_that_do_not_answer_leave_some_to_the_others() {
        let (limits, now) = (Limits { all: 4, doubtful: 2, each: 3, names: 1 }, Instant::now());
        let mut queue = Queue::new(limits);
        let [a, b, c] = [1, 2, 3].map(|n| queue.index(NodeId::from_bytes([n; 32])));
        let name = |n: usize| FileName::new(&format!("f{n}")).unwrap();
        (0..9).for_each(|n| [a, b, c].iter().for_each(|origin| queue.add(*origin, (None, name(n)))));
        let begin = |queue: &mut Queue| {
            std::iter::from_fn(|| queue.begin(now)).map(|(origin, _)| origin).collect::<Vec<_>>()
        };
        assert_eq!(begin(&mut queue), [a, b], "one turn of each, and two in all");
        queue.end(a, Some(false), now, 0.5);
        assert_eq!(begin(&mut queue), [c], "who waited longest");
        queue.end(b, Some(true), now, 0.5);
        assert_eq!(begin(&mut queue), [a, b, b], "all that are left, at least one of each");
        queue.end(b, None, now, 0.5);
        assert_eq!(begin(&mut queue), [b]);
        queue.end(a, Some(true), now, 0.5);
        queue.end(c, Some(true), now, 0.5);
        assert_eq!(begin(&mut queue), [c, a], "in turn");
        queue.end(b, None, now, 0.5);
        queue.end(a, None, now, 0.5);
        assert_eq!(begin(&mut queue), [b, c], "no origin has all");
    }
}
