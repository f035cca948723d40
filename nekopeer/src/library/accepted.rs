//! Computes which version counts as held where followers run `--exec` commands: the oldest of those that each accepted last.

use std::time::Duration;

use nekoproto::{FileName, VerifiedRecord};

use super::{Library, hooks::FollowerHook};
use crate::util::clock;

/// Time after the start in which followers begin: until then no origin is told of a version that none of their commands accepted.
const BEGUN_WITHIN: Duration = Duration::from_secs(10);

impl Library {
    /// The version that is to count instead of `held`, which stands in its place: the last one that each command accepted which
    /// runs on it, or may be about to begin, where that is an earlier one. For a command that accepted none it is what another
    /// accepted; the first version that came counts before. Blocking for a moment.
    pub(crate) fn accepted_instead(&self, held: &VerifiedRecord) -> Option<VerifiedRecord> {
        self.least_accepted(held, self.is_young())
    }

    /// The same of commands that run, and of those that `may_begin`.
    pub(crate) fn least_accepted(&self, held: &VerifiedRecord, may_begin: bool) -> Option<VerifiedRecord> {
        let hooks = self.hooks_on(&held.name);
        if hooks.is_empty() && !may_begin {
            return None;
        }
        let accepted: Vec<_> = self.catalogue.reader(&held.name).ok()?.accepted_of(&held.origin).collect();
        let kept = self.catalogue.kept(&held.name).ok()?.into_iter().map(|kept| kept.entry.record);
        let kept: Vec<VerifiedRecord> = kept.filter(|record| record.origin == held.origin).collect();
        let last = accepted.iter().map(|(_, version)| *version).max();
        let last = last.or_else(|| kept.iter().map(|first| first.version).min()).unwrap_or(held.version);
        let by = |hook: &FollowerHook| {
            accepted.iter().find(|(by, _)| *by == hook.command).map_or(last, |(_, version)| *version)
        };
        let expected = accepted.iter().filter(|_| may_begin).map(|(_, version)| *version);
        let least = hooks.iter().map(by).chain(expected).min().filter(|least| *least < held.version)?;
        kept.into_iter().find(|record| record.version == least)
    }

    /// Whether followers may still be about to begin: not in a command that ends by itself.
    fn is_young(&self) -> bool {
        self.is_serving && clock::now().saturating_duration_since(self.began) < BEGUN_WITHIN
    }

    /// Whether a command that runs on the name of `record`, which is in its place, has still to accept it. Blocking for a moment.
    pub(crate) fn is_up_to_commands(&self, record: &VerifiedRecord) -> bool {
        let hooks = self.hooks_on(&record.name);
        if hooks.is_empty() {
            return false;
        }
        let Ok(reader) = self.catalogue.reader(&record.name) else { return false };
        let is_accepted =
            |hook: &FollowerHook| reader.accepted_by(hook.command) == Some((record.origin, record.version));
        !hooks.iter().all(is_accepted)
    }

    /// Whether a follower that is about to begin may still have to decide on what stands in the place of `name`.
    pub(crate) fn is_to_be_judged(&self, name: &FileName) -> bool {
        self.is_young()
            && self.hooks_on(name).is_empty()
            && self.catalogue.get(name).is_some_and(|held| {
                self.catalogue.reader(name).is_ok_and(|reader| reader.is_undecided(&held.record))
            })
    }
}
