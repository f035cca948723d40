//! Aligned tables, and lists in JSON that are printed as they come.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;

use crate::cli::output::Output;

/// A table that is printed as its rows come: the columns are as wide as the widest cell so far.
pub(super) struct Table {
    headings: &'static [&'static str],
    /// The columns that are right-aligned.
    right: &'static [usize],
    widths: Vec<usize>,
    is_begun: bool,
}

impl Table {
    pub(super) fn new(headings: &'static [&'static str], right: &'static [usize]) -> Self {
        let widths = headings.iter().map(|heading| heading.len()).collect();
        Self { headings, right, widths, is_begun: false }
    }

    /// Prints further rows, after the headings.
    pub(super) fn rows(&mut self, rows: &[Vec<String>], mut out: impl Write) -> io::Result<()> {
        for row in rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        if !std::mem::replace(&mut self.is_begun, true) {
            writeln!(out, "{}", self.line(self.headings.iter().copied()))?;
        }
        for row in rows {
            writeln!(out, "{}", self.line(row.iter().map(String::as_str)))?;
        }
        out.flush()
    }

    /// Whether something was printed.
    pub(super) const fn is_begun(&self) -> bool {
        self.is_begun
    }

    fn line<'a>(&self, cells: impl Iterator<Item = &'a str>) -> String {
        let cells = cells.zip(&self.widths).enumerate().map(|(column, (cell, &width))| {
            if self.right.contains(&column) { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    }
}

/// A JSON object whose first list is printed as its elements come.
pub(super) struct JsonList {
    key: &'static str,
    is_begun: bool,
}

impl JsonList {
    pub(super) const fn new(key: &'static str) -> Self {
        Self { key, is_begun: false }
    }

    /// Prints further elements.
    pub(super) fn add<T: Serialize>(
        &mut self,
        elements: impl Iterator<Item = T>,
        output: Output,
    ) -> io::Result<()> {
        let mut out = output.lines();
        for element in elements {
            let before = if self.is_begun { "," } else { &format!("{{\"{}\":[", self.key) };
            self.is_begun = true;
            out.write_all(before.as_bytes())?;
            serde_json::to_writer(&mut out, &element)?;
        }
        out.flush()
    }

    /// Prints the end of the object, with further fields.
    pub(super) fn end(&mut self, fields: &[(&str, Value)], output: Output) -> io::Result<()> {
        let begin = if self.is_begun { String::new() } else { format!("{{\"{}\":[", self.key) };
        let fields: String = fields.iter().map(|(key, value)| format!(",\"{key}\":{value}")).collect();
        output.line(&format!("{begin}]{fields}}}"))
    }

    /// Whether something was printed.
    pub(super) const fn is_begun(&self) -> bool {
        self.is_begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_also_with_wide_letters() {
        let rows = vec![vec!["é".to_owned(), "5".to_owned()], vec!["long".to_owned(), "123".to_owned()]];
        let (mut table, mut out) = (Table::new(&["N", "V"], &[1]), Vec::new());
        table.rows(&rows, &mut out).unwrap();
        table.rows(&rows[..1], &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "N       V\né       5\nlong  123\né       5\n");
    }
}
