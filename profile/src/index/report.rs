//! What an indexer takes: for people and for machines.

use std::fmt::Write;

use nekoproto::transport::Security;
use serde_json::{Map, Value, json};

use super::{Batched, Grown, LOOKUPS_IN_FLIGHT, Left, Options, Pipelined, Timing};
use crate::floor::Floor;
use crate::report::{
    figures::{P99_FROM, rounded},
    machine, security_name,
};

/// All that was measured of an indexer.
#[derive(Clone, Debug)]
pub struct Report {
    options: Options,
    security: Security,
    floor: Floor,
    /// By number of names.
    pub grown: Vec<Grown>,
    /// By lookups in flight.
    pub pipelined: Vec<Pipelined>,
    /// By records in a registration.
    pub batched: Vec<Batched>,
    /// By registrations of a peer that left.
    pub left: Vec<Left>,
    /// It was ended early.
    pub interrupted: bool,
}

impl Report {
    /// Nothing measured yet but the floors.
    pub(super) fn new(options: Options, security: Security, floor: Floor) -> Self {
        let (grown, pipelined, batched, left) = <_>::default();
        Self { options, security, floor, grown, pipelined, batched, left, interrupted: false }
    }

    /// For people, several tables in Markdown.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write_table(&mut text);
        text
    }

    fn write_table(&self, out: &mut String) -> std::fmt::Result {
        let security = security_name(self.security);
        writeln!(
            out,
            "One indexer in a process of its own, one connection, {security}, {}.",
            machine::in_words()
        )?;
        let (raw, call) = (self.floor.raw.p50, self.floor.call.p50);
        writeln!(out, "Floor between two processes: raw TCP p50 {raw:.1} us, echo call p50 {call:.1} us.\n")?;
        self.write_grown(out)?;
        self.write_pipelined(out)?;
        self.write_batched(out)?;
        self.write_left(out)?;
        self.write_shares(out)?;
        if self.interrupted {
            writeln!(out, "Interrupted: rows are missing.")?;
        }
        Ok(())
    }

    fn write_grown(&self, out: &mut String) -> std::fmt::Result {
        writeln!(
            out,
            "By number of names (registered in batches of 100, 4 calls in flight; lookups 64 in flight):\n\n\
             | names | registered/s | first tenth | last tenth | renewed/s | hits/s | misses/s | bytes/name |\n\
             |--:|--:|--:|--:|--:|--:|--:|--:|"
        )?;
        for row in &self.grown {
            let rates =
                [&row.registered, &row.first_tenth, &row.last_tenth, &row.renewed, &row.hits, &row.misses];
            let rates: Vec<String> = rates.map(|timing| format!("{:.0}", timing.per_s())).into();
            writeln!(out, "| {} | {} | {:.0} |", row.names, rates.join(" | "), row.bytes_per_name)?;
        }
        writeln!(out)
    }

    fn write_pipelined(&self, out: &mut String) -> std::fmt::Result {
        let Some(grown) = self.grown.first() else { return Ok(()) };
        writeln!(
            out,
            "Lookups by calls in flight, {} names, one name in a call:\n\n\
             | in flight | hits/s | p50 us | p99 us | misses/s | p50 us | p99 us |\n|--:|--:|--:|--:|--:|--:|--:|",
            grown.names
        )?;
        for row in &self.pipelined {
            let [hits, misses] = [&row.hits, &row.misses].map(cells);
            writeln!(out, "| {} | {hits} | {misses} |", row.depth)?;
        }
        writeln!(out)
    }

    fn write_batched(&self, out: &mut String) -> std::fmt::Result {
        writeln!(
            out,
            "Registrations by records in a call, one call in flight; lookups by names in a call, {} in flight:\n\n\
             | batch | own new names/s | call p50 us | p99 us | own known names/s | call p50 us | p99 us | copies, new names/s | call p50 us | p99 us | hits, names/s | call p50 us | p99 us |\n\
             |--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
            LOOKUPS_IN_FLIGHT
        )?;
        for row in &self.batched {
            let [new, known, copies, hits] = [&row.new, &row.known, &row.copies, &row.hits].map(cells);
            writeln!(out, "| {} | {new} | {known} | {copies} | {hits} |", row.batch)?;
        }
        writeln!(out)
    }

    fn write_left(&self, out: &mut String) -> std::fmt::Result {
        writeln!(
            out,
            "A peer leaves, and others look up meanwhile, 16 in flight:\n\n\
             | names | left after ms, longest | lookups before, p50 us | p99 us | meanwhile, p50 us | p99 us | p99 ratio |\n\
             |--:|--:|--:|--:|--:|--:|--:|"
        )?;
        for row in &self.left {
            let (before, meanwhile) = (row.before.figures(), row.meanwhile.figures());
            writeln!(
                out,
                "| {} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.2} |",
                row.names,
                row.longest_ms(),
                before.p50,
                before.p99,
                meanwhile.p50,
                meanwhile.p99,
                meanwhile.p99 / before.p99
            )?;
        }
        writeln!(out)
    }

    /// How much of each operation is the index, and how much the way to it.
    fn write_shares(&self, out: &mut String) -> std::fmt::Result {
        writeln!(
            out,
            "Where the time goes (index: the same work in this process, without a network; IPC: all the rest):\n\n\
             | operation | us each | index us | index | IPC |\n|---|--:|--:|--:|--:|"
        )?;
        for (operation, us, index_us) in self.shares() {
            let share = index_us / us * 100.0;
            writeln!(
                out,
                "| {operation} | {us:.2} | {index_us:.2} | {share:.1} % | {:.1} % |",
                100.0 - share
            )?;
        }
        writeln!(out)
    }

    fn shares(&self) -> Vec<(String, f64, f64)> {
        let mut shares = Vec::new();
        if let Some(inside) = self.grown.first().map(|grown| grown.inside) {
            for row in self.pipelined.iter().filter(|row| row.depth == 1 || row.depth == 64) {
                let depth = row.depth;
                shares.push((
                    format!("lookup, hit, {depth} in flight"),
                    row.hits.us_per_name(),
                    inside.hit_us,
                ));
                shares.push((
                    format!("lookup, miss, {depth} in flight"),
                    row.misses.us_per_name(),
                    inside.miss_us,
                ));
            }
        }
        for row in &self.grown {
            let operation = format!("registration, own and new, of {} names", row.names);
            shares.push((operation, row.registered.us_per_name(), row.inside.register_us));
        }
        let inside = self.grown.first().map(|grown| grown.inside);
        for (inside, row) in
            inside.iter().flat_map(|inside| self.batched.iter().map(move |row| (inside, row)))
        {
            let index_us = inside.verify_us + inside.register_us;
            shares.push((
                format!("registration, copies, batches of {}", row.batch),
                row.copies.us_per_name(),
                index_us,
            ));
        }
        shares
    }

    /// For machines.
    #[must_use]
    pub fn json(&self) -> Value {
        let row = |scenario: String, timing: &Timing, more: Value| {
            let mut object = Map::new();
            object.insert("scenario".to_owned(), json!(scenario));
            object.insert("security".to_owned(), json!(security_name(self.security)));
            object.insert("per_s".to_owned(), json!(rounded(timing.per_s())));
            object.insert("floor_us".to_owned(), json!(rounded(self.floor.raw.p50)));
            timing.figures().write_into(&mut object);
            if let Value::Object(more) = more {
                object.extend(more);
            }
            Value::Object(object)
        };
        let mut rows = Vec::new();
        for grown in &self.grown {
            let (names, inside) = (grown.names, grown.inside);
            let more = json!({
                "names": names,
                "bytes_per_name": rounded(grown.bytes_per_name),
                "first_tenth_per_s": rounded(grown.first_tenth.per_s()),
                "last_tenth_per_s": rounded(grown.last_tenth.per_s()),
                "inside_hit_us": rounded(inside.hit_us),
                "inside_miss_us": rounded(inside.miss_us),
                "inside_verify_us": rounded(inside.verify_us),
                "inside_register_us": rounded(inside.register_us),
            });
            rows.push(row(format!("{names} names, register"), &grown.registered, more));
            rows.push(row(format!("{names} names, renew"), &grown.renewed, json!({})));
            rows.push(row(format!("{names} names, hits, 64 in flight"), &grown.hits, json!({})));
            rows.push(row(format!("{names} names, misses, 64 in flight"), &grown.misses, json!({})));
        }
        for Pipelined { depth, hits, misses } in &self.pipelined {
            rows.push(row(format!("hits, {depth} in flight"), hits, json!({ "depth": depth })));
            rows.push(row(format!("misses, {depth} in flight"), misses, json!({ "depth": depth })));
        }
        for Batched { batch, new, known, copies, hits } in &self.batched {
            rows.push(row(format!("register new, batches of {batch}"), new, json!({ "batch": batch })));
            rows.push(row(format!("register copies, batches of {batch}"), copies, json!({ "batch": batch })));
            rows.push(row(format!("register known, batches of {batch}"), known, json!({ "batch": batch })));
            rows.push(row(format!("hits, batches of {batch}"), hits, json!({ "batch": batch })));
        }
        for left in &self.left {
            let names = left.names;
            let more = json!({ "names": names });
            rows.push(row(format!("lookups before {names} leave"), &left.before, more));
            let more = json!({ "names": names, "left_after_ms": rounded(left.longest_ms()) });
            rows.push(row(format!("lookups while {names} leave"), &left.meanwhile, more));
        }
        json!({
            "kind": "index",
            "commit": machine::COMMIT,
            "machine": machine::describe(),
            "seed": self.options.seed,
            "lookups": self.options.lookups,
            "floor_us": rounded(self.floor.raw.p50),
            "floor_call_us": rounded(self.floor.call.p50),
            "interrupted": self.interrupted,
            "rows": rows,
        })
    }
}

fn cells(timing: &Timing) -> String {
    let figures = timing.figures();
    let p99 = if figures.count < P99_FROM { "-".to_owned() } else { format!("{:.1}", figures.p99) };
    format!("{:.0} | {:.1} | {p99}", timing.per_s(), figures.p50)
}
