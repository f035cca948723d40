//! Which outdated copies are refetched or dropped next: one attempt at a time for each name, a bounded number at
//! once, in turn by origin. A failed attempt gives its turn back and is repeated after a pause.

mod origin;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::{Duration, Instant},
};

use nekoproto::{FileName, NodeId};

use self::origin::Origin;
use super::turns::{Limits, Turns};

/// Attempts at once. No origin gets all of them, and two are left to origins whose last attempt succeeded.
const TURNS: Limits = Limits { all: 6, doubtful: 4, each: 3 };
/// Origins that are remembered to have answered. Beyond that all have to prove it again.
const ANSWERS_MAX: usize = 4096;
/// Minimum and maximum pause before a failed attempt is repeated.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);

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
    origins: HashMap<NodeId, Origin>,
    /// The origins, in the order in which they get turns.
    line: VecDeque<NodeId>,
    /// Origins whose last attempt succeeded; all others are doubtful.
    answers: HashSet<NodeId>,
    turns: Turns,
}

/// One outdated copy.
#[derive(Debug)]
struct Copy {
    origin: NodeId,
    state: State,
    /// Failed attempts since the last news.
    failures: u32,
}

/// Invariant: `New` is in `Origin::new`, `Again` in `Origin::again`, `Running` in neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// There was no attempt since the last news.
    New,
    /// The next attempt is at this time.
    Again(Instant),
    /// An attempt is running.
    Running {
        /// Whether there was news since it began.
        news: bool,
    },
}

impl Default for Outdated {
    fn default() -> Self {
        let (names, origins, line, answers) = Default::default();
        Self { names, origins, line, answers, turns: Turns::new(TURNS) }
    }
}

impl Outdated {
    /// There is news: the copy of `name` is outdated. It is tried as soon as its origin has a turn.
    pub(crate) fn add(&mut self, name: FileName, origin: NodeId) {
        match self.names.get_mut(&name) {
            Some(Copy { state: State::Running { news }, .. }) => return *news = true,
            Some(copy) if copy.state == State::New && copy.origin == origin => return,
            Some(_) => self.remove(&name),
            None => {}
        }
        self.origin(origin).new.push_back(name.clone());
        self.names.insert(name, Copy { origin, state: State::New, failures: 0 });
    }

    /// The names of which an attempt begins now; [`ended`](Self::ended) is to be called for each.
    pub(crate) fn begin(&mut self, now: Instant) -> Vec<FileName> {
        let mut begun = Vec::new();
        let mut passed = 0;
        while passed < self.line.len() {
            let Some(id) = self.line.pop_front() else { break };
            self.line.push_back(id);
            let is_doubtful = !self.answers.contains(&id);
            let may = self.turns.may_take(&id, is_doubtful);
            let name = self.origins.get_mut(&id).filter(|_| may).and_then(|origin| origin.next(now));
            let Some(name) = name else {
                passed += 1;
                continue;
            };
            passed = 0;
            self.turns.take(id, is_doubtful);
            if let Some(copy) = self.names.get_mut(&name) {
                copy.state = State::Running { news: false };
            }
            begun.push(name);
        }
        begun
    }

    /// The attempt of `name` has ended. `random` is uniform in 0..1. Returns whether it is the first failure since
    /// the last news.
    pub(crate) fn ended(&mut self, name: &FileName, how: Ended, now: Instant, random: f64) -> bool {
        let Some(copy) = self.names.get_mut(name) else { return false };
        let (id, news) = (copy.origin, copy.state == State::Running { news: true });
        let is_first = matches!(how, Ended::Failed | Ended::GivenUp) && copy.failures == 0;
        self.turns.give_back(&id);
        let origin = self.origins.entry(id).or_default();
        match how {
            Ended::Done | Ended::Outdated => {
                origin.answered();
                if self.answers.len() >= ANSWERS_MAX {
                    self.answers.clear();
                }
                self.answers.insert(id);
            }
            Ended::Failed => {
                origin.failed(now, random);
                self.answers.remove(&id);
            }
            Ended::InUse | Ended::GivenUp => {}
        }
        if news || how == Ended::Outdated {
            (copy.state, copy.failures) = (State::New, 0);
            origin.new.push_back(name.clone());
        } else if matches!(how, Ended::Done | Ended::GivenUp) {
            self.remove(name);
        } else {
            let at = now + pause(copy.failures, random);
            copy.state = State::Again(at);
            copy.failures = copy.failures.saturating_add(u32::from(how == Ended::Failed));
            origin.again.insert((at, name.clone()));
        }
        is_first
    }

    /// When [`begin`](Self::begin) would begin something, if nothing ends before.
    pub(crate) fn next_at(&self, now: Instant) -> Option<Instant> {
        let may = |(id, _): &(&NodeId, &Origin)| self.turns.may_take(id, !self.answers.contains(*id));
        self.origins.iter().filter(may).filter_map(|(_, origin)| origin.next_at(now)).min()
    }

    fn origin(&mut self, id: NodeId) -> &mut Origin {
        let line = &mut self.line;
        self.origins.entry(id).or_insert_with(|| {
            line.push_back(id);
            Origin::default()
        })
    }

    /// Removes a name, and its origin if that has no other.
    fn remove(&mut self, name: &FileName) {
        let Some(copy) = self.names.remove(name) else { return };
        let Some(origin) = self.origins.get_mut(&copy.origin) else { return };
        match copy.state {
            State::New => origin.new.retain(|new| new != name),
            State::Again(at) => drop(origin.again.remove(&(at, name.clone()))),
            State::Running { .. } => {}
        }
        if origin.is_empty() && !self.turns.has(&copy.origin) {
            self.origins.remove(&copy.origin);
            self.line.retain(|id| *id != copy.origin);
        }
    }
}

/// The pause after `failures` earlier failures.
fn pause(failures: u32, random: f64) -> Duration {
    let ceiling = PAUSE_MIN.saturating_mul(2u32.saturating_pow(failures)).min(PAUSE_MAX);
    let floor = PAUSE_MIN / 2;
    floor + (ceiling - floor).mul_f64(random.clamp(0.0, 1.0))
}
