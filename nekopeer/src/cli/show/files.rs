//! Shows the files that are published and held here.

use std::io;

use serde_json::Value;

use super::{
    View,
    table::{JsonList, Table},
    version_json,
};
use crate::{
    cli::{Ended, output::Output, units::size},
    commands::{FileRow, Row, Summary},
};

const HEADINGS: [&str; 7] = ["NAME", "VERSION", "SIZE", "ROLE", "POLICY", "FRESHNESS", ""];

/// A table, or `{"files":[...]}`.
pub(super) struct Files {
    table: Table,
    list: JsonList,
}

impl Default for Files {
    fn default() -> Self {
        Self { table: Table::new(&HEADINGS, &[1, 2]), list: JsonList::new("files") }
    }
}

impl View for Files {
    fn rows(&mut self, rows: Vec<Row>, output: Output) -> io::Result<()> {
        let files = rows.iter().filter_map(|row| match row {
            Row::File(file) => Some(file),
            _ => None,
        });
        if output.is_json() {
            self.list.add(files.map(object), output)
        } else {
            self.table.rows(&files.map(cells).collect::<Vec<_>>(), output.lines())
        }
    }

    fn finish(&mut self, _: Summary, output: Output) -> io::Result<Ended> {
        if output.is_json() {
            self.list.end(&[], output)?;
        } else if !self.table.is_begun() {
            output.note("nothing is published or held here");
        }
        Ok(Ended::Well)
    }

    fn abandon(&mut self, output: Output) -> io::Result<()> {
        if self.list.is_begun() { self.list.end(&[], output) } else { Ok(()) }
    }
}

const fn role(file: &FileRow) -> &'static str {
    if file.own { "origin" } else { "copy" }
}

fn cells(file: &FileRow) -> Vec<String> {
    vec![
        file.record.name.to_string(),
        file.record.version.to_string(),
        size(file.record.size),
        role(file).to_owned(),
        file.record.mode.to_string(),
        file.condition.to_string(),
        file.newest.map_or_else(String::new, |newest| format!("version {newest} is out")),
    ]
}

fn object(file: &FileRow) -> Value {
    let mut value = version_json(&file.record);
    value["role"] = role(file).into();
    value["policy"] = file.record.mode.to_string().into();
    value["freshness"] = file.condition.to_string().into();
    value["newest"] = file.newest.map(nekoproto::Version::get).into();
    value["path"] = file.path.0.to_string_lossy().into();
    value
}
