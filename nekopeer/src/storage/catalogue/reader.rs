//! What the reader of this data folder wants of a name, whoever its origin is: it outlives the process.

use std::time::Duration;

use nekoproto::{FileName, NodeId, Record, Version};
use serde::{Deserialize, Serialize};

use super::{
    Catalogue,
    entry::PassedOver,
    row::{Definition, TableRow},
    write::Write,
};
use crate::{failure::Failure, state::freshness::OnStale};

/// Name -> what the reader here wants of it.
pub(super) const READERS: Definition<&str, TableRow<ReaderState>> = Definition::new("readers");

/// Commands on one name whose last accepted version is known; the one that accepted nothing for longest is forgotten, and
/// runs once more on the version that it finds.
const ACCEPTED_KEPT_MAX: usize = 4;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReaderState {
    /// How many earlier versions are kept when a newer one takes their place.
    pub(crate) keep: u32,
    pub(crate) passed_over: Option<PassedOver>,
    /// What the commands of followers accepted, the last one at the end.
    accepted: Vec<Accepted>,
    pub(crate) preference: Preference,
    /// How many bytes their packs may have together.
    pub(crate) keep_max: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Accepted {
    command: CommandId,
    origin: NodeId,
    version: Version,
}

/// Identifies a command of a follower by its text and the folder that it runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CommandId(pub(crate) [u8; 32]);

/// How the copy of one name is kept coherent, where that differs from what the process was started with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Preference {
    /// Seconds that a confirmation counts at most; the policy of the origin may be stricter.
    pub(crate) bound_secs: Option<u32>,
    pub(crate) on_stale: Option<OnStale>,
}

impl Preference {
    /// The stricter of this bound and the reader's for all names.
    pub(crate) fn bound(&self, of_all: Option<Duration>) -> Option<Duration> {
        let bound = self.bound_secs.map(|secs| Duration::from_secs(secs.into()));
        bound.into_iter().chain(of_all).min()
    }
}

/// What is said of a [`Preference`]; the rest stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PreferenceChange {
    /// What was said before is taken back.
    pub(crate) anew: bool,
    pub(crate) said: Preference,
}

impl PreferenceChange {
    pub(crate) fn over(self, before: Preference) -> Preference {
        let before = if self.anew { Preference::default() } else { before };
        Preference {
            bound_secs: self.said.bound_secs.or(before.bound_secs),
            on_stale: self.said.on_stale.or(before.on_stale),
        }
    }
}

impl ReaderState {
    pub(crate) fn passes_over(&self, record: &Record) -> bool {
        self.passed_over
            .is_some_and(|passed| passed.origin == record.origin && record.version <= passed.version)
    }

    pub(crate) fn accepted_by(&self, command: CommandId) -> Option<(NodeId, Version)> {
        let accepted = self.accepted.iter().find(|accepted| accepted.command == command)?;
        Some((accepted.origin, accepted.version))
    }

    /// Whether a command accepted another version of the same origin, and none accepted or refused this one.
    pub(crate) fn is_undecided(&self, record: &Record) -> bool {
        let is_passed = self.passed_over.is_some_and(|passed| passed.version >= record.version);
        let is_of_origin = |accepted: &Accepted| accepted.origin == record.origin;
        !is_passed && !self.is_accepted(record) && self.accepted.iter().any(is_of_origin)
    }

    /// The last versions of `origin` that commands accepted.
    pub(crate) fn accepted_of(self, origin: &NodeId) -> impl Iterator<Item = (CommandId, Version)> + use<> {
        let origin = *origin;
        let of_origin = self.accepted.into_iter().filter(move |accepted| accepted.origin == origin);
        of_origin.map(|accepted| (accepted.command, accepted.version))
    }

    pub(crate) fn is_accepted(&self, record: &Record) -> bool {
        let is_it =
            |accepted: &Accepted| (accepted.origin, accepted.version) == (record.origin, record.version);
        self.accepted.iter().any(is_it)
    }

    pub(crate) fn accept(&mut self, command: CommandId, origin: NodeId, version: Version) {
        self.accepted.retain(|accepted| accepted.command != command);
        if self.accepted.len() == ACCEPTED_KEPT_MAX {
            self.accepted.remove(0);
        }
        self.accepted.push(Accepted { command, origin, version });
    }
}

impl Catalogue {
    pub(crate) fn reader(&self, name: &FileName) -> Result<ReaderState, Failure> {
        Ok(self.tables.row(READERS, name.as_str())?.unwrap_or_default())
    }

    /// Changes what is wanted of `names`, in one transaction. Blocking.
    pub(crate) fn change_readers<'a>(
        &self,
        names: impl IntoIterator<Item = &'a FileName>,
        change: impl FnMut(&mut ReaderState),
    ) -> Result<(), Failure> {
        let write = self.tables.begin()?;
        if self.write_readers(&write, names, change)? { self.tables.commit(write) } else { Ok(()) }
    }

    /// The same as part of a transaction; whether anything changes.
    pub(super) fn write_readers<'a>(
        &self,
        write: &Write<'_>,
        names: impl IntoIterator<Item = &'a FileName>,
        mut change: impl FnMut(&mut ReaderState),
    ) -> Result<bool, Failure> {
        let mut rows = Vec::new();
        for name in names {
            let before = self.reader(name)?;
            let mut reader = before.clone();
            change(&mut reader);
            if reader != before {
                rows.push((name.as_str(), Some(reader)));
            }
        }
        let is_changed = !rows.is_empty();
        write.put(READERS, rows)?;
        Ok(is_changed)
    }
}

#[cfg(test)]
mod tests {
    use nekoproto::Identity;

    use super::*;

    #[test]
    fn what_is_wanted_of_names_outlives_the_process_until_it_is_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let [a, b, other] = ["a", "b", "c"].map(|name| FileName::new(name).unwrap());
        let open = || Catalogue::open(dir.path(), Identity::from_seed(&[9; 32])).unwrap();
        let wanted = |name| open().reader(name).unwrap().preference;
        let say = |names: &[&FileName], anew, bound_secs, on_stale| {
            let change = PreferenceChange { anew, said: Preference { bound_secs, on_stale } };
            let change = |reader: &mut ReaderState| reader.preference = change.over(reader.preference);
            open().change_readers(names.iter().copied(), change).unwrap();
        };
        say(&[&a, &b], false, Some(5), None);
        say(&[&b], false, None, Some(OnStale::Drop));
        assert_eq!(wanted(&a), Preference { bound_secs: Some(5), on_stale: None });
        assert_eq!(wanted(&b), Preference { bound_secs: Some(5), on_stale: Some(OnStale::Drop) });
        assert_eq!(wanted(&other), Preference::default());
        say(&[&a], true, None, None);
        say(&[&b], true, None, Some(OnStale::Keep));
        assert_eq!(wanted(&a), Preference::default());
        assert_eq!(wanted(&b), Preference { bound_secs: None, on_stale: Some(OnStale::Keep) });
    }

    #[test]
    fn each_command_accepts_for_itself_and_the_oldest_is_forgotten() {
        let (origin, version) = (NodeId::from_bytes([1; 32]), |n| Version::new(n).unwrap());
        let (id, accepted) = (|n| CommandId([n; 32]), |n| Some((origin, version(n))));
        let mut reader = ReaderState::default();
        reader.accept(id(1), origin, version(1));
        reader.accept(id(2), origin, version(2));
        assert_eq!([1, 2, 3].map(|n| reader.accepted_by(id(n))), [accepted(1), accepted(2), None]);
        reader.accept(id(1), origin, version(3));
        (3..5).for_each(|n| reader.accept(id(n), origin, version(2)));
        assert_eq!([1, 2].map(|n| reader.accepted_by(id(n))), [accepted(3), accepted(2)]);
        reader.accept(id(5), origin, version(2));
        assert_eq!([1, 2, 5].map(|n| reader.accepted_by(id(n)).is_some()), [true, false, true]);
    }

    #[test]
    fn the_stricter_bound_counts() {
        let secs = |secs| Some(Duration::from_secs(secs));
        let preference = Preference { bound_secs: Some(5), on_stale: None };
        assert_eq!([None, secs(3), secs(9)].map(|all| preference.bound(all)), [secs(5), secs(3), secs(5)]);
        assert_eq!([None, secs(3)].map(|all| Preference::default().bound(all)), [None, secs(3)]);
    }
}
