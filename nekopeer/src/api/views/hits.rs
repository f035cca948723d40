//! Shows what was found.

use std::io;

use nekoproto::FileName;

use super::{View, downloads::short, parsed};
use crate::{
    api::{Done, FoundRow, Row},
    terminal::{
        Output,
        table::{Cells, Table},
        units::size,
    },
};

pub(super) const GUESTS_UNHEARD: &str = "note: guests of an indexer were not waited for and may know more";

const HEADINGS: [&str; 7] = ["NAME", "VERSION", "SIZE", "CONTENT", "ORIGIN", "HOLDER", "ADDRESS"];

/// A table with one row per holder.
pub(in crate::api) struct Hits {
    table: Table,
    missing: Vec<FileName>,
    is_partial: bool,
    guests_unheard: bool,
}

impl Default for Hits {
    fn default() -> Self {
        let table = Table::new(&HEADINGS, &[1, 2]).sparing(&[3, 2, 4]);
        Self { table, missing: Vec::new(), is_partial: false, guests_unheard: false }
    }
}

impl View for Hits {
    fn rows(&mut self, rows: &[Row], output: Output) -> io::Result<()> {
        let mut cells = Cells::default();
        for found in parsed::<FoundRow>(rows) {
            self.is_partial |= !found.complete;
            self.guests_unheard |= found.guests_unheard;
            add_cells(&mut cells, &found);
            self.missing.extend(Some(found.name).filter(|_| found.hits.is_empty()));
        }
        self.table.print(&cells, output)
    }

    fn finish(&mut self, _: &Done, output: Output) -> io::Result<()> {
        if self.is_partial {
            output.note("note: not every indexer in reach answered");
        }
        if self.guests_unheard {
            output.note(GUESTS_UNHEARD);
        }
        self.missing.iter().for_each(|name| output.note(&format!("nobody shares {name}")));
        Ok(())
    }
}

fn add_cells(cells: &mut Cells, found: &FoundRow) {
    for hit in &found.hits {
        let version = &hit.version;
        for holder in &hit.holders {
            cells.add_name(version.name.as_str());
            cells.add(version.version);
            cells.add(size(version.size));
            cells.add(short(&version.content));
            cells.add(short(&version.origin));
            cells.add(match holder {
                holder if holder.partial => "partial",
                holder if holder.node == version.origin => "origin",
                _ => "copy",
            });
            cells.add(&holder.addr);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_a_part_is_called_so_in_tables() {
        let holder = |node: &str, partial: bool| serde_json::json!({ "addr": "127.0.0.1:1", "node": node, "partial": partial });
        let found = serde_json::json!({
            "complete": true,
            "guests_unheard": false,
            "hits": [{
                "content": "00", "name": "a", "origin": "01", "set": false, "size": 1, "version": 1,
                "holders": [holder("01", false), holder("02", false), holder("03", true)],
            }],
            "name": "a",
        });
        let mut cells = Cells::default();
        parsed(&[Row::of(&found)]).for_each(|found| add_cells(&mut cells, &found));
        let roles: Vec<&str> = cells.iter().skip(5).step_by(HEADINGS.len()).map(|(cell, _)| cell).collect();
        assert_eq!(roles, ["origin", "copy", "partial"]);
    }
}
