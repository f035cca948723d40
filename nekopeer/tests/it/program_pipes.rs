//! Files from stdin or to stdout, bulk downloads, and rate limits, in the program.

use std::{
    io::{Read, Write},
    process::Stdio,
    time::{Duration, Instant},
};

use crate::program::{Home, Indexers, MIB, bytes};

#[test]
fn a_file_travels_from_stdin_to_stdout() {
    let indexers = Indexers::one();
    let (origin, reader) = (Home::at(&indexers, 0), Home::at(&indexers, 0));
    let content = bytes(1, 9 * MIB);
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
    assert!(String::from_utf8_lossy(&output.stderr).contains("9.0 MiB moved"));
    assert!(!reader.path("logs").exists(), "no copy is kept");
    let _ = sharing.kill();
    sharing.wait().unwrap();
}

/// As a kill leaves it between the storing and the publishing.
#[test]
fn stored_file_that_was_never_published_is_said_to_be_so() {
    let indexers = Indexers::one();
    let home = Home::at(&indexers, 0);
    home.write("x", "stored");
    home.run(&["share", "-", "--name", "x"]).failed_with(3, &["not what was published", "share", "--force"]);
    let mut sharing = home.start(&["share", "x"]);
    sharing.out_line("published x version 1");
}

#[test]
fn a_reader_that_closes_the_pipe_ends_the_download_with_one_line() {
    let indexers = Indexers::one();
    let (origin, reader) = (Home::at(&indexers, 0), Home::at(&indexers, 0));
    origin.write("a.bin", bytes(1, 9 * MIB));
    let _sharing = origin.share(&["a.bin"]);
    let mut command = reader.command(["get", "a.bin", "-o", "-"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut getting = command.spawn().unwrap();
    let mut some = [0; 1000];
    let mut out = getting.stdout.take().unwrap();
    out.read_exact(&mut some).unwrap();
    drop(out);
    let ended = getting.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(3));
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("cannot write to stdout"), "{said}");
}

#[test]
fn many_names_are_fetched_at_once_and_counted() {
    let indexers = Indexers::one();
    let (origin, reader) = (Home::at(&indexers, 0), Home::at(&indexers, 0));
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
    ended.failed_with(1, &["nobody offers nothing.txt"]);
    reader.run(&["get", "set/0.txt", "set/1.txt", "-o", "x"]).failed_with(2, &["single file"]);
    origin.run(&["share", "-"]).failed_with(2, &["--name"]);
}

#[test]
fn a_limit_is_kept() {
    let indexers = Indexers::one();
    let (origin, reader) = (Home::at(&indexers, 0), Home::at(&indexers, 0));
    origin.write("a.bin", bytes(1, 6 * MIB));
    let _sharing = origin.share(&["a.bin"]);
    let began = Instant::now();
    reader.done(&["get", "a.bin", "--limit-down", "4MiB"]);
    // Without the limit it takes milliseconds.
    assert!(began.elapsed() > Duration::from_millis(1300), "{:?}", began.elapsed());
}
