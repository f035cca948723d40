//! The files that this peer publishes and holds, and their condition.

use std::path::PathBuf;

use nekoproto::{FileName, Freshness, VerifiedRecord, Version};

use super::{Library, events::Event};
use crate::{content::stamp::Stamp, storage::catalogue::Entry};

/// One file of this peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileStatus {
    /// The version on disk.
    pub record: VerifiedRecord,
    /// Its path.
    pub path: PathBuf,
    /// Whether this peer is its origin.
    pub own: bool,
    /// The condition of the file.
    pub condition: Condition,
    /// The newest later version known.
    pub newest: Option<Version>,
}

/// The condition of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The bytes are those of the record; their freshness.
    Good(Freshness),
    /// The file on disk was changed.
    Changed,
    /// The file does not exist.
    Missing,
}

impl std::fmt::Display for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Good(freshness) => freshness.fmt(f),
            Self::Changed => f.pad("changed"),
            Self::Missing => f.pad("missing"),
        }
    }
}

impl Library {
    /// Every file, by name. Blocking.
    pub(crate) fn files(&self) -> Vec<FileStatus> {
        self.catalogue.all().into_iter().map(|entry| self.status(&entry)).collect()
    }

    fn status(&self, entry: &Entry) -> FileStatus {
        let disk = on_disk(entry);
        if disk.is_some() {
            self.note_changed(&entry.record.name);
        }
        FileStatus {
            record: entry.record.clone(),
            path: entry.path.clone(),
            own: self.catalogue.is_own(entry),
            condition: disk.unwrap_or_else(|| Condition::Good(self.freshness_of(entry))),
            newest: entry.newest.as_ref().map(|newest| newest.version),
        }
    }

    /// The freshness of the bytes of `entry` now.
    pub(crate) fn freshness_of(&self, entry: &Entry) -> Freshness {
        match (self.catalogue.is_own(entry), &entry.newest) {
            (true, None) => Freshness::Fresh,
            (true, Some(_)) => Freshness::Stale, // published elsewhere with this key
            (false, _) => self.freshness(&entry.record),
        }
    }

    /// The records of all files, and whether this peer can serve each: the file is unchanged on disk and not an
    /// outdated copy. Sends an event for each file that changed. Blocking.
    pub(crate) fn offered(&self) -> Vec<(VerifiedRecord, bool)> {
        let all = self.catalogue.all();
        all.iter().map(|entry| (entry.record.clone(), self.may_be_offered(entry))).collect()
    }

    /// The record that this peer can serve under `name`. Sends an event if the file changed. Blocking.
    pub(crate) fn offered_as(&self, name: &FileName) -> Option<VerifiedRecord> {
        self.looked_at(name).filter(|(_, is_served)| *is_served).map(|(record, _)| record)
    }

    /// The record of `name`, and whether this peer can serve it. Sends an event if the file changed.
    /// Blocking.
    pub(crate) fn looked_at(&self, name: &FileName) -> Option<(VerifiedRecord, bool)> {
        let entry = self.catalogue.get(name)?;
        Some((entry.record.clone(), self.may_be_offered(&entry)))
    }

    fn may_be_offered(&self, entry: &Entry) -> bool {
        self.is_intact(entry, on_disk(entry).is_none()) && entry.newest.is_none()
    }

    /// Takes note of whether the file of `entry` is as it was hashed; sends an event when it no longer is.
    fn is_intact(&self, entry: &Entry, is_intact: bool) -> bool {
        let name = &entry.record.name;
        let mut changed = self.changed.lock();
        if is_intact {
            changed.remove(name);
        } else if changed.insert(name.clone()) {
            drop(changed);
            self.tell(Event::Changed(name.clone()));
        }
        is_intact
    }

    /// The file of `name` was found to be other than when it was hashed: it is looked at, and offered no more.
    pub(crate) fn note_changed(&self, name: &FileName) {
        if !self.changed.lock().contains(name) {
            self.news.lock().changed.insert(name.clone());
            self.wake();
        }
    }
}

/// What is wrong with the file on disk, if anything. Blocking.
pub(crate) fn on_disk(entry: &Entry) -> Option<Condition> {
    match std::fs::symlink_metadata(&entry.path) {
        Ok(metadata) if Stamp::of(&metadata) == entry.stamp => None,
        Ok(_) => Some(Condition::Changed),
        Err(_) => Some(Condition::Missing),
    }
}
