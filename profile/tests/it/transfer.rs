//! Transfers between real processes: what is refused, what comes out, and that nothing is left behind.

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::common::{begun, ended, ok, processes_with, read_json, refused};

/// Nothing of a run with its files in `dir` is left.
fn nothing_left(dir: &Path) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while processes_with(dir.to_str().unwrap()) > 0 || fs::read_dir(dir).unwrap().count() > 0 {
        let left: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        let processes = processes_with(dir.to_str().unwrap());
        assert!(Instant::now() < deadline, "still there: {left:?} and {processes} processes");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_makes_no_transfer_is_refused() {
    let refused = |args: &[&str], says| refused(&[&["transfer"], args].concat(), says);
    refused(&["--size", "5x"], "'5x' is no number of bytes");
    refused(&["--size", "2TiB"], "a file has at most 1 TiB");
    refused(&["--size", "1TiB", "--dir", "/tmp"], "the files need");
    refused(&["--sources", "0"], "the number of sources must be 1 to 16, not 0");
    refused(&["--sources", "17"], "the number of sources must be 1 to 16, not 17");
    refused(&["--readers", "65"], "the number of readers must be 1 to 64, not 65");
    refused(&["--rounds", "0"], "the number of rounds must be 1 to");
    refused(&["--corrupt", "1"], "give --sources 2 or more");
    refused(&["--corrupt", "101", "--sources", "2"], "'101' is no share");
    refused(&["--cap-up", "fast"], "'fast' is no rate");
    refused(&["--change", "1", "--size", "1KiB"], "less than a byte at each of 20 places");
    refused(&["--change", "1", "--sources", "2"], "give --sources 1");
    refused(&["--by-news"], "give --change");
    refused(&["--files", "0"], "the number of files must be 1 to");
    refused(&["--file-bytes", "10KiB-1KiB", "--files", "1"], "is no range of bytes");
    refused(&["--share", "--readers", "2"], "cannot be used with");
    refused(&["--goals", "--readers", "2"], "cannot be used with");
}

#[test]
fn what_cannot_be_written_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    refused(&["transfer", "--dir", "/nowhere"], "cannot use the folder /nowhere");
    let nowhere = "/nowhere/at/all.json";
    refused(&["transfer", "--dir", dir, "--json", nowhere], &format!("cannot write {nowhere}"));
    refused(&["transfer", "--dir", dir, "--goals", "--json", dir], "cannot write");
    refused(&["transfer", "--dir", dir, "--plot", "/proc/plots"], "cannot use the plot folder");
    nothing_left(folder.path());
}

#[test]
fn two_readers_get_a_file_of_which_one_source_corrupts_chunks() {
    let [folder, out] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [json, csv, plots] = ["out.json", "out.csv", "plots"].map(|name| out.path().join(name));
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (dir, json_text, csv_text, plots_text) = (text(folder.path()), text(&json), text(&csv), text(&plots));
    let args = ["transfer", "--size", "48MiB", "--sources", "2", "--readers", "2", "--corrupt", "50"];
    let more =
        ["--rounds", "2", "--dir", &dir, "--json", &json_text, "--csv", &csv_text, "--plot", &plots_text];
    let stdout = ok(&[&args[..], &more].concat());
    nothing_left(folder.path());
    assert!(stdout.contains("until the last reader is done, s") && stdout.contains("banned"), "{stdout}");
    let result = read_json(&json);
    let row = &result["rows"][0];
    let is = ["sources", "readers", "size_bytes", "wrong", "errors", "banned"].map(|key| &row[key]);
    assert_eq!(json!(is), json!([2, 2, 48 << 20, 0, 0, 1.0]), "{row}");
    let keys = "scenario command security corrupt_percent wall_s first_s mb_per_s floor_tcp_s floor_copy_s \
                floor_read_write_s ratio_tcp ratio_copy ratio_read_write cpu_s_per_gib_sender \
                cpu_s_per_gib_receiver peak_mib_sender peak_mib_receiver origin_copies moved_copies moved_mib \
                extra_percent seed";
    for key in keys.split_whitespace() {
        assert!(!row[key].is_null(), "{key} is missing in {row}");
    }
    let rounds = row["rounds"].as_array().unwrap();
    assert_eq!((rounds.len(), rounds[0]["took_s"].as_array().unwrap().len()), (2, 2));
    let nodes: Vec<&str> =
        rounds[1]["nodes"].as_array().unwrap().iter().map(|node| node["node"].as_str().unwrap()).collect();
    assert_eq!(nodes, ["origin", "reader 1", "reader 2"]);
    assert!(rounds[1]["nodes"][1]["cpu_s"].as_f64().unwrap() > 0.0);
    assert_eq!(fs::read_to_string(&csv).unwrap().lines().count(), 3);
    assert!(ok(&["compare", &json_text, &json_text]).contains("ratio_tcp"));
    assert_eq!(fs::read_dir(&plots).unwrap().count(), 4);
}

#[test]
fn every_kind_of_transfer_arrives() {
    let [folder, out] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let json = out.path().join("out.json");
    let measured = |args: &[&str]| {
        let to = ["--dir", folder.path().to_str().unwrap(), "--json", json.to_str().unwrap()];
        ok(&[&["transfer", "--rounds", "1", "--insecure"], args, &to].concat());
        nothing_left(folder.path());
        read_json(&json)["rows"].clone()
    };
    for how in ["in-place", "insert"] {
        let rows = measured(&["--size", "8MiB", "--change", "1", "--places", "2", "--how", how]);
        let moved = rows[0]["moved_percent"].as_f64().unwrap();
        assert!((0.1..30.0).contains(&moved), "{rows}");
    }
    let rows = measured(&["--size", "8MiB", "--change", "1", "--places", "2", "--by-news", "--readers", "2"]);
    let figure = |key: &str| rows[0][key].as_f64().unwrap_or_else(|| panic!("{key}: {rows}"));
    assert!((0.1..30.0).contains(&figure("moved_percent")) && figure("wrong") < 0.5, "{rows}");
    assert!(figure("ratio_copies") > 0.0 && figure("wall_s") > figure("share_s"), "{rows}");
    let rows = measured(&["--files", "40", "--file-bytes", "1B-2KiB"]);
    assert!(rows[0]["files_fetched_per_s"].as_f64().unwrap() > 0.0, "{rows}");
    assert!(rows[0]["files_shared_per_s"].as_f64().unwrap() > 0.0, "{rows}");
    assert_eq!(rows[0]["extra_percent"], 0.0);
    let rows = measured(&["--share", "--size", "1MiB,2MiB"]);
    assert!(rows[1]["share_s"].as_f64().unwrap() > 0.0 && rows[1]["wall_s"].is_null(), "{rows}");
    let rows = measured(&["--sparse", "--size", "9MiB", "--sources", "3", "--cap-up", "900MB"]);
    assert_eq!((&rows[0]["sparse"], &rows[0]["cap_up_bytes_per_s"]), (&json!(true), &json!(900_000_000)));
}

#[test]
fn all_goals_stand_beside_what_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let stdout =
        ok(&["transfer", "--goals", "--size", "1MiB", "--files", "20", "--rounds", "1", "--dir", dir]);
    nothing_left(folder.path());
    assert_eq!(stdout.lines().filter(|line| line.contains("`profile transfer")).count(), 18, "{stdout}");
    assert!(!stdout.contains("NaN") && !stdout.contains("wrong"), "{stdout}");
}

#[test]
fn an_interrupted_run_keeps_its_rounds_and_a_killed_one_leaves_nothing() {
    for signal in ["INT", "KILL"] {
        let folder = tempfile::tempdir().unwrap();
        let out = tempfile::tempdir().unwrap();
        let (dir, json) = (folder.path().to_str().unwrap(), out.path().join("out.json"));
        let endless = ["transfer", "--size", "1MiB", "--rounds", "1000", "--dir", dir];
        let args = [&endless[..], &["--json", json.to_str().unwrap()]].concat();
        let child = begun(&args, "measuring 1 MiB");
        // A round has begun.
        let has_reader = || {
            let runs = fs::read_dir(dir).unwrap().filter_map(Result::ok);
            runs.map(|run| run.path().join("reader-1")).any(|reader| reader.exists())
        };
        let deadline = Instant::now() + Duration::from_secs(30);
        while !has_reader() {
            assert!(Instant::now() < deadline, "no reader was started");
            thread::sleep(Duration::from_millis(2));
        }
        child.signal(signal);
        let (stdout, code) = ended(child);
        nothing_left(folder.path());
        if signal == "INT" {
            assert_eq!(code, Some(3), "{stdout}");
            assert!(stdout.contains("interrupted: rounds are missing"), "{stdout}");
            let result = read_json(&json);
            assert_eq!((&result["interrupted"], &result["rows"][0]["wrong"]), (&json!(true), &json!(0)));
        }
    }
}
