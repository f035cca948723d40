//! Stores a batch of files that were read, in one commit, and sorts them into new, unchanged, copies and failed.

use std::{collections::HashMap, path::Path};

use nekoproto::{FileName, VerifiedRecord};

use super::{FileReader, Seen, StoredBatch, Unknown};
use crate::{
    failure::Failure,
    publish::{PublishOutcome, error::PublishError, listing::NamedFile},
    storage::catalogue::{Draft, Published},
};

pub(super) fn not_stored(path: &Path, source: &Failure) -> PublishError {
    PublishError::NotStored { path: path.to_owned(), source: source.clone() }
}

/// Stores a batch. Files that fail do not keep the others from being stored.
pub(super) fn store(
    reader: &FileReader<'_>,
    batch: Vec<(NamedFile, Seen)>,
    mut known: HashMap<FileName, VerifiedRecord>,
) -> StoredBatch {
    let (mut outcome, mut newer) = (PublishOutcome::default(), Vec::new());
    let mut drafts = Vec::new();
    // For each file that is neither a copy nor failed: its record, or the path of the next draft.
    let mut files = Vec::with_capacity(batch.len());
    for (NamedFile { name, path, .. }, seen) in batch {
        match seen {
            Seen::Unchanged(record) => files.push(Ok(record)),
            Seen::Copy => outcome.copies.push(name),
            Seen::Unshared => outcome.unshared.push(name),
            Seen::Failed(error) => outcome.failed.push((path, error)),
            Seen::Read(chunked, Unknown { policy, is_named, .. }) => {
                let known = known.remove(&name);
                let policy = known.as_ref().map_or(policy, |known| reader.policy_after(known, policy));
                files.push(Err((path.clone(), known.clone())));
                drafts.push(Draft { name, path, chunked: *chunked, policy, known, is_named });
            }
        }
    }
    // Before they are stored, as a session may register them at once.
    let mut settling = reader.library.settle(drafts.iter().map(|draft| draft.name.clone()).collect());
    let published = if drafts.is_empty() { Ok(Vec::new()) } else { reader.publish(drafts) };
    let is_new = |published: &_| matches!(published, Ok(Published::New(_)));
    settling.keep(published.iter().flatten().map(is_new));
    let mut published = published.map(Vec::into_iter);
    for file in files {
        let (path, known) = match file {
            Ok(record) => {
                outcome.unchanged.push(record);
                continue;
            }
            Err(draft) => draft,
        };
        match published.as_mut().map(Iterator::next) {
            Ok(Some(Ok(Published::New(record)))) => {
                // The network is asked for it before the next version, and by readers.
                reader.library.checks.verifier().remember(&record);
                outcome.published.push(record);
            }
            Ok(Some(Ok(Published::Unchanged(record)))) => {
                newer.extend(known.filter(|known| known.replaces(&record)));
                outcome.unchanged.push(record);
            }
            Ok(Some(Err(error))) => outcome.failed.push((path, error)),
            Ok(None) => {} // each draft has a result
            Err(failure) => {
                outcome.failed.push((path.clone(), not_stored(&path, failure)));
                drop(reader.failure.set(failure.clone())); // set already: it is the same failure
            }
        }
    }
    reader.library.note_intact(outcome.published.iter().chain(&outcome.unchanged));
    StoredBatch { outcome, newer, settling }
}
