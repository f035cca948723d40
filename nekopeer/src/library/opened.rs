//! Opens held files, and says how long what is read from them counts as fresh.

use std::{
    collections::HashMap,
    fs::{File, symlink_metadata},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use nekoproto::{FileName, Freshness, VerifiedRecord, clock::unix_ms};
use parking_lot::Mutex;

use super::{Library, status::Condition};
use crate::{
    content::stamp::{Stamp, is_missing, now_ns, open_file},
    failure::Failure,
    storage::catalogue::Entry,
};

/// Names of which it is kept when they were read; beyond, it is forgotten of all.
const READS_MAX: usize = 64 * 1024;

/// When files were last read here or served, in Unix time in milliseconds, since this process began.
#[derive(Debug, Default)]
pub(crate) struct Reads(Mutex<HashMap<FileName, u64>>);

impl Reads {
    pub(crate) fn note(&self, name: &FileName) {
        let mut reads = self.0.lock();
        match reads.get_mut(name) {
            Some(at_ms) => *at_ms = unix_ms(),
            None => {
                if reads.len() == READS_MAX {
                    reads.clear();
                }
                reads.insert(name.clone(), unix_ms());
            }
        }
    }

    pub(super) fn last(&self, name: &FileName) -> Option<u64> {
        self.0.lock().get(name).copied()
    }
}

/// A held file, opened: unchanged since it was hashed.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) entry: Arc<Entry>,
    pub(crate) file: File,
    pub(crate) validity: Validity,
}

/// How fresh a held file is, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) freshness: Freshness,
    /// For how long it stays fresh without further news; zero unless it is fresh, and where each read is confirmed. An
    /// own file: its policy's bound, since nobody is told sooner than that if the message of a new version is lost.
    pub(crate) left: Duration,
    /// Time since its origin last confirmed it, or, if that is not known, since it was stored; zero for an own file.
    pub(crate) age: Duration,
}

#[derive(Debug)]
pub(crate) enum Holding {
    Nothing,
    /// A file that was changed or removed by another program. The peer has taken note.
    Damaged(Arc<Entry>),
    Open(OpenFile),
}

impl Library {
    /// Opens the file held under `name`. Blocking.
    pub(crate) fn open_named(&self, name: &FileName) -> Holding {
        let mut found = self.catalogue.get(name);
        while let Some(entry) = found {
            if let Ok(file) = open_unchanged(&entry) {
                let validity = self.validity(&entry);
                self.reads.note(name);
                return Holding::Open(OpenFile { entry, file, validity });
            }
            // A download may have replaced it since the catalogue was read.
            found = self.catalogue.get(name);
            if found.as_ref().is_some_and(|now| *now == entry) {
                self.note_changed(name);
                return Holding::Damaged(entry);
            }
        }
        Holding::Nothing
    }

    /// Those of `names` whose file is not in its place, and why. Blocking.
    pub(crate) fn gone(&self, names: Vec<FileName>) -> Vec<(FileName, Failure)> {
        let gone = |name: FileName| {
            let path = self.catalogue.get(&name).map(|entry| entry.path.clone());
            let is_there = |path: &PathBuf| !symlink_metadata(path).is_err_and(|error| is_missing(&error));
            if path.as_ref().is_some_and(is_there) {
                return None;
            }
            let what = path.map_or_else(|| name.to_string(), |path| path.display().to_string());
            let why = "is not there any more: another program moved or removed it, or its folder, meanwhile; run this again";
            Some((name, Failure::conflict(format!("{what} {why}")).passing()))
        };
        names.into_iter().filter_map(gone).collect()
    }

    /// How fresh a version is that its origin, asked so long ago, confirmed, and that is not held here. Blocking.
    pub(crate) fn validity_of_found(&self, record: &VerifiedRecord, since: Duration) -> Validity {
        let bound = self.wanted_bound(&record.name).into_iter().chain([record.policy.bound()]).min();
        let left = bound.filter(|_| !record.policy.is_strict()).unwrap_or_default().saturating_sub(since);
        Validity { freshness: Freshness::Fresh, left, age: Duration::ZERO }
    }

    pub(crate) fn validity(&self, entry: &Entry) -> Validity {
        let freshness = self.freshness_of(entry);
        let lasts = freshness == Freshness::Fresh && !entry.record.policy.is_strict();
        if self.catalogue.is_own(entry) {
            let left = if lasts { entry.record.policy.bound() } else { Duration::ZERO };
            return Validity { freshness, left, age: Duration::ZERO };
        }
        let confirmed = self.confirmed_since(&entry.record);
        let left = confirmed.filter(|_| lasts).map(|(since, bound)| bound.saturating_sub(since));
        let stored = || {
            let since = u64::try_from(now_ns() - entry.hashed_at_ns).unwrap_or(0);
            Duration::from_nanos(since)
        };
        let age = confirmed.map_or_else(stored, |(since, _)| since);
        Validity { freshness, left: left.unwrap_or_default(), age }
    }
}

/// Opens the file of `entry` if it is unchanged since it was hashed. Blocking.
pub(crate) fn open_unchanged(entry: &Entry) -> Result<File, Condition> {
    let file = open_file(&entry.path).map_err(|_| Condition::Missing)?;
    let metadata = file.metadata().map_err(|_| Condition::Missing)?;
    if Stamp::of(&metadata) == entry.stamp { Ok(file) } else { Err(Condition::Changed) }
}
