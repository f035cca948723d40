//! Reads files on all cores, and stores one batch of results while the next is read.

use std::{path::PathBuf, sync::mpsc};

use nekoproto::{FileName, Policy, VerifiedRecord};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use tokio_util::sync::CancellationToken;

use super::{
    PolicyChange, PublishOutcome,
    error::PublishError,
    listing::{NamedFile, list_files},
};
use crate::{
    content::chunker::{ChunkError, Chunked, chunk_file, takes_all_cores},
    indexers::Indexers,
    library::Library,
    storage::catalogue::{Draft, Published},
    util::progress::Progress,
};

/// Maximum number of files in one commit: enough to make the sync's share per file small.
const BATCH_FILES_MAX: usize = 1024;
/// Maximum size of the files in one commit, in bytes, unless a single file is larger. It bounds the
/// manifests to a few MiB, and the loss when a long publish is interrupted.
const BATCH_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Maximum number of batches waiting to be stored.
const BATCHES_WAITING_MAX: usize = 1;

/// How the files of one publish are treated.
pub(super) struct Terms {
    /// What was said about their policy.
    pub(super) said: PolicyChange,
    /// The policy of new files, where nothing was said.
    pub(super) default: Policy,
    /// Ends the reading.
    pub(super) stop: CancellationToken,
}

impl Terms {
    /// The policy of the next version of `name`.
    fn policy(&self, library: &Library, name: &FileName) -> Policy {
        let previous = library.catalogue.get(name).filter(|entry| library.catalogue.is_own(entry));
        match previous {
            Some(entry) => self.policy_after(&entry.record),
            None => self.said.over(self.default).unwrap_or(self.default),
        }
    }

    /// The policy of the version after `previous`. A change outside of the limits is no change.
    fn policy_after(&self, previous: &VerifiedRecord) -> Policy {
        self.said.over(previous.policy).unwrap_or(previous.policy)
    }
}

/// What was found at a file's path.
enum Seen {
    /// Published before, and its stamp proves that nothing changed.
    Unchanged(VerifiedRecord),
    /// An unchanged copy of another origin's file.
    Copy,
    Read(Box<Chunked>),
    Failed(PublishError),
}

/// Lists, reads and stores the files. Blocking; the results are in the order of the list.
///
/// # Errors
/// Nothing was read; or the catalogue failed and holds the files of the earlier commits.
pub(super) fn read_and_store(
    library: &Library,
    indexers: &Indexers,
    paths: Vec<PathBuf>,
    name: Option<FileName>,
    terms: &Terms,
    progress: &Progress,
) -> Result<PublishOutcome, PublishError> {
    let mut outcome = PublishOutcome::default();
    let files = list_files(library, paths, name, &mut outcome)?;
    progress.set_total(files.iter().map(|file| file.stamp.size()).sum());
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel(BATCHES_WAITING_MAX);
        scope.spawn(move || {
            let mut files = files.into_iter().peekable();
            while files.peek().is_some() {
                let batch = look_at_all(library, next_batch(&mut files), terms, progress);
                if sender.send(batch).is_err() {
                    return; // the catalogue failed
                }
            }
        });
        receiver.into_iter().try_for_each(|batch| store(library, indexers, batch, terms, &mut outcome))
    })?;
    Ok(outcome)
}

fn next_batch(files: &mut std::iter::Peekable<impl Iterator<Item = NamedFile>>) -> Vec<NamedFile> {
    let (mut batch, mut bytes) = (Vec::new(), 0u64);
    while let Some(file) = files.next_if(|file| {
        bytes = bytes.saturating_add(file.stamp.size());
        batch.is_empty() || bytes <= BATCH_BYTES_MAX && batch.len() < BATCH_FILES_MAX
    }) {
        batch.push(file);
    }
    batch
}

/// Reads small files concurrently, one core each; then large files one by one, each on all cores.
fn look_at_all(
    library: &Library,
    batch: Vec<NamedFile>,
    terms: &Terms,
    progress: &Progress,
) -> Vec<(NamedFile, Seen)> {
    let look_at_small = |file: &NamedFile| {
        (!takes_all_cores(file.stamp.size())).then(|| look_at(library, file, terms, progress))
    };
    let small: Vec<Option<Seen>> = batch.par_iter().map(look_at_small).collect();
    let all = batch.into_iter().zip(small);
    all.map(|(file, seen)| {
        let seen = seen.unwrap_or_else(|| look_at(library, &file, terms, progress));
        (file, seen)
    })
    .collect()
}

fn look_at(library: &Library, file: &NamedFile, terms: &Terms, progress: &Progress) -> Seen {
    if let Some(known) = known_as(library, file, terms) {
        if matches!(known, Seen::Unchanged(_)) {
            progress.add_done(file.stamp.size());
        }
        return known;
    }
    if terms.stop.is_cancelled() {
        return Seen::Failed(ChunkError::Stopped.into());
    }
    let last_average = match library.catalogue.last_average(&file.name) {
        Ok(last_average) => last_average,
        Err(error) => return Seen::Failed(error.into()),
    };
    match chunk_file(&file.path, last_average, progress.counter(), &terms.stop) {
        Ok(chunked) => Seen::Read(Box::new(chunked)),
        Err(error) => Seen::Failed(error.into()),
    }
}

/// What the stamp alone proves about the file, if anything.
fn known_as(library: &Library, file: &NamedFile, terms: &Terms) -> Option<Seen> {
    let entry = library.catalogue.get(&file.name)?;
    if entry.path != file.path || entry.stamp != file.stamp {
        None
    } else if !library.catalogue.is_own(&entry) {
        Some(Seen::Copy)
    } else if file.stamp.is_settled(entry.hashed_at_ns)
        && terms.policy_after(&entry.record) == entry.record.policy
    {
        Some(Seen::Unchanged(entry.record.clone()))
    } else {
        None
    }
}

fn store(
    library: &Library,
    indexers: &Indexers,
    batch: Vec<(NamedFile, Seen)>,
    terms: &Terms,
    outcome: &mut PublishOutcome,
) -> Result<(), PublishError> {
    let mut drafts = Vec::new();
    // For each file that is neither a copy nor failed: its record; `None` stands for the next draft.
    let mut known = Vec::with_capacity(batch.len());
    for (NamedFile { name, path, .. }, seen) in batch {
        match seen {
            Seen::Unchanged(record) => known.push(Some(record)),
            Seen::Copy => outcome.copies.push(name),
            Seen::Failed(error) => outcome.failed.push((path, error)),
            Seen::Read(chunked) => match library.catalogue.may_publish(&name) {
                Ok(()) => {
                    let policy = terms.policy(library, &name);
                    drafts.push(Draft { name, path, chunked: *chunked, policy });
                    known.push(None);
                }
                Err(error) => outcome.failed.push((path, error.into())),
            },
        }
    }
    let published = if drafts.is_empty() {
        Vec::new()
    } else {
        // Before the commit: a session that registers everything right after it would otherwise register these
        // versions as held, and the indexer would not announce them.
        indexers.expect_news(drafts.iter().map(|draft| &draft.name));
        library.catalogue.publish(drafts)?
    };
    let mut published = published.into_iter();
    for record in known {
        match record.map(Published::Unchanged).or_else(|| published.next()) {
            Some(Published::New(record)) => outcome.published.push(record),
            Some(Published::Unchanged(record)) => outcome.unchanged.push(record),
            None => {} // each draft has a result
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::stamp::Stamp;

    #[test]
    fn batches_are_bounded_in_files_and_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let file = |bytes: u64| {
            let path = folder.path().join("sparse");
            std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
            let stamp = Stamp::of(&std::fs::metadata(&path).unwrap());
            NamedFile { name: FileName::new("sparse").unwrap(), path, stamp }
        };
        let lens = |sizes: Vec<u64>| {
            let mut files = sizes.into_iter().map(file).peekable();
            let batches = std::iter::from_fn(|| Some(next_batch(&mut files).len()).filter(|len| *len > 0));
            batches.collect::<Vec<usize>>()
        };
        assert_eq!(lens(vec![0; BATCH_FILES_MAX + 1]), [BATCH_FILES_MAX, 1]);
        let half = BATCH_BYTES_MAX / 2;
        assert_eq!(lens(vec![half, half, 1, 3 * half, 1]), [2, 1, 1, 1]);
        assert!(lens(Vec::new()).is_empty());
    }
}
