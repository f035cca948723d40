//! A running peer whose disk is full for a time: it says so, and works again as soon as there is space.

use std::process::Command;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::program::{Home, Indexers, MIB, Running, bytes};

/// `nekopeer WORDS` in this home, which a file size limit does not end.
fn start(home: &Home, indexer: &str, words: &[&str]) -> Running {
    let mut command = Command::new("bash");
    command.args(["-c", "trap '' XFSZ; exec \"$@\"", "bash", env!("CARGO_BIN_EXE_nekopeer")]);
    command.args(["--indexer", indexer]).args(words);
    home.settle(&mut command);
    Running::start(command)
}

/// No file of `running` grows beyond `max` bytes, as on a full disk, from now on; `None` ends that.
fn limit(running: &Running, max: Option<u64>) {
    prlimit(Pid::from_raw(running.id()), Resource::Fsize, Rlimit { current: max, maximum: None }).unwrap();
}

#[test]
fn running_peer_downloads_publishes_and_follows_once_there_is_space_again() {
    let indexers = Indexers::one();
    let (origin, reader) = (Home::at(&indexers, 0), Home::at(&indexers, 0));
    origin.write("small", "small\n");
    origin.write("f", "1\n");
    let _sharing = origin.share(&["small", "f"]);
    let mut serving = start(&reader, &indexers.addr(0), &["--on-stale", "refetch", "serve"]);
    serving.err_line("serving");
    reader.done(&["get", "f"]);
    reader.write("own", "own\n");

    limit(&serving, Some(4096));
    for _ in 0..3 {
        reader.run(&["get", "small"]).failed_with(3, &["no space is left to write"]);
        let ended = reader.run(&["share", "own"]);
        assert!(
            ended.code == Some(3) && ended.err.concat().contains("no space is left to write"),
            "{ended:?}"
        );
    }
    assert!(reader.done(&["ls"]).out.concat().contains('f'));
    origin.write("f", "22\n");
    origin.done(&["share", "f"]);
    serving.err_line("f: no space is left to write"); // the new version cannot be stored yet

    limit(&serving, None);
    reader.done(&["get", "small"]);
    assert_eq!(reader.read("small"), b"small\n");
    reader.done(&["share", "own"]);
    origin.done(&["query", "own"]);
    serving.err_line("refreshed f to version 2");
    assert_eq!(reader.read("f"), b"22\n");
}

#[test]
fn full_disk_names_the_partial_file_that_is_kept() {
    let indexers = Indexers::one();
    let (origin, reader) = (Home::at(&indexers, 0), Home::at(&indexers, 0));
    let source = bytes(10, 6 * MIB);
    origin.write("big", &source);
    let _sharing = origin.share(&["big"]);
    let mut serving = start(&reader, &indexers.addr(0), &["serve"]);
    serving.err_line("serving");
    limit(&serving, Some(4 * MIB as u64));
    let full = reader.run(&["get", "big"]);
    full.failed_with(3, &["no space is left to write", "big", "remove", ".neko-part-", "KiB"]);
    limit(&serving, None);
    reader.done(&["get", "big"]);
    assert!(reader.read("big") == source);
}
