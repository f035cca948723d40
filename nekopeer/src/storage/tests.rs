//! Tests of places and partial files.

use std::{
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
};

use nekoproto::{ContentHash, FileName};

use super::{error::StoreError, partial::Partial, place::Place, share_folder::ShareFolder};
use crate::content::stamp::Stamp;

fn name(text: &str) -> FileName {
    FileName::new(text).unwrap()
}

fn content() -> ContentHash {
    ContentHash::from_bytes([1; 32])
}

fn commit(partial: Partial, size: u64, replaceable: Option<Stamp>) -> Result<Stamp, StoreError> {
    partial.complete(size)?;
    partial.commit_synced(replaceable)
}

#[test]
fn a_file_appears_whole_and_its_partial_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let share = ShareFolder::open(folder.path()).unwrap();
    let partial = share.place(&name("a/b/c.bin")).unwrap().partial(&content()).unwrap();
    partial.write_at(b"world", 6).unwrap();
    partial.write_at(b"hello ", 0).unwrap();
    let target = folder.path().join("a/b/c.bin");
    assert!(!target.exists() && partial.path().exists());
    let stamp = commit(partial, 11, None).unwrap();
    assert_eq!(std::fs::read(&target).unwrap(), b"hello world");
    assert_eq!(Stamp::of(&std::fs::metadata(&target).unwrap()), stamp);
    assert_eq!(std::fs::read_dir(folder.path().join("a/b")).unwrap().count(), 1);
}

#[test]
fn a_partial_is_found_again_and_used_by_one_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let share = ShareFolder::open(folder.path()).unwrap();
    let first = share.place(&name("a")).unwrap().partial(&content()).unwrap();
    first.write_at(b"half", 0).unwrap();
    let second = share.place(&name("a")).unwrap().partial(&content());
    assert!(matches!(second, Err(StoreError::Busy(_))));
    drop(first);
    let again = share.place(&name("a")).unwrap().partial(&content()).unwrap();
    assert_eq!(again.bytes().unwrap(), 4);
}

#[test]
fn a_symbolic_link_does_not_lead_out() {
    let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::os::unix::fs::symlink(outside.path(), folder.path().join("way-out")).unwrap();
    let share = ShareFolder::open(folder.path()).unwrap();
    for text in ["way-out/a", "way-out/deeper/a"] {
        let error = share.place(&name(text)).unwrap_err();
        assert!(matches!(error, StoreError::Escapes(_)), "{text}: {error}");
    }
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
}

/// What may stand where no file does: a link to `victim`, a pipe, a socket, a folder.
fn occupiers(victim: &Path) -> [(&'static str, impl Fn(&Path)); 4] {
    let link = {
        let victim = victim.to_owned();
        move |path: &Path| std::os::unix::fs::symlink(&victim, path).unwrap()
    };
    let (pipe, socket, folder) = (
        |path: &Path| {
            use rustix::fs::{CWD, FileType, Mode, mknodat};
            mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        },
        |path: &Path| drop(std::os::unix::net::UnixListener::bind(path).unwrap()),
        |path: &Path| std::fs::create_dir(path).unwrap(),
    );
    let boxed = |make: Box<dyn Fn(&Path)>| make;
    [
        ("a symbolic link", boxed(Box::new(link))),
        ("a named pipe", boxed(Box::new(pipe))),
        ("a socket", boxed(Box::new(socket))),
        ("a folder", boxed(Box::new(folder))),
    ]
}

#[test]
fn what_is_no_file_occupies_a_place_is_named_and_left_whenever_it_comes() {
    let (_outside, victim) = testkit::temp_path("victim");
    std::fs::write(&victim, b"precious").unwrap();
    for (what, make) in occupiers(&victim) {
        for is_there_before in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let (share, target) = (ShareFolder::open(folder.path()).unwrap(), folder.path().join("a"));
            let partial = share.place(&name("a")).unwrap().partial(&content()).unwrap();
            partial.write_at(b"new", 0).unwrap();
            if is_there_before {
                make(&target);
                let error = share.place(&name("a")).unwrap().stamp().unwrap_err().to_string();
                assert!(error.contains(what) && error.contains("remove it"), "{error}");
                assert!(share.place(&name("a")).unwrap().open().is_err());
            }
            let stamp = partial.complete(3).unwrap();
            if !is_there_before {
                make(&target);
            }
            let kind = |path: &Path| std::fs::symlink_metadata(path).unwrap().file_type();
            let before = kind(&target);
            let partial_path = partial.path();
            let error = partial.commit_synced(None).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
            assert_eq!((kind(&target), std::fs::read(&victim).unwrap()), (before, b"precious".to_vec()));
            assert!(stamp.is_same_file(&Stamp::of(&std::fs::metadata(partial_path).unwrap())));
        }
    }
}

#[test]
fn partial_file_is_no_link_no_pipe_and_nobody_else_s_file() {
    let (outside, victim) = testkit::temp_path("victim");
    std::fs::write(&victim, b"precious").unwrap();
    let folder = tempfile::tempdir_in(outside.path()).unwrap();
    let share = ShareFolder::open(folder.path()).unwrap();
    let path = share.place(&name("a")).unwrap().partial_path(&content());
    let refused = |what: &str| {
        let error = share.place(&name("a")).unwrap().partial(&content()).unwrap_err().to_string();
        assert!(error.contains(what) && error.contains(".neko-part-"), "{error}");
        assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    };
    for (what, make) in occupiers(&victim) {
        make(&path);
        refused(what);
        if path.is_dir() { std::fs::remove_dir(&path) } else { std::fs::remove_file(&path) }.unwrap();
    }
    std::fs::hard_link(&victim, &path).unwrap();
    refused("a hard link");
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, b"").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4777)).unwrap();
    refused("set-uid");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    if rustix::process::geteuid().is_root() {
        chown(&path, Some(1234), None).unwrap();
        refused("a file of another user");
    }
}

#[test]
fn partial_file_that_was_swapped_is_not_moved_to_the_place() {
    let folder = tempfile::tempdir().unwrap();
    let share = ShareFolder::open(folder.path()).unwrap();
    let swaps: [fn(&Path); 3] = [
        |path| std::os::unix::fs::symlink("elsewhere", path).unwrap(),
        |path| std::fs::write(path, b"new").unwrap(),
        |_| {},
    ];
    for swap in swaps {
        let partial = share.place(&name("a")).unwrap().partial(&content()).unwrap();
        partial.write_at(b"new", 0).unwrap();
        let path = partial.path();
        std::fs::remove_file(&path).unwrap();
        swap(&path);
        let error = commit(partial, 3, None).unwrap_err();
        assert!(matches!(&error, StoreError::Swapped(swapped) if *swapped == path), "{error}");
        assert!(folder.path().join("a").symlink_metadata().is_err(), "nothing is in the place");
        drop(std::fs::remove_file(path));
    }
}

#[test]
fn folder_that_was_moved_or_replaced_is_named() {
    let outside = tempfile::tempdir().unwrap();
    let [target, other, moved] = ["target", "other", "moved"].map(|name| outside.path().join(name));
    let swaps: [fn(&Path, &Path); 3] = [
        |target, other| std::os::unix::fs::symlink(other, target).unwrap(),
        |target, _| std::fs::create_dir(target).unwrap(),
        |_, _| {},
    ];
    std::fs::create_dir(&other).unwrap();
    for swap in swaps {
        std::fs::create_dir(&target).unwrap();
        let path = target.join("a");
        let partial = Place::anywhere(&path).unwrap().partial(&content()).unwrap();
        partial.write_at(b"new", 0).unwrap();
        std::fs::rename(&target, &moved).unwrap();
        swap(&target, &other);
        let error = commit(partial, 3, None).unwrap_err();
        assert!(matches!(&error, StoreError::FolderMoved(named) if *named == path), "{error}");
        assert!(!moved.join("a").exists() && std::fs::read_dir(&other).unwrap().next().is_none());
        drop(std::fs::remove_file(&target).or_else(|_| std::fs::remove_dir(&target)));
        std::fs::remove_dir_all(&moved).unwrap();
    }
}

#[test]
fn a_file_that_appeared_or_changed_meanwhile_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let share = ShareFolder::open(folder.path()).unwrap();
    let path = folder.path().join("a");
    let partial = || share.place(&name("a")).unwrap().partial(&content()).unwrap();
    let fresh = partial();
    std::fs::write(&path, b"mine").unwrap();
    assert!(matches!(commit(fresh, 0, None), Err(StoreError::ChangedMeanwhile(_))));
    let seen = share.place(&name("a")).unwrap().stamp().unwrap();
    std::fs::write(&path, b"mine, edited").unwrap();
    assert!(matches!(commit(partial(), 0, seen), Err(StoreError::ChangedMeanwhile(_))));
    assert_eq!(std::fs::read(&path).unwrap(), b"mine, edited");
}

#[test]
fn a_folder_in_the_way_is_no_place() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("a")).unwrap();
    let share = ShareFolder::open(folder.path()).unwrap();
    assert!(matches!(share.place(&name("a")).unwrap().stamp(), Err(StoreError::NotAPlace { .. })));
    assert!(matches!(Place::anywhere(Path::new("/")), Err(StoreError::NotAPlace { .. })));
}
