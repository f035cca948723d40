//! Tests of `transfer/files.rs`.

use profile::transfer::files::*;
use profile::transfer::scenario::Bulk;
use profile::transfer::scenario::Change;
use profile::transfer::scenario::How;
use std::{fs, os::unix::fs::FileExt};

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
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
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
