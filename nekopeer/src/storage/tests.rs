//! Tests of places and partial files.

use std::{
    fs::File,
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::Path,
    time::{Duration, SystemTime},
};

use testkit::values::name;

use super::{
    partial::{Partial, sweep},
    place::Place,
    share_folder::ShareFolder,
};
use crate::{
    content::stamp::Stamp,
    failure::{Failure, FailureKind},
};

/// The partial file of a name, in the share folder too.
fn partial(share: &ShareFolder, text: &str) -> Result<Partial, Failure> {
    share.place(&name(text))?.partial(share.root(), &name(text))
}

fn commit(partial: Partial, size: u64, replaceable: Option<Stamp>) -> Result<Stamp, Failure> {
    partial.complete(size)?;
    partial.rename(replaceable, None)
}

#[test]
fn a_partial_is_found_again_and_used_by_one_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let share = ShareFolder::open(folder.path()).unwrap();
    let first = partial(&share, "a").unwrap();
    first.write_at(b"half", 0).unwrap();
    let second = partial(&share, "a");
    assert_eq!(second.unwrap_err().kind, FailureKind::Busy);
    drop(first);
    let again = partial(&share, "a").unwrap();
    assert_eq!(again.bytes().unwrap(), 4);
}

/// What is not moved stays writable for whoever goes on with it.
#[test]
fn mode_and_group_of_the_file_that_is_replaced_stay_and_a_partial_that_is_not_moved_can_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let (share, target) = (ShareFolder::open(folder.path()).unwrap(), folder.path().join("a"));
    std::fs::write(&target, "one").unwrap();
    let other_group = chown(&target, None, Some(4242)).is_ok(); // root may
    let set = |mode| std::fs::set_permissions(&target, std::fs::Permissions::from_mode(mode)).unwrap();
    let there = || std::fs::metadata(&target).unwrap();
    for mode in [0o755, 0o640, 0o400, 0o4755] {
        set(mode);
        let new = partial(&share, "a").unwrap();
        let before = Stamp::of(&there());
        let stamp = commit(new, 3, Some(before)).unwrap();
        assert_eq!(there().mode() & 0o7777, mode & 0o777);
        assert_eq!(Stamp::of(&there()), stamp);
        assert!(!other_group || there().gid() == 4242);
    }
    set(0o400);
    let new = partial(&share, "a").unwrap();
    let before = Stamp::of(&there());
    set(0o440); // it is another by now
    let path = new.path().to_owned();
    assert!(commit(new, 3, Some(before)).is_err());
    assert!(std::fs::OpenOptions::new().write(true).open(path).is_ok());
}

/// What may stand where no file does: a link to `victim`, a pipe, a socket, a folder.
fn occupiers(victim: &Path) -> [(&'static str, impl Fn(&Path)); 4] {
    let link = {
        let victim = victim.to_owned();
        move |path: &Path| std::os::unix::fs::symlink(&victim, path).unwrap()
    };
    let (pipe, socket, folder) = (
        |path: &Path| testkit::pipe(path),
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
    assert!(Place::anywhere(Path::new("/")).is_err_and(|failure| failure.message.contains("no file")));
    let (_outside, victim) = testkit::temp_path("victim");
    std::fs::write(&victim, b"precious").unwrap();
    for (what, make) in occupiers(&victim) {
        for is_there_before in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let (share, target) = (ShareFolder::open(folder.path()).unwrap(), folder.path().join("a"));
            let partial = partial(&share, "a").unwrap();
            partial.write_at(b"new", 0).unwrap();
            if is_there_before {
                make(&target);
                let error = share.place(&name("a")).unwrap().stamp().unwrap_err().to_string();
                assert!(error.contains(what) && error.contains("move it away"), "{error}");
                assert!(share.place(&name("a")).unwrap().open().is_err());
            }
            let stamp = partial.complete(3).unwrap();
            if !is_there_before {
                make(&target);
            }
            let kind = |path: &Path| std::fs::symlink_metadata(path).unwrap().file_type();
            let before = kind(&target);
            let partial_path = partial.path().to_owned();
            let error = partial.rename(None, None).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
            assert_eq!((kind(&target), std::fs::read(&victim).unwrap()), (before, b"precious".to_vec()));
            assert!(stamp.is_same_file(&Stamp::of(&std::fs::metadata(partial_path).unwrap())));
        }
    }
}

#[test]
fn partial_file_for_another_disk_lies_beside_its_place_in_a_folder_for_this_user_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (path, beside) = (folder.path().join("a"), folder.path().join(".neko-parts"));
    let open = || Place::anywhere(&path).unwrap().partial(Path::new("/on/no/disk"), &name("a"));
    let partial = open().unwrap();
    partial.write_at(b"new", 0).unwrap();
    assert_eq!(partial.path().parent(), Some(&*beside));
    let other = Place::anywhere(&path).unwrap().partial_path(Path::new("/of/another"), &name("a"));
    assert_ne!(partial.path(), other, "of another data folder");
    assert_eq!(std::fs::metadata(&beside).unwrap().permissions().mode() & 0o777, 0o700);
    commit(partial, 3, None).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"new");
    assert!(!beside.exists(), "the last one is gone");
    std::fs::create_dir(&beside).unwrap();
    std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(0o2770)).unwrap();
    drop(open().unwrap()); // the volume's group was let in
}

#[test]
fn link_in_the_place_of_a_partial_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let share = ShareFolder::open(folder.path()).unwrap();
    let path = partial(&share, "a").unwrap().path().to_owned();
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("elsewhere", &path).unwrap();
    let error = partial(&share, "a").unwrap_err().to_string();
    assert!(error.contains("is a symbolic link, no file: move it away"), "{error}");
}

#[test]
fn partial_file_that_was_removed_or_replaced_is_not_moved_to_the_place() {
    let folder = tempfile::tempdir().unwrap();
    let share = ShareFolder::open(folder.path()).unwrap();
    let swaps: [fn(&Path); 2] = [|path| std::fs::write(path, b"new").unwrap(), |_| {}];
    for swap in swaps {
        let partial = partial(&share, "a").unwrap();
        partial.write_at(b"new", 0).unwrap();
        let path = partial.path().to_owned();
        std::fs::remove_file(&path).unwrap();
        swap(&path);
        let error = commit(partial, 3, None).unwrap_err();
        assert!(error.message.starts_with(&format!("{} was removed", path.display())), "{error}");
        assert!(folder.path().join("a").symlink_metadata().is_err(), "nothing is in the place");
    }
}

#[test]
fn partial_files_are_kept_for_thirty_days() {
    let data_dir = tempfile::tempdir().unwrap();
    let share = ShareFolder::open(data_dir.path()).unwrap();
    for (text, days, is_kept) in [("young", 29, true), ("old", 31, false)] {
        let path = partial(&share, text).unwrap().path().to_owned();
        let written = SystemTime::now() - Duration::from_secs(days * 24 * 3600);
        File::options().write(true).open(&path).unwrap().set_modified(written).unwrap();
        sweep(data_dir.path());
        assert_eq!(path.exists(), is_kept, "{text}");
    }
}

/// As a lab has it whose members share files by the group of a folder.
#[test]
fn file_has_the_group_that_its_folder_gives() {
    if !rustix::process::geteuid().is_root() {
        return; // no other group to give
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("lab")).unwrap();
    chown(folder.path().join("lab"), None, Some(1234)).unwrap();
    std::fs::set_permissions(folder.path().join("lab"), std::fs::Permissions::from_mode(0o2775)).unwrap();
    let share = ShareFolder::open(folder.path()).unwrap();
    commit(partial(&share, "lab/a").unwrap(), 0, None).unwrap();
    assert_eq!(std::fs::metadata(folder.path().join("lab/a")).unwrap().gid(), 1234);
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
        let partial = Place::anywhere(&path).unwrap().partial(outside.path(), &name("a")).unwrap();
        partial.write_at(b"new", 0).unwrap();
        std::fs::rename(&target, &moved).unwrap();
        swap(&target, &other);
        let error = commit(partial, 3, None).unwrap_err();
        assert!(error.message.starts_with(&format!("the folder of {} was moved", path.display())), "{error}");
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
    let open = || partial(&share, "a").unwrap();
    let fresh = open();
    std::fs::write(&path, b"mine").unwrap();
    assert!(commit(fresh, 0, None).unwrap_err().message.contains("was changed meanwhile"));
    let seen = share.place(&name("a")).unwrap().stamp().unwrap();
    std::fs::write(&path, b"mine, edited").unwrap();
    assert!(commit(open(), 0, seen).unwrap_err().message.contains("was changed meanwhile"));
    assert_eq!(std::fs::read(&path).unwrap(), b"mine, edited");
}
