//! Tables for people: Markdown whose columns are aligned, figures to the right.

use std::fmt;

use serde_json::Value;

use super::{Row, metrics::metric};

/// What stands where there is no value.
const NOTHING: &str = "-";

/// Lines of cells under headings.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// The headings, then the lines.
    lines: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<H: Into<String>>(heads: impl IntoIterator<Item = H>) -> Self {
        Self { lines: vec![heads.into_iter().map(Into::into).collect()] }
    }

    /// The columns of `rows` that these keys name; a column without any value is left out.
    pub(crate) fn of(rows: &[Row], keys: impl IntoIterator<Item = &'static str>) -> Self {
        let has_value =
            |key: &&str| rows.iter().any(|row| row.0.get(*key).is_some_and(|value| !value.is_null()));
        let keys: Vec<&'static str> = keys.into_iter().filter(has_value).collect();
        let lines = rows.iter().map(|row| keys.iter().map(|key| shown(key, row.0.get(*key))).collect());
        let mut table = Self::new(keys.iter().map(|key| metric(key).label));
        table.lines.extend(lines);
        table
    }

    pub(crate) fn line(mut self, cells: impl IntoIterator<Item = String>) -> Self {
        self.lines.push(cells.into_iter().collect());
        self
    }

    /// The same with columns for lines.
    pub(crate) fn transposed(self) -> Self {
        let columns = self.lines.first().map_or(0, Vec::len);
        let column = |n: usize| self.lines.iter().map(|line| line[n].clone()).collect();
        Self { lines: (0..columns).map(column).collect() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lines.len() < 2
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = 0..self.lines.first().map_or(0, Vec::len);
        let cells = |column: usize| self.lines.iter().map(move |line| &line[column]);
        let width = |column| cells(column).map(|cell| cell.chars().count()).max().unwrap_or(0);
        let is_right = |column| column > 0 && cells(column).skip(1).all(|cell| is_figure(cell));
        let style: Vec<(usize, bool)> = columns.map(|column| (width(column), is_right(column))).collect();
        for (n, line) in self.lines.iter().enumerate() {
            let cells = line.iter().zip(&style).map(|(cell, (width, is_right))| match is_right {
                true => format!("| {cell:>width$} "),
                false => format!("| {cell:width$} "),
            });
            write!(f, "{}{}|", if n > 0 { "\n" } else { "" }, cells.collect::<String>())?;
            if n == 0 {
                let rules = style.iter().map(|(width, is_right)| {
                    format!("|{}{}", "-".repeat(width + 1), if *is_right { ':' } else { '-' })
                });
                write!(f, "\n{}|", rules.collect::<String>())?;
            }
        }
        Ok(())
    }
}

fn is_figure(cell: &str) -> bool {
    let bare = cell.trim_start_matches(['<', '>', '=', ' ']).trim_end_matches(" x");
    cell == NOTHING || bare.parse::<f64>().is_ok()
}

/// A value of a row, with as many decimals as its metric has.
fn shown(key: &'static str, value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => NOTHING.to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => match value.as_f64().filter(|_| value.is_f64()) {
            Some(figure) => metric(key).shown(figure),
            None => value.to_string(),
        },
    }
}
