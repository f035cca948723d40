//! The files that this peer publishes and holds, and their condition.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use nekoproto::{FileName, Freshness, VerifiedRecord, Version};
use serde::{Deserialize, Serialize};

use super::{Library, changed::Comparison, copies::Confirmed, events::Event};
use crate::{
    content::stamp::Looker,
    failure::Failure,
    state::registrations::{Kind, Offered},
    storage::{catalogue::Entry, file_id::FileId, place::Place},
    util::clock,
};

/// One file of this peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileStatus {
    /// The version on disk.
    pub record: VerifiedRecord,
    /// Its path; of a set that of the folder.
    pub path: PathBuf,
    /// Whether this peer is its origin.
    pub own: bool,
    /// The condition of the file.
    pub condition: Condition,
    /// The newest later version known.
    pub newest: Option<Version>,
    /// Of a copy: when its origin confirmed it last, and until when it counts as fresh for that.
    pub confirmed: Option<Confirmed>,
    /// When it was last read here or served since this process began, in Unix time in milliseconds.
    pub read_at_ms: Option<u64>,
}

/// The condition of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Condition {
    /// The bytes are those of the record; their freshness.
    Good(Freshness),
    /// The bytes are those of the record, the newest known version, which its origin no longer shares.
    Unshared,
    /// The file on disk was changed.
    Changed,
    /// The file does not exist.
    Missing,
}

/// Bytes that a command reads at most to tell whether a file with another time has the same bytes: some seconds.
const COMPARED_AT_ONCE_MAX: u64 = 4 << 30;

/// What [`Condition::Unshared`] means, for a user.
pub(crate) const UNSHARED: &str = "its origin no longer shares it";

impl std::fmt::Display for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Good(freshness) => freshness.fmt(f),
            Self::Unshared => f.pad("unshared"),
            Self::Changed => f.pad("changed"),
            Self::Missing => f.pad("missing"),
        }
    }
}

impl Library {
    pub(crate) fn status(&self, entry: Entry, looker: &mut Looker) -> FileStatus {
        let (mut entry, mut damage) = self.settled(entry, looker);
        if damage.is_some() {
            self.note_changed(&entry.record.name);
            // A peer that serves compares it in the background.
            let is_compared = !self.is_serving && entry.record.size <= COMPARED_AT_ONCE_MAX;
            if is_compared && self.compare(&entry.record.name) == Comparison::Same {
                entry = self.catalogue.get_stated(&entry.record.name).map_or(entry, Arc::unwrap_or_clone);
                damage = None;
            }
        }
        FileStatus {
            own: self.catalogue.is_own(&entry),
            condition: damage.unwrap_or_else(|| self.confirmed(&entry)),
            newest: entry.newest.as_ref().map(|newest| newest.version),
            confirmed: self.confirmed_at(&entry.record),
            read_at_ms: self.reads.last(&entry.record.name),
            path: self.shown_path(&entry),
            record: entry.record,
        }
    }

    /// Where the user finds what `entry` is: of a set the folder, which may have been moved with the share folder. Blocking.
    pub(crate) fn shown_path(&self, entry: &Entry) -> PathBuf {
        let name = &entry.record.name;
        let of_set = || self.catalogue.place_of_trees(name).ok().flatten();
        let moved = || {
            let (trees, there) = (self.catalogue.trees(name).ok()??, self.share.path_of(name));
            trees.of(FileId::of(&there).ok()?).is_some().then_some(there)
        };
        match entry.record.policy.is_set().then(of_set).flatten() {
            Some(folder) if !folder.exists() => moved().unwrap_or(folder),
            Some(folder) => folder,
            None => entry.path.clone(),
        }
    }

    /// `output`, or a path in it, as with cp, if it is a folder and not the copy itself. Blocking.
    pub(crate) fn output_for(&self, output: &Path, name: &FileName) -> PathBuf {
        let held = self.catalogue.get(name);
        match name.as_path().file_name() {
            Some(last) if output.is_dir() && held.is_none_or(|held| self.shown_path(&held) != output) => {
                output.join(last)
            }
            _ => output.to_owned(),
        }
    }

    /// Where `name` belongs: at [`output`](Self::output_for), otherwise at its name in the share folder. Blocking.
    pub(crate) fn path_for(&self, name: &FileName, output: Option<&Path>) -> PathBuf {
        output.map_or_else(|| self.share.path_of(name), |output| self.output_for(output, name))
    }

    /// Opens the folder of the [path](Self::path_for), which is made in the share folder; an error in the data folder. Blocking.
    pub(crate) fn open_place(&self, name: &FileName, output: Option<&Path>) -> Result<Place, Failure> {
        let place = match output {
            Some(output) => Place::anywhere(&self.output_for(output, name)),
            None => self.share.place(name),
        };
        place?.outside(&self.data_dir)
    }

    /// `entry`, or what has replaced it since it was read, and what is wrong with its file. A file that this peer is
    /// replacing is not taken for one that a user changed.
    fn settled(&self, mut entry: Entry, looker: &mut Looker) -> (Entry, Option<Condition>) {
        loop {
            let damage = damage(&entry, looker);
            if damage.is_none() || self.catalogue.is_placing(&entry.record.name) {
                return (entry, None);
            }
            match self.catalogue.get_stated(&entry.record.name) {
                Some(now) if *now != entry => entry = Arc::unwrap_or_clone(now),
                _ => return (entry, damage),
            }
        }
    }

    fn confirmed(&self, entry: &Entry) -> Condition {
        match self.freshness_of(entry) {
            Freshness::Stale if entry.newest.as_ref().is_some_and(|newest| newest.is_withdrawal()) => {
                Condition::Unshared
            }
            Freshness::Stale => Condition::Good(Freshness::Stale),
            _ if !self.catalogue.is_own(entry) && self.is_withdrawn(&entry.record) => Condition::Unshared,
            freshness => Condition::Good(freshness),
        }
    }

    pub(crate) fn freshness_of(&self, entry: &Entry) -> Freshness {
        match (self.catalogue.is_own(entry), &entry.newest) {
            (_, Some(_)) => Freshness::Stale, // an own file: published elsewhere with this key
            (true, None) => Freshness::Fresh,
            (false, None) => self.freshness(&entry.record),
        }
    }

    /// Returns the record of each, and what is offered of it. Sends an event for each file that changed. Blocking.
    pub(crate) fn look_at(&self, names: &[FileName]) -> Vec<(VerifiedRecord, Option<Kind>)> {
        let mut looker = Looker::default();
        let look = |name: &FileName| {
            let entry = Arc::unwrap_or_clone(self.catalogue.get_stated(name)?);
            let (entry, damage) = self.settled(entry, &mut looker);
            let is_intact = self.is_intact(&entry, damage.is_none());
            let kind = self.offers(&entry, is_intact);
            Some((entry.record, kind))
        };
        names.iter().filter_map(look).collect()
    }

    /// What is offered under `name`, whose file is as it was found last. Blocking.
    pub(crate) fn offered(&self, name: FileName) -> Offered {
        let offered = self.catalogue.get_stated(&name).and_then(|entry| {
            let kind = self.offers(&entry, !self.changed.has(&name))?;
            Some((entry.record.clone(), kind))
        });
        (name, offered)
    }

    /// What is offered of `entry`: its bytes if they are those that were hashed, and no outdated copy.
    fn offers(&self, entry: &Entry, is_intact: bool) -> Option<Kind> {
        match (is_intact, &entry.newest) {
            // Who serves what it downloads and no more is not listed for longer than its connection is open.
            (true, None) => Some(if self.is_serving { Kind::Held } else { Kind::Partial }),
            (false, None) if self.catalogue.is_own(entry) && !entry.record.is_withdrawal() => {
                Some(match self.changed.is_told(&entry.record.name) {
                    true => Kind::Partial, // its word
                    false => Kind::Compared,
                })
            }
            _ => None,
        }
    }

    /// Takes note of whether the file of `entry` is as it was hashed; sends an event when it no longer is. Where its
    /// bytes may be the same they are compared before that, in the background.
    fn is_intact(&self, entry: &Entry, is_intact: bool) -> bool {
        let name = &entry.record.name;
        if is_intact {
            self.changed.is_intact(name);
            return true;
        }
        let stamp = self.found_now(entry).map(|(_, stamp)| stamp);
        let is_of_its_size = stamp.is_some_and(|stamp| stamp.size() == entry.record.size);
        let may_be_same = self.is_serving && is_of_its_size && entry.newest.is_none();
        if self.changed.note(name, stamp, may_be_same, clock::now()) {
            self.tell(Event::Changed(name.clone()));
        }
        false
    }

    /// These files were just read or written, and are as they were hashed.
    pub(crate) fn note_intact<'a>(&self, records: impl Iterator<Item = &'a VerifiedRecord>) {
        records.for_each(|record| self.changed.is_intact(&record.name));
    }

    /// The file of `name` was found to be other than when it was hashed: it is looked at, and offered no more.
    pub(crate) fn note_changed(&self, name: &FileName) {
        if !self.changed.has(name) {
            self.note(|news| news.changed.insert(name.clone()));
        }
    }
}

pub(crate) fn on_disk(entry: &Entry) -> Option<Condition> {
    damage(entry, &mut Looker::default())
}

/// What came of [`remove_unchanged`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Removed {
    Gone,
    Changed,
    /// It cannot be looked at or removed: its disk is not mounted, say.
    Unreachable,
}

/// Removes the file of `copy`, unless somebody changed it. If it is gone, an earlier attempt was interrupted. Blocking.
pub(crate) fn remove_unchanged(copy: &Entry) -> Removed {
    let is_gone = match on_disk(copy) {
        None => fs::remove_file(&copy.path).is_ok(),
        Some(Condition::Missing) => copy.stamp.is_removed_from(&copy.path),
        Some(_) => return Removed::Changed,
    };
    if is_gone { Removed::Gone } else { Removed::Unreachable }
}

fn damage(entry: &Entry, looker: &mut Looker) -> Option<Condition> {
    if entry.record.is_withdrawal() {
        return None; // it has no file
    }
    match looker.stamp(&entry.path) {
        Ok(stamp) if stamp == entry.stamp => None,
        Ok(_) => Some(Condition::Changed),
        Err(_) => Some(Condition::Missing),
    }
}
