//! Shows the files that are published and held here.

use std::io;

use super::{
    View,
    table::{Cells, JsonList, Table},
};
use crate::{
    cli::{Ended, output::Output, units::size},
    commands::{FileRow, Row, Summary},
    json::{FileJson, role},
    library::status::Condition,
};

const HEADINGS: [&str; 7] = ["NAME", "VERSION", "SIZE", "ROLE", "POLICY", "FRESHNESS", ""];

/// A table, or `{"files":[...]}`.
pub(super) struct Files {
    table: Table,
    list: JsonList,
    is_damaged: bool,
}

impl Default for Files {
    fn default() -> Self {
        let (table, list) = (Table::new(&HEADINGS, &[1, 2]).sparing(&[4, 3, 2]), JsonList::new("files"));
        Self { table, list, is_damaged: false }
    }
}

impl View for Files {
    fn rows(&mut self, rows: Vec<Row>, output: Output) -> io::Result<()> {
        let (mut files, mut damaged) = (Vec::with_capacity(rows.len()), Vec::new());
        for row in rows {
            match row {
                Row::File(file) => files.push(file),
                Row::Damaged { why } => damaged.push(why),
                _ => {}
            }
        }
        self.is_damaged |= !damaged.is_empty();
        damaged.iter().for_each(|why| output.note(&format!("error: {why}")));
        match (files.is_empty(), output.is_json()) {
            (true, _) => Ok(()),
            (false, true) => self.list.add(files.iter().map(FileJson::from), output),
            (false, false) => {
                let mut cells = Cells::default();
                files.iter().for_each(|file| add_cells(&mut cells, file));
                self.table.rows(&cells, output.lines())
            }
        }
    }

    fn finish(&mut self, _: Summary, output: Output) -> io::Result<Ended> {
        if output.is_json() {
            self.list.end(&[], output)?;
        } else if !self.table.is_begun() && !self.is_damaged {
            output.note("nothing is published or held here");
        }
        Ok(if self.is_damaged { Ended::Failed } else { Ended::Well })
    }

    fn abandon(&mut self, output: Output) -> io::Result<()> {
        if self.list.is_begun() { self.list.end(&[], output) } else { Ok(()) }
    }
}

fn add_cells(cells: &mut Cells, file: &FileRow) {
    cells.add(file.record.name.as_str());
    cells.add(file.record.version);
    cells.add(size(file.record.size));
    cells.add(role(file));
    cells.add(file.record.mode);
    cells.add(file.condition);
    match (file.newest, file.condition) {
        (Some(newest), _) => cells.add(format_args!("version {newest} is out")),
        (None, Condition::Doubtful(doubt)) => cells.add(doubt.text()),
        (None, _) => cells.add(""),
    }
}
