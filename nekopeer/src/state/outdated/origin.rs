//! The outdated copies of one origin's files.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Instant,
};

use nekoproto::FileName;

use super::pause;

/// What waits for one origin.
#[derive(Debug, Default)]
pub(super) struct Origin {
    /// Names without an attempt since their last news, in order.
    pub(super) new: VecDeque<FileName>,
    /// Names whose last attempt failed, by the time of the next one.
    pub(super) again: BTreeSet<(Instant, FileName)>,
    /// Failed attempts since the last success.
    failures: u32,
    /// No attempt is repeated before; first attempts do not wait.
    repeat_at: Option<Instant>,
}

impl Origin {
    pub(super) fn is_empty(&self) -> bool {
        self.new.is_empty() && self.again.is_empty()
    }

    /// The name whose turn it is, if any.
    pub(super) fn next(&mut self, now: Instant) -> Option<FileName> {
        let is_due = self.new.is_empty() && self.next_at(now).is_some_and(|at| at <= now);
        self.new.pop_front().or_else(|| is_due.then(|| self.again.pop_first())?.map(|(_, name)| name))
    }

    /// When it has a name whose turn it is.
    pub(super) fn next_at(&self, now: Instant) -> Option<Instant> {
        if !self.new.is_empty() {
            return Some(now);
        }
        let (at, _) = self.again.first()?;
        Some(self.repeat_at.map_or(*at, |repeat_at| repeat_at.max(*at)))
    }

    /// An attempt succeeded.
    pub(super) const fn answered(&mut self) {
        (self.failures, self.repeat_at) = (0, None);
    }

    /// An attempt failed: however many names wait, the next repetition is after a pause.
    pub(super) fn failed(&mut self, now: Instant, random: f64) {
        self.repeat_at = Some(now + pause(self.failures, random));
        self.failures = self.failures.saturating_add(1);
    }
}
