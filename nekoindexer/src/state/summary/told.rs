//! What one neighbor was told over one connection, and what it is to be told next.

use std::{collections::VecDeque, mem};

use nekoproto::{
    List,
    limits::{CHANGE_BYTES_MAX, SUMMARY_BYTES_MAX, SUMMARY_CHANGES_MAX, SUMMARY_KEYS_MAX},
    summary::{Change, Filter, SummaryNews},
};

use super::{OwnSummary, Position};

/// What one neighbor was told over one connection.
///
/// Changes are noted as told when they are added. Whoever cannot deliver a message, in order, has to
/// [`begin_anew`](Self::begin_anew).
#[derive(Debug, Default)]
pub struct Told {
    /// Of the last message with changes.
    number: u64,
    /// How many of our names it was told.
    position: Option<Position>,
    /// Which version of the neighbors that we trust it was told.
    neighbors: Option<u64>,
    /// What follows goes on from what it was told.
    goes_on: bool,
    /// What is to be told, in order.
    changes: VecDeque<Pending>,
}

/// What is to be told. Of a filter only the next part is copied, when it is sent.
#[derive(Debug)]
enum Pending {
    Change(Change),
    Filter { position: Position, filter: Filter, part: usize },
}

impl Told {
    /// The neighbor may not have taken in what it was told: the next message replaces all of it.
    pub fn begin_anew(&mut self) {
        *self = Self { number: self.number, ..Self::default() };
    }

    /// The position of our own summary that it was told.
    #[must_use]
    pub const fn position(&self) -> Option<Position> {
        self.position
    }

    /// The number of the last message, if it was the last of what is told and nothing was added to our own names since.
    #[must_use]
    pub fn confirms(&self, own: Position) -> u64 {
        if self.changes.is_empty() && self.position == Some(own) { self.number } else { 0 }
    }

    /// Adds what is new in our own summary, and which `neighbors` we trust, unless it was told that `version` of them.
    pub fn tell(&mut self, own: &OwnSummary, version: u64, neighbors: impl FnOnce() -> Change) {
        match self.position.replace(own.position()).and_then(|since| own.added(since)) {
            Some(added) => {
                let added = added.chunks(SUMMARY_KEYS_MAX);
                let added = added.map(|keys| Change::Added(List::first_of(keys.iter().copied())));
                self.changes.extend(added.map(Pending::Change));
            }
            None => {
                let (position, filter) = (own.position(), own.filter().clone());
                self.changes.push_back(Pending::Filter { position, filter, part: 0 });
            }
        }
        if self.neighbors.replace(version) != Some(version) {
            self.changes.push_back(Pending::Change(neighbors()));
        }
    }

    /// The next message with changes added so far, to be sent before any other; `None` if nothing is new.
    #[must_use]
    pub fn next_message(&mut self) -> Option<SummaryNews> {
        let (mut changes, mut bytes) = (Vec::new(), 0);
        while changes.len() < SUMMARY_CHANGES_MAX
            && bytes < SUMMARY_BYTES_MAX
            && let Some(change) = self.next_change()
        {
            bytes += bytes_max(&change);
            changes.push(change);
        }
        if changes.is_empty() {
            return None;
        }
        self.number += 1;
        let begins = !mem::replace(&mut self.goes_on, true);
        let (is_all, changes) = (self.changes.is_empty(), List::first_of(changes));
        Some(SummaryNews { begins, is_all, changes, ..self.heartbeat() })
    }

    fn next_change(&mut self) -> Option<Change> {
        match self.changes.pop_front()? {
            Pending::Change(change) => Some(change),
            Pending::Filter { position, filter, part: n } => {
                let part = filter.part(n)?; // behind the last nothing is pending
                let Position { epoch, count } = position;
                if part.at as usize + part.words.len() < filter.words() {
                    self.changes.push_front(Pending::Filter { position, filter, part: n + 1 });
                }
                Some(Change::Filter { epoch, count, part })
            }
        }
    }

    /// The message that says that nothing is new.
    #[must_use]
    pub fn heartbeat(&self) -> SummaryNews {
        let changes = List::new();
        SummaryNews { echo_ms: 0, number: self.number, begins: false, is_all: true, changes }
    }
}

fn bytes_max(change: &Change) -> usize {
    let items = match change {
        Change::Added(keys) => keys.len() * 16,
        Change::Filter { part, .. } => part.words.len() * 9,
        Change::Neighbors(tags) => tags.len() * 8,
        Change::ManyNeighbors => 0,
    };
    CHANGE_BYTES_MAX + items
}
