//! What an indexer takes, as a report.

use super::{LOOKUPS_IN_FLIGHT, Measured, Timing};
use crate::report::{Report, Row, Section, figures::P99_FROM, machine, security_name};

/// The columns of every table of timings; those without a value are left out.
const COLUMNS: [&str; 11] = [
    "names",
    "scenario",
    "per_s",
    "p50_us",
    "p99_us",
    "first_tenth_per_s",
    "last_tenth_per_s",
    "bytes_per_name",
    "left_after_ms",
    "p99_ratio",
    "times",
];

impl Measured {
    /// Several tables, and a row for each timing.
    pub fn report(&self) -> Report {
        let (raw, call) = (self.floor.raw.p50, self.floor.call.p50);
        let (security, interrupted) = (security_name(self.security), self.interrupted);
        let process = format!("One indexer in a process of its own, one connection, {security}");
        let floor =
            format!("Floor between two processes: raw TCP p50 {raw:.1} us, echo call p50 {call:.1} us.");
        let mut sections = self.timings();
        let shares = ["scenario", "us_each", "index_us", "index_percent", "ipc_percent"];
        let title = "Where the time goes (index: the same work in this process, without a network; IPC: all the rest):";
        sections.push(Section { rows: Vec::new(), ..Section::new(title, &shares, self.shares()) });
        Report {
            kind: Some("index"),
            head: format!("{process}, {}.\n{floor}", machine::in_words()),
            sections,
            foot: interrupted.then(|| "Interrupted: rows are missing.".to_owned()).into_iter().collect(),
            facts: Row::default()
                .with("seed", self.options.seed)
                .with("lookups", self.options.lookups)
                .figure("floor_us", raw)
                .figure("floor_call_us", call),
            interrupted,
        }
    }

    fn timings(&self) -> Vec<Section> {
        let row = |scenario: String, timing: &Timing| {
            let (figures, security) = (timing.figures(), security_name(self.security));
            let row = Row::named(scenario).with("security", security).figure("per_s", timing.per_s());
            row.figure("floor_us", self.floor.raw.p50).times(&figures)
        };
        let grown = self.grown.iter().flat_map(|grown| {
            let (names, inside) = (grown.names, grown.inside);
            let registered = row(format!("{names} names, register"), &grown.registered)
                .with("names", names)
                .figure("bytes_per_name", grown.bytes_per_name)
                .figure("first_tenth_per_s", grown.first_tenth.per_s())
                .figure("last_tenth_per_s", grown.last_tenth.per_s())
                .figure("inside_hit_us", inside.hit_us)
                .figure("inside_miss_us", inside.miss_us)
                .figure("inside_verify_us", inside.verify_us)
                .figure("inside_register_us", inside.register_us);
            let others = [
                ("renew", &grown.renewed),
                ("hits, 64 in flight", &grown.hits),
                ("misses, 64 in flight", &grown.misses),
            ];
            [registered]
                .into_iter()
                .chain(others.map(|(what, timing)| row(format!("{names} names, {what}"), timing)))
        });
        let pipelined = self.pipelined.iter().flat_map(|at| {
            let both = [("hits", &at.hits), ("misses", &at.misses)];
            let depth = at.depth;
            both.map(|(what, timing)| row(format!("{what}, {depth} in flight"), timing).with("depth", depth))
        });
        let batched = self.batched.iter().flat_map(|by| {
            let all = [
                ("register new", &by.new),
                ("register copies", &by.copies),
                ("register known", &by.known),
                ("hits", &by.hits),
            ];
            let batch = by.batch;
            all.map(|(what, timing)| row(format!("{what}, batches of {batch}"), timing).with("batch", batch))
        });
        let left = self.left.iter().flat_map(|left| {
            let names = left.names;
            let before = row(format!("lookups before {names} leave"), &left.before);
            let meanwhile = row(format!("lookups while {names} leave"), &left.meanwhile)
                .figure("left_after_ms", left.longest_ms())
                .figure("p99_ratio", left.p99_ratio());
            [before, meanwhile].map(|row| row.with("names", names))
        });
        let grown_names = self.grown.first().map_or(0, |grown| grown.names);
        [
            (
                "By number of names, a second (registered in batches of 100, 4 calls in flight):".to_owned(),
                grown.collect::<Vec<_>>(),
            ),
            (format!("Lookups by calls in flight, {grown_names} names, one name in a call:"), pipelined.collect()),
            (
                format!("Names a second by names in a call, one registration or {LOOKUPS_IN_FLIGHT} lookups in flight:"),
                batched.collect(),
            ),
            ("A peer leaves, and others look up meanwhile, 16 in flight:".to_owned(), left.collect()),
        ]
        .map(|(title, rows)| table(title, rows))
        .into()
    }

    /// How much of each operation is the index, and how much the way to it.
    fn shares(&self) -> Vec<Row> {
        let share = |operation: String, timing: &Timing, index_us: f64| {
            let us = timing.us_per_name();
            let percent = index_us / us * 100.0;
            let row = Row::named(operation).figure("us_each", us).figure("index_us", index_us);
            row.figure("index_percent", percent).figure("ipc_percent", 100.0 - percent)
        };
        let mut shares = Vec::new();
        let first = self.grown.first().map(|grown| grown.inside);
        if let Some(inside) = first {
            for at in self.pipelined.iter().filter(|at| at.depth == 1 || at.depth == 64) {
                let depth = at.depth;
                shares.push(share(format!("lookup, hit, {depth} in flight"), &at.hits, inside.hit_us));
                shares.push(share(format!("lookup, miss, {depth} in flight"), &at.misses, inside.miss_us));
            }
        }
        for grown in &self.grown {
            let operation = format!("registration, own and new, of {} names", grown.names);
            shares.push(share(operation, &grown.registered, grown.inside.register_us));
        }
        for (inside, by) in first.iter().flat_map(|inside| self.batched.iter().map(move |by| (inside, by))) {
            let operation = format!("registration, copies, batches of {}", by.batch);
            shares.push(share(operation, &by.copies, inside.verify_us + inside.register_us));
        }
        shares
    }
}

/// A table of timings. A p99 of few times is not shown.
fn table(title: String, rows: Vec<Row>) -> Section {
    let is_few =
        |row: &Row| row.0.get("times").and_then(serde_json::Value::as_u64).is_some_and(|n| n < P99_FROM);
    let shown = |row: &Row| if is_few(row) { row.clone().figure("p99_us", None) } else { row.clone() };
    let shown: Vec<Row> = rows.iter().map(shown).collect();
    Section { rows, ..Section::new(title, &COLUMNS, shown) }
}
