//! `get NAME --version N`: an earlier version from whoever keeps it, each node in a process of its own.

use crate::program::*;

/// Versions of a file, each with a part of its own at the beginning, in the middle and at the end.
fn content(number: u8) -> Vec<u8> {
    let mut content = bytes(7, MIB);
    let len = content.len();
    for at in [0, len / 2, len - 1000] {
        content[at..at + 1000].fill(number);
    }
    content
}

#[test]
fn earlier_version_comes_from_who_keeps_it_and_stays_until_another_is_asked_for() {
    let (indexers, origin) = one_home();
    let [keeper, reader, other] = [(); 3].map(|()| Home::at(&indexers, 0));
    origin.write("f", content(1));
    origin.write("small", "one");
    let _sharing = origin.share(&["f", "small", "--no-serve-stale"]);
    let mut keeping = keeper.start_out(&["follow", "f", "small", "--keep", "3"], "f is at version 1");
    for number in 2..=4 {
        origin.share_anew("f", content(number));
        keeping.out_line(&format!("f is at version {number}"));
    }
    origin.share_anew("small", "two");
    keeping.out_line("small is at version 2");

    // In place of nothing, and of a later one.
    let mut reading = reader.serve(&["--on-stale", "refetch"]);
    let got = reader.done(&["get", "f", "--version", "2", "--json"]).json();
    assert_eq!((&got["version"], reader.read("f") == content(2)), (&2.into(), true), "{got}");
    reader.done(&["get", "small"]);
    reader.done(&["get", "small", "--version", "1"]);
    assert_eq!(reader.read("small"), b"one");
    reader.done(&["get", "small", "--version", "1"]);
    // No newer one takes its place by itself, but a later publication does.
    assert_eq!(reader.status("f")["passed_over"], 4);
    let piped = other.command(["get", "f", "--version", "3", "-o", "-"]).output().unwrap();
    assert!(piped.stdout == content(3), "{}", String::from_utf8_lossy(&piped.stderr));
    assert!(!other.path("f").exists());

    other.run(&["get", "f", "--version", "9"]).failed_with(1, &["version 9 of f is not here"]);
    other.run(&["get", "none", "--version", "1"]).failed_with(1, &["nobody shares none"]);
    origin.run(&["get", "f", "--version", "1"]).failed_with(3, &["shared by this peer itself"]);

    origin.share_anew("f", content(5));
    until(&mut reading, "version 5 comes", || reader.read("f") == content(5));
    keeping.out_line("f is at version 5");
    reader.done(&["get", "f", "--version", "2"]);
    assert!(reader.read("f") == content(2));
    reader.run(&["get", "f", "--version", "1"]).failed_with(1, &["version 1 of f is not here"]);
    reader.gets("f", content(5));
}

#[test]
fn earlier_version_of_a_set_comes_as_a_folder() {
    let (indexers, origin) = one_home();
    let [keeper, reader] = [(); 2].map(|()| Home::at(&indexers, 0));
    origin.write("d/a", bytes(1, MIB));
    origin.write("d/b", "one");
    let _sharing = origin.share(&["--set", "d"]);
    let mut keeping = keeper.start_out(&["follow", "d", "--keep", "1"], "d is at version 1");
    origin.write_all([("d/b", "two"), ("d/c", "new")]);
    origin.done(&["share", "--set", "d"]);
    keeping.out_line("d is at version 2");
    reader.done(&["get", "d"]);
    assert_eq!(reader.read("d/b"), b"two");
    reader.done(&["get", "d", "--version", "1"]);
    assert_eq!(reader.read("d/b"), b"one");
    assert_eq!(fs::read_dir(reader.path("d")).unwrap().count(), 2);
    reader.done(&["get", "d"]);
    assert_eq!(reader.read("d/c"), b"new");
}
