//! Files that are not as they were hashed, and whether their bytes are all the same: a file that was copied back, touched
//! or given other permissions has another stamp only, and is offered again.

use std::{
    collections::{BTreeSet, HashMap, hash_map::Entry},
    fs::symlink_metadata,
    io, mem,
    ops::Bound::{Excluded, Unbounded},
    path::{Path, PathBuf},
    time::Instant,
};

use nekoproto::FileName;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Library;
use crate::{
    content::{
        stamp::{Looker, SETTLED_AFTER, Stamp, now_ns, open_file},
        whole::hash_of,
    },
    failure::Failure,
    storage::catalogue::{self},
    util::clock,
};

const UNSETTLED_MAX: u8 = 5;

/// The files that are not offered because they changed on disk.
#[derive(Debug, Default)]
pub(crate) struct ChangedFiles {
    inner: Mutex<ChangedInner>,
    pub(crate) to_compare: Notify,
}

#[derive(Debug, Default)]
struct ChangedInner {
    found: HashMap<FileName, ChangedFile>,
    waiting: BTreeSet<FileName>,
}

#[derive(Debug)]
struct ChangedFile {
    /// As it was found last; `None`: there is no such file.
    stamp: Option<Stamp>,
    since: Instant,
    is_told: bool,
    /// Attempts to compare it that found it being written.
    unsettled: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// The bytes that were published, or there is nothing under this name any more.
    Same,
    Differs,
    Unsettled,
}

impl ChangedFiles {
    pub(super) fn is_intact(&self, name: &FileName) {
        let mut inner = self.inner.lock();
        inner.found.remove(name);
        inner.waiting.remove(name);
    }

    /// The file of `name` is found with another stamp than it had, or is missing. Its bytes are to be compared if they
    /// `may_be_same`; otherwise returns whether the user is to be told.
    pub(super) fn note(
        &self,
        name: &FileName,
        stamp: Option<Stamp>,
        may_be_same: bool,
        now: Instant,
    ) -> bool {
        let mut inner = self.inner.lock();
        let ChangedInner { found, waiting } = &mut *inner;
        let found = match found.entry(name.clone()) {
            Entry::Occupied(found) if found.get().stamp == stamp => return false,
            Entry::Occupied(found) => {
                let found = found.into_mut();
                (found.stamp, found.since) = (stamp, now);
                found
            }
            Entry::Vacant(new) => new.insert(ChangedFile { stamp, since: now, is_told: false, unsettled: 0 }),
        };
        if may_be_same {
            waiting.insert(name.clone());
            self.to_compare.notify_one();
            return false;
        }
        waiting.remove(name);
        !mem::replace(&mut found.is_told, true)
    }

    /// The next to compare, behind `last`.
    pub(crate) fn next(&self, last: Option<&FileName>) -> Option<FileName> {
        let inner = self.inner.lock();
        let behind =
            last.and_then(|last| inner.waiting.range::<FileName, _>((Excluded(last), Unbounded)).next());
        behind.or_else(|| inner.waiting.first()).cloned()
    }

    /// Whether the file of `name`, which has this stamp now, is quiet for so long that the stamp proves that it is unchanged
    /// from now on. By this process's own clock: the times of files may be ahead of the clock on the wall.
    fn is_quiet(&self, name: &FileName, stamp: Stamp, now: Instant) -> bool {
        let mut inner = self.inner.lock();
        let Some(found) = inner.found.get_mut(name) else { return false };
        if found.stamp != Some(stamp) {
            (found.stamp, found.since) = (Some(stamp), now);
        }
        now.saturating_duration_since(found.since) > SETTLED_AFTER
    }

    /// `name` was compared. Returns whether the user is to be told.
    pub(crate) fn note_compared(&self, name: &FileName, compared: Comparison) -> bool {
        let mut inner = self.inner.lock();
        let ChangedInner { found, waiting } = &mut *inner;
        let Some(found) = found.get_mut(name) else { return false };
        if compared == Comparison::Unsettled && found.unsettled < UNSETTLED_MAX {
            found.unsettled += 1;
            return false; // it stays in line
        }
        found.unsettled = 0;
        waiting.remove(name);
        compared != Comparison::Same && !mem::replace(&mut found.is_told, true)
    }

    pub(super) fn has(&self, name: &FileName) -> bool {
        self.inner.lock().found.contains_key(name)
    }

    /// Whether the user was told that the file of `name` is one of them.
    pub(super) fn is_told(&self, name: &FileName) -> bool {
        self.inner.lock().found.get(name).is_some_and(|found| found.is_told)
    }

    pub(crate) fn told(&self) -> Vec<FileName> {
        let inner = self.inner.lock();
        inner.found.iter().filter(|(_, found)| found.is_told).map(|(name, _)| name.clone()).collect()
    }
}

impl Library {
    /// Where the file of `entry` is now, and its stamp, if there is one: in its place, or at its name in the share folder,
    /// which may have been moved with all that is in it. Blocking.
    pub(crate) fn found_now(&self, entry: &catalogue::Entry) -> Option<(PathBuf, Stamp)> {
        let by_name = || {
            let path = self.share.path_of(&entry.record.name);
            path.canonicalize().ok().filter(|real| *real == path) // no symbolic link leads to it
        };
        [Some(entry.path.clone()), by_name()].into_iter().flatten().find_map(|path| {
            let found = symlink_metadata(&path).ok().filter(std::fs::Metadata::is_file)?;
            Some((path, Stamp::of(&found)))
        })
    }

    /// Compares the bytes of the file of `name` with those that were published. If they are the same, where it is and its
    /// stamp now are stored, once it is quiet. Ends early when the peer stops. Blocking.
    pub(crate) fn compare(&self, name: &FileName) -> Comparison {
        let Some(entry) = self.catalogue.get(name) else { return Comparison::Same };
        let compared = match self.found_now(&entry) {
            Some((path, stamp)) if stamp == entry.stamp && path == entry.path => return Comparison::Same,
            Some((path, stamp)) if stamp.size() == entry.record.size => {
                self.compare_bytes(&entry, &path, stamp)
            }
            _ => return Comparison::Differs,
        };
        compared.unwrap_or_else(|error| {
            tracing::warn!(%name, %error, "a file that changed on disk cannot be compared");
            Comparison::Differs
        })
    }

    fn compare_bytes(
        &self,
        entry: &catalogue::Entry,
        path: &Path,
        stamp: Stamp,
    ) -> Result<Comparison, Failure> {
        let began_ns = now_ns();
        let is_quiet =
            stamp.is_settled(began_ns) || self.changed.is_quiet(&entry.record.name, stamp, clock::now());
        let read = || -> io::Result<Comparison> {
            let mut file = open_file(path)?;
            // Without a running peer nobody comes back to it: what it is now is told.
            if self.is_serving && !is_quiet || Stamp::of(&file.metadata()?) != stamp {
                return Ok(Comparison::Unsettled);
            }
            let hash = hash_of(&mut file, &self.tasks.stop)?;
            Ok(match (hash, Looker::default().stamp(path)? == stamp) {
                (None, _) | (_, false) => Comparison::Unsettled,
                (Some(hash), true) if hash == entry.record.content => Comparison::Same,
                (Some(_), true) => Comparison::Differs,
            })
        };
        let compared = read().unwrap_or_else(|error| {
            tracing::debug!(name = %entry.record.name, %error, "a file that changed on disk cannot be read");
            Comparison::Differs
        });
        if compared == Comparison::Same && is_quiet {
            self.catalogue.restamp(entry, path.to_owned(), stamp, began_ns)?;
        }
        Ok(compared)
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::PermissionsExt, sync::Arc};

    use super::*;
    use crate::{Config, Peer, PublishOptions, state::registrations::Kind};

    fn stamp(size: u64) -> Option<Stamp> {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(size).unwrap();
        Some(Stamp::of(&file.as_file().metadata().unwrap()))
    }

    #[test]
    fn each_change_is_told_once_and_only_of_other_bytes() {
        let (files, a) = (ChangedFiles::default(), FileName::new("a").unwrap());
        let (first, second, now) = (stamp(1), stamp(1), Instant::now());
        assert!(!files.note(&a, first, true, now), "it is compared before");
        assert_eq!((files.next(None), files.told()), (Some(a.clone()), vec![]));
        assert!(files.note_compared(&a, Comparison::Differs));
        assert_eq!((files.next(None), files.told()), (None, vec![a.clone()]));
        assert!(!files.note(&a, first, true, now) && files.next(None).is_none(), "nothing new");
        assert!(!files.note(&a, second, true, now) && files.next(None).is_some(), "it changed again");
        assert!(!files.note_compared(&a, Comparison::Differs), "told");
        files.is_intact(&a);
        assert!(files.note(&a, None, false, now) && !files.note(&a, None, false, now), "it is missing");
    }

    #[test]
    fn file_that_is_written_on_and_on_is_given_up_and_holds_up_no_other() {
        let files = ChangedFiles::default();
        let ([a, b], now) = (["a", "b"].map(|name| FileName::new(name).unwrap()), Instant::now());
        assert!(!files.note(&a, stamp(1), true, now) && !files.note(&b, stamp(1), true, now));
        assert_eq!(files.next(Some(&a)), Some(b.clone()));
        assert_eq!(files.next(Some(&b)), Some(a.clone()), "the first comes after the last");
        for _ in 0..UNSETTLED_MAX {
            assert!(!files.note_compared(&a, Comparison::Unsettled));
            assert_eq!(files.next(None), Some(a.clone()));
        }
        assert!(files.note_compared(&a, Comparison::Unsettled));
        assert_eq!(files.next(None), Some(b));
    }

    /// The clock on the wall may be set back: then the times of files are ahead of it.
    #[test]
    fn file_is_quiet_once_its_stamp_stood_still_whatever_its_time_is() {
        let (files, a, now) = (ChangedFiles::default(), FileName::new("a").unwrap(), Instant::now());
        let (first, second, later) = (stamp(1), stamp(1), now + 2 * SETTLED_AFTER);
        assert!(!files.is_quiet(&a, first.unwrap(), now), "nobody found it changed");
        files.note(&a, first, true, now);
        assert!(!files.is_quiet(&a, first.unwrap(), now + SETTLED_AFTER));
        assert!(files.is_quiet(&a, first.unwrap(), later));
        assert!(!files.is_quiet(&a, second.unwrap(), later), "it is another");
        assert!(!files.is_quiet(&a, second.unwrap(), later + SETTLED_AFTER));
        assert!(files.is_quiet(&a, second.unwrap(), later + 2 * SETTLED_AFTER));
    }

    #[tokio::test]
    async fn own_file_stays_listed_while_its_bytes_are_compared() {
        let (folder, path) = testkit::temp_path("a");
        std::fs::write(&path, "bytes").unwrap();
        let listen = Some(([127, 0, 0, 1], 0).into());
        let peer = Peer::spawn(Config { listen, ..Config::new(folder.path()) }).await.unwrap();
        peer.publish(vec![path.clone()], PublishOptions::default(), &Arc::default()).await.unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let look = |library: &Arc<Library>| library.look_at(&[FileName::new("a").unwrap()]);
        let found = peer.library.blocking(look).await;
        assert_eq!(found[0].1, Some(Kind::Compared));
    }
}
