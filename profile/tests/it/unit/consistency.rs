//! Tests of `consistency/`: a few seeds of each table, and that broken promises are noticed.

use std::time::Duration;

use nekoproto::{ContentHash, Freshness, Version};
use profile::report::Row;
use profile::scenarios::consistency::cells::{Cell, theory};
use profile::scenarios::consistency::log::{Fact, judge};
use profile::scenarios::consistency::{Which, interval, world::run};

/// The lines of a table for which `is_wanted`, with few seeds, simulated for three hours at most.
fn rows(which: Which, seeds: u64, is_wanted: impl Fn(&Row) -> bool) -> Vec<Row> {
    let cells = which.cells().into_iter().filter(|cell| is_wanted(&cell.about));
    let row = |mut cell: Cell| {
        cell.setting.lasts = cell.setting.lasts.min(Duration::from_secs(3 * 3600));
        which.measure(cell, 1..=seeds).unwrap().row
    };
    let rows: Vec<Row> = cells.map(row).collect();
    assert!(!rows.is_empty(), "no line is wanted");
    rows
}

fn is(row: &Row, key: &str, value: f64) -> bool {
    (row.get(key) - value).abs() < 1e-9
}

/// The first line of a table for which `is_wanted`.
fn cell(which: Which, is_wanted: impl Fn(&Row) -> bool) -> Cell {
    which.cells().into_iter().find(|cell| is_wanted(&cell.about)).unwrap()
}

#[test]
fn pushed_updates_are_seen_within_three_messages() {
    for row in rows(Which::C1, 2, |row| is(row, "readers", 3.0) && is(row, "update_s", 30.0)) {
        assert!(row.get("updates") > 90.0 && row.get("fresh_percent") > 99.0, "{row:?}");
        assert!(row.get("stale_max_s") <= 0.06 && row.get("invalid_percent") < 1.0, "{row:?}");
        assert!((row.get("messages_per_update") - 4.0).abs() < 0.2, "each reader is told once: {row:?}");
    }
}

#[test]
fn pulled_copies_are_stale_as_often_as_their_questions_are_apart() {
    for row in rows(Which::C2, 3, |row| is(row, "ttr_s", 60.0)) {
        assert!(row.get("off_asked_points").abs() < 4.0, "{row:?}");
        assert!(row.get("stale_max_s") <= 60.0, "{row:?}");
    }
    assert!((theory(1.0) - 0.367_879).abs() < 1e-6);
}

#[test]
fn hybrid_is_more_faithful_than_pull() {
    let is_lossy = |row: &Row| is(row, "loss_percent", 5.0) && is(row, "session_min", 30.0);
    let rows = rows(Which::C3, 1, is_lossy);
    let [push, pull, hybrid] = &rows[..] else { panic!("three modes") };
    assert!(hybrid.get("fidelity_percent") > 99.0 && push.get("fidelity_percent") > 98.0, "{rows:?}");
    assert!(pull.get("fidelity_percent") < 95.0, "{pull:?}");
    let is_kept = |row: &Row| row.get("violations") < 0.5 && row.get("stale_max_s") <= 120.02;
    assert!(rows.iter().all(is_kept), "{rows:?}");
}

#[test]
fn nothing_is_served_as_fresh_past_its_bound_whatever_is_cut() {
    for row in rows(Which::C4, 4, |_| true) {
        assert!(is(&row, "violations", 0.0) && row.get("updates") > 5.0, "{row:?}");
    }
}

#[test]
fn order_holds_whatever_goes_wrong() {
    for row in rows(Which::C5, 10, |_| true) {
        assert!(is(&row, "went_back", 0.0) && row.get("fresh_percent") > 10.0, "{row:?}");
        let is_forged = row.0["mishaps"] == "messages replayed and forged";
        assert_eq!(is_forged, row.get("forged") > 50.0, "{row:?}");
        assert!(is(&row, "violations", 0.0), "{row:?}");
    }
}

#[test]
fn messages_grow_with_replicas() {
    let rows = rows(Which::C6, 2, |row| is(row, "indexers", 10.0));
    let messages: Vec<f64> = rows.iter().map(|row| row.get("messages_per_update")).collect();
    assert!(messages.is_sorted(), "{messages:?}");
    assert!(messages[0] < 1.2, "without replicas, a registration alone: {messages:?}");
    // From ten replicas on, every indexer lists one: it tells the others when the first is replaced.
    let each = (messages[4] - messages[3]) / 20.0;
    assert!((each - 2.0).abs() < 0.2, "the origin, and the indexer: {each}");
}

/// Readers that ignore the bound: the judge must notice.
#[test]
fn broken_bound_is_noticed() {
    let setting = cell(Which::C4, |row| row.0["cut"] == "all").setting;
    let served = |fact| match fact {
        Fact::Read(Freshness::Unverified, replaced) => Fact::Read(Freshness::Fresh, replaced),
        fact => fact,
    };
    let log = run(&setting, 1).unwrap();
    assert_eq!(judge(&log, &setting).counts["past_bound"], 0);
    let log: Vec<Fact> = log.into_iter().map(served).collect();
    assert!(judge(&log, &setting).counts["past_bound"] > 0);
}

#[test]
fn broken_order_is_noticed() {
    let setting = cell(Which::C5, |_| true).setting;
    let held = |(version, content)| (Version::new(version).unwrap(), ContentHash::from_bytes([content; 32]));
    let counted = |downloads: &[[(u64, u8); 2]]| {
        let log: Vec<Fact> = downloads.iter().map(|versions| Fact::Downloaded(versions.map(held))).collect();
        ["went_back", "two_contents", "violations"].map(|key| judge(&log, &setting).counts[key])
    };
    assert_eq!(counted(&[[(1, 1), (2, 2)]]), [0, 0, 0]);
    assert_eq!(counted(&[[(1, 1), (2, 2)], [(1, 1), (2, 3)]]), [0, 1, 1]);
    assert_eq!(counted(&[[(2, 2), (1, 1)], [(2, 2), (2, 3)]]), [2, 0, 2]);
    assert_eq!(judge(&[Fact::Misled], &setting).counts["violations"], 1);
}

#[test]
fn seed_decides_everything() {
    let setting = cell(Which::C5, |_| true).setting;
    let [one, same, other] = [1, 1, 2].map(|seed| run(&setting, seed).unwrap());
    assert_eq!(one, same);
    assert_ne!(one, other);
}

#[test]
fn interval_is_student_s() {
    let (mean, half) = interval(&[1.0, 2.0, 3.0, 4.0, 5.0]);
    assert!((mean - 3.0).abs() < 1e-9 && (half - 1.963).abs() < 0.05, "{half}");
}
