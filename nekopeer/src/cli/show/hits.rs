//! Shows what was found.

use std::io;

use nekoproto::FileName;

use super::{
    View,
    table::{Cells, JsonList, Table},
};
use crate::{
    cli::{Ended, output::Output, units::size},
    commands::{FoundRow, Row, Summary},
    json::FoundJson,
};

const HEADINGS: [&str; 7] = ["NAME", "VERSION", "SIZE", "CONTENT", "ORIGIN", "HOLDER", "ADDRESS"];

/// A table with one row per holder; or one object for one name, `{"answers":[...]}` for several.
pub(super) struct Hits {
    is_one: bool,
    table: Table,
    list: JsonList,
    missing: Vec<FileName>,
    is_partial: bool,
}

impl Hits {
    /// For this many names.
    pub(super) fn of(names: usize) -> Self {
        let (table, list) = (Table::new(&HEADINGS, &[1, 2]).sparing(&[3, 2, 4]), JsonList::new("answers"));
        Self { is_one: names == 1, table, list, missing: Vec::new(), is_partial: false }
    }
}

impl View for Hits {
    fn rows(&mut self, rows: Vec<Row>, output: Output) -> io::Result<()> {
        let rows = rows.into_iter().filter_map(|row| match row {
            Row::Found(found) => Some(found),
            _ => None,
        });
        let rows: Vec<FoundRow> = rows.collect();
        self.is_partial |= rows.iter().any(|found| !found.complete);
        let missing = rows.iter().filter(|found| found.hits.is_empty());
        self.missing.extend(missing.map(|found| found.name.clone()));
        let mut cells = Cells::default();
        rows.iter().for_each(|found| add_cells(&mut cells, found));
        match (output.is_json(), self.is_one, cells.is_empty()) {
            (true, true, _) => rows.iter().try_for_each(|found| output.object(&FoundJson::from(found))),
            (true, false, _) => self.list.add(rows.iter().map(FoundJson::from), output),
            (false, _, false) => self.table.rows(&cells, output.lines()),
            (false, _, true) => Ok(()),
        }
    }

    fn finish(&mut self, _: Summary, output: Output) -> io::Result<Ended> {
        if output.is_json() && !self.is_one {
            self.list.end(&[], output)?;
        }
        if self.is_partial {
            output.note("note: not every indexer in reach answered");
        }
        if !output.is_json() {
            self.missing.iter().for_each(|name| output.note(&format!("nobody offers {name}")));
        }
        Ok(if self.missing.is_empty() { Ended::Well } else { Ended::NotFound })
    }

    fn abandon(&mut self, output: Output) -> io::Result<()> {
        self.list.abandon(&[], output)
    }
}

fn add_cells(cells: &mut Cells, found: &FoundRow) {
    for (record, holders) in &found.hits {
        for holder in holders {
            cells.add(record.name.as_str());
            cells.add(record.version);
            cells.add(size(record.size));
            cells.add(record.content.short());
            cells.add(record.origin.short());
            cells.add(match holder {
                holder if holder.partial => "partial",
                holder if holder.node == record.origin => "origin",
                _ => "copy",
            });
            cells.add(holder.addr);
        }
    }
}

#[cfg(test)]
mod tests {
    use nekoproto::{ContentHash, Holder, Identity, Mode, Staleness, Version};

    use super::*;
    use crate::commands::VersionRow;

    #[test]
    fn who_holds_a_part_is_called_so_in_tables_and_objects() {
        let node = |n| Identity::from_seed(&[n; 32]).id();
        let record = VersionRow {
            origin: node(1),
            name: FileName::new("a").unwrap(),
            version: Version::FIRST,
            size: 1,
            content: ContentHash::from_bytes([1; 32]),
            mode: Mode::Hybrid,
            staleness: Staleness::ServeStale,
            is_set: false,
            published_ms: 0,
        };
        let holder = |n| Holder::new(node(n), ([127, 0, 0, 1], 1).into());
        let part = |n| Holder { partial: true, ..holder(n) };
        let hits = vec![(record.clone(), vec![holder(1), holder(2), part(3)])];
        let found = FoundRow { name: record.name, complete: true, hits };
        let mut cells = Cells::default();
        add_cells(&mut cells, &found);
        let roles: Vec<&str> = cells.iter().skip(5).step_by(HEADINGS.len()).map(|(cell, _)| cell).collect();
        assert_eq!(roles, ["origin", "copy", "partial"]);
        let object = serde_json::to_value(FoundJson::from(&found)).unwrap();
        let partial = |n: usize| object["hits"][0]["holders"][n]["partial"].as_bool();
        assert_eq!([0, 1, 2].map(partial), [Some(false), Some(false), Some(true)]);
    }
}
