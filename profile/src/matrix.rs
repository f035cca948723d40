//! The whole table of scenarios in one run.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
};

use serde_json::{Value, json};

use crate::{
    cluster::node::Place,
    commands::outcome::Fault,
    measure::{Measured, measure},
    plan::scenario::Scenario,
    plot::{self, Scaling},
    report::{MARKDOWN_HEAD, machine},
    run::Watch,
};

/// Indexers, clients, TTL of each row: those of the forerunner's report, and beyond.
pub const ROWS: [(usize, usize, u8); 9] = [
    (1, 1, 0),
    (1, 10, 0),
    (10, 1, 1),
    (10, 5, 1),
    (10, 10, 1),
    (10, 30, 1),
    (10, 30, 2),
    (10, 30, 3),
    (10, 30, 7),
];

/// Runs every row on `place`, each a variation of `base`; ends early when stopped, with the rows
/// that came to an end.
///
/// # Errors
/// A row cannot begin, or nothing was measured.
pub async fn run(base: &Scenario, place: &Place, watch: &Arc<Watch>) -> Result<Vec<Measured>, Fault> {
    let mut rows = Vec::new();
    for (indexers, clients, ttl_hops) in ROWS {
        let scenario = Scenario { indexers, clients, ttl_hops, ..base.clone() };
        rows.push(measure(&scenario, place, watch).await?);
        if watch.stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(rows)
}

/// The table in Markdown.
#[must_use]
pub fn markdown(rows: &[Measured]) -> String {
    let lines = rows.iter().map(Measured::markdown_row);
    [MARKDOWN_HEAD.to_owned()].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
}

/// The results of all rows.
#[must_use]
pub fn json(rows: &[Measured]) -> Value {
    let rows: Vec<Value> = rows.iter().map(|row| Value::Object(row.row_json())).collect();
    json!({ "kind": "matrix", "commit": machine::COMMIT, "machine": machine::describe(), "rows": rows })
}

/// Draws scatter and histogram of each row, and how they scale over clients and over hops.
///
/// # Errors
/// A file cannot be written.
pub fn draw(folder: &Path, rows: &[Measured]) -> anyhow::Result<Vec<PathBuf>> {
    let mut written = Vec::new();
    for row in rows {
        written.extend(plot::draw_measured(folder, row)?);
    }
    let clients =
        Scaling::of(rows, "10 indexers, TTL 1: by number of clients".to_owned(), "clients", |row| {
            let Scenario { indexers, clients, ttl_hops, .. } = row.scenario;
            (indexers == 10 && ttl_hops == 1).then(|| f64::from(u32::try_from(clients).unwrap_or(u32::MAX)))
        });
    let hops = Scaling::of(rows, "10 indexers, 30 clients: by TTL".to_owned(), "TTL (hops)", |row| {
        let Scenario { indexers, clients, ttl_hops, .. } = row.scenario;
        (indexers == 10 && clients == 30).then(|| f64::from(ttl_hops))
    });
    for (name, scaling) in [("scaling-clients", clients), ("scaling-ttl", hops)] {
        if let Some(scaling) = scaling {
            written.extend(plot::save(folder, name, &scaling)?);
        }
    }
    Ok(written)
}
