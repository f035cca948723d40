//! The copies whose freshness is watched, and which origin is to be asked about which of them next.
//!
//! A copy takes some hundred bytes: its record is in the catalogue. Finding what is due costs what is due.

use std::{
    collections::{BTreeSet, HashMap},
    time::Instant,
};

use nekoproto::{FileName, NodeId};
use slab::Slab;

use super::freshness::CopyState;

/// Copies that one origin is asked about in turn; further ones follow once these are answered.
pub(crate) const ASKED_MAX: usize = 1024;

/// The copies that are watched.
///
/// Invariants: each copy is in `due` of its origin with its `ask_at`; `first` has each origin with the first of
/// its `due`; an origin without copies is forgotten.
#[derive(Debug)]
pub(crate) struct Copies {
    /// Whether origins are asked when copies are due; otherwise nothing is kept about that.
    asks: bool,
    copies: HashMap<FileName, Copy>,
    origins: Slab<Origin>,
    indexes: HashMap<NodeId, u32>,
    first: BTreeSet<(Instant, u32)>,
}

#[derive(Debug)]
struct Copy {
    origin: u32,
    state: CopyState,
}

#[derive(Debug)]
struct Origin {
    node: NodeId,
    due: BTreeSet<(Instant, FileName)>,
}

/// Copies to be confirmed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Due {
    /// By origin.
    pub(crate) origins: HashMap<NodeId, DueOf>,
    /// When a further copy is due.
    pub(crate) next: Option<Instant>,
}

/// Copies to be confirmed by one origin, at most [`ASKED_MAX`].
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DueOf {
    /// Whether it did not answer the last question.
    pub(crate) is_doubtful: bool,
    /// What it is asked about.
    pub(crate) asked: Vec<FileName>,
}

impl Copies {
    pub(crate) fn new(asks: bool) -> Self {
        let (copies, origins, indexes, first) = Default::default();
        Self { asks, copies, origins, indexes, first }
    }

    /// Makes room for `copies` in all, at once: room that grows bit by bit leaves holes.
    pub(crate) fn reserve(&mut self, copies: usize) {
        self.copies.reserve(copies.saturating_sub(self.copies.len()));
    }

    /// The copy of `name`, if it is watched.
    pub(crate) fn get(&self, name: &FileName) -> Option<&CopyState> {
        self.copies.get(name).map(|copy| &copy.state)
    }

    /// Watches a copy, in place of any other under its name.
    pub(crate) fn insert(&mut self, name: &FileName, origin: NodeId, mut state: CopyState) {
        if let Some(before) = self.get(name) {
            state.follows(before);
        }
        self.remove(name);
        if !self.asks {
            self.copies.insert(name.clone(), Copy { origin: 0, state });
            return;
        }
        let index = *self.indexes.entry(origin).or_insert_with(|| {
            let origin = Origin { node: origin, due: BTreeSet::new() };
            u32::try_from(self.origins.insert(origin)).unwrap_or(u32::MAX) // memory ends before
        });
        self.change_due(index, |due| due.insert((state.ask_at(), name.clone())));
        self.copies.insert(name.clone(), Copy { origin: index, state });
    }

    /// Watches the copy of `name` no longer.
    pub(crate) fn remove(&mut self, name: &FileName) {
        let Some((name, Copy { origin, state })) = self.copies.remove_entry(name) else { return };
        if !self.asks {
            return;
        }
        self.change_due(origin, |due| due.remove(&(state.ask_at(), name)));
        if self.origins[origin as usize].due.is_empty() {
            self.indexes.remove(&self.origins.remove(origin as usize).node);
        }
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
        if self.asks && before != after {
            self.change_due(origin, |due| {
                due.remove(&(before, name.clone()));
                due.insert((after, name.clone()))
            });
        }
        Some(result)
    }

    /// All outdated copies, with their origins. Only where origins are asked.
    pub(crate) fn outdated(&self) -> impl Iterator<Item = (&FileName, NodeId)> {
        let asked = self.copies.iter().filter(|_| self.asks);
        let outdated = asked.filter(|(_, copy)| copy.state.newest().is_some());
        outdated.map(|(name, copy)| (name, self.origins[copy.origin as usize].node))
    }

    /// The copies that their origins are to be asked about by `now`, by origin, the longest due first. Those of
    /// origins that are `passed` over are left out.
    pub(crate) fn due(&self, now: Instant, passed: impl Fn(&NodeId) -> bool) -> Due {
        let mut due = Due::default();
        for (at, index) in &self.first {
            let origin = &self.origins[*index as usize];
            if passed(&origin.node) {
                continue;
            }
            if *at > now {
                due.next = Some(*at);
                break;
            }
            let asked = origin.due.iter().take(ASKED_MAX).take_while(|(at, _)| *at <= now);
            let asked: Vec<FileName> = asked.map(|(_, name)| name.clone()).collect();
            let is_doubtful =
                asked.iter().any(|name| self.get(name).is_some_and(|copy| !copy.is_reachable()));
            due.origins.insert(origin.node, DueOf { is_doubtful, asked });
        }
        due
    }

    /// All copies of one origin that are due by `now`.
    pub(crate) fn due_of(&self, origin: &NodeId, now: Instant) -> Vec<FileName> {
        let due = self.indexes.get(origin).map(|index| &self.origins[*index as usize].due);
        let due = due.into_iter().flatten().take_while(|(at, _)| *at <= now);
        due.map(|(_, name)| name.clone()).collect()
    }

    fn change_due(&mut self, origin: u32, change: impl FnOnce(&mut BTreeSet<(Instant, FileName)>) -> bool) {
        let due = &mut self.origins[origin as usize].due;
        let before = due.first().map(|(at, _)| *at);
        change(due);
        let after = due.first().map(|(at, _)| *at);
        if before != after {
            before.map(|before| self.first.remove(&(before, origin)));
            after.map(|after| self.first.insert((after, origin)));
        }
    }
}

#[cfg(test)]
mod tests;
