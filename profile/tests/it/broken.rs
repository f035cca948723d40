//! Indexers that die or hang while they are measured: the run ends, says which, and prints what was measured before.

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{begun, children, ended};

/// Begins, and sends `signal` to indexer `n` once it says `text`; it must end with 3. What it prints.
fn broken(args: &[&str], text: &str, n: usize, signal: Signal) -> String {
    let child = begun(args, text);
    kill_process(Pid::from_raw(children(&child)[n]).unwrap(), signal).unwrap();
    let (stdout, code) = ended(child);
    assert_eq!(code, Some(3), "{stdout}");
    stdout
}

#[test]
fn an_indexer_that_dies_ends_a_relay() {
    let stdout = broken(&["relay", "-n", "100000000"], "measuring probes", 1, Signal::KILL);
    assert!(stdout.contains("Ended early: indexer 1 has ended"), "{stdout}");
    assert!(stdout.contains("Counted at each node"), "{stdout}");
}

#[test]
fn an_indexer_that_hangs_ends_a_relay() {
    let stdout = broken(&["relay", "-n", "100000000"], "measuring probes", 1, Signal::STOP);
    assert!(stdout.contains("Ended early: indexer 1 did not respond within"), "{stdout}");
}

#[test]
fn an_indexer_that_dies_ends_a_pipeline() {
    let args = ["pipeline", "-n", "100000", "--rates", "0,1000", "--loopback", "--insecure"];
    let stdout = broken(&args, "measuring 1000 a second", 1, Signal::KILL);
    assert!(stdout.contains("Ended early: indexer 2 has ended"), "{stdout}");
    assert!(stdout.contains("| as many as are taken, log off "), "{stdout}");
}

#[test]
fn an_indexer_that_dies_ends_a_batch() {
    let args = ["batch", "--names", "10000", "--batches", "100,1", "--kinds", "own", "--insecure"];
    let stdout = broken(&args, "own in calls of 1,", 0, Signal::KILL);
    assert!(stdout.contains("Ended early: ") && stdout.contains("| 100 in a call "), "{stdout}");
}
