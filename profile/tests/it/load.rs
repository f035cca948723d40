//! Loads of a second: all that was acknowledged arrives, and a promise that is broken on purpose is seen. Figures are no part
//! of these tests.

use std::{fs, net::TcpListener};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::common::{begun, children, drawn, ended, ends, interrupted, ok, processes_with, refused};

fn small<'a>(dir: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let args = ["load", "--workers", "2", "--names", "3", "--duration", "0.6", "--rate", "200", "--dir", dir];
    [&args[..], more].concat()
}

#[test]
fn what_cannot_be_a_load_is_refused() {
    refused(&["load", "--workers", "0"], "0 is not in 1..=999");
    refused(&["load", "--duration", "0"], "a run lasts 0.1 to 3600 seconds");
    refused(&["load", "--scenario", "calm"], "invalid value 'calm'");
    refused(&["load", "--dir", "/nowhere/at/all"], "cannot use the folder /nowhere/at/all");
    refused(&["load", "--break", "mix", "--scenario", "live"], "--break mix breaks nothing in live");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    refused(&["load", "--port", &port], &format!("cannot listen on 127.0.0.1:{port}"));
}

#[test]
fn all_that_was_acknowledged_arrives_live_and_from_disk_by_both_protocols() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let (stdout, json, plots) = drawn(&small(dir, &["--scenario", "live,disk"]));
    assert!(stdout.contains("native: ") && stdout.contains("messages of a broker"), "{stdout}");
    let rows = json["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().filter_map(|row| row["scenario"].as_str()).collect();
    let each = |protocol: &str| ["live", "disk", "one at a time"].map(|what| format!("{what} {protocol}"));
    assert_eq!(names, [each("native"), each("rest")].concat());
    for row in rows {
        assert_eq!((&row["verdict"], &row["lost"]), (&json!("pass"), &json!(0)), "{row}");
        assert!(row["shared"].as_u64().unwrap() > 0 && row["lookups_per_s"].as_f64().unwrap() > 0.0, "{row}");
    }
    assert!(rows[0]["p50_us"].as_f64().unwrap() > 0.0 && rows[1]["p50_us"].is_null(), "{stdout}");
    let picture = fs::read_to_string(plots.path().join("load.svg")).unwrap();
    assert!(picture.contains("one at a time rest") && !picture.contains("disk native"), "{picture}");
    assert_eq!((fs::read_dir(folder.path()).unwrap().count(), processes_with(dir)), (0, 0));
}

#[test]
fn a_reader_and_its_indexer_that_die_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let stdout = ok(&small(folder.path().to_str().unwrap(), &["--scenario", "crash,slow", "--insecure"]));
    assert_eq!(stdout.matches("| pass |").count(), 4, "{stdout}");
}

/// A version that was acknowledged and does not arrive, two networks that are one, and an origin that comes back without what
/// it published.
#[test]
fn a_promise_that_is_broken_on_purpose_is_seen() {
    for (broken, protocol, why) in [
        ("drop", "native", "1 acknowledged and lost"),
        ("drop", "rest", "1 acknowledged and lost"),
        ("mix", "native", "lookups with files of others"),
        ("lose", "native", "6 acknowledged and lost"),
        ("lose", "rest", "6 acknowledged and lost"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().to_str().unwrap();
        let (code, stdout, stderr) = ends(&small(dir, &["--break", broken, "--protocol", protocol]));
        assert_eq!(code, 3, "{broken}: {stdout}{stderr}");
        let of = format!("{protocol} ");
        let rows = stdout.lines().filter(|line| line.starts_with('|') && line.contains(&of));
        let failed = rows.clone().filter(|row| row.contains("**fail**") && row.contains(why)).count();
        assert!(failed > 0 && failed == rows.count(), "{broken}: {stdout}");
    }
}

#[test]
fn an_indexer_that_was_killed_by_others_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let args = small(folder.path().to_str().unwrap(), &["--scenario", "live", "--protocol", "native"]);
    let child = begun(&args, "measuring live native");
    let started = children(&child); // the indexers come first
    kill_process(Pid::from_raw(started[2]).unwrap(), Signal::KILL).unwrap();
    let (stdout, code) = ended(child);
    assert!(code == Some(3) && stdout.contains("indexer 2 has ended by itself"), "{stdout}");
}

#[test]
fn an_interrupted_load_prints_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let args = ["load", "--workers", "2", "--names", "3", "--duration", "600", "--rate", "200"];
    let args = [&args[..], &["--protocol", "rest", "--dir", dir]].concat();
    let stdout = interrupted(&args, "measuring live rest");
    assert!(stdout.contains("| live rest") && stdout.contains("| interrupted"), "{stdout}");
    assert_eq!((fs::read_dir(folder.path()).unwrap().count(), processes_with(dir)), (0, 0));
}
