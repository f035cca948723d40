//! Computes which version counts as held where followers run `--exec` commands, the oldest of those that each accepted last, and
//! lists the commands that are to run again on what they refused.

use std::{collections::HashSet, time::Duration};

use nekoproto::{FileName, VerifiedRecord};

use super::Library;
use crate::{storage::catalogue::CommandId, util::clock};

/// Time after the start in which followers begin: until then no origin is told of a version that none of their commands accepted.
const BEGUN_WITHIN: Duration = Duration::from_secs(10);

impl Library {
    /// How many followers run their command on each version of `name`.
    pub(crate) fn judges(&self, name: &FileName) -> usize {
        self.commands_on(name).len()
    }

    fn commands_on(&self, name: &FileName) -> Vec<CommandId> {
        let judged = self.judged.lock();
        judged.iter().filter(|(judged, _)| judged == name).map(|(_, command)| *command).collect()
    }

    /// The version that is to count instead of `held`, which stands in its place: the last one that each command accepted which
    /// runs on it, or may be about to begin, where that is an earlier one. For a command that accepted none it is what another
    /// accepted; the first version that came counts before. Blocking for a moment.
    pub(crate) fn accepted_instead(&self, held: &VerifiedRecord) -> Option<VerifiedRecord> {
        let (commands, is_young) = (self.commands_on(&held.name), self.is_young());
        if commands.is_empty() && !is_young {
            return None;
        }
        let accepted: Vec<_> = self.catalogue.reader(&held.name).ok()?.accepted_of(&held.origin).collect();
        let kept = self.catalogue.kept(&held.name).ok()?.into_iter().map(|kept| kept.entry.record);
        let kept: Vec<VerifiedRecord> = kept.filter(|record| record.origin == held.origin).collect();
        let last = accepted.iter().map(|(_, version)| *version).max();
        let last = last.or_else(|| kept.iter().map(|first| first.version).min()).unwrap_or(held.version);
        let by = |command: &CommandId| {
            accepted.iter().find(|(by, _)| by == command).map_or(last, |(_, version)| *version)
        };
        let expected = accepted.iter().filter(|_| is_young).map(|(_, version)| *version);
        let least = commands.iter().map(by).chain(expected).min().filter(|least| *least < held.version)?;
        kept.into_iter().find(|record| record.version == least)
    }

    /// Whether `held` is what each command that runs on its name accepted last, of one at least. Blocking for a moment.
    pub(crate) fn all_accepted(&self, held: &VerifiedRecord) -> bool {
        let (commands, reader) = (self.commands_on(&held.name), self.catalogue.reader(&held.name));
        let by = |command: &CommandId| reader.as_ref().ok()?.accepted_by(*command);
        !commands.is_empty()
            && commands.iter().all(|command| by(command) == Some((held.origin, held.version)))
    }

    /// The user asked for the versions of `names` that are in their places: the command of each follower runs again on what it
    /// refused.
    pub(crate) fn ask_again<'a>(&self, names: impl IntoIterator<Item = &'a FileName>) {
        let names: HashSet<&FileName> = names.into_iter().collect();
        let judged = self.judged.lock();
        let mut asked = self.asked_again.lock();
        asked.retain(|(name, _)| !names.contains(name));
        asked.extend(judged.iter().filter(|(name, _)| names.contains(name)).cloned());
        drop((judged, asked));
        self.freed.notify_waiters();
    }

    /// Whether the user [asked again](Self::ask_again) since this was called last.
    pub(crate) fn take_asked_again(&self, name: &FileName, command: CommandId) -> bool {
        let mut asked = self.asked_again.lock();
        let at = asked.iter().position(|(asked, by)| asked == name && *by == command);
        at.map(|at| asked.swap_remove(at)).is_some()
    }

    /// Whether followers may still be about to begin: not in a command that ends by itself.
    fn is_young(&self) -> bool {
        self.is_serving && clock::now().saturating_duration_since(self.began) < BEGUN_WITHIN
    }

    /// Whether a follower that is about to begin may still have to decide on what stands in the place of `name`.
    pub(crate) fn is_to_be_judged(&self, name: &FileName) -> bool {
        self.is_young()
            && self.judges(name) == 0
            && self.catalogue.get(name).is_some_and(|held| {
                self.catalogue.reader(name).is_ok_and(|reader| reader.is_undecided(&held.record))
            })
    }
}
