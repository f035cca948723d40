//! The copies whose freshness is watched, and which origin is to be asked about which of them next.
//!
//! A copy takes some hundred bytes: its record is in the catalogue. Finding what is due costs what is handed out.

use std::{collections::HashMap, time::Instant};

use nekoproto::{FileName, NodeId, VerifiedRecord};

use super::{
    freshness::CopyState,
    queue::{Limits, Queue},
};

/// Copies that one origin is asked about in turn; further ones follow once these are answered.
const ASKED_MAX: usize = 1024;
/// Origins asked at once. Those that did not answer the last question leave some to the others.
const ASKED: Limits = Limits { all: 64, doubtful: 48, each: 1, names: ASKED_MAX };

/// The copies that are watched.
///
/// Invariant: each copy waits in `queue` for the time of its next question.
#[derive(Debug)]
pub(crate) struct Copies {
    copies: HashMap<FileName, WatchedCopy>,
    queue: Queue,
}

#[derive(Debug)]
struct WatchedCopy {
    origin: u32,
    state: CopyState,
}

impl Default for Copies {
    fn default() -> Self {
        Self { copies: HashMap::new(), queue: Queue::new(ASKED) }
    }
}

impl Copies {
    /// Makes room for `copies` in all, at once: room that grows bit by bit leaves holes.
    pub(crate) fn reserve(&mut self, copies: usize) {
        self.copies.reserve(copies.saturating_sub(self.copies.len()));
    }

    pub(crate) fn get(&self, name: &FileName) -> Option<&CopyState> {
        self.copies.get(name).map(|copy| &copy.state)
    }

    /// Watches a copy, in place of any other under its name.
    pub(crate) fn insert(&mut self, name: &FileName, origin: NodeId, mut state: CopyState) {
        if let Some(before) = self.get(name) {
            state.follows(before);
        }
        self.remove(name);
        let origin = self.queue.index(origin);
        self.queue.add(origin, (Some(state.ask_at()), name.clone()));
        self.copies.insert(name.clone(), WatchedCopy { origin, state });
    }

    pub(crate) fn remove(&mut self, name: &FileName) {
        let Some((name, WatchedCopy { origin, state })) = self.copies.remove_entry(name) else { return };
        self.queue.remove(origin, &(Some(state.ask_at()), name));
    }

    /// Changes the copy of `name`, if it is watched.
    pub(crate) fn change<T>(
        &mut self,
        name: &FileName,
        change: impl FnOnce(&mut CopyState) -> T,
    ) -> Option<T> {
        let copy = self.copies.get_mut(name)?;
        let before = copy.state.ask_at();
        let result = change(&mut copy.state);
        let (origin, after) = (copy.origin, copy.state.ask_at());
        if before != after {
            self.queue.add(origin, (Some(after), name.clone()));
            self.queue.remove(origin, &(Some(before), name.clone()));
        }
        Some(result)
    }

    /// Changes the copy of which `record` is the version held or the newest known, if it is watched.
    pub(crate) fn change_of<T>(
        &mut self,
        record: &VerifiedRecord,
        change: impl FnOnce(&mut CopyState) -> T,
    ) -> Option<T> {
        let is_it = self.get(&record.name).is_some_and(|copy| copy.is_of(record));
        if is_it { self.change(&record.name, change) } else { None }
    }

    /// There is a version that may be later than the copy of its origin's file.
    pub(crate) fn learn(&mut self, record: &VerifiedRecord) {
        let copy = self.copies.get_mut(&record.name);
        if let Some(copy) = copy.filter(|copy| self.queue.node(copy.origin) == record.origin) {
            copy.state.learn(record);
        }
    }

    pub(crate) fn outdated(&self) -> impl Iterator<Item = (&FileName, NodeId)> {
        let outdated = self.copies.iter().filter(|(_, copy)| copy.state.newest().is_some());
        outdated.map(|(name, copy)| (name, self.queue.node(copy.origin)))
    }

    /// The questions that begin now: to whom, and about what; [`asked`](Self::asked) is to be called for each.
    pub(crate) fn ask(&mut self, now: Instant) -> Vec<(NodeId, Vec<FileName>)> {
        let mut begun = Vec::new();
        while let Some((origin, names)) = self.queue.begin(now) {
            for name in &names {
                if let Some(copy) = self.copies.get_mut(name) {
                    copy.state.asked(now);
                    self.queue.add(origin, (Some(copy.state.ask_at()), name.clone()));
                }
            }
            begun.push((self.queue.node(origin), names));
        }
        begun
    }

    /// A question to `origin` has ended, with an answer or not. `random` is uniform in 0..1.
    pub(crate) fn asked(&mut self, origin: NodeId, is_answered: bool, now: Instant, random: f64) {
        let index = self.queue.index(origin);
        self.queue.end(index, Some(is_answered), now, random);
    }

    /// When [`ask`](Self::ask) would begin a question, if none ends before.
    pub(crate) fn next_at(&self, now: Instant) -> Option<Instant> {
        self.queue.next_at(now)
    }
}

#[cfg(test)]
mod tests;
