//! What many connections cost: for people and for machines.

use std::{fmt::Write, time::Duration};

use nekoproto::transport::Security;
use serde_json::{Map, Value, json};

use super::{Options, Served};
use crate::{
    floor::Floor,
    report::{figures::rounded, machine, security_name},
};

/// All that was measured.
#[derive(Clone, Debug)]
pub struct Report {
    options: Options,
    security: Security,
    floor: Floor,
    /// Connections that were opened, and stayed.
    pub opened: usize,
    /// How long opening the idle ones took.
    pub opening: Duration,
    /// Resident memory of the indexer for each idle connection.
    pub bytes_each: f64,
    /// The same after each of them has been used once.
    pub bytes_each_after: f64,
    /// The active ones, alone.
    pub few: Option<Served>,
    /// The active ones, with all others open.
    pub many: Option<Served>,
    /// One lookup of each.
    pub all: Option<Served>,
    /// It was ended early.
    pub interrupted: bool,
}

impl Report {
    /// Nothing measured yet but the floors.
    pub(super) const fn new(options: Options, security: Security, floor: Floor) -> Self {
        Self {
            options,
            security,
            floor,
            opened: 0,
            opening: Duration::ZERO,
            bytes_each: f64::NAN,
            bytes_each_after: f64::NAN,
            few: None,
            many: None,
            all: None,
            interrupted: false,
        }
    }

    fn rows(&self) -> impl Iterator<Item = (String, &Served)> {
        let active = self.options.active;
        let rows = [
            (format!("{active} active, no others"), &self.few),
            (format!("{active} active, {} open", self.opened), &self.many),
            (format!("each of {} once", self.opened), &self.all),
        ];
        rows.into_iter().filter_map(|(what, served)| Some((what, served.as_ref()?)))
    }

    /// For people, in Markdown.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write_table(&mut text);
        text
    }

    fn write_table(&self, out: &mut String) -> std::fmt::Result {
        let (security, opening) = (security_name(self.security), self.opening.as_secs_f64());
        writeln!(out, "One indexer in a process of its own, {security}, {}.", machine::in_words())?;
        writeln!(out, "Floor between two processes: raw TCP p50 {:.1} us.\n", self.floor.raw.p50)?;
        writeln!(
            out,
            "{} connections, each of a peer of its own, the last {} of them opened in {opening:.1} s. \
             Resident memory of the indexer for each idle one: {:.1} KiB; after each was used: {:.1} KiB.\n",
            self.opened,
            self.opened - self.options.active.min(self.opened),
            self.bytes_each / 1024.0,
            self.bytes_each_after / 1024.0
        )?;
        writeln!(
            out,
            "| lookups | times | a second | p50 us | p99 us | longest |\n|---|--:|--:|--:|--:|--:|"
        )?;
        for (what, Served { per_s, figures, .. }) in self.rows() {
            let (count, p50, p99, max) = (figures.count, figures.p50, figures.p99, figures.max);
            writeln!(out, "| {what} | {count} | {per_s:.0} | {p50:.1} | {p99:.1} | {max:.1} |")?;
        }
        if self.interrupted {
            writeln!(out, "\nInterrupted: not all of it was measured.")?;
        }
        Ok(())
    }

    /// For machines.
    #[must_use]
    pub fn json(&self) -> Value {
        let row = |(scenario, served): (String, &Served)| {
            let mut object = Map::new();
            object.insert("scenario".to_owned(), json!(scenario));
            object.insert("security".to_owned(), json!(security_name(self.security)));
            object.insert("per_s".to_owned(), json!(rounded(served.per_s)));
            object.insert("open".to_owned(), json!(served.open));
            served.figures.write_into(&mut object);
            Value::Object(object)
        };
        json!({
            "kind": "connections",
            "commit": machine::COMMIT,
            "machine": machine::describe(),
            "connections": self.opened,
            "active": self.options.active,
            "bytes_each": rounded(self.bytes_each),
            "bytes_each_after": rounded(self.bytes_each_after),
            "opening_s": rounded(self.opening.as_secs_f64()),
            "floor_us": rounded(self.floor.raw.p50),
            "interrupted": self.interrupted,
            "rows": self.rows().map(row).collect::<Vec<_>>(),
        })
    }
}
