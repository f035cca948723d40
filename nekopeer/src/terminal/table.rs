//! Aligned tables, and lists in JSON that are printed as they come.

use std::{
    borrow::Cow,
    collections::HashMap,
    fmt::{Display, Write as _},
    io::{self, BufWriter, Write},
};

use super::{
    columns, cut,
    output::{Output, Stdout, look_of, visible},
    width,
};

const SPACES: &[u8] = &[b' '; 64];
/// Spaces between two columns.
const GAP: usize = 2;
/// A column is not cut to less.
const COLUMN_MIN: usize = 10;
/// The heading of the column that is cut before all others,
const CUT_FIRST: &str = "NAME";
/// and to how much before others are left out.
const NAME_MIN: usize = 16;

/// A table that is printed as its rows come: the columns are as wide as the widest cell so far.
pub(crate) struct Table {
    headings: &'static [&'static str],
    /// The columns that are right-aligned.
    right: &'static [usize],
    /// The columns that are left out where not all of them fit, the least useful first.
    spared: &'static [usize],
    widths: Vec<usize>,
    /// The columns that are shown; empty before the first rows.
    shown: Vec<usize>,
}

impl Table {
    pub(crate) fn new(headings: &'static [&'static str], right: &'static [usize]) -> Self {
        let widths = headings.iter().map(|heading| heading.len()).collect();
        Self { headings, right, spared: &[], widths, shown: Vec::new() }
    }

    pub(crate) fn sparing(self, spared: &'static [usize]) -> Self {
        Self { spared, ..self }
    }

    /// Prints nothing if results are JSON objects. Lines that do not fit the terminal of stdout are cut.
    pub(crate) fn print(&mut self, cells: &Cells, output: Output) -> io::Result<()> {
        if output.is_json() || cells.is_empty() {
            return Ok(());
        }
        self.rows_within(cells, columns(&io::stdout()), BufWriter::new(Stdout::lock()))
    }

    /// As [`print`](Self::print), in at most this many columns.
    pub(crate) fn rows_within(
        &mut self,
        cells: &Cells,
        columns: Option<usize>,
        mut out: impl Write,
    ) -> io::Result<()> {
        for (column, (_, width)) in (0..self.widths.len()).cycle().zip(cells.iter()) {
            self.widths[column] = width.max(self.widths[column]);
        }
        let headings = Some(Cells::of(self.headings)).filter(|_| !self.is_begun());
        if !self.is_begun() {
            self.shown = self.fitting(columns.unwrap_or(usize::MAX)); // the headings do not change later
        }
        for cells in headings.iter().chain([cells]) {
            let is_wide =
                |columns: &usize| total(&self.widths) > *columns || self.shown.len() < self.widths.len();
            match columns.filter(is_wide) {
                Some(columns) => self.print_cut(cells, columns, &mut out)?,
                None => self.write(cells.iter(), &self.widths, &mut out)?,
            }
        }
        out.flush()
    }

    fn fitting(&self, columns: usize) -> Vec<usize> {
        let least = |column: &usize| match self.is_cut_first(*column) {
            true => self.widths[*column].min(NAME_MIN),
            false => self.widths[*column],
        };
        let mut shown: Vec<usize> = (0..self.widths.len()).collect();
        for spared in self.spared {
            if total(&shown.iter().map(least).collect::<Vec<_>>()) > columns {
                shown.retain(|column| column != spared);
            }
        }
        shown
    }

    fn is_cut_first(&self, column: usize) -> bool {
        self.headings[column] == CUT_FIRST
    }

    /// Prints rows in at most `columns`: the names are cut first, then the widest columns, then the ends of the lines.
    fn print_cut(&self, cells: &Cells, columns: usize, out: &mut impl Write) -> io::Result<()> {
        let mut widths: Vec<usize> = self.shown.iter().map(|column| self.widths[*column]).collect();
        let over = total(&widths).saturating_sub(columns);
        if let Some(first) = self.shown.iter().position(|column| self.is_cut_first(*column)) {
            let most = widths[first].saturating_sub(COLUMN_MIN);
            widths[first] -= over.min(most);
        }
        let widths = shrunk(&widths, columns);
        let mut lines = Vec::new();
        let is_shown = |(column, _): &(usize, _)| self.shown.contains(column);
        let shown = (0..self.widths.len()).cycle().zip(cells.iter()).filter(is_shown);
        let shown = shown.zip(widths.iter().cycle()).map(|((_, (cell, _)), width)| cut(cell, *width));
        let shown: Vec<String> = shown.collect();
        self.write(shown.iter().map(|cell| (cell.as_str(), width(cell))), &widths, &mut lines)?;
        for line in String::from_utf8_lossy(&lines).lines() {
            let line = cut(line, columns);
            // A cell that was cut itself is not marked twice.
            let line = line.strip_suffix("……").map_or(line.clone(), |line| format!("{line}…"));
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }

    const fn is_begun(&self) -> bool {
        !self.shown.is_empty()
    }

    /// Prints rows of the cells that are shown and their widths, without spaces at the ends of rows.
    fn write<'a>(
        &self,
        cells: impl Iterator<Item = (&'a str, usize)>,
        widths: &[usize],
        out: &mut impl Write,
    ) -> io::Result<()> {
        let mut spaces = 0;
        for (column, (cell, width)) in (0..widths.len()).cycle().zip(cells) {
            let padding = widths[column].saturating_sub(width);
            let is_right = self.right.contains(&self.shown[column]);
            spaces += if is_right { padding } else { 0 };
            if !cell.is_empty() {
                while spaces > 0 {
                    let some = &SPACES[..spaces.min(SPACES.len())];
                    out.write_all(some)?;
                    spaces -= some.len();
                }
                out.write_all(cell.as_bytes())?;
            }
            spaces += if is_right { GAP } else { padding + GAP };
            if column + 1 == widths.len() {
                out.write_all(b"\n")?;
                spaces = 0;
            }
        }
        Ok(())
    }
}

fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// The widths, with the widest cut until all of them fit `columns`, or none is wider than [`COLUMN_MIN`].
fn shrunk(widths: &[usize], columns: usize) -> Vec<usize> {
    let mut widths = widths.to_vec();
    loop {
        let over = total(&widths).saturating_sub(columns);
        let Some(widest) = widths.iter().copied().max().filter(|widest| over > 0 && *widest > COLUMN_MIN)
        else {
            return widths;
        };
        let next = widths.iter().copied().filter(|width| *width < widest).max().unwrap_or(0).max(COLUMN_MIN);
        for width in widths.iter_mut().filter(|width| **width == widest) {
            *width = next.max(widest.saturating_sub(over));
        }
    }
}

#[derive(Default)]
pub(crate) struct Cells {
    text: String,
    /// Where each cell ends, and its width in characters.
    ends: Vec<(usize, usize)>,
    names: ShownNames,
}

/// Names that are not ASCII and were shown, by how they look.
#[derive(Default)]
pub(crate) struct ShownNames(HashMap<String, String>);

impl ShownNames {
    /// `name` so that it is told from the others, also from one that looks like it.
    pub(crate) fn told_apart(&mut self, name: &str) -> String {
        let is_alike = !name.is_ascii() && {
            let first = self.0.entry(look_of(name)).or_insert_with(|| name.to_owned());
            first != name
        };
        let is_odd = |(at, c): (usize, char)| {
            let is_edge = at == 0 || at + c.len_utf8() == name.len();
            c == ' ' && is_edge || is_alike && !c.is_ascii()
        };
        let mut shown = String::with_capacity(name.len());
        for (at, c) in name.char_indices() {
            if is_odd((at, c)) { shown.extend(c.escape_unicode()) } else { shown.push(c) }
        }
        shown
    }
}

impl Cells {
    fn of(texts: &[&str]) -> Self {
        let mut cells = Self::default();
        texts.iter().for_each(|text| cells.add(text));
        cells
    }

    pub(crate) fn add(&mut self, cell: impl Display) {
        let start = self.text.len();
        let _ = write!(self.text, "{cell}"); // a `String` takes all
        let width = match visible(&self.text[start..]) {
            Cow::Borrowed(ascii) => ascii.len(),
            Cow::Owned(shown) => {
                self.text.replace_range(start.., &shown);
                width(&shown)
            }
        };
        self.ends.push((self.text.len(), width));
    }

    /// As [`add`](Self::add), for a name, which is [told from the others](ShownNames::told_apart).
    pub(crate) fn add_name(&mut self, name: &str) {
        let shown = self.names.told_apart(name);
        self.add(shown);
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, usize)> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(end, _)| *end));
        starts.zip(&self.ends).map(|(start, (end, width))| (&self.text[start..*end], *width))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_alike_are_told_apart() {
        let mut cells = Cells::default();
        ["é", "e\u{301}", "é", "资料", "a", " a", "❤\u{fe0f}", "❤"]
            .iter()
            .for_each(|name| cells.add_name(name));
        let shown: Vec<&str> = cells.iter().map(|(cell, _)| cell).collect();
        let escaped = ["é", "e\\u{301}", "é", "资料", "a", "\\u{20}a", "❤\u{fe0f}", "\\u{2764}"];
        assert_eq!(shown, escaped);
    }

    #[test]
    fn columns_line_up_also_with_wide_letters() {
        let cells = Cells::of;
        let (mut table, mut out) = (Table::new(&["N", "V"], &[1]), Vec::new());
        table.rows_within(&cells(&["é", "5", "long", "123"]), None, &mut out).unwrap();
        table.rows_within(&cells(&["資", "5"]), None, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "N       V\né       5\nlong  123\n資      5\n");
    }

    #[test]
    fn on_a_narrow_terminal_names_are_cut_first_and_then_the_columns_left_out_that_matter_least() {
        let headings = &["NAME", "VERSION", "SIZE", "AGE", "HOLDERS", "FRESHNESS"];
        let first = ["models/llama/weights-00001-of-00030.bin", "12", "1.5 GiB", "35 min", "7", "unverified"];
        let rows = |columns| {
            let (mut table, mut out) = (Table::new(headings, &[1, 2, 3, 4]).sparing(&[4, 1]), Vec::new());
            for row in [first, ["a", "1", "1 B", "1 s", "1", "fresh"]] {
                table.rows_within(&Cells::of(&row), Some(columns), &mut out).unwrap();
            }
            String::from_utf8(out).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let of_60 = [
            "NAME                    VERSION     SIZE     AGE  FRESHNESS",
            "models/llama/weights-…       12  1.5 GiB  35 min  unverified",
            "a                             1      1 B     1 s  fresh",
        ];
        let of_40 = [
            "NAME            SIZE     AGE  FRESHNESS",
            "models/lla…  1.5 GiB  35 min  unverified",
            "a                1 B     1 s  fresh",
        ];
        assert_eq!(rows(60), of_60);
        assert_eq!(rows(40), of_40);
    }

    #[test]
    fn no_line_is_longer_than_the_terminal() {
        let cells = ["models/資料/a-file-with-a-long-name.bin", "123456", "1.5 GiB", "a", "12", "b"];
        let print = |columns| {
            let (mut table, mut out) = (Table::new(&["NAME", "VERSION", "SIZE"], &[1, 2]), Vec::new());
            table.rows_within(&Cells::of(&cells), Some(columns), &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        for columns in 0..80 {
            let text = print(columns);
            assert!(text.lines().all(|line| width(line) <= columns), "{columns}: {text}");
            assert_eq!(text.lines().count(), 3);
        }
        let of_40 = [
            "NAME                    VERSION     SIZE",
            "models/資料/a-file-wi…   123456  1.5 GiB",
            "a                            12        b",
        ];
        assert_eq!(print(40).lines().collect::<Vec<_>>(), of_40);
    }
}
