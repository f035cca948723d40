//! Files from stdin or to stdout, bulk downloads, and rate limits, in the program.

use std::io::{Read, pipe};

use crate::program::*;

/// More files than are downloaded at once: the rows of the first come before the last file does.
const SMALL: usize = 2048;

#[test]
fn a_file_travels_from_stdin_to_stdout_also_through_running_peers() {
    let content = bytes(1, 3 * MIB);
    for is_beside in [false, true] {
        let (_indexers, origin, reader) = two_homes();
        let _serving = is_beside.then(|| [&origin, &reader].map(|home| home.serve(&[])));
        let mut command = origin.command(["share", "-", "--name", "logs/today.bin"]);
        command.stdin(fs::File::open(origin.write("source.bin", &content)).unwrap());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut sharing = Running::start_with(command);
        sharing.err_line(if is_beside { "served by " } else { "serving on " });
        assert!(origin.read("logs/today.bin") == content);

        let mut command = reader.command(["get", "logs/today.bin", "-o", "-"]);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && output.stdout == content, "{said}");
        assert!(said.contains("3.0 MiB moved"), "{said}");
        assert!(!reader.path("logs").exists(), "no copy is kept");
        // As a kill leaves it between the storing and the publishing.
        origin.write("x", "stored");
        let ended = origin.run(&["share", "-", "--name", "x"]);
        ended.ended_with(3, "not what was shared: share it");
        ended.ended_with(3, "--force");
    }
}

#[test]
fn download_to_a_pipe_ends_quietly_when_that_is_closed_and_with_one_line_when_it_is_interrupted() {
    let (_indexers, _origin, reader, _sharing) = sharing("a.bin", bytes(1, 3 * MIB));
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
    let closed = closed.wait();
    assert_eq!((closed.code, closed.err.len()), (Some(141), 0), "{closed:?}");
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
