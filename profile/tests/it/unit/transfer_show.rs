//! Tests of `transfer/show.rs`.

use super::transfer_figures::round;
use profile::transfer::figures::METRICS;
use profile::transfer::figures::Measured;
use profile::transfer::scenario::Scenario;
use profile::transfer::show::*;
use serde_json::json;

fn transfers() -> Transfers {
    let scenario = Scenario { readers: 2, rounds: 1, ..Scenario::whole(1 << 30) };
    let rows = vec![Measured { scenario, rounds: vec![round()] }];
    Transfers { rows, folder: "files in /tmp (ext4)".to_owned(), interrupted: false }
}

#[test]
fn columns_of_the_table_are_aligned() {
    let table = transfers().report().text();
    let lines: Vec<&str> = table.lines().filter(|line| line.starts_with('|')).collect();
    assert!(lines.iter().all(|line| line.chars().count() == lines[0].chars().count()), "{table}");
    assert!(table.contains("hostile 1024.0 MiB, banned"), "{table}");
    assert!(!table.contains("sharing"), "what is not measured is not shown: {table}");
}

#[test]
fn results_for_machines_have_scenario_and_rounds() {
    let json = transfers().report().json();
    let row = &json["rows"][0];
    assert_eq!((&row["ratio_tcp"], &row["readers"]), (&json!(4.0), &json!(2)));
    assert_eq!(row["rounds"][0]["by_source"][1]["banned"], true);
    let mut csv = Vec::new();
    transfers().write_csv(&mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    let columns: Vec<usize> = csv.replace(", ", " ").lines().map(|line| line.split(',').count()).collect();
    assert_eq!(columns, [3 + METRICS.len(); 2]);
}

#[test]
fn both_pictures_are_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let drawn: Vec<_> = transfers()
        .pictures()
        .iter()
        .flat_map(|(name, picture)| profile::plot::save(folder.path(), name, picture).unwrap())
        .collect();
    assert_eq!(drawn.len(), 4);
}
