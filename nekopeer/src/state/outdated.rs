//! Which outdated copies are refetched or dropped next: one attempt at a time for each name. A failed attempt is
//! repeated after a pause. An attempt may take hours: some turns are kept for small copies, some for late ones.

#[cfg(test)]
mod tests;

use std::{collections::HashMap, time::Instant};

use nekoproto::{FileName, NodeId};

use super::queue::{Limits, Queue, Waiting, pause};

/// Attempts at once: of any copies, and further ones of small and of late copies. No origin gets all of them, and some are
/// left to origins whose last attempt succeeded.
const TURNS: [Limits; 3] = [
    Limits { all: 6, doubtful: 4, each: 3, names: 1 },
    Limits { all: 4, doubtful: 3, each: 2, names: 1 },
    Limits { all: 2, doubtful: 1, each: 1, names: 1 },
];
/// Bytes of a small copy: from the slowest source they come in five minutes.
const SMALL_BYTES_MAX: u64 = 1024 * 1024;
const WAITING_SHOWN_MAX: usize = 100;

/// What decides for which turns a name waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    pub(crate) origin: NodeId,
    pub(crate) size: u64,
    /// When the copy is past the bound that the reader has set.
    pub(crate) late_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Done,
    /// It succeeded, and a still newer version is known.
    Outdated,
    InUse,
    Failed,
    /// It failed, and may succeed once the user has done something; its origin is not to blame.
    Blocked,
    /// A repetition is pointless until there is news.
    GivenUp,
}

/// The outdated copies that wait for an attempt, or have one.
#[derive(Debug)]
pub(crate) struct Outdated {
    names: HashMap<FileName, OutdatedCopy>,
    /// Those who wait for each kind of [`TURNS`]; a name may wait for several.
    queues: [Queue; 3],
}

#[derive(Debug)]
struct OutdatedCopy {
    need: Need,
    state: State,
    failures: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It waits in the queue: for this time, or if there was no attempt since the last news only for its turn.
    Waiting(Option<Instant>),
    Running {
        news: bool,
        turn: usize,
    },
}

impl Default for Outdated {
    fn default() -> Self {
        Self { names: HashMap::new(), queues: TURNS.map(Queue::new) }
    }
}

impl Outdated {
    /// There is news: the copy of `name` is outdated. It is tried as soon as its origin has a turn.
    pub(crate) fn add(&mut self, name: FileName, need: Need) {
        match self.names.get_mut(&name) {
            Some(OutdatedCopy { need: known, state: State::Running { news, .. }, .. }) => {
                (*news, *known) = (true, Need { origin: known.origin, ..need });
                return;
            }
            Some(copy) => {
                copy.line_up(&mut self.queues, &name, |queue, origin, at| queue.remove(origin, &at))
            }
            None => {}
        }
        self.wait(name, OutdatedCopy { need, state: State::Waiting(None), failures: 0 });
    }

    /// The names of which an attempt begins now; [`ended`](Self::ended) is to be called for each.
    pub(crate) fn begin(&mut self, now: Instant) -> Vec<FileName> {
        let mut begun = Vec::new();
        for turn in 0..TURNS.len() {
            while let Some((_, names)) = self.queues[turn].begin(now) {
                for name in &names {
                    let Some(copy) = self.names.get_mut(name) else { continue };
                    copy.line_up(&mut self.queues, name, |queue, origin, at| queue.remove(origin, &at));
                    copy.state = State::Running { news: false, turn };
                }
                begun.extend(names);
            }
        }
        begun
    }

    /// The first names that wait for a turn, and not for the end of a pause.
    pub(crate) fn waiting(&self, now: Instant) -> Vec<FileName> {
        let waits = |copy: &OutdatedCopy| matches!(copy.state, State::Waiting(at) if at <= Some(now));
        let mut names: Vec<_> = self.names.iter().filter(|(_, copy)| waits(copy)).collect();
        names.sort_unstable_by_key(|(name, _)| *name);
        names.into_iter().take(WAITING_SHOWN_MAX).map(|(name, _)| name.clone()).collect()
    }

    /// The attempt of `name` has ended. `random` is uniform in 0..1. Returns whether it is the first failure since
    /// the last news.
    pub(crate) fn ended(&mut self, name: &FileName, how: Ended, now: Instant, random: f64) -> bool {
        let Some(mut copy) = self.names.remove(name) else { return false };
        let State::Running { news, turn } = copy.state else { return false }; // only what runs ends
        let origin = copy.need.origin;
        let is_first = matches!(how, Ended::Failed | Ended::Blocked | Ended::GivenUp) && copy.failures == 0;
        if news || how == Ended::Outdated {
            self.wait(name.clone(), OutdatedCopy { state: State::Waiting(None), failures: 0, ..copy });
        } else if matches!(how, Ended::InUse | Ended::Failed | Ended::Blocked) {
            copy.state = State::Waiting(Some(now + pause(copy.failures, random)));
            copy.failures = copy.failures.saturating_add(u32::from(how != Ended::InUse));
            self.wait(name.clone(), copy);
        }
        let is_answered = match how {
            Ended::Done | Ended::Outdated => Some(true),
            Ended::Failed => Some(false),
            Ended::InUse | Ended::Blocked | Ended::GivenUp => None,
        };
        let origin = self.queues[turn].index(origin);
        self.queues[turn].end(origin, is_answered, now, random);
        is_first
    }

    /// When [`begin`](Self::begin) would begin something, if nothing ends before.
    pub(crate) fn next_at(&self, now: Instant) -> Option<Instant> {
        self.queues.iter().filter_map(|queue| queue.next_at(now)).min()
    }

    fn wait(&mut self, name: FileName, copy: OutdatedCopy) {
        copy.line_up(&mut self.queues, &name, Queue::add);
        self.names.insert(name, copy);
    }
}

impl OutdatedCopy {
    /// Changes the queues for each kind of turn for which it waits.
    fn line_up(&self, queues: &mut [Queue; 3], name: &FileName, change: impl Fn(&mut Queue, u32, Waiting)) {
        let State::Waiting(at) = self.state else { return };
        let (is_small, late_at) = (self.need.size <= SMALL_BYTES_MAX, self.need.late_at);
        let due = [Some(at), is_small.then_some(at), late_at.map(|late_at| at.max(Some(late_at)))];
        for (queue, at) in queues.iter_mut().zip(due) {
            if let Some(at) = at {
                let origin = queue.index(self.need.origin);
                change(queue, origin, (at, name.clone()));
            }
        }
    }
}
