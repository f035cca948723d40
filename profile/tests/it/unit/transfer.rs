//! Tests of `transfer/case.rs`, `transfer/figures.rs` and `transfer/goals.rs`.

use std::num::NonZeroU64;

use profile::node::{Moment, Sent, usage::Usage};
use profile::report::{Report, write_csv};
use profile::run::files::{Bulk, Change, How};
use profile::scenarios::transfer::goals::cases;
use profile::scenarios::transfer::{case::*, figures::*, floor::Floors};
use serde_json::json;

#[test]
fn a_scenario_names_its_command() {
    let cap = NonZeroU64::new(50_000_000);
    let many = Case { sources: 4, readers: 2, cap_up: cap, corrupt: Some(1.0), ..Case::whole(1 << 30) };
    let command = "profile transfer --size 1GiB --sources 4 --readers 2 --corrupt 1 --cap-up 50MB";
    assert_eq!(many.command(), command);
    assert_eq!(many.slug(), "1-gib-4-sources-2-readers-one-of-them-corrupts-1-percent-50mb-s-up");
    let change = Change { percent: 1.0, places: 20, how: How::InPlace };
    let changed = Case { what: What::Change(Bulk { size: 1 << 20, sparse: false }, change), ..many.clone() };
    assert!(changed.command().contains("--change 1 --places 20 --how in-place"), "{}", changed.command());
    assert_eq!(many.disk_bytes(), (1 << 30) * (1 + 2 + 2));
}

/// Two readers of a file of 1 GiB, from the origin and a liar.
fn round() -> Round {
    let source = |source: &str, bytes, banned| Sent { source: source.to_owned(), bytes, banned };
    let usage =
        |cpu_s, mib: u64| Usage { cpu_s, peak_bytes: Some(mib << 20), memory: vec![(100.0, mib << 20)] };
    let moments = vec![
        Moment { at_s: 100.0, bytes: vec![("origin".to_owned(), 0)] },
        Moment { at_s: 101.0, bytes: vec![("origin".to_owned(), 1 << 30)] },
    ];
    Round {
        began_s: 100.0,
        took_s: vec![1.0, 2.0],
        files: 1,
        wanted_bytes: 2 << 30,
        floors: Some(Floors { tcp_s: 0.5, copy_s: 0.25, read_write_s: 0.4 }),
        sources: vec![source(ORIGIN, 3 << 29, false), source("hostile", 1 << 30, true)],
        senders: vec![("origin".to_owned(), usage(1.0, 30))],
        readers: vec![("reader 1".to_owned(), usage(2.0, 40)), ("reader 2".to_owned(), usage(2.0, 50))],
        moments: vec![moments],
        ..Round::default()
    }
}

#[test]
fn figures_of_a_known_round_are_known() {
    let case = Case { readers: 2, rounds: 1, ..Case::whole(1 << 30) };
    let row = Rounds { case, rounds: vec![round()] };
    for (key, should) in [
        ("wall_s", 2.0),
        ("first_s", 1.0),
        ("ratio_tcp", 4.0),
        ("ratio_copy", 8.0),
        ("cpu_s_per_gib_sender", 0.5),
        ("cpu_s_per_gib_receiver", 2.0),
        ("peak_mib_receiver", 50.0),
        ("origin_copies", 1.5),
        ("moved_copies", 2.5),
        ("extra_percent", 25.0),
        ("banned", 1.0),
    ] {
        assert_eq!(row.median(key), Some(should), "{key}");
    }
    assert_eq!((row.median("moved_percent"), row.median("share_s")), (None, None));
    assert!(row.is_all_well());
    let sent = Sent { source: UNKNOWN.to_owned(), ..round().sources.remove(1) };
    let untold = Round { sources: vec![sent], ..round() };
    let row = Rounds { rounds: vec![untold], ..row };
    assert_eq!((row.median("origin_copies"), row.median("moved_copies")), (None, Some(1.0)));
}

#[test]
fn a_wrong_or_missing_file_is_not_well() {
    let row = |change: fn(&mut Round), rounds| {
        let mut one = round();
        change(&mut one);
        Rounds { case: Case { rounds, ..Case::whole(1 << 30) }, rounds: vec![one] }
    };
    assert!(row(|_| {}, 1).is_all_well());
    assert!(!row(|_| {}, 2).is_all_well(), "a round is missing");
    assert!(!row(|round| round.wrong = 1, 1).is_all_well());
    let failed = row(|round| round.errors.push("no source".to_owned()), 1);
    assert!(!failed.is_all_well() && failed.is_right());
}

fn transfers() -> Report {
    let case = Case { readers: 2, rounds: 1, ..Case::whole(1 << 30) };
    report(vec![Rounds { case, rounds: vec![round()] }], "files in /tmp (ext4)", false)
}

#[test]
fn columns_of_the_table_are_aligned() {
    let table = transfers().text();
    let lines: Vec<&str> = table.lines().filter(|line| line.starts_with('|')).collect();
    assert!(lines.iter().all(|line| line.chars().count() == lines[0].chars().count()), "{table}");
    assert!(table.contains("hostile 1024.0 MiB, banned"), "{table}");
    assert!(!table.contains("sharing"), "what is not measured is not shown: {table}");
}

#[test]
fn results_for_machines_have_scenario_and_rounds() {
    let json = transfers().json();
    let row = &json["rows"][0];
    assert_eq!((&row["ratio_tcp"], &row["readers"]), (&json!(4.0), &json!(2)));
    assert_eq!(row["rounds"][0]["by_source"][1]["banned"], true);
    let (mut csv, (keys, rows)) = (Vec::new(), transfers().csv.unwrap());
    write_csv(&mut csv, &keys, rows).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    let columns: Vec<usize> = csv.replace(", ", " ").lines().map(|line| line.split(',').count()).collect();
    assert_eq!(columns, [3 + 26; 2]);
}

#[test]
fn every_goal_can_be_measured_also_when_it_is_small() {
    for size in [1 << 20, 1 << 30] {
        let small = Case { what: What::Files { count: 10, bytes: (1, 10) }, ..Case::whole(size) };
        let all = cases(&[Case::whole(size), small]);
        assert_eq!(all.len(), 11);
        all.iter().for_each(|case| case.check().unwrap());
    }
}
