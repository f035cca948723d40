//! What this peer publishes and holds, and how fresh it is.

use std::{path::PathBuf, sync::Arc};

use nekoproto::{FileName, Freshness, VerifiedRecord, Version};

use crate::{Event, catalogue::Entry, clock, shared::Shared, stamp::Stamp};

/// One file of this peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileStatus {
    /// The version on disk.
    pub record: VerifiedRecord,
    /// Where it lies.
    pub path: PathBuf,
    /// Whether this peer is its origin.
    pub own: bool,
    /// What can be said of it.
    pub condition: Condition,
    /// A later version that is known to be out.
    pub newest: Option<Version>,
}

/// What can be said of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The bytes are those of the record, and so fresh.
    Good(Freshness),
    /// The file on disk is another one now.
    Changed,
    /// There is no file on disk.
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

/// Every file, by name.
pub(crate) async fn files(shared: &Arc<Shared>) -> Vec<FileStatus> {
    shared
        .blocking(|shared| shared.catalogue.all().into_iter().map(|entry| status(shared, &entry)).collect())
        .await
}

fn status(shared: &Shared, entry: &Entry) -> FileStatus {
    FileStatus {
        record: entry.record.clone(),
        path: entry.path.clone(),
        own: shared.catalogue.is_own(entry),
        condition: on_disk(entry).unwrap_or_else(|| Condition::Good(freshness(shared, entry))),
        newest: entry.newest.as_ref().map(|newest| newest.version),
    }
}

/// How fresh the bytes of `entry` may be called now.
pub(crate) fn freshness(shared: &Shared, entry: &Entry) -> Freshness {
    if shared.catalogue.is_own(entry) {
        return Freshness::Fresh;
    }
    let copies = shared.copies();
    let copy = copies.get(&entry.record.name).filter(|copy| *copy.held() == entry.record);
    copy.map_or(Freshness::Unverified, |copy| copy.freshness(clock::now()))
}

/// What is wrong with the file on disk, if anything. Blocking.
pub(crate) fn on_disk(entry: &Entry) -> Option<Condition> {
    match std::fs::symlink_metadata(&entry.path) {
        Ok(metadata) if Stamp::of(&metadata) == entry.stamp => None,
        Ok(_) => Some(Condition::Changed),
        Err(_) => Some(Condition::Missing),
    }
}

/// The records that this peer can serve: intact files, and of copies those not known to be
/// outdated. Blocking.
pub(crate) fn offered(shared: &Arc<Shared>) -> Vec<VerifiedRecord> {
    let all = shared.catalogue.all();
    let offered = all.iter().filter(|entry| may_be_offered(shared, entry));
    offered.map(|entry| entry.record.clone()).collect()
}

/// The record that this peer can serve under `name`, as [`offered`] has it. Blocking.
pub(crate) fn offered_as(shared: &Arc<Shared>, name: &FileName) -> Option<VerifiedRecord> {
    let entry = shared.catalogue.get(name)?;
    may_be_offered(shared, &entry).then(|| entry.record.clone())
}

/// Tells of a file that is not what it was.
fn may_be_offered(shared: &Shared, entry: &Entry) -> bool {
    let is_intact = on_disk(entry).is_none();
    if !is_intact {
        shared.tell(Event::Changed(entry.record.name.clone()));
    }
    is_intact && entry.newest.is_none()
}
