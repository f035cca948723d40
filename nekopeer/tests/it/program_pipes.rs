//! Files from stdin or to stdout, bulk downloads, and rate limits, in the program.

use std::{
    io::{Read, Write, pipe},
    process::Stdio,
    time::{Duration, Instant},
};

use crate::program::*;

/// More files than are downloaded at once: the rows of the first come before the last file does.
const SMALL: usize = 2048;

#[test]
fn a_file_travels_from_stdin_to_stdout() {
    let (_indexers, origin, reader) = two_homes();
    let content = bytes(1, 3 * MIB);
    let mut command = origin.command(["share", "-", "--name", "logs/today.bin"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut sharing = command.spawn().unwrap();
    sharing.stdin.take().unwrap().write_all(&content).unwrap();
    let mut said = std::io::BufReader::new(sharing.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("serving on ") {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut said, &mut line).unwrap() > 0, "the program ended");
    }
    assert_eq!(origin.read("logs/today.bin"), content);

    let mut command = reader.command(["get", "logs/today.bin", "-o", "-"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout == content, "{} bytes came", output.stdout.len());
    assert!(String::from_utf8_lossy(&output.stderr).contains("3.0 MiB moved"));
    assert!(!reader.path("logs").exists(), "no copy is kept");
    let _ = sharing.kill();
    sharing.wait().unwrap();
}

/// As a kill leaves it between the storing and the publishing.
#[test]
fn stored_file_that_was_never_published_is_said_to_be_so() {
    let (_indexers, home) = one_home();
    home.write("x", "stored");
    let ended = home.run(&["share", "-", "--name", "x"]);
    ended.ended_with(3, "not what was shared: share it");
    ended.ended_with(3, "--force");
    let _sharing = home.start_out(&["share", "x"], "shared x version 1");
}

#[test]
fn download_to_a_pipe_ends_with_one_line_when_that_is_closed_or_it_is_interrupted() {
    let (_indexers, origin, reader) = two_homes();
    let _sharing = origin.share_file("a.bin", bytes(1, 3 * MIB));
    let getting = || {
        let (mut unread, out) = pipe().unwrap();
        let mut command = reader.command(["get", "a.bin", "-o", "-"]);
        command.stdin(Stdio::null()).stdout(out).stderr(Stdio::piped());
        let getting = Running::start_with(command);
        unread.read_exact(&mut [0; 1000]).unwrap();
        (getting, unread)
    };
    let (closed, unread) = getting();
    drop(unread);
    closed.wait().failed_with(3, &["cannot write to stdout"]);
    let (interrupted, _unread) = getting();
    interrupted.interrupt().failed_with(3, &["interrupted"]);
}

#[test]
fn interrupted_list_in_json_is_complete() {
    let (_indexers, origin, reader) = two_homes();
    for n in 0..SMALL {
        origin.write(&format!("set/{n}.txt"), "");
    }
    origin.write("big.bin", bytes(1, 3 * MIB));
    let _sharing = origin.share(&["set", "big.bin"]);
    let names: Vec<String> = (0..SMALL).map(|n| format!("set/{n}.txt")).collect();
    reader.write("names", names.join("\n") + "\nbig.bin");
    let out = reader.path("out");
    let mut command =
        reader.command(["get", "--names-from", &reader.text("names"), "--json", "--limit-down", "10kB"]);
    command.stdin(Stdio::null()).stdout(std::fs::File::create(&out).unwrap()).stderr(Stdio::piped());
    let mut getting = Running::start_with(command);
    until(&mut getting, "the first rows came", || out.metadata().unwrap().len() > 0);
    getting.interrupt().failed_with(3, &["interrupted"]);
    let list: serde_json::Value = serde_json::from_slice(&reader.read("out")).unwrap();
    assert!(!list["files"].as_array().unwrap().is_empty());
}

#[test]
fn many_names_are_fetched_at_once_and_counted() {
    let (_indexers, origin, reader) = two_homes();
    for n in 0..50 {
        origin.write(&format!("set/{n}.txt"), format!("{n}\n"));
    }
    let _sharing = origin.share(&["set"]);
    let got = reader.done(&["get", "set/0.txt", "set/1.txt", "set/2.txt"]);
    assert!(got.out.last().unwrap().contains("3 of 3 files here"), "{got:?}");
    let names: Vec<String> = (0..50).map(|n| format!("set/{n}.txt")).collect();
    reader.write("names", names.join("\n"));
    let list = reader.text("names");
    let got = reader.done(&["get", "--names-from", &list, "--json"]).json();
    assert_eq!(got["files"].as_array().unwrap().len(), 50);
    for n in 0..50 {
        assert_eq!(reader.read(&format!("set/{n}.txt")), format!("{n}\n").into_bytes());
    }
    let ended = reader.run(&["get", "set/0.txt", "nothing.txt"]);
    ended.failed_with(1, &["nobody shares nothing.txt"]);
}

#[test]
fn a_limit_is_kept() {
    let (_indexers, origin, reader) = two_homes();
    let _sharing = origin.share_file("a.bin", bytes(1, 6 * MIB));
    let began = Instant::now();
    reader.done(&["get", "a.bin", "--limit-down", "4MiB"]);
    // Without the limit it takes milliseconds.
    assert!(began.elapsed() > Duration::from_millis(1300), "{:?}", began.elapsed());
}
