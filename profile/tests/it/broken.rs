//! Indexers that die or hang while they are measured: the run ends, says which, and prints what was measured before.

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{begun, children, ended};

#[test]
fn indexers_that_die_or_hang_end_what_is_measured() {
    let batch = "batch --names 10000 --batches 100,1 --kinds own --insecure";
    let pipeline = "pipeline -n 100000 --rates 0,1000 --loopback --insecure";
    let (relay, of_relay) = ("relay -n 100000000", "Counted at each node");
    let off = "| as many as are taken, log off ";
    for (args, text, n, signal, why, before) in [
        (relay, "measuring probes", 1, Signal::KILL, "indexer 1 has ended", of_relay),
        (relay, "measuring probes", 1, Signal::STOP, "indexer 1 did not respond within", of_relay),
        (pipeline, "measuring 1000 a second", 1, Signal::KILL, "indexer 2 has ended", off),
        (batch, "own in calls of 1,", 0, Signal::KILL, "", "| 100 in a call "),
    ] {
        let child = begun(&args.split(' ').collect::<Vec<_>>(), text);
        kill_process(Pid::from_raw(children(&child)[n]).unwrap(), signal).unwrap();
        let (stdout, code) = ended(child);
        assert_eq!(code, Some(3), "{args}: {stdout}");
        assert!(
            stdout.contains(&format!("Ended early: {why}")) && stdout.contains(before),
            "{args}: {stdout}"
        );
    }
}
