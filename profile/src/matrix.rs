//! The whole table of scenarios in one run.

use crate::measure::{COLUMNS, Measured, measure};
use crate::plot::{Picture, curves::scaling, queries};
use crate::report::{Report, Section, machine};
use crate::{cluster::deployment::Deployment, outcome::Fault, plan::scenario::Scenario};

/// Indexers, clients, TTL of each row: those of the forerunner's report, and beyond.
pub(crate) const ROWS: [(usize, usize, u8); 9] = [
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
pub(crate) struct Matrix {
    pub(crate) rows: Vec<Measured>,
    /// It was ended early: rows are missing, or the last is not whole.
    pub(crate) interrupted: bool,
    /// What kept the next row from being measured.
    pub(crate) fault: Option<Fault>,
}

/// Runs every row on `deployment`, each a variation of `base`; ends early when stopped.
pub(crate) async fn run(base: &Scenario, deployment: &Deployment) -> Result<Matrix, Fault> {
    let mut rows = Vec::new();
    let mut fault = None;
    for (indexers, clients, ttl_hops) in ROWS {
        let scenario = Scenario { indexers, clients, ttl_hops, ..base.clone() };
        match measure(&scenario, deployment).await {
            Ok(row) => rows.push(row),
            Err(first) if rows.is_empty() => return Err(first),
            Err(_) if deployment.watch.is_stopped() => {} // it was kept from beginning
            Err(later) => fault = Some(later),
        }
        if deployment.watch.is_stopped() || fault.is_some() {
            break;
        }
    }
    let is_whole = rows.len() == ROWS.len() && rows.iter().all(|row| !row.samples.interrupted);
    Ok(Matrix { interrupted: deployment.watch.is_stopped() && !is_whole, rows, fault })
}

impl Matrix {
    pub(crate) fn report(&self) -> Report {
        let setting = self.rows.first().map(Measured::setting).unwrap_or_default();
        let (head, rows) =
            (format!("{setting}, {}", machine::in_words()), self.rows.iter().map(Measured::row));
        let sections = vec![Section::new("", COLUMNS, rows.collect())];
        let report = Report { kind: Some("matrix"), head, sections, ..Report::default() };
        report.ended(self.interrupted, &format!("interrupted: {} whole rows were meant", ROWS.len()), None)
    }
}

/// Scatter and histogram of each row, and how they scale over clients and over hops.
pub(crate) fn pictures(rows: &[Measured]) -> Vec<(String, Picture)> {
    let clients = scaling(rows, "10 indexers, TTL 1: by number of clients", "clients", |row| {
        let Scenario { indexers, clients, ttl_hops, .. } = row.scenario;
        (indexers == 10 && ttl_hops == 1).then_some(clients)
    });
    let hops = scaling(rows, "10 indexers, 30 clients: by TTL", "TTL (hops)", |row| {
        let Scenario { indexers, clients, ttl_hops, .. } = row.scenario;
        (indexers == 10 && clients == 30).then_some(usize::from(ttl_hops))
    });
    let of_all = [("scaling-clients", clients), ("scaling-ttl", hops)];
    let of_all = of_all.into_iter().filter_map(|(name, picture)| Some((name.to_owned(), picture?)));
    rows.iter().flat_map(queries::pictures).chain(of_all).collect()
}
