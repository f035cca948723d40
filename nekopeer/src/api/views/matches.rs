//! Shows what a search by name or pattern found.

use std::io;

use super::{View, downloads::short, hits::GUESTS_UNHEARD, parsed};
use crate::{
    api::{Done, IndexersRow, MatchRow, Matches, Outcome, Row, VersionRow},
    terminal::{
        Output,
        table::{Cells, Table},
        units::{age_since, size},
    },
};

const HEADINGS: [&str; 6] = ["NAME", "VERSION", "SIZE", "AGE", "HOLDERS", "FRESHNESS"];

/// A table with one row per file.
pub(in crate::api) struct MatchesView {
    looked_for: String,
    is_near: bool,
    table: Table,
}

impl MatchesView {
    /// For a search of these terms, which asks the own indexer only if it `is_near`.
    pub(in crate::api) fn of(looked_for: String, is_near: bool) -> Self {
        let table = Table::new(&HEADINGS, &[1, 2, 3, 4]).sparing(&[4, 1]);
        Self { looked_for, is_near, table }
    }

    /// A name of several origins is shown as `get` takes it, with the origin.
    fn add_cells(cells: &mut Cells, found: &MatchRow, is_of_several: bool) {
        let VersionRow { name, origin, version, .. } = &found.version;
        if is_of_several {
            cells.add_name(&format!("{name}@{}", short(origin)));
        } else {
            cells.add_name(name.as_str());
        }
        cells.add(version);
        cells.add(size(found.version.size));
        cells.add(found.shared_ms.map(age_since).as_deref().unwrap_or("-"));
        cells.add(found.holders.len());
        match &found.held {
            None => cells.add("-"),
            Some(held) if held.own => cells.add("shared"),
            Some(held) if held.version < *version => cells.add("stale"),
            Some(held) => cells.add(&held.freshness),
        }
    }
}

impl View for MatchesView {
    fn rows(&mut self, rows: &[Row], output: Output) -> io::Result<()> {
        let found: Vec<MatchRow> = parsed(rows).collect();
        let mut cells = Cells::default();
        for (n, row) in found.iter().enumerate() {
            let neighbors = [n.checked_sub(1), n.checked_add(1)].map(|n| found.get(n?));
            let is_of_several = neighbors.into_iter().flatten().any(|other| {
                other.version.name == row.version.name && other.version.origin != row.version.origin
            });
            Self::add_cells(&mut cells, row, is_of_several);
        }
        self.table.print(&cells, output)
    }

    fn finish(&mut self, done: &Done, output: Output) -> io::Result<()> {
        let Matches { complete, guests_unheard, indexers: IndexersRow { asked, answered }, next, .. } =
            done.fields.parse().unwrap_or_default();
        let in_full = if complete || answered < asked { "" } else { ", but not all of them in full" };
        let reached = format!("{answered} of {asked} indexers answered{in_full}");
        let has_nothing = done.outcome == Outcome::NotFound;
        if !complete && (self.is_near || !has_nothing) {
            output.note(&format!("note: {reached}"));
        }
        if guests_unheard {
            output.note(GUESTS_UNHEARD);
        }
        let so_far = if next.is_some() { " so far" } else { "" };
        if let Some(next) = next {
            output.note(&format!("there is more; go on with --after {next}"));
        }
        if has_nothing {
            let near = "only the own indexer was asked: leave out --here";
            let who = if self.is_near { near } else { &reached };
            let nothing = format!("nothing matches {}", self.looked_for);
            output.note(&format!("{}{so_far} ({who})", nothing.trim_end()));
        }
        Ok(())
    }
}
