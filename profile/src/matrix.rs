//! The whole table of scenarios in one run.

use crate::plan::{query::Query, query::Questions, query::defaults};
use crate::scenarios::prelude::*;
use crate::scenarios::{query::COLUMNS, query::Measured, query::measure};

/// Indexers, clients, TTL of each row: those of the forerunner's report, and beyond.
const ROWS: [(usize, usize, u8); 9] = [
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

/// All of them.
#[derive(Args)]
pub(crate) struct Matrix {
    #[command(flatten)]
    load: Questions,
}

impl Matrix {
    fn queries(&self) -> [Query; ROWS.len()] {
        ROWS.map(|(indexers, clients, ttl_hops)| {
            let load = self.load.clone();
            Query { indexers, clients, ttl_hops, load, ..defaults() }
        })
    }
}

impl Scenario for Matrix {
    type How = Setup;
    type Target = Drawn;

    fn check(&self, _how: &Setup) -> Result<()> {
        self.queries().iter().try_for_each(|query| query.graph().map(drop))
    }

    /// Ends early when stopped, or when a row cannot be measured.
    async fn run(&self, on: &Deployment) -> Result<Report, Fault> {
        let (mut all, mut fault, watch) = (Vec::new(), None, &on.watch);
        for query in self.queries() {
            match measure(&query, on).await {
                Ok(row) => all.push(row),
                Err(_) if watch.is_stopped() && !all.is_empty() => {} // it was kept from beginning
                Err(error) => fault = Some(error.after(!all.is_empty())?),
            }
            if watch.is_stopped() || fault.is_some() {
                break;
            }
        }
        let is_whole = all.len() == ROWS.len() && all.iter().all(|row| !row.samples.interrupted);
        let missing = format!("interrupted: {} whole rows were meant", ROWS.len());
        Ok(report(&all).ended(watch.is_stopped() && !is_whole, &missing, fault.as_ref()))
    }
}

fn report(all: &[Measured]) -> Report {
    let setting = all.first().map(Measured::setting).unwrap_or_default();
    let rows: Vec<Row> = all.iter().map(Measured::row).collect();
    let at = |others: [(&str, u32); 2]| {
        let is_at = |row: &&Row| others.iter().all(|(key, value)| row.0.get(*key) == Some(&(*value).into()));
        rows.iter().filter(is_at).cloned().collect::<Vec<_>>()
    };
    let by_clients = scaling(&at([("indexers", 10), ("ttl", 1)]), "10 indexers, TTL 1", "clients", &setting);
    let by_hops =
        scaling(&at([("indexers", 10), ("clients", 30)]), "10 indexers, 30 clients", "ttl", &setting);
    Report {
        kind: Some("matrix"),
        head: format!("{setting}, {}", machine::in_words()),
        is_broken: !all.iter().all(Measured::is_all_well),
        pictures: all.iter().flat_map(Measured::pictures).chain(by_clients).chain(by_hops).collect(),
        sections: vec![Section::new("", COLUMNS, rows)],
        ..Report::default()
    }
}

/// Response times, and answers a second, of rows by their figure `along`; `None` if these are fewer than two.
fn scaling(rows: &[Row], title: &str, along: &'static str, setting: &str) -> Option<Picture> {
    if rows.len() < 2 {
        return None;
    }
    let lines_of = |keys: &[(&str, &str)]| {
        keys.iter().flat_map(|(key, label)| of_rows(rows, along, key, |_| (*label).to_owned())).collect()
    };
    let times = lines_of(&[
        ("mean_us", "mean"),
        ("p50_us", "p50"),
        ("p99_us", "p99"),
        ("forerunner_rebuilt_us", "forerunner, rebuilt (mean)"),
    ]);
    let mut rates: Lines = lines_of(&[("queries_per_s", "nekop2p")]);
    // Closed loops: each client has one query under way.
    let rebuilt =
        rows.iter().map(|row| (row.get(along), row.get("clients") / row.get("forerunner_rebuilt_us") * 1e6));
    rates.push(("forerunner, rebuilt".to_owned(), rebuilt.filter(|(_, per_s)| per_s.is_finite()).collect()));
    let (x, by) = if along == "ttl" { ("TTL, hops", "TTL") } else { (along, "number of clients") };
    let charts = vec![
        lines(Axis::whole(x), Axis::log("response time, us"), times),
        lines(Axis::whole(x), Axis::log("answers a second"), rates),
    ];
    Some(Picture::new(format!("scaling-{along}"), format!("{title}: by {by}"), setting, charts))
}
