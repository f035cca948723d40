//! The profiler as a program: what it refuses and how, what it writes, and that it leaves nothing behind.

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Command, Output},
    sync::atomic::{AtomicU16, Ordering},
    thread,
    time::{Duration, Instant},
};

use serde_json::json;
use testkit::{lan::Lan, machine::NETWORKS};

use crate::common::{
    begun, drawn, ends, files_in, interrupted, ok, processes_with, read_json, refused, results,
};

/// Three ports in a row, the last of them taken as long as the listener lives. Below the range that
/// the system hands out, so that no other test gets them meanwhile.
fn third_port_taken() -> (u16, TcpListener) {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = 20_000 + u16::try_from(std::process::id() % 1000).unwrap() * 10;
    loop {
        let first = start + 3 * NEXT.fetch_add(1, Ordering::Relaxed);
        let bound: Vec<_> =
            (first..first + 3).map_while(|port| TcpListener::bind(("127.0.0.1", port)).ok()).collect();
        if let Ok([_, _, last]) = <[TcpListener; 3]>::try_from(bound) {
            return (first, last);
        }
    }
}

/// What each number may be is tested beside the plan.
#[test]
fn what_makes_no_scenario_is_refused() {
    refused(&["query", "-i", "0"], "the number of indexers must be 1 to 256, not 0");
    refused(&["query", "--ttl", "17"], "17 is not in 0..=16");
    refused(&["query", "--topology", "random", "-i", "9", "--degree", "3"], "the product must be even");
    refused(&["query", "-i", "2", "--port", "65535"], "no ports past 65535");
    refused(&["query", "--idle", "1"], "give --processes");
    refused(&["matrix", "-n", "0"], "the number of requests must be 1 to");
    refused(&["index", "--names", "5"], "100..=1000000");
}

#[test]
fn what_cannot_be_written_is_refused_before_anything_runs() {
    let (folder, file) = testkit::temp_path("file");
    fs::write(&file, "mine").unwrap();
    let inside = file.join("plots");
    refused(&["query", "--plot", "/proc/plots"], "cannot use the plot folder /proc/plots");
    refused(&["query", "--plot", inside.to_str().unwrap()], "cannot use the plot folder");
    refused(&["query", "--json", "/nowhere/at/all.json"], "cannot write /nowhere/at/all.json");
    refused(&["query", "--csv", folder.path().to_str().unwrap()], "cannot write");
    refused(&["matrix", "--plot", "/proc/plots"], "cannot use the plot folder");
    refused(&["index", "--json", "/nowhere/at/all.json"], "cannot write");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_port_in_use_ends_it_without_leftovers() {
    let (first, _taken) = third_port_taken();
    let (folder, plots) = testkit::temp_path("made/for/plots");
    for how in ["--processes", "--layout=shared"] {
        let port = first.to_string();
        let args = ["query", "-i", "3", "--port", &port, how, "--plot", plots.to_str().unwrap()];
        refused(&args, &format!("cannot listen on 127.0.0.1:{}", first + 2));
        assert_eq!(processes_with(&format!("127.0.0.1:{first}")), 0, "{how}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{how}");
    }
}

#[test]
fn a_cluster_that_cannot_start_is_said_so() {
    let limited = format!("ulimit -n 40; exec {} query -i 10 --layout one", env!("CARGO_BIN_EXE_profile"));
    let Output { status, stderr, .. } = Command::new("sh").args(["-c", &limited]).output().unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("the cluster of 10/1/1 did not start"), "{stderr}");
}

#[test]
fn a_query_run_writes_all_that_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let [json, csv, plots] = ["out.json", "out.csv", "plots"].map(|name| folder.path().join(name));
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let args = "query --routing flood -i 3 -c 2 -q 1 -n 25 --warm-up 5 --miss 0.5 --seed 3".split(' ');
    let written = ["--json", &text(&json), "--csv", &text(&csv), "--plot", &text(&plots)];
    let stdout = ok(&args.chain(written).collect::<Vec<_>>());
    assert!(stdout.contains("50 answers") && stdout.contains("0 wrong"), "{stdout}");
    let json = read_json(&json);
    let keys = "scenario indexers clients ttl topology requests hits_wrong errors mean_us p50_us p90_us p99_us max_us \
                queries_per_s messages_per_query floor_us rss_mib seed commit machine errors_by_kind percentiles_us";
    for key in keys.split_whitespace() {
        assert!(!json[key].is_null(), "{key} is missing in {json}");
    }
    let exact = ["scenario", "ttl", "requests", "hits_wrong", "messages_per_query"].map(|key| &json[key]);
    assert_eq!(json!(exact), json!(["3/2/1", 1, 50, 0, 2.0]));
    assert_eq!(fs::read_to_string(&csv).unwrap().lines().count(), 51);
    let pictures = ["histogram.png", "histogram.svg", "scatter.png", "scatter.svg"];
    assert_eq!(files_in(&plots), pictures.map(|kind| format!("query-3-2-1-{kind}")));
}

#[test]
fn processes_serve_a_run_and_are_gone_after_it() {
    for layout in [&["--processes", "--idle", "1"][..], &["--layout", "split"], &["--layout", "one"]] {
        let args =
            [&["query", "-i", "3", "-c", "2", "-n", "20", "--warm-up", "2", "--insecure"], layout].concat();
        let report = ok(&args);
        assert!(report.contains("40 answers"));
        assert_eq!(report.contains("directed links"), layout.contains(&"--idle"), "{report}");
    }
    let (first, taken) = third_port_taken();
    drop(taken);
    let port = first.to_string();
    ok(&["query", "-i", "2", "-n", "5", "--processes", "--port", &port]);
    assert_eq!(processes_with(&format!("127.0.0.1:{first}")), 0);
}

/// A run that would last for hours.
const ENDLESS: [&str; 10] = ["query", "-i", "2", "-c", "2", "-n", "5000000", "--warm-up", "0", "--insecure"];

#[test]
fn an_interrupted_run_prints_what_was_measured() {
    let (folder, path) = testkit::temp_path("out.json");
    let (first, taken) = third_port_taken();
    drop(taken);
    let port = first.to_string();
    let more = ["--processes", "--json", path.to_str().unwrap(), "--port", &port];
    let stdout = interrupted(&[&ENDLESS[..], &more].concat(), "measuring 2/2/1");
    assert!(stdout.contains("interrupted: 10000000 requests were meant"), "{stdout}");
    assert_eq!(processes_with(&format!("127.0.0.1:{first}")), 0);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let json = read_json(&path);
    assert_eq!((&json["interrupted"], &json["hits_wrong"]), (&json!(true), &json!(0)));
    assert!(json["requests"].as_u64().unwrap() >= 2);
}

#[test]
fn an_interrupted_matrix_keeps_its_rows() {
    let (_folder, path) = testkit::temp_path("out.json");
    let json = path.to_str().unwrap();
    let args = ["matrix", "-n", "20", "--warm-up", "0", "--insecure", "--json", json];
    let stdout = interrupted(&args, "measuring 10/1/1");
    let json = read_json(&path);
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(json["interrupted"], true);
    assert!((3..9).contains(&rows.len()), "{stdout}");
    assert_eq!((&rows[0]["scenario"], &rows[2]["scenario"]), (&json!("1/1/0"), &json!("10/1/1")));
}

#[test]
fn processes_end_when_whoever_started_them_is_killed() {
    let (first, taken) = third_port_taken();
    drop(taken);
    let port = first.to_string();
    let running = begun(&[&ENDLESS[..], &["--processes", "--port", &port]].concat(), "measuring 2/2/1");
    let text = format!("--listen=127.0.0.1:{first}");
    assert_eq!(processes_with(&text), 1);
    running.kill();
    let deadline = Instant::now() + Duration::from_secs(30);
    while processes_with(&text) > 0 {
        assert!(Instant::now() < deadline, "a process of the cluster is still there");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_made_up_regression_fails_the_comparison() {
    let folder = tempfile::tempdir().unwrap();
    let [before, after] = ["before.json", "after.json"].map(|name| folder.path().join(name));
    let [b, a] = [&before, &after].map(|path| path.to_str().unwrap());
    ok(&["query", "-i", "1", "-q", "0", "-n", "50", "--json", b]);
    ok(&["compare", b, b]);
    let mut result = read_json(&before);
    result["p50_us"] = json!(result["p50_us"].as_f64().unwrap() * 1.5);
    fs::write(&after, result.to_string()).unwrap();
    let (code, stdout, _) = ends(&["compare", b, a]);
    assert_eq!(code, 1, "{stdout}");
    assert!(stdout.contains("p50_us") && stdout.contains("worse"), "{stdout}");
    ok(&["compare", b, a, "--tolerance", "0.6"]);
    ok(&["compare", a, b]);
    fs::write(&after, "{").unwrap();
    refused(&["compare", b, a], "cannot read the result");
    refused(&["compare", b, "/nowhere"], "cannot read the result /nowhere");
    refused(&["compare", b, b, "--tolerance=-1"], "the tolerance is a share");
}

#[test]
fn the_matrix_has_all_its_rows_right() {
    let (stdout, json, plots) = drawn(&["matrix", "-n", "4", "--warm-up", "1", "--insecure"]);
    let is_row = |line: &&str| line.starts_with("| 10/") || line.starts_with("| 1/");
    assert_eq!(stdout.lines().filter(is_row).count(), 9);
    let rows = json["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["hits_wrong"] == 0 && row["errors"] == 0));
    assert_eq!(rows.last().unwrap()["scenario"], "10/30/7");
    assert_eq!(fs::read_dir(&plots).unwrap().count(), 9 * 4 + 4);
    let result = plots.path().join("result");
    fs::write(&result, json.to_string()).unwrap();
    let result = result.to_str().unwrap();
    ok(&["compare", result, result]);
}

#[test]
fn one_indexer_is_measured_and_its_answers_checked() {
    let args = "index --names 300,1000 --depths 1,8 --batches 10,100 --lookups 200 --leave 500 --threads 2 --insecure";
    let (stdout, json) = results(&args.split(' ').collect::<Vec<_>>());
    assert!(stdout.contains("| 1000 |") && stdout.contains("lookup, hit, 1 in flight"), "{stdout}");
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2 * 4 + 2 * 2 + 2 * 4 + 2 + 2 * 8);
    assert!(rows.iter().all(|row| row["per_s"].as_f64().unwrap() > 0.0));
}

#[test]
fn all_goals_stand_beside_what_is_measured() {
    // Few clients: a thousand make a slow machine late, which is an error where it is measured.
    let args = "goals -n 2 --mesh 20 --names 200,300 --connections 20 --clients 30 --leave 300";
    let (stdout, json) = results(&args.split(' ').collect::<Vec<_>>());
    assert!(stdout.contains("| 10/1/1, messages for a hit, flood | 9.00 | 9.00 | reached |"), "{stdout}");
    let rows = json["rows"].as_array().unwrap();
    assert!(rows.len() == 29 && rows.iter().all(|row| row["all_right"] == true), "{stdout}");
    // What is named as the command is one, and measures that goal.
    let command = rows[0]["command"].as_str().unwrap().strip_prefix("profile ").unwrap();
    ok(&command.split(' ').collect::<Vec<_>>());
}

#[test]
fn many_connections_are_all_served() {
    let args = ["connections", "-n", "40", "--active", "5", "--lookups", "20"];
    for security in [&[][..], &["--insecure"]] {
        let (stdout, json) = results(&[&args[..], security].concat());
        assert!(stdout.contains("40 connections") && stdout.contains("| each of 40 once | 40 |"), "{stdout}");
        let times: Vec<u64> =
            json["rows"].as_array().unwrap().iter().map(|row| row["times"].as_u64().unwrap()).collect();
        assert_eq!((json["connections"].as_u64(), times), (Some(40), vec![100, 100, 40]));
    }
}

#[test]
fn floors_of_every_layout_are_shown() {
    let stdout = ok(&["floor"]);
    for layout in ["no runtime", "one", "shared", "split", "cores", "processes"] {
        assert!(stdout.contains(&format!("| {layout}")), "{stdout}");
    }
}

/// A get of 1 KB has to wait six times at least: for TCP, TLS and the answer, of the indexer and then of the origin.
#[test]
fn journeys_over_a_far_link_are_counted_in_round_trips() {
    refused(&["far", "--loss", "100"], "--loss is from 0 to less than 100 percent");
    if NETWORKS.or_left_out(Lan::of([&[1]]).ok_or("there are none")).is_none() {
        return;
    }
    let (_folder, csv) = testkit::temp_path("packets.csv");
    let sizes = "far --rtt 5 --size 2MiB --files 20 --readers 2 --rounds 1 --goals --csv";
    let sizes: Vec<&str> = sizes.split(' ').chain(csv.to_str()).collect();
    let (stdout, json, plots) = drawn(&sizes);
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows[1]["scenario"], "get of 1 KB");
    assert!((6..60).contains(&rows[1]["flights"].as_u64().unwrap()), "{stdout}");
    assert!(rows[1]["took_s"].as_f64().unwrap() >= 6.0 * 0.005 && stdout.contains("| readers |"), "{stdout}");
    assert_eq!(files_in(plots.path()), ["far.png", "far.svg"]);
    assert!(fs::read_to_string(csv).unwrap().lines().count() > 100);
}

#[test]
fn instructions_are_counted_of_release_builds_only() {
    refused(&["instructions", "--recorded", "/nowhere"], "cannot read the recorded numbers in /nowhere");
    if cfg!(debug_assertions) {
        refused(&["instructions", "--recorded", "instructions.json"], "release builds");
    }
}
