//! Attacks and long runs, for seconds: what they measure, write and say. Whether a figure is good depends on the
//! machine, and is no part of these tests.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::Path,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::common::{ends, ok, profile, read_json, refused};

fn files_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn attacks_that_do_not_exist_are_refused() {
    refused(&["hostile", "--attack", "kindness"], "no attack is called kindness; there are silent, slow");
    refused(&["hostile", "--seconds", "0"], "0 is not in 1..=600");
    refused(&["soak", "--json", "/nowhere/at/all.json"], "cannot write");
}

#[test]
fn attacks_on_queries_and_on_downloads_are_measured_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let [json, plots] = ["out.json", "plots"].map(|name| folder.path().join(name));
    let [json_path, plots_path] = [&json, &plots].map(|path| path.to_str().unwrap());
    let args = ["hostile", "--attack", "replay,slow-readers", "--seconds", "2", "--insecure"];
    let stdout = ok(&[&args[..], &["--json", json_path, "--plot", plots_path]].concat());
    assert!(stdout.contains("| replay |") && stdout.contains("| slow-readers |"), "{stdout}");
    let json = read_json(&json);
    assert_eq!(json["kind"], "hostile");
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| &row["scenario"]).collect::<Vec<_>>(), ["replay", "slow-readers"]);
    for row in rows {
        for phase in ["before", "during", "after"] {
            assert!(row[phase]["asked"].as_u64().unwrap() > 0, "{phase}: {row}");
        }
        assert_eq!(row["before"]["wrong"], 0, "{row}");
        assert!(row["peak_mib"].as_f64().unwrap() > 1.0, "{row}");
        assert_eq!(row["held"], json!(row["missed"].as_array().unwrap().is_empty()), "{row}");
    }
    assert_eq!(files_in(&plots), ["hostile.png", "hostile.svg"]);
}

#[test]
fn attacks_are_held_against_goals() {
    let stdout = ok(&["hostile", "--attack", "names", "--seconds", "2", "--insecure", "--goals"]);
    for goal in ["names: p99, ms", "names: memory peak, MiB", "names: recovered after, s", "names: wrong"] {
        assert!(stdout.contains(goal), "{stdout}");
    }
}

#[test]
fn a_short_soak_checks_all_answers_and_shows_what_processes_take() {
    let folder = tempfile::tempdir().unwrap();
    let [json, plots] = ["out.json", "plots"].map(|name| folder.path().join(name));
    let [json_path, plots_path] = [&json, &plots].map(|path| path.to_str().unwrap());
    let args = ["soak", "--minutes", "0.1", "--rate", "8", "--json", json_path, "--plot", plots_path];
    let (code, stdout, stderr) = ends(&args);
    // Within seconds memory may still grow: that is said, and is 3.
    assert!(code == 0 || code == 3 && stdout.contains("**grows**"), "{code}: {stdout}{stderr}");
    assert!(stdout.contains("downloads: 0 failed") && stdout.contains("0 wrong"), "{stdout}");
    let json = read_json(&json);
    let labels: Vec<&Value> = json["taken"].as_array().unwrap().iter().map(|taken| &taken[0]).collect();
    assert_eq!(labels, ["indexer 0", "indexer 1", "indexer 2", "seeder", "keeper"]);
    assert_eq!(json["rows"].as_array().unwrap().len(), 5 * 3);
    assert_eq!((&json["faults"], &json["answers"]["wrong"]), (&json!([]), &json!(0)));
    assert_eq!(files_in(&plots), ["soak.png", "soak.svg"]);
}

#[test]
fn an_interrupted_soak_prints_what_was_measured() {
    let mut child = profile(&["soak", "--minutes", "60"]).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("soaking") {
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "{line}");
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut stdout = String::new();
    child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3), "{stdout}");
    assert!(stdout.contains("right answers to queries"), "{stdout}");
}
