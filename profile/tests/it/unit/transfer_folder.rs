//! Tests of `transfer/folder.rs`.

use profile::transfer::folder::*;
use std::fs;
use std::path::Path;

#[test]
fn the_innermost_mount_counts() {
    let mounts = "disk / ext4 rw 0 0\nshm /dev/shm tmpfs rw 0 0\nother /dev devtmpfs rw 0 0\n";
    let kind = |path: &str| kind_of(mounts, Path::new(path));
    assert_eq!(kind("/dev/shm/a").as_deref(), Some("tmpfs"));
    assert_eq!(kind("/dev/shmoo").as_deref(), Some("devtmpfs"));
    assert_eq!(kind("/home").as_deref(), Some("ext4"));
}

#[test]
fn only_folders_of_runs_are_removed_by_nodes() {
    let base = tempfile::tempdir().unwrap();
    let [ours, other] = [PREFIX, "other-"].map(|name| base.path().join(format!("{name}x/origin")));
    for dir in [&ours, &other] {
        fs::create_dir_all(dir).unwrap();
        remove_around(dir);
    }
    assert!(!base.path().join(format!("{PREFIX}x")).exists() && other.exists());
}

#[test]
fn it_is_gone_at_the_end_and_has_no_endless_room() {
    let base = tempfile::tempdir().unwrap();
    let folder = Folder::prepare(Some(base.path())).unwrap();
    folder.has_room(1).unwrap();
    assert!(folder.has_room(u64::MAX).unwrap_err().to_string().contains("the files need"));
    drop(folder);
    assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
    assert!(Folder::prepare(Some(Path::new("/nowhere"))).is_err());
}
