//! Attacks, relays and long runs, for seconds: what they measure, write and say. Whether a figure is good depends on the
//! machine, and is no part of these tests.

use serde_json::{Value, json};

use crate::common::{drawn, ends, files_in, interrupted, ok, read_json, refused};

#[test]
fn attacks_that_do_not_exist_are_refused() {
    refused(&["hostile", "--attack", "kindness"], "no attack is called kindness; there are silent, slow");
    refused(&["hostile", "--seconds", "0"], "0 is not in 1..=600");
    refused(&["soak", "--json", "/nowhere/at/all.json"], "cannot write");
}

#[test]
fn attacks_on_queries_and_on_downloads_are_measured_and_drawn() {
    let args = ["hostile", "--attack", "late-50,slow-readers", "--seconds", "1", "--insecure"];
    let (stdout, json, plots) = drawn(&args);
    assert!(stdout.contains("| late-50 |") && stdout.contains("| slow-readers |"), "{stdout}");
    assert_eq!(json["kind"], "hostile");
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| &row["scenario"]).collect::<Vec<_>>(), ["late-50", "slow-readers"]);
    for row in rows {
        for phase in ["before", "during", "after"] {
            assert!(row[phase]["asked"].as_u64().unwrap() > 0, "{phase}: {row}");
        }
        assert_eq!(row["before"]["wrong"], 0, "{row}");
        assert!(row["peak_mib"].as_f64().unwrap() > 1.0, "{row}");
        assert_eq!(row["held"], json!(row["missed"].as_array().unwrap().is_empty()), "{row}");
    }
    assert_eq!(files_in(plots.path()), ["hostile.png", "hostile.svg"]);
}

#[test]
fn attacks_are_held_against_goals() {
    let stdout = ok(&["hostile", "--attack", "names", "--seconds", "1", "--insecure", "--goals"]);
    let goals = [
        "found p99, ms",
        "miss p99, ms",
        "search p99, ms",
        "memory peak, MiB",
        "recovered after, s",
        "wrong",
    ];
    for goal in goals.map(|goal| format!("names: {goal}")) {
        assert!(stdout.contains(&goal), "{stdout}");
    }
}

#[test]
fn a_short_soak_checks_all_answers_and_shows_what_processes_take() {
    let folder = tempfile::tempdir().unwrap();
    let [json, plots] = ["out.json", "plots"].map(|name| folder.path().join(name));
    let [json_path, plots_path] = [&json, &plots].map(|path| path.to_str().unwrap());
    let args = ["soak", "--minutes", "0.05", "--rate", "16", "--json", json_path, "--plot", plots_path];
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
fn interrupted_ones_print_what_was_measured() {
    for (args, text, said) in [
        (&["soak", "--minutes", "60"][..], "soaking", ["right answers to queries"; 2]),
        (&["relay", "--minutes", "60"], "relaying for", ["Interrupted", "Counted at each node"]),
        (
            &["pipeline", "--rates", "10", "--loopback"],
            "measuring 10 a s",
            ["Interrupted", "| 10 a second, log off "],
        ),
    ] {
        let stdout = interrupted(args, text);
        assert!(said.iter().all(|said| stdout.contains(said)), "{stdout}");
    }
}

#[test]
fn probes_go_round_as_computed_and_every_node_counts_them() {
    let args = ["relay", "--nodes", "3", "--hops", "10", "-n", "300", "--in-flight", "8", "--insecure"];
    let (stdout, json, plots) = drawn(&args);
    assert!(stdout.contains("Computed: node 2 is stop 11"), "{stdout}");
    assert!(stdout.contains("300 of 300 probes ended there"), "{stdout}");
    assert_eq!((&json["errors"], &json["dropped_at"]), (&json!(0), &json!(2)));
    let counted: Vec<[&Value; 4]> = json["rows"].as_array().unwrap()[..3]
        .iter()
        .map(|row| ["received", "forwarded", "dropped", "circles"].map(|key| &row[key]))
        .collect();
    let numbers = [[1200, 1200, 0, 900], [1200, 900, 300, 900], [900, 900, 0, 600]];
    assert_eq!(json!(counted), json!(numbers));
    assert_eq!(files_in(plots.path()), ["relay.png", "relay.svg"]);
    let drawn = std::fs::read_to_string(plots.path().join("relay.svg")).unwrap();
    for shown in
        ["probes dropped", "no hops left", "time in the node", "to the next node and back", "resident, MiB"]
    {
        assert!(drawn.contains(&format!(">\n{shown}")), "{shown}");
    }
    refused(&["relay", "--nodes", "1"], "1 is not in 2..=20");
    refused(&["relay", "--hops", "65"], "65 is not in 1..=64");
}

#[test]
fn batches_are_answered_as_the_index_in_this_process_does() {
    let args = ["batch", "--names", "500", "--batches", "1,200", "--insecure"];
    let (stdout, json, plots) = drawn(&args);
    for line in
        ["500 names, own files:", "500 names, copies, signatures checked:", "in this process, no network"]
    {
        assert!(stdout.contains(line), "{line}: {stdout}");
    }
    let rows = json["rows"].as_array().unwrap();
    let batches: Vec<&Value> = rows.iter().map(|row| &row["batch"]).filter(|batch| batch.is_u64()).collect();
    assert_eq!(json!(batches), json!([1, 200, 1, 200]));
    assert_eq!(rows[0]["times_single"], 1.0);
    assert_eq!(files_in(plots.path()), ["batch.png", "batch.svg"]);
    refused(&["batch", "--batches", "0"], "0 is not in 1..=10000");
    refused(&["batch", "--names", "5"], "5 is not in 100..=");
}

#[test]
fn messages_go_down_the_line_and_none_is_lost() {
    let plots = tempfile::tempdir().unwrap();
    for place in [&["--loopback", "--plot", plots.path().to_str().unwrap()][..], &[]] {
        let args = "pipeline -n 600 --rates 0 --logs trace --rounds 1 --versions 300".split(' ');
        let args: Vec<&str> = args.chain(place.iter().copied()).collect();
        let stdout = ok(&args);
        for line in [
            "| as many as are taken, log off ",
            "| as many as are taken, log trace ",
            "| versions announced ",
        ] {
            let line =
                stdout.lines().find(|shown| shown.starts_with(line)).unwrap_or_else(|| panic!("{stdout}"));
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            assert!(cells[4] == cells[5] && cells[7] == "0", "{line}");
        }
        assert!(stdout.contains("| node 3, as many as are taken, log trace "), "{stdout}");
    }
    assert_eq!(files_in(plots.path()), ["pipeline.png", "pipeline.svg"]);
    refused(&["pipeline", "--bytes", "1401"], "1401 is not in 1..=1400");
}
