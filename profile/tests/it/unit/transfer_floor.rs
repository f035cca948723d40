//! Tests of `transfer/floor.rs`.

use profile::transfer::floor::*;
use std::fs;

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
