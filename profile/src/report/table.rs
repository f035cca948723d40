//! Tables for people: Markdown whose columns are aligned, figures to the right.

use serde_json::Value;

use super::{Row, figures::rounded, metrics};

/// What stands where there is no value.
const NOTHING: &str = "-";

/// The headings of the columns that these keys name, then a line for each of `rows`; a column without any value is left out.
pub(crate) fn cells<'a>(rows: &[Row], keys: impl IntoIterator<Item = &'a str>) -> Vec<Vec<String>> {
    let has_value = |key: &&str| rows.iter().any(|row| row.0.get(*key).is_some_and(|value| !value.is_null()));
    let keys: Vec<&str> = keys.into_iter().filter(has_value).collect();
    let heads = keys.iter().map(|key| metrics::heading(key)).collect();
    let lines = rows.iter().map(|row| keys.iter().map(|key| shown(key, row.0.get(*key))).collect());
    [heads].into_iter().chain(lines).collect()
}

/// Columns for lines.
pub(crate) fn turned(lines: &[Vec<String>]) -> Vec<Vec<String>> {
    let columns = lines.first().map_or(0, Vec::len);
    (0..columns).map(|n| lines.iter().map(|line| line[n].clone()).collect()).collect()
}

/// Lines of cells, the first of which are headings, as a table; empty without others.
pub(crate) fn aligned(lines: &[Vec<String>]) -> String {
    let [heads, _, ..] = lines else { return String::new() };
    let columns = 0..heads.len();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let is_right = |column: usize| column > 0 && lines[1..].iter().all(|line| is_figure(&line[column]));
    let style: Vec<(usize, bool)> = columns.map(|column| (width(column), is_right(column))).collect();
    let rule = style
        .iter()
        .map(|(width, is_right)| format!("|{}{}", "-".repeat(width + 1), if *is_right { ':' } else { '-' }));
    let rule = rule.collect::<String>() + "|";
    let mut table: Vec<String> = lines
        .iter()
        .map(|line| {
            let cells = line.iter().zip(&style).map(|(cell, (width, is_right))| match is_right {
                true => format!("| {cell:>width$} "),
                false => format!("| {cell:width$} "),
            });
            cells.collect::<String>() + "|"
        })
        .collect();
    table.insert(1, rule);
    table.join("\n")
}

fn is_figure(cell: &str) -> bool {
    let bare = cell.trim_start_matches(['<', '>', '=', ' ']).trim_end_matches(" x");
    cell == NOTHING || bare.parse::<f64>().is_ok()
}

/// A value of a row, with as many decimals as its metric has.
fn shown(key: &str, value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => NOTHING.to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => match value.as_f64().filter(|_| value.is_f64()) {
            Some(figure) => metrics::shown(key, rounded(figure)),
            None => value.to_string(),
        },
    }
}
