//! Tests of `run/files.rs`, `run/folder.rs`, `scenarios/transfer/floor.rs` and `report/units.rs`.

use std::{fs, os::unix::fs::FileExt, path::Path};

use profile::run::{files::*, folder::*};
use profile::{report::units::*, scenarios::transfer::floor::*};

const PLAIN: Bulk = Bulk { size: 3 << 20, sparse: false };

#[test]
fn a_wrong_file_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let [source, arrived] = ["source", "arrived"].map(|name| folder.path().join(name));
    make(&source, PLAIN, 1).unwrap();
    let expected = hash(&source).unwrap();
    assert!(!is_right(&arrived, &expected).unwrap(), "nothing arrived");
    fs::copy(&source, &arrived).unwrap();
    assert!(is_right(&arrived, &expected).unwrap());
    let file = fs::OpenOptions::new().write(true).open(&arrived).unwrap();
    let byte = fs::read(&source).unwrap()[2_000_000];
    file.write_all_at(&[byte ^ 1], 2_000_000).unwrap();
    assert!(!is_right(&arrived, &expected).unwrap(), "one bit is wrong");
    file.write_all_at(&[byte], 2_000_000).unwrap();
    file.set_len(PLAIN.size - 1).unwrap();
    assert!(!is_right(&arrived, &expected).unwrap(), "it is cut off");
}

#[test]
fn the_same_seed_makes_the_same_file() {
    let folder = tempfile::tempdir().unwrap();
    let hashes = [(1, false), (1, false), (2, false), (1, true)].map(|(seed, sparse)| {
        let path = folder.path().join("file");
        make(&path, Bulk { sparse, ..PLAIN }, seed).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), PLAIN.size);
        hash(&path).unwrap()
    });
    assert!(hashes[0] == hashes[1] && hashes[0] != hashes[2] && hashes[0] != hashes[3]);
}

#[test]
fn as_much_changes_as_was_asked_for() {
    let (_folder, path) = testkit::temp_path("file");
    make(&path, PLAIN, 1).unwrap();
    let before = fs::read(&path).unwrap();
    let by = |how| Change { percent: 1.0, places: 10, how };
    let changed_bytes = by(How::InPlace).bytes_each(PLAIN.size) * 10;
    change(&path, by(How::InPlace), 2).unwrap();
    let after = fs::read(&path).unwrap();
    let other = before.iter().zip(&after).filter(|(a, b)| a != b).count() as u64;
    // One byte in 256 is replaced by the same.
    assert!(other <= changed_bytes && other > changed_bytes * 95 / 100, "{other} of {changed_bytes}");
    change(&path, by(How::Insert), 3).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), PLAIN.size + changed_bytes);
}

#[test]
fn floors_move_every_byte_and_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let [source, target] = ["source", "target"].map(|name| folder.path().join(name));
    let bytes: Vec<u8> = (0..3_000_001u32).map(|n| (n / 7).to_le_bytes()[0]).collect();
    fs::write(&source, &bytes).unwrap();
    for floor in [over_tcp, copied, read_and_written] {
        floor(&source, &target).unwrap();
        assert!(fs::read(&target).unwrap() == bytes);
    }
    fs::remove_file(target).unwrap();
    let floors = measure(&source, folder.path()).unwrap();
    assert!([floors.tcp_s, floors.copy_s, floors.read_write_s].iter().all(|s| *s > 0.0));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

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

#[test]
fn shares_and_ranges_are_read() {
    assert_eq!((percent("1"), percent("0.5%")), (Ok(1.0), Ok(0.5)));
    assert!(percent("0").is_err() && percent("101").is_err() && percent("nan").is_err());
    assert_eq!(range("1KiB-10KiB"), Ok((1024, 10_240)));
    assert!(range("10KiB-1KiB").is_err() && range("1KiB").is_err());
}

#[test]
fn what_is_written_is_read_again() {
    assert_eq!([1 << 30, 3 << 29, 1000, 64 << 20].map(shown), ["1 GiB", "1.5 GiB", "1000 B", "64 MiB"]);
    for number in [1, 1000, 1024, 50_000_000, 1 << 30, 3 << 29, 12_345] {
        assert_eq!(bytes(&exact(number)), Ok(number), "{}", exact(number));
    }
    assert_eq!([exact(1 << 30), exact(50_000_000)], ["1GiB", "50MB"]);
}
