//! Aligned tables, and lists in JSON that are printed as they come.

use std::{
    borrow::Cow,
    fmt::{Display, Write as _},
    io::{self, Write},
};

use serde::Serialize;
use serde_json::Value;

use crate::cli::output::{Output, visible};

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
    pub(super) fn rows(&mut self, cells: &Cells, mut out: impl Write) -> io::Result<()> {
        for (column, cell) in (0..self.widths.len()).cycle().zip(cells.iter()) {
            self.widths[column] = cell.chars().count().max(self.widths[column]);
        }
        if !std::mem::replace(&mut self.is_begun, true) {
            self.print(self.headings.iter().copied(), &mut out)?;
        }
        self.print(cells.iter(), &mut out)?;
        out.flush()
    }

    /// Whether something was printed.
    pub(super) const fn is_begun(&self) -> bool {
        self.is_begun
    }

    /// Prints rows cell by cell, without spaces at their ends.
    fn print<'a>(&self, cells: impl Iterator<Item = &'a str>, out: &mut impl Write) -> io::Result<()> {
        let mut spaces = 0;
        for (column, cell) in (0..self.widths.len()).cycle().zip(cells) {
            let padding = self.widths[column].saturating_sub(cell.chars().count());
            let is_right = self.right.contains(&column);
            spaces += if is_right { padding } else { 0 };
            if !cell.is_empty() {
                write!(out, "{:1$}", "", std::mem::take(&mut spaces))?;
                out.write_all(cell.as_bytes())?;
            }
            spaces += if is_right { 2 } else { padding + 2 };
            if column + 1 == self.widths.len() {
                out.write_all(b"\n")?;
                spaces = 0;
            }
        }
        Ok(())
    }
}

/// The cells of some rows, in one text.
#[derive(Default)]
pub(super) struct Cells {
    text: String,
    ends: Vec<usize>,
}

impl Cells {
    /// Adds the next cell.
    pub(super) fn add(&mut self, cell: impl Display) {
        let start = self.text.len();
        let _ = write!(self.text, "{cell}"); // a `String` takes all
        if let Cow::Owned(shown) = visible(&self.text[start..]) {
            self.text.replace_range(start.., &shown);
        }
        self.ends.push(self.text.len());
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.text[start..*end])
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
        output.machine_line(&format!("{begin}]{fields}}}"))
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
        let cells = |texts: &[&str]| {
            let mut cells = Cells::default();
            texts.iter().for_each(|text| cells.add(text));
            cells
        };
        let (mut table, mut out) = (Table::new(&["N", "V"], &[1]), Vec::new());
        table.rows(&cells(&["é", "5", "long", "123"]), &mut out).unwrap();
        table.rows(&cells(&["é", "5"]), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "N       V\né       5\nlong  123\né       5\n");
    }
}
