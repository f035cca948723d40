//! What an indexer takes: a row for each timing, and how much of it is the index and how much the way to it.

use nekoproto::transport::Security;

use super::{Index, LOOKUPS_IN_FLIGHT, subject::Timing};
use crate::report::figures::P99_FROM;
use crate::scenarios::prelude::*;

/// The columns of every table of timings; those without a value are left out.
const COLUMNS: &str = "names scenario per_s p50_us p99_us first_tenth_per_s last_tenth_per_s bytes_per_name cpu_ms \
    left_after_ms p99_ratio times";

#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) options: Index,
    security: Security,
    floor: Floor,
    pub(crate) grown: Vec<Row>,
    pub(crate) depths: Vec<Row>,
    pub(crate) batches: Vec<Row>,
    /// Searches, and lookups beside them.
    pub(crate) found: Vec<Row>,
    /// By registrations of a peer that left.
    pub(crate) left: Vec<Row>,
    shares: Vec<Row>,
}

impl Tables {
    pub(crate) fn new(options: Index, security: Security, floor: Floor) -> Self {
        let (grown, depths, batches, found, left, shares) = <_>::default();
        Self { options, security, floor, grown, depths, batches, found, left, shares }
    }

    pub(crate) fn row(&self, scenario: String, timing: &Timing) -> Row {
        let row = Row::named(scenario).with("security", security_name(self.security));
        let row = row.with("per_s", timing.per_s()).with("floor_us", self.floor.raw.p50);
        row.times(&timing.figures())
    }

    pub(crate) fn share(&mut self, operation: String, timing: &Timing, index_us: f64) {
        let us = 1e6 / timing.per_s(); // for each name, all calls together
        let percent = index_us / us * 100.0;
        let row = Row::named(operation).with("us_each", us).with("index_us", index_us);
        self.shares.push(row.shares(percent));
    }

    pub(crate) fn report(self, interrupted: bool) -> Report {
        let (security, machine) = (security_name(self.security), machine::in_words());
        let process = format!("One indexer in a process of its own, one connection, {security}, {machine}.");
        let Index { names, seed, lookups, .. } = self.options;
        let names = names.first().copied().unwrap_or_default();
        let title = "Where the time goes (index: the same work in this process, without a network; IPC: all the rest):";
        let columns = "scenario us_each index_us index_percent ipc_percent";
        let shares = Section { rows: Vec::new(), ..Section::new(title, columns, self.shares) };
        let depths = format!("Lookups by calls in flight, {names} names, one name in a call:");
        let batches =
            format!("By names in a call, one registration or {LOOKUPS_IN_FLIGHT} lookups in flight:");
        Report {
            kind: Some("index"),
            head: format!("{process}\n{}", self.floor.in_words()),
            sections: vec![
                table("By number of names (registered in batches of 100, 4 calls in flight):", self.grown),
                table(&depths, self.depths),
                table(&batches, self.batches),
                table(
                    "Searches by glob one after the other, and lookups beside them, 16 in flight:",
                    self.found,
                ),
                table("A peer leaves, and others look up meanwhile, 16 in flight:", self.left),
                shares,
            ],
            facts: self.floor.facts().with("seed", seed).with("lookups", lookups),
            ..Report::default()
        }
        .ended(interrupted, "Interrupted: rows are missing.", None)
    }
}

/// A table of timings. A p99 of few times is not shown.
fn table(title: &str, rows: Vec<Row>) -> Section {
    let is_few = |row: &Row| row.get("times") < bytes(P99_FROM);
    let shown = |row: &Row| if is_few(row) { row.clone().with("p99_us", f64::NAN) } else { row.clone() };
    let shown = rows.iter().map(shown).collect();
    Section { rows, ..Section::new(title, COLUMNS, shown) }
}
