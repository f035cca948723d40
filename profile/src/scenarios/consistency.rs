//! How coherent copies are: nodes with their own decisions in virtual time, on links that delay, lose and are cut.
//!
//! The decisions are those of the nodes: `nekopeer::simulate` and `nekoindexer::state`. Simplified are
//! - calls: a lost message or answer is not sent again by the link, the call times out;
//! - connections: they are there as long as the peer is, and indexers do not notice that a link is cut;
//! - downloads: one exchange with the origin, without chunks and other holders;
//! - queries: the indexers in reach are looked at in the moment of the query.

mod aims;
pub mod cells;
pub mod log;
pub mod setting;
mod show;
pub mod tables;
pub mod world;

use self::tables::{Line, Which};
use crate::report::goals;
use crate::scenarios::prelude::*;

/// Which tables, and how often.
#[derive(Clone, Debug, Args)]
pub(crate) struct Consistency {
    /// Tables [default: all]
    #[arg(long, value_name = "TABLE", value_delimiter = ',')]
    table: Vec<Which>,
    /// Simulations of each line [default: 20; of c4 and c5 1000]
    #[arg(long, value_parser = clap::value_parser!(u64).range(2..=1_000_000))]
    seeds: Option<u64>,
    /// Show goals beside what was measured
    #[arg(long)]
    goals: bool,
}

/// A table that was measured.
struct Table {
    which: Which,
    seeds: u64,
    lines: Vec<Line>,
}

impl Scenario for Consistency {
    type How = ();
    type Target = Drawn;
    const IS_TIMED: bool = false;

    /// Simulates the tables one after the other. A promise that is broken is a result.
    async fn run(&self, _on: &Deployment) -> Result<Report, Fault> {
        let tables = if self.table.is_empty() { Which::value_variants() } else { &self.table };
        let table = |which: &Which| {
            let seeds = self.seeds.unwrap_or(which.parts().0);
            note(&format!("table {}", option_name(which)));
            let lines = which.cells().into_iter().map(|cell| which.measure(cell, 1..=seeds));
            Ok(Table { which: *which, seeds, lines: lines.collect::<anyhow::Result<_>>()? })
        };
        let tables = tables.iter().map(table).collect::<Result<Vec<_>, Fault>>()?;
        let asked = tables.iter().filter(|_| self.goals);
        let goals = asked.flat_map(|table| table.which.goals(&table.lines, table.seeds));
        let goals = goals::section(&goals.collect::<Vec<_>>());
        let picture = |table: &Table| {
            let name = format!("consistency-{}", option_name(&table.which));
            Some((name, show::picture(table.which, &table.lines)?))
        };
        Ok(Report {
            kind: Some("consistency"),
            head: "Coherence of copies, simulated in virtual time with the nodes' own decisions. Means of the seeds ± half of \
                   the 95 % interval; of maxima the largest."
                .to_owned(),
            sections: [goals].into_iter().chain(tables.iter().map(Table::section)).collect(),
            pictures: tables.iter().filter_map(picture).collect(),
            ..Report::default()
        })
    }
}

impl Table {
    fn section(&self) -> Section {
        let (name, columns) = (option_name(&self.which), self.which.parts().1);
        let rows = || self.lines.iter().map(|line| line.row.clone());
        let shown = rows().map(|row| columns.split(' ').fold(row, with_interval)).collect();
        let title = format!("{}, {} seeds:", name.to_uppercase(), self.seeds);
        let rows = rows().map(|row| row.with("table", name.clone())).collect();
        Section { rows, ..Section::new(title, columns, shown) }
    }
}

/// The figure under `key` together with half of its interval, for people.
fn with_interval(row: Row, key: &str) -> Row {
    let (mean, half) = (row.get(key), row.get(&format!("{key}_ci")));
    if !half.is_finite() {
        return row;
    }
    let decimals = if mean.abs() >= 1000.0 { 0 } else { 3 - usize::from(mean.abs() >= 10.0) };
    row.with(key, format!("{mean:.decimals$} ± {half:.decimals$}"))
}
