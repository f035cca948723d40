//! Kills at every point between the beginning of a download and its catalogue entry, one after the other: the copy
//! stays this peer's, and the next version replaces it.

use std::{path::Path, sync::Arc, time::Duration};

use nekoproto::{Freshness, Manifest, VerifiedRecord};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use testkit::goods;
use tokio_util::sync::CancellationToken;

use super::{
    destination::{Destination, destination},
    placement::copy_entry,
};
use crate::{
    content::{chunker::chunk_file, stamp::Stamp},
    library::{
        Library,
        status::{Condition, on_disk},
        tests::library,
    },
    storage::{
        catalogue::{Entry, PassedOver, StoredCopy, ToPlace, Why},
        partial::Partial,
    },
};

/// What was done last before the kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::download) enum Killed {
    BeforeAnything,
    Half,
    Complete,
    /// It is noted to be on its way to its place.
    OnItsWay,
    Moved,
    Never,
}

const POINTS: [Killed; 6] =
    [Killed::BeforeAnything, Killed::Half, Killed::Complete, Killed::OnItsWay, Killed::Moved, Killed::Never];

pub(in crate::download) fn start(folder: &Path) -> Arc<Library> {
    library(folder, false)
}

pub(in crate::download) fn content(version: u64) -> Vec<u8> {
    format!("the bytes of version {version}").into_bytes()
}

pub(in crate::download) fn record(version: u64) -> VerifiedRecord {
    let scratch = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(scratch.path(), content(version)).unwrap();
    let chunked = chunk_file(scratch.path(), None, &Default::default(), &Default::default()).unwrap();
    goods::record(1, "docs/a", version, |record| {
        record.size = content(version).len() as u64;
        (record.content, record.manifest) = (chunked.content, chunked.manifest_hash);
    })
}

/// Downloads a version until the process is killed. What a kill leaves is what is on disk: nothing cleans up when
/// the rest is dropped.
pub(in crate::download) fn download(library: &Library, version: u64, killed: Killed) {
    if killed == Killed::BeforeAnything {
        return;
    }
    let (record, catalogue) = (record(version), &library.catalogue);
    let stamp = match destination(library, &record, None, false, &mut Default::default(), &Default::default())
    {
        Ok(Destination::Replaceable(stamp)) => stamp,
        other => panic!("version {version} has no place: {other:?}"),
    };
    let place = library.share.place(&record.name).unwrap();
    let partial = place.partial(&library.data_dir, &record.name).unwrap();
    let bytes = content(version);
    partial.write_at(&bytes[..5], 0).unwrap();
    if killed == Killed::Half {
        return;
    }
    partial.write_at(&bytes, 0).unwrap();
    let complete = partial.complete(record.size).unwrap();
    if killed == Killed::Complete {
        return;
    }
    let entry = copy_entry(record.clone(), None, complete, partial.target().to_owned());
    let manifest = Manifest::implied_by(&record).unwrap().1;
    let mut copy = StoredCopy { entry, manifest, outboard: Vec::new() };
    let _placing = catalogue.place(to_place(&copy)).unwrap();
    if killed == Killed::OnItsWay {
        return;
    }
    copy.entry.stamp = partial.rename(stamp, None).unwrap();
    if killed == Killed::Moved {
        return;
    }
    catalogue.put_copy(copy).unwrap();
}

fn to_place(copy: &StoredCopy) -> impl Iterator<Item = ToPlace<'_>> {
    let stop = Box::leak(Box::default());
    [ToPlace { copy, passed_over: None, stop }].into_iter()
}

/// The file is that of the entry, whatever happened.
fn check(library: &Library, expected: u64, what: &str) {
    let record = record(expected);
    let entry = library.catalogue.get(&record.name).unwrap_or_else(|| panic!("{what}: there is no entry"));
    assert_eq!(entry.record, record, "{what}");
    let metadata = std::fs::symlink_metadata(&entry.path).unwrap();
    assert_eq!(Stamp::of(&metadata), entry.stamp, "{what}");
    assert_eq!(std::fs::read(&entry.path).unwrap(), content(expected), "{what}");
    let status = library.status(std::sync::Arc::unwrap_or_clone(entry), &mut <_>::default());
    assert_eq!(status.condition, Condition::Good(Freshness::Unverified), "{what}");
}

#[test]
fn copy_follows_its_origin_after_any_two_kills() {
    for first in POINTS {
        for second in POINTS {
            let what = format!("killed {first:?}, then {second:?}");
            let folder = tempfile::tempdir().unwrap();
            download(&start(folder.path()), 1, Killed::Never);
            let mut there = 1;
            for (version, killed) in [(2, first), (3, second), (4, Killed::Never)] {
                let library = start(folder.path());
                check(&library, there, &what);
                download(&library, version, killed);
                there = if killed >= Killed::Moved { version } else { there };
            }
            check(&start(folder.path()), there, &what);
        }
    }
}

/// A user touches the file before the next process looks whose it is.
#[test]
fn file_that_was_moved_and_touched_after_a_kill_is_the_copy() {
    let folder = tempfile::tempdir().unwrap();
    download(&start(folder.path()), 1, Killed::Never);
    download(&start(folder.path()), 2, Killed::Moved);
    let file = std::fs::File::open(folder.path().join("docs/a")).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    check(&start(folder.path()), 2, "touched");
    download(&start(folder.path()), 3, Killed::Moved);
    std::fs::write(folder.path().join("docs/a"), "the bytes of a user here").unwrap();
    let library = start(folder.path());
    assert_eq!(library.catalogue.get(&record(3).name).unwrap().record, record(2), "that is another file");
}

/// What is passed over is recorded with the version that is put back, whenever the process is killed.
#[test]
fn version_that_is_put_back_passes_over_the_others_after_any_kill() {
    for killed in [Killed::OnItsWay, Killed::Moved, Killed::Never] {
        let folder = tempfile::tempdir().unwrap();
        let library = start(folder.path());
        download(&library, 2, Killed::Never);
        let (catalogue, record) = (&library.catalogue, record(1));
        let (partial, before, mut copy) = completed(&library, &record);
        assert!(catalogue.may_put(&record, None).is_err());
        let later = &before.record;
        let passed = PassedOver { origin: later.origin, version: later.version, why: Why::RolledBack };
        let stop = CancellationToken::new();
        let to_place = ToPlace { copy: &copy, passed_over: Some(passed), stop: &stop };
        let placing = catalogue.place([to_place].into_iter()).unwrap();
        placing.check(&record.name).unwrap();
        assert_eq!(catalogue.reader(&record.name).unwrap().passed_over, None);
        if killed >= Killed::Moved {
            copy.entry.stamp = partial.rename(Some(before.stamp), None).unwrap();
        }
        if killed == Killed::Never {
            catalogue.put_copy(copy).unwrap();
        }
        drop(placing);
        drop(library);
        let library = start(folder.path());
        let is_there = killed >= Killed::Moved;
        let entry = library.catalogue.get(&record.name).unwrap();
        let version = if is_there { 1 } else { 2 };
        assert_eq!((entry.record.version.get(), on_disk(&entry)), (version, None), "{killed:?}");
        assert_eq!(std::fs::read(&entry.path).unwrap(), content(version), "{killed:?}");
        let expected = is_there.then_some(passed);
        assert_eq!(library.catalogue.reader(&record.name).unwrap().passed_over, expected, "{killed:?}");
    }
}

/// Names are exchanged, and the file before is removed after that: not one that somebody saved there just then.
#[test]
fn after_a_kill_nothing_but_the_file_that_was_replaced_is_removed() {
    for saved in [None, Some(b"of a user".to_vec())] {
        let folder = tempfile::tempdir().unwrap();
        download(&start(folder.path()), 1, Killed::Never);
        let library = start(folder.path());
        download(&library, 2, Killed::OnItsWay);
        let place = library.share.place(&record(2).name).unwrap();
        let (path, partial) = (place.path(), place.partial_path(&library.data_dir, &record(2).name));
        saved.iter().for_each(|bytes| std::fs::write(path, bytes).unwrap());
        renameat_with(CWD, &partial, CWD, path, RenameFlags::EXCHANGE).unwrap();
        drop(library);
        check(&start(folder.path()), 2, "exchanged");
        assert_eq!(std::fs::read(folder.path().join("docs/a.kept")).ok(), saved);
        assert!(!partial.exists());
    }
}

/// The same process goes on after the catalogue failed once.
#[test]
fn copy_that_could_not_be_catalogued_is_when_its_name_is_used_next() {
    let (_folder, library) = first_version();
    for version in 2..5 {
        download(&library, version, Killed::Moved);
    }
    download(&library, 5, Killed::Never);
    check(&library, 5, "moved again and again");
}

#[test]
fn file_that_a_user_put_in_the_place_after_a_kill_is_the_user_s() {
    for killed in [Killed::OnItsWay, Killed::Moved] {
        let folder = tempfile::tempdir().unwrap();
        download(&start(folder.path()), 1, killed);
        std::fs::write(folder.path().join("docs/a"), b"my own work").unwrap();
        let library = start(folder.path());
        let found =
            destination(&library, &record(2), None, false, &mut Default::default(), &Default::default());
        let refused = found.unwrap_err().message;
        assert!(refused.contains("exists and is not a copy from here"), "{killed:?}: {refused}");
    }
}

fn first_version() -> (tempfile::TempDir, Arc<Library>) {
    let folder = tempfile::tempdir().unwrap();
    let library = start(folder.path());
    download(&library, 1, Killed::Never);
    (folder, library)
}

/// A version as it is before it is moved to its place: its complete partial file, the entry held, and the copy.
fn completed(library: &Library, record: &VerifiedRecord) -> (Partial, Arc<Entry>, StoredCopy) {
    let partial =
        library.share.place(&record.name).unwrap().partial(&library.data_dir, &record.name).unwrap();
    partial.write_at(&content(record.version.get()), 0).unwrap();
    let stamp = partial.complete(record.size).unwrap();
    let before = library.catalogue.get(&record.name).unwrap();
    let entry = copy_entry(record.clone(), None, stamp, before.path.clone());
    (partial, before, StoredCopy { entry, manifest: Vec::new(), outboard: Vec::new() })
}

#[test]
fn file_that_is_being_replaced_is_not_called_changed() {
    let (_folder, library) = first_version();
    let (catalogue, record) = (&library.catalogue, record(2));
    let (partial, before, mut copy) = completed(&library, &record);
    let placing = catalogue.place(to_place(&copy)).unwrap();
    copy.entry.stamp = partial.rename(Some(before.stamp), None).unwrap();
    let condition = || library.status(Entry::clone(&before), &mut <_>::default()).condition;
    assert_eq!(condition(), Condition::Good(Freshness::Unverified), "moved, and not catalogued yet");
    catalogue.put_copy(copy).unwrap();
    drop(placing);
    assert_eq!(condition(), Condition::Good(Freshness::Unverified), "of the entry that replaced it");
    std::fs::write(&before.path, b"my own work").unwrap();
    assert_eq!(condition(), Condition::Changed);
}

/// Whether the process is killed after the move, or goes on.
#[test]
fn copy_that_is_deregistered_while_its_next_version_is_moved_does_not_come_back() {
    for is_killed in [false, true] {
        let (folder, library) = first_version();
        let (catalogue, record) = (&library.catalogue, record(2));
        let (partial, before, mut copy) = completed(&library, &record);
        let placing = catalogue.place(to_place(&copy)).unwrap();
        assert!(catalogue.remove(&record.name).unwrap());
        copy.entry.stamp = partial.rename(Some(before.stamp), None).unwrap();
        if !is_killed {
            assert!(catalogue.put_copy(copy).is_err());
        }
        drop(placing);
        drop(library);
        assert!(start(folder.path()).catalogue.get(&record.name).is_none(), "killed: {is_killed}");
    }
}

/// A download that was dropped while its file is moved: the next one neither forgets it nor fetches it again.
#[test]
fn next_download_waits_for_what_a_dropped_one_moves() {
    let (_folder, library) = first_version();
    let (catalogue, record) = (&library.catalogue, record(2));
    let (partial, before, mut copy) = completed(&library, &record);
    let placing = catalogue.place(to_place(&copy)).unwrap();
    std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        let (library, record) = (&library, &record);
        let next = scope.spawn(move || {
            let found =
                destination(library, record, None, false, &mut Default::default(), &Default::default());
            tell.send(()).unwrap();
            found
        });
        told.recv_timeout(Duration::from_millis(20)).unwrap_err();
        copy.entry.stamp = partial.rename(Some(before.stamp), None).unwrap();
        catalogue.put_copy(copy).unwrap();
        drop(placing);
        let found = next.join().unwrap();
        assert!(matches!(found, Ok(Destination::UpToDate(_))), "{found:?}");
    });
}

/// One that was dropped before its file was moved has nothing to end of another one, which moves its own.
#[test]
fn dropped_download_leaves_what_another_one_moves_alone() {
    let (_folder, library) = first_version();
    let (catalogue, record) = (&library.catalogue, record(2));
    let (_partial, _, copy) = completed(&library, &record);
    let placing = catalogue.place(to_place(&copy)).unwrap();
    std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        let (copy, stop) = (&copy, CancellationToken::new());
        stop.cancel();
        scope.spawn(move || {
            let to_place = ToPlace { copy, passed_over: None, stop: &stop };
            let dropped = catalogue.place([to_place].into_iter()).unwrap();
            tell.send(dropped.check(&copy.entry.record.name)).unwrap();
        });
        told.recv_timeout(Duration::from_millis(20)).unwrap_err();
        assert!(catalogue.is_placing(&record.name));
        drop(placing);
        assert!(told.recv().unwrap().is_err(), "it is not wanted");
    });
}
