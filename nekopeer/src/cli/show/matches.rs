//! Shows what a search by name or pattern found.

use std::io;

use serde_json::Value;

use super::{
    View,
    table::{Cells, JsonList, Table},
};
use crate::{
    cli::{
        Ended,
        output::Output,
        units::{age_since, size},
    },
    commands::{Finding, MatchRow, Row, Summary, VersionRow},
    json::MatchJson,
};

const HEADINGS: [&str; 6] = ["NAME", "VERSION", "SIZE", "AGE", "HOLDERS", "FRESHNESS"];

/// A table with one row per file, or `{"hits":[...],"name","complete","next"}`.
pub(super) struct Matches {
    looked_for: String,
    is_name: bool,
    is_near: bool,
    table: Table,
    list: JsonList,
    is_empty: bool,
    complete: bool,
    next: Option<String>,
}

impl Matches {
    /// For this search.
    pub(super) fn of(finding: &Finding) -> Self {
        Self {
            looked_for: finding.text(),
            is_name: finding.is_name(),
            is_near: finding.is_for_own_indexers(),
            table: Table::new(&HEADINGS, &[1, 2, 3, 4]).sparing(&[4, 1]),
            list: JsonList::new("hits"),
            is_empty: true,
            complete: false,
            next: None,
        }
    }

    /// A name of several origins is shown as `get` takes it, with the origin.
    fn add_cells(cells: &mut Cells, found: &MatchRow, is_of_several: bool) {
        let VersionRow { name, origin, .. } = &found.record;
        if is_of_several {
            cells.add(format_args!("{name}@{}", origin.short()));
        } else {
            cells.add(name.as_str());
        }
        cells.add(found.record.version);
        cells.add(size(found.record.size));
        cells.add(age_since(found.record.published_ms).as_deref().unwrap_or("-"));
        cells.add(found.holders.len());
        match found.held {
            None => cells.add("-"),
            Some(held) if held.own => cells.add("own"),
            Some(held) if held.version < found.record.version => cells.add("stale"),
            Some(held) => cells.add(held.condition),
        }
    }

    fn ending(&self) -> [(&'static str, Value); 3] {
        [
            ("name", self.looked_for.as_str().into()),
            ("complete", self.complete.into()),
            ("next", self.next.as_deref().into()),
        ]
    }
}

impl View for Matches {
    fn rows(&mut self, rows: Vec<Row>, output: Output) -> io::Result<()> {
        let mut found = Vec::with_capacity(rows.len());
        for row in rows {
            match row {
                Row::Match(row) => found.push(row),
                Row::Further { next, complete } => {
                    self.complete = complete;
                    self.next = next.map(|next| next.to_string());
                }
                _ => {}
            }
        }
        if found.is_empty() {
            return Ok(());
        }
        self.is_empty = false;
        if output.is_json() {
            return self.list.add(found.iter().map(MatchJson::from), output);
        }
        let mut cells = Cells::default();
        for (n, row) in found.iter().enumerate() {
            let neighbors = [n.checked_sub(1), n.checked_add(1)].map(|n| found.get(n?));
            let is_of_several = neighbors.into_iter().flatten().any(|other| {
                other.record.name == row.record.name && other.record.origin != row.record.origin
            });
            Self::add_cells(&mut cells, row, is_of_several);
        }
        self.table.rows(&cells, output.lines())
    }

    fn finish(&mut self, _: Summary, output: Output) -> io::Result<Ended> {
        if output.is_json() {
            self.list.end(&self.ending(), output)?;
        }
        if !self.complete {
            output.note("note: not every indexer in reach answered");
        }
        match &self.next {
            Some(next) if !output.is_json() => {
                output.note(&format!("there is more; go on with --after {next}"))
            }
            _ => {}
        }
        if self.is_empty && !output.is_json() {
            let who = if self.is_name { "nobody offers" } else { "nothing matches" };
            let near = " (only the own indexer was asked: --ttl 3 asks the network, too)";
            let near = if self.is_near { near } else { "" };
            output.note(&format!("{}{near}", format!("{who} {}", self.looked_for).trim_end()));
        }
        Ok(if self.is_empty { Ended::NotFound } else { Ended::Well })
    }

    fn abandon(&mut self, output: Output) -> io::Result<()> {
        let ending = self.ending();
        self.list.abandon(&ending, output)
    }
}
