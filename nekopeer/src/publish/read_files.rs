//! Reads files on all cores, and stores one batch of results while the next is read.

mod storing;

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, OnceLock, mpsc},
};

use nekoproto::{FileName, Policy, VerifiedRecord, policy::BadPolicy};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use tokio_util::sync::CancellationToken;

use self::storing::{not_stored, store};
use super::{
    PolicyChange, PublishOutcome,
    asking::{Asked, Asking},
    error::PublishError,
    listing::{Listed, NamedFile, list_files},
    tree::PublishedTree,
};
use crate::{
    content::{
        chunker::{Chunked, chunk_file, keeps_changing, stopped, takes_all_cores},
        stamp::{Stamp, is_executable},
    },
    failure::{Failure, Reason},
    library::{Library, learn::Settling},
    rules::Rules,
    sets,
    storage::catalogue::{Draft, Entry, Published},
    util::progress::Progress,
};

/// Maximum number of files in one commit: enough to make the sync's share per file small.
const BATCH_FILES_MAX: usize = 1024;
/// Maximum size of the files in one commit, in bytes, unless a single file is larger. It bounds the
/// manifests to a few MiB, and the loss when a long publish is interrupted.
const BATCH_BYTES_MAX: u64 = 1024 * 1024 * 1024;
const BATCHES_WAITING_MAX: usize = 1;

pub(crate) enum What {
    /// Files and folders, the name of a single file, and what in folders is published.
    Paths(Vec<PathBuf>, Option<FileName>, Rules),
    /// A folder that becomes a set, its name, what of it is published, and whether nobody names it now.
    Set(Vec<PathBuf>, Option<FileName>, Rules, bool),
    /// Files that were seen with these stamps. One that has another by now counts as one that keeps changing.
    Seen(Vec<(NamedFile, Stamp)>),
}

enum Seen {
    /// Published before, and its stamp proves that nothing changed.
    Unchanged(VerifiedRecord),
    /// An unchanged copy of another origin's file.
    Copy,
    /// Its name was unshared, and is not named now.
    Unshared,
    Read(Box<Chunked>, Unknown),
    Failed(PublishError),
}

/// A file to be read, as it is not known whether it changed.
struct Unknown {
    policy: Policy,
    is_published: bool,
    /// The network was asked for its versions since this process began: what others use of them since, indexers tell.
    is_asked: bool,
    is_named: bool,
}

/// Files that were read, and the names that the network was asked for.
type Batch = (Vec<(NamedFile, Seen)>, Asked);

struct FileReader<'a> {
    library: &'a Arc<Library>,
    asking: &'a Asking,
    policy: PolicyChange,
    /// Where the change says nothing, for a name that is not published yet.
    default: Policy,
    is_set: bool,
    /// The stamps of files that are to be published only if they still have them.
    expected: HashMap<FileName, Stamp>,
    progress: &'a Progress,
    stop: &'a CancellationToken,
    /// Why the catalogue stores nothing any more.
    failure: OnceLock<Failure>,
}

pub(super) struct StoredBatch {
    pub(super) outcome: PublishOutcome,
    /// The newer versions of unchanged files that the network knows.
    pub(super) newer: Vec<VerifiedRecord>,
    /// The names of new versions: their numbers are to be settled.
    pub(super) settling: Settling,
}

/// Lists, reads and stores the files, and calls `each` after each batch, in the order of the list. Blocking.
pub(super) fn read_and_store(
    library: &Arc<Library>,
    asking: &Asking,
    what: What,
    (policy, default): (PolicyChange, Policy),
    (progress, stop): (&Progress, &CancellationToken),
    mut each: impl FnMut(StoredBatch),
) -> Result<(), PublishError> {
    let mut outcome = PublishOutcome::default();
    let mut expected = HashMap::new();
    let (mut set, mut folded) = (None, None);
    let files = match what {
        What::Paths(paths, name, rules) => {
            list_files(library, paths, name.as_ref(), Some(&rules), &mut outcome)?
        }
        What::Set(paths, name, rules, keeps_unshared) => {
            let (name, filter) = PublishedTree::of_set(library, &paths, name, &rules)?;
            if keeps_unshared && library.catalogue.get_stated(&name).is_some_and(|set| set.is_unshared()) {
                return Ok(());
            }
            let made = sets::fold(library, &name, &filter, progress, stop)?;
            let sets::Folded { path, file, skipped } = made;
            let size = file.metadata().map_or(0, |metadata| metadata.len());
            outcome.skipped = skipped;
            folded = Some(file);
            let (name, _) = set.insert((name, filter.root));
            vec![Listed::new(name.clone(), &path, size)]
        }
        What::Seen(files) => {
            let listed = |(file, stamp): (NamedFile, Stamp)| {
                expected.insert(file.name.clone(), stamp);
                let mut listed = Listed::new(file.name, &file.path, file.size);
                listed.is_named = false;
                listed
            };
            files.into_iter().map(listed).collect()
        }
    };
    progress.set_total(progress.done() + files.iter().map(|file| file.size).sum::<u64>());
    each(StoredBatch { outcome, newer: Vec::new(), settling: library.settle(Vec::new()) });
    let failure = OnceLock::new();
    let is_set = set.is_some();
    let reader = FileReader { library, asking, policy, default, is_set, expected, progress, stop, failure };
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel(BATCHES_WAITING_MAX);
        let reader = &reader;
        scope.spawn(move || {
            let mut files = files.into_iter().peekable();
            while files.peek().is_some() {
                let batch = reader.look_at_all(next_batch(&mut files));
                if sender.send(batch).is_err() {
                    return; // the receiver panicked
                }
            }
        });
        let mut patience = asking.patience();
        for (batch, asked) in receiver {
            let known = asking.end(asked, &mut patience);
            let mut stored = store(reader, batch, known);
            if let Some((name, folder)) = &set {
                drop(folded.take()); // it is in the catalogue, or in nobody's way
                stored.outcome.failed.iter_mut().for_each(|(path, _)| path.clone_from(folder));
                if let Err(error) = sets::note_published(library, name, folder) {
                    stored.outcome.failed.push((folder.clone(), error.into()));
                }
            }
            each(stored);
        }
    });
    Ok(())
}

fn next_batch(files: &mut std::iter::Peekable<impl Iterator<Item = Listed>>) -> Vec<Listed> {
    let (mut batch, mut bytes) = (Vec::new(), 0u64);
    while let Some(file) = files.next_if(|file| {
        bytes = bytes.saturating_add(file.size);
        batch.is_empty() || bytes <= BATCH_BYTES_MAX && batch.len() < BATCH_FILES_MAX
    }) {
        batch.push(file);
    }
    batch
}

impl FileReader<'_> {
    /// Reads small files concurrently, one core each; then large files one by one, each on all cores.
    /// Meanwhile the network is asked for their names.
    fn look_at_all(&self, batch: Vec<Listed>) -> Batch {
        let look_at = |listed: Listed| {
            let (is_named, file) = (listed.is_named, listed.named());
            (self.known_as(&file, is_named), file)
        };
        let files: Vec<(Result<Seen, Unknown>, NamedFile)> = batch.into_par_iter().map(look_at).collect();
        let (mut published, mut new) = (Vec::new(), Vec::new());
        for (seen, file) in &files {
            if let Err(unknown) = seen
                && !unknown.is_asked
            {
                let names = if unknown.is_published { &mut published } else { &mut new };
                names.push(file.name.clone());
            }
        }
        let asked = self.asking.begin(published, new);
        let read_small = |(seen, file): (Result<Seen, Unknown>, NamedFile)| match seen {
            Err(unknown) if !takes_all_cores(file.size) => {
                let seen = self.seen(&file, unknown);
                (file, Ok(seen))
            }
            seen => (file, seen),
        };
        let small: Vec<(NamedFile, Result<Seen, Unknown>)> = files.into_par_iter().map(read_small).collect();
        let read_large = |(file, seen): (NamedFile, Result<Seen, Unknown>)| {
            let seen = seen.unwrap_or_else(|unknown| self.seen(&file, unknown));
            (file, seen)
        };
        (small.into_iter().map(read_large).collect(), asked)
    }

    fn read(&self, file: &NamedFile) -> Result<Chunked, PublishError> {
        let (library, path) = (self.library, &file.path);
        if let Some(failure) = self.failure.get() {
            return Err(not_stored(path, failure));
        }
        if self.stop.is_cancelled() {
            return Err(stopped().into());
        }
        let last_average = library.catalogue.last_average(&file.name)?;
        let chunked = chunk_file(path, last_average, self.progress.counter(), self.stop)?;
        if self.expected.get(&file.name).is_some_and(|stamp| *stamp != chunked.stamp) {
            return Err(keeps_changing(path).into());
        }
        Ok(chunked)
    }

    fn seen(&self, file: &NamedFile, unknown: Unknown) -> Seen {
        match self.read(file) {
            Ok(chunked) if self.is_copy(file, &chunked) => Seen::Copy,
            Ok(chunked) => Seen::Read(Box::new(chunked), unknown),
            Err(error) => Seen::Failed(error),
        }
    }

    /// Whether this is a copy of another origin's file, of which only the time or the mode was changed.
    fn is_copy(&self, file: &NamedFile, chunked: &Chunked) -> bool {
        let catalogue = &self.library.catalogue;
        let is_it = |entry: &Entry| {
            !catalogue.is_own(entry)
                && entry.record.content == chunked.content
                && self.library.found_now(entry) == Some((file.path.clone(), chunked.stamp))
        };
        catalogue.get(&file.name).is_some_and(|entry| is_it(&entry))
    }

    /// Publishes what was read. A file that was changed since is read once more.
    fn publish(&self, drafts: Vec<Draft>) -> Result<Vec<Result<Published, PublishError>>, Failure> {
        let again = |Draft { name, path, policy, known, is_named, .. }: &Draft| {
            let file = NamedFile { name: name.clone(), path: path.clone(), size: 0 };
            (file, (*policy, *is_named), known.clone())
        };
        let again: Vec<_> = drafts.iter().map(again).collect();
        let published = self.library.catalogue.publish(drafts)?.into_iter().zip(again);
        let published = published.map(|(published, (file, (policy, is_named), known))| match published {
            Err(Failure { reason: Reason::ChangedSince, .. }) => match self.read(&file) {
                Ok(chunked) => {
                    let NamedFile { name, path, .. } = file;
                    let draft = Draft { name, path, chunked, policy, known, is_named };
                    Ok(self.library.catalogue.publish(vec![draft])?.remove(0).map_err(PublishError::from))
                }
                Err(error) => Ok(Err(error)),
            },
            published => Ok(published.map_err(PublishError::from)),
        });
        published.collect()
    }

    /// The policy of a file of which the network knows the version `known`, and otherwise it would be `policy`: a
    /// catalogue that was lost does not change it.
    fn policy_after(&self, known: &VerifiedRecord, policy: Policy) -> Policy {
        let catalogue = &self.library.catalogue;
        let is_lost = catalogue.get(&known.name).is_none_or(|entry| !catalogue.is_own(&entry));
        if is_lost { self.policy_over(known.policy).unwrap_or(policy) } else { policy }
    }

    fn policy_over(&self, before: Policy) -> Result<Policy, BadPolicy> {
        Ok(self.policy.over(before)?.of_set(self.is_set))
    }

    /// What the stamp alone proves about the file; otherwise the policy to publish it under.
    fn known_as(&self, file: &NamedFile, is_named: bool) -> Result<Seen, Unknown> {
        let (stamp, is_executable) = match std::fs::symlink_metadata(&file.path) {
            Ok(metadata) => (Stamp::of(&metadata), is_executable(&metadata)),
            Err(source) => {
                return Ok(Seen::Failed(PublishError::Unreadable { path: file.path.clone(), source }));
            }
        };
        let catalogue = &self.library.catalogue;
        let stated = catalogue.get_stated(&file.name);
        if !is_named && stated.as_ref().is_some_and(|entry| entry.is_unshared()) {
            self.progress.add_done(file.size);
            return Ok(Seen::Unshared);
        }
        let entry = stated.filter(|entry| !entry.record.is_withdrawal());
        let own = entry.as_ref().filter(|entry| catalogue.is_own(entry));
        let before = own.map_or(self.default, |own| own.record.policy);
        let (is_published, is_asked) =
            (own.is_some(), own.is_some_and(|own| self.library.is_asked(&own.record)));
        let policy = match self.policy_over(before) {
            Ok(policy) => policy,
            Err(error) => {
                let failure = Failure::invalid(error.to_string()).because(Reason::Unfit);
                return Ok(Seen::Failed(failure.into()));
            }
        };
        match entry.filter(|entry| entry.path == file.path && entry.stamp == stamp) {
            Some(entry) if !catalogue.is_own(&entry) => Ok(Seen::Copy),
            Some(entry)
                if stamp.is_settled(entry.hashed_at_ns)
                    && entry.record.policy == policy
                    && entry.newest.is_none()
                    && catalogue.is_executable(&entry).is_ok_and(|published| published == is_executable) =>
            {
                self.progress.add_done(file.size);
                Ok(Seen::Unchanged(entry.record.clone()))
            }
            _ => Err(Unknown { policy, is_published, is_asked, is_named }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Peer};

    #[test]
    fn batches_are_bounded_in_files_and_bytes() {
        let file = |size: u64| {
            let (name, path) = (FileName::new("sparse").unwrap(), PathBuf::from("/sparse"));
            Listed::new(name, &path, size)
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

    /// Two publish one file at once: the second has committed the newer bytes before the first commits the older ones.
    #[tokio::test]
    async fn file_that_changed_since_it_was_read_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("a");
        let peer = Peer::spawn(Config::new(folder.path())).await.unwrap();
        let publisher = Arc::clone(&peer.publisher);
        let (name, asking) = (FileName::new("a").unwrap(), Asking::new(&publisher.indexers));
        let publish = move |library: &Arc<Library>| {
            let (progress, stop) = (Progress::default(), CancellationToken::new());
            let reader = FileReader {
                library,
                asking: &asking,
                policy: PolicyChange::default(),
                default: Policy::default(),
                is_set: false,
                expected: HashMap::new(),
                progress: &progress,
                stop: &stop,
                failure: OnceLock::new(),
            };
            let read = |bytes: &str| {
                std::fs::write(&path, bytes).unwrap();
                reader.look_at_all(vec![Listed::new(name.clone(), &path, 0)]).0
            };
            let (older, newer) = (read("older"), read("newer!"));
            let stored = [newer, older].map(|batch| store(&reader, batch, HashMap::new()));
            stored.map(|StoredBatch { outcome: PublishOutcome { published, unchanged, .. }, .. }| {
                let sizes = |records: Vec<VerifiedRecord>| -> Vec<u64> {
                    records.iter().map(|record| record.size).collect()
                };
                (sizes(published), sizes(unchanged))
            })
        };
        let [newer, older] = peer.library.blocking(publish).await;
        assert_eq!(newer, (vec![6], vec![]));
        assert_eq!(older, (vec![], vec![6]), "the older bytes get no later number");
    }
}
