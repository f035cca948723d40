//! Tests of `transfer/figures.rs`.

use profile::node::Moment;
use profile::node::Sent;
use profile::node::usage::Usage;
use profile::transfer::figures::*;
use profile::transfer::floor::Floors;
use profile::transfer::scenario::Scenario;

/// Two readers of a file of 1 GiB, from the origin and a liar.
pub(super) fn round() -> Round {
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
    let scenario = Scenario { readers: 2, rounds: 1, ..Scenario::whole(1 << 30) };
    let row = Measured { scenario, rounds: vec![round()] };
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
}

#[test]
fn a_wrong_or_missing_file_is_not_well() {
    let row = |change: fn(&mut Round), rounds| {
        let mut one = round();
        change(&mut one);
        Measured { scenario: Scenario { rounds, ..Scenario::whole(1 << 30) }, rounds: vec![one] }
    };
    assert!(row(|_| {}, 1).is_all_well());
    assert!(!row(|_| {}, 2).is_all_well(), "a round is missing");
    assert!(!row(|round| round.wrong = 1, 1).is_all_well());
    let failed = row(|round| round.errors.push("no source".to_owned()), 1);
    assert!(!failed.is_all_well() && failed.is_right());
}

#[test]
fn every_metric_has_a_key_of_its_own() {
    let mut keys: Vec<&str> = METRICS.iter().map(|(key, _)| *key).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), METRICS.len());
}
