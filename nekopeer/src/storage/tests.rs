//! Tests of places and partial files.

use std::path::Path;

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

#[test]
fn a_name_that_is_another_only_by_case_or_form_is_noticed_in_any_part() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("docs/deep")).unwrap();
    let files = ["docs/README.md", "docs/deep/caf\u{e9}", "docs/ΟΔΟΣ", "docs/\u{212a}"];
    files.iter().for_each(|file| std::fs::write(folder.path().join(file), b"mine").unwrap());
    let share = ShareFolder::open(folder.path()).unwrap();
    let like = |text: &str| {
        let found = share.look_alike(&name(text)).unwrap();
        found.map(|path| path.strip_prefix(share.root()).unwrap().to_str().unwrap().to_owned())
    };
    let cases = [
        ("docs/README.md", None),
        ("docs/readme.md", Some(files[0])),
        ("docs/readme.txt", None),
        ("Docs/other", Some("docs")),
        ("docs/DEEP/other", Some("docs/deep")),
        ("other/README.md", None),
        ("docs/deep/caf\u{e9}", None),
        ("docs/deep/cafe\u{301}", Some(files[1])),
        ("docs/deep/CAFE\u{301}", Some(files[1])),
        ("docs/deep/cafe", None),
        ("docs/οδος", Some(files[2])),
        ("docs/k", Some(files[3])),
    ];
    for (text, found) in cases {
        assert_eq!(like(text).as_deref(), found, "{text}");
    }
    assert!(share.look_alike(&name("docs/README.md/a")).is_err(), "a file is no folder");
    assert!(!folder.path().join("other").exists(), "nothing is made");
}

#[test]
fn a_link_in_the_place_of_the_file_is_replaced_not_followed() {
    let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let victim = outside.path().join("victim");
    std::fs::write(&victim, b"precious").unwrap();
    std::os::unix::fs::symlink(&victim, folder.path().join("a")).unwrap();
    let share = ShareFolder::open(folder.path()).unwrap();
    let place = share.place(&name("a")).unwrap();
    assert_eq!(place.stamp().unwrap(), None);
    let partial = place.partial(&content()).unwrap();
    partial.write_at(b"new", 0).unwrap();
    commit(partial, 3, None).unwrap();
    assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    assert_eq!(std::fs::read(folder.path().join("a")).unwrap(), b"new");
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
    assert!(matches!(share.place(&name("a")).unwrap().stamp(), Err(StoreError::NotAPlace(_))));
    assert!(matches!(Place::anywhere(Path::new("/")), Err(StoreError::NotAPlace(_))));
}
