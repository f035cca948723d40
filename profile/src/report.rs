//! What a measurement says: rows of figures under known keys, for people as aligned tables and pictures, for
//! machines as JSON, and as CSV.

pub mod figures;
pub mod goals;
pub mod machine;
pub(crate) mod metrics;
pub mod outputs;
pub mod units;

use serde_json::Map;

use self::figures::{Figures, rounded};
use crate::plot::Picture;
use crate::prelude::*;

/// One row: values by key. `metrics` says what the keys mean.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row(pub Map<String, Value>);

impl Row {
    /// A row of these values by key, which are an object.
    pub(crate) fn of(values: Value) -> Self {
        match values {
            Value::Object(values) => Self(values),
            _ => Self::default(),
        }
    }

    pub fn named(scenario: impl Into<Value>) -> Self {
        Self::default().with("scenario", scenario)
    }

    /// The same with one more value; a figure that is no number is null.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.insert(key.to_owned(), value.into());
        self
    }

    /// The same with the share of the index, and the rest: none where the index alone takes longer, as its work is shared
    /// by more cores between processes.
    pub fn shares(self, index_percent: f64) -> Self {
        let rest = Some(100.0 - index_percent).filter(|rest| *rest >= 0.0);
        self.with("index_percent", index_percent).with("ipc_percent", rest)
    }

    /// The figure under `key`; not a number if there is none.
    pub fn get(&self, key: &str) -> f64 {
        self.0.get(key).and_then(Value::as_f64).unwrap_or(f64::NAN)
    }

    /// The text under `key`; empty if there is none.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.0.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn times(self, Figures { count, mean, p50, p90, p99, p999, max, .. }: &Figures) -> Self {
        self.and(Self::of(json!({
            "times": count, "mean_us": mean, "p50_us": p50, "p90_us": p90, "p99_us": p99, "p999_us": p999, "max_us": max,
        })))
    }

    pub(crate) fn and(mut self, more: Self) -> Self {
        self.0.extend(more.0);
        self
    }
}

/// A part of a report: one table, and its rows in the results.
#[derive(Clone, Debug, Default)]
pub(crate) struct Section {
    pub(crate) title: String,
    /// Aligned; empty if it has no lines.
    pub(crate) table: String,
    pub(crate) rows: Vec<Row>,
}

impl Section {
    /// Rows whose table has these columns, by key, separated by blanks.
    pub(crate) fn new(title: impl Into<String>, columns: &str, rows: Vec<Row>) -> Self {
        Self { title: title.into(), table: aligned(&cells(&rows, columns.split_whitespace())), rows }
    }
}

#[derive(Default)]
pub struct Report {
    /// Which command; `None` if the only row is all of the results.
    pub kind: Option<&'static str>,
    /// How it was measured, in lines.
    pub head: String,
    pub(crate) sections: Vec<Section>,
    /// What is said at the end, in lines.
    pub foot: Vec<String>,
    /// Values of the results that belong to no row.
    pub facts: Row,
    pub(crate) interrupted: bool,
    /// Something that was promised did not hold.
    pub(crate) is_broken: bool,
    pub(crate) pictures: Vec<Picture>,
    /// Every single request or round, where these can be had: keys separated by blanks, and rows as they are asked for.
    pub csv: Option<(String, Box<dyn Iterator<Item = Row> + Send>)>,
}

impl Report {
    /// The same of a run that was ended early: by a user, so that something is missing, or by itself for `fault`.
    pub(crate) fn ended(mut self, interrupted: bool, missing: &str, fault: Option<&String>) -> Self {
        self.interrupted = interrupted;
        self.is_broken |= fault.is_some();
        self.foot.extend(interrupted.then(|| missing.to_owned()));
        self.foot.extend(fault.map(|fault| format!("Ended early: {fault}.")));
        self
    }

    /// A figure of the row of this scenario; not a number if there is none.
    pub fn of(&self, scenario: &str, key: &str) -> f64 {
        let mut rows = self.sections.iter().flat_map(|section| &section.rows);
        rows.find(|row| row.text("scenario") == scenario).map_or(f64::NAN, |row| row.get(key))
    }

    /// The report for people.
    pub fn text(&self) -> String {
        let titled = |section: &Section| match &section.title[..] {
            "" => section.table.clone(),
            title => format!("{title}\n\n{}", section.table),
        };
        let sections = self.sections.iter().filter(|section| !section.table.is_empty()).map(titled);
        let foot = Some(self.foot.join("\n")).filter(|foot| !foot.is_empty());
        let parts: Vec<String> = [self.head.clone()].into_iter().chain(sections).chain(foot).collect();
        parts.join("\n\n")
    }

    /// The report for machines; figures have three decimals.
    pub fn json(&self) -> Value {
        let rows: Vec<&Row> = self.sections.iter().flat_map(|section| &section.rows).collect();
        let about = Row::of(json!({ "commit": machine::COMMIT, "machine": machine::describe() }));
        let Some(kind) = self.kind else {
            return in_decimals(json!(rows.into_iter().cloned().fold(about, Row::and)));
        };
        let of_run = Row::of(json!({ "kind": kind, "interrupted": self.interrupted, "rows": rows }));
        in_decimals(json!(about.and(of_run).and(self.facts.clone())))
    }
}

fn in_decimals(results: Value) -> Value {
    match results {
        Value::Object(values) => values.into_iter().map(|(key, value)| (key, in_decimals(value))).collect(),
        Value::Array(values) => values.into_iter().map(in_decimals).collect(),
        Value::Number(figure) if figure.is_f64() => json!(figure.as_f64().map(rounded)),
        other => other,
    }
}

/// Writes a line for each of `rows`, with their values under these keys, which are separated by blanks; figures have three
/// decimals.
pub fn write_csv(out: &mut dyn Write, keys: &str, rows: impl Iterator<Item = Row>) -> io::Result<()> {
    let keys: Vec<&str> = keys.split_whitespace().collect();
    writeln!(out, "{}", keys.join(","))?;
    for row in rows {
        let cells = keys.iter().map(|key| match row.0.get(*key) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) if text.contains(',') => format!("\"{text}\""),
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(figure)) if figure.is_f64() => format!("{:.3}", row.get(key)),
            Some(value) => value.to_string(),
        });
        writeln!(out, "{}", cells.collect::<Vec<_>>().join(","))?;
    }
    Ok(())
}

pub(crate) const fn security_name(security: Security) -> &'static str {
    match security {
        Security::Tls => "tls",
        Security::Insecure => "insecure",
    }
}

/// How much of something is measured: of a debug build, whose figures say little, a twentieth.
pub(crate) const fn amount(most: usize) -> usize {
    if cfg!(debug_assertions) { most.div_ceil(20) } else { most }
}

#[expect(clippy::cast_precision_loss, reason = "figures are shown with a few digits")]
pub const fn count(count: usize) -> f64 {
    count as f64
}

#[expect(clippy::cast_precision_loss, reason = "figures are shown with a few digits")]
pub const fn bytes(bytes: u64) -> f64 {
    bytes as f64
}

pub(crate) fn mib(count: u64) -> f64 {
    bytes(count) / f64::from(1 << 20)
}

/// What there is any of, in words.
pub(crate) fn some_of(counts: impl IntoIterator<Item = (usize, &'static str)>) -> Vec<String> {
    let some = counts.into_iter().filter(|(count, _)| *count > 0);
    some.map(|(count, what)| format!("{count} {what}")).collect()
}

/// The median of `figures`: of an even number the upper one; of none, not a number.
pub fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The name of a value of the command line, as it is typed there and stands in results.
pub fn option_name(of: &impl clap::ValueEnum) -> String {
    of.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// The name of a value in results.
pub fn key(of: &impl serde::Serialize) -> String {
    json!(of).as_str().unwrap_or_default().to_owned()
}

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
