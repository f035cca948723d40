//! The whole table of scenarios in one run.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Value, json};

use crate::{
    cluster::node::Place,
    measure::{Measured, measure},
    outcome::Fault,
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

/// The rows that were measured, and why there are no more.
#[derive(Debug)]
pub struct Matrix {
    /// In order.
    pub rows: Vec<Measured>,
    /// It was ended early: rows are missing, or the last is not whole.
    pub interrupted: bool,
    /// What kept the next row from being measured.
    pub fault: Option<Fault>,
}

/// Runs every row on `place`, each a variation of `base`; ends early when stopped.
///
/// # Errors
/// The first row cannot be measured. That a later one cannot is in the result, with the rows before.
pub async fn run(base: &Scenario, place: &Place, watch: &Arc<Watch>) -> Result<Matrix, Fault> {
    let mut rows = Vec::new();
    let mut fault = None;
    for (indexers, clients, ttl_hops) in ROWS {
        let scenario = Scenario { indexers, clients, ttl_hops, ..base.clone() };
        match measure(&scenario, place, watch).await {
            Ok(row) => rows.push(row),
            Err(first) if rows.is_empty() => return Err(first),
            Err(_) if watch.is_stopped() => {} // it was kept from beginning
            Err(later) => fault = Some(later),
        }
        if watch.is_stopped() || fault.is_some() {
            break;
        }
    }
    let is_whole = rows.len() == ROWS.len() && rows.iter().all(|row| !row.samples.interrupted);
    Ok(Matrix { interrupted: watch.is_stopped() && !is_whole, rows, fault })
}

/// The table in Markdown, and how it was measured.
#[must_use]
pub fn table(matrix: &Matrix) -> String {
    let setting = matrix.rows.first().map(Measured::setting).unwrap_or_default();
    let mut text = format!("{setting}, {}\n\n{MARKDOWN_HEAD}", machine::in_words());
    for row in &matrix.rows {
        text = text + "\n" + &row.markdown_row();
    }
    if matrix.interrupted {
        text += &format!("\ninterrupted: {} whole rows were meant", ROWS.len());
    }
    text
}

/// The results of all rows.
#[must_use]
pub fn json(matrix: &Matrix) -> Value {
    let rows: Vec<Value> = matrix.rows.iter().map(|row| Value::Object(row.row_json())).collect();
    json!({ "kind": "matrix", "commit": machine::COMMIT, "machine": machine::describe(), "interrupted": matrix.interrupted, "rows": rows })
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
