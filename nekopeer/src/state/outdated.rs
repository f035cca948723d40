//! Which outdated copies are refetched or dropped next: one attempt at a time for each name. A failed attempt is
//! repeated after a pause.

#[cfg(test)]
mod tests;

use std::{collections::HashMap, time::Instant};

use nekoproto::{FileName, NodeId};

use super::queue::{Limits, Queue, pause};

/// Attempts at once. No origin gets all of them, and two are left to origins whose last attempt succeeded.
const TURNS: Limits = Limits { all: 6, doubtful: 4, each: 3, names: 1 };

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The copy is not outdated any more.
    Done,
    /// It succeeded, and a still newer version is known.
    Outdated,
    /// The name was in use by something else.
    InUse,
    /// It failed, and may succeed later.
    Failed,
    /// A repetition is pointless until there is news.
    GivenUp,
}

/// The outdated copies that wait for an attempt, or have one.
#[derive(Debug)]
pub(crate) struct Outdated {
    names: HashMap<FileName, Copy>,
    queue: Queue,
}

/// One outdated copy.
#[derive(Debug)]
struct Copy {
    origin: u32,
    state: State,
    /// Failed attempts since the last news.
    failures: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It waits in the queue: for this time, or if there was no attempt since the last news only for its turn.
    Waiting(Option<Instant>),
    /// An attempt is running.
    Running {
        /// Whether there was news since it began.
        news: bool,
    },
}

impl Default for Outdated {
    fn default() -> Self {
        Self { names: HashMap::new(), queue: Queue::new(TURNS) }
    }
}

impl Outdated {
    /// There is news: the copy of `name` is outdated. It is tried as soon as its origin has a turn.
    pub(crate) fn add(&mut self, name: FileName, origin: NodeId) {
        match self.names.get_mut(&name) {
            Some(Copy { state: State::Running { news }, .. }) => return *news = true,
            Some(Copy { state: State::Waiting(at), origin, .. }) => {
                self.queue.remove(*origin, &(*at, name.clone()));
            }
            None => {}
        }
        let origin = self.queue.index(origin);
        self.wait(name, Copy { origin, state: State::Waiting(None), failures: 0 });
    }

    /// The names of which an attempt begins now; [`ended`](Self::ended) is to be called for each.
    pub(crate) fn begin(&mut self, now: Instant) -> Vec<FileName> {
        let begun = std::iter::from_fn(|| self.queue.begin(now));
        let begun: Vec<FileName> = begun.flat_map(|(_, names)| names).collect();
        for name in &begun {
            if let Some(copy) = self.names.get_mut(name) {
                copy.state = State::Running { news: false };
            }
        }
        begun
    }

    /// The attempt of `name` has ended. `random` is uniform in 0..1. Returns whether it is the first failure since
    /// the last news.
    pub(crate) fn ended(&mut self, name: &FileName, how: Ended, now: Instant, random: f64) -> bool {
        let Some(mut copy) = self.names.remove(name) else { return false };
        let (origin, is_news) = (copy.origin, copy.state == State::Running { news: true });
        let is_first = matches!(how, Ended::Failed | Ended::GivenUp) && copy.failures == 0;
        if is_news || how == Ended::Outdated {
            self.wait(name.clone(), Copy { origin, state: State::Waiting(None), failures: 0 });
        } else if matches!(how, Ended::InUse | Ended::Failed) {
            copy.state = State::Waiting(Some(now + pause(copy.failures, random)));
            copy.failures = copy.failures.saturating_add(u32::from(how == Ended::Failed));
            self.wait(name.clone(), copy);
        }
        let is_answered = match how {
            Ended::Done | Ended::Outdated => Some(true),
            Ended::Failed => Some(false),
            Ended::InUse | Ended::GivenUp => None,
        };
        self.queue.end(origin, is_answered, now, random);
        is_first
    }

    /// When [`begin`](Self::begin) would begin something, if nothing ends before.
    pub(crate) fn next_at(&self, now: Instant) -> Option<Instant> {
        self.queue.next_at(now)
    }

    fn wait(&mut self, name: FileName, copy: Copy) {
        if let State::Waiting(at) = copy.state {
            self.queue.add(copy.origin, (at, name.clone()));
        }
        self.names.insert(name, copy);
    }
}
