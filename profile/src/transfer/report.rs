//! What came of transfers: for people and for machines.

use std::{
    fmt::Write as _,
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};

use super::{
    figures::{METRICS, Metric, Round, Row},
    scenario::{Scenario, What},
};
use crate::{
    plot::{self, OverTime},
    report::{figures::rounded, machine, security_name},
};

/// Failures that are shown; the rest are counted only.
const ERRORS_SHOWN: usize = 5;

/// What came of some scenarios.
#[derive(Clone, Debug)]
pub struct Report {
    /// Each of them.
    pub rows: Vec<Row>,
    /// Where the files were.
    pub folder: String,
    /// It was ended early.
    pub interrupted: bool,
}

impl Report {
    /// Everything arrived, and is right.
    #[must_use]
    pub fn is_all_well(&self) -> bool {
        !self.interrupted && self.rows.iter().all(Row::is_all_well)
    }

    /// For people: a line for each figure, a column for each scenario; medians of the rounds.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write_table(&mut text);
        text
    }

    fn write_table(&self, out: &mut String) -> std::fmt::Result {
        let first = self.rows.first();
        let security = first.map_or("", |row| security_name(row.scenario.security));
        let rounds = first.map_or(0, |row| row.scenario.rounds);
        writeln!(
            out,
            "Every node a process of its own, {security}, {}, {}; medians of {rounds} round(s).\n",
            self.folder,
            machine::in_words()
        )?;
        let head = [String::new()].into_iter().chain(self.rows.iter().map(|row| row.scenario.name()));
        let mut lines: Vec<Vec<String>> = vec![head.collect()];
        for metric in METRICS {
            let cells: Vec<_> = self.rows.iter().map(|row| row.median(metric.key)).collect();
            if cells.iter().any(Option::is_some) {
                let cells = cells.into_iter().map(|cell| cell.map_or_else(|| "-".to_owned(), shown));
                lines.push([metric.label.to_owned()].into_iter().chain(cells).collect());
            }
        }
        write_aligned(out, &lines)?;
        for row in &self.rows {
            write_sources(out, row)?;
        }
        let errors: Vec<&String> = self.rows.iter().flat_map(Row::errors).collect();
        for error in errors.iter().take(ERRORS_SHOWN) {
            writeln!(out, "failed: {error}")?;
        }
        if let Some(more) = errors.len().checked_sub(ERRORS_SHOWN).filter(|more| *more > 0) {
            writeln!(out, "failed: {more} more")?;
        }
        if self.interrupted {
            writeln!(out, "interrupted: rounds are missing")?;
        }
        Ok(())
    }

    /// For machines.
    #[must_use]
    pub fn json(&self) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(row_json).collect();
        json!({
            "kind": "transfer",
            "commit": machine::COMMIT,
            "machine": machine::describe(),
            "files": self.folder,
            "interrupted": self.interrupted,
            "rows": rows,
        })
    }

    /// A line for each round.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn write_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        let keys = METRICS.map(|metric| metric.key).join(",");
        writeln!(out, "scenario,security,round,{keys}")?;
        for row in &self.rows {
            let (name, security) = (row.scenario.name(), security_name(row.scenario.security));
            for (n, round) in (1..).zip(&row.rounds) {
                let cell = |metric: Metric| (metric.of)(round).map_or_else(String::new, |is| is.to_string());
                writeln!(out, "\"{name}\",{security},{n},{}", METRICS.map(cell).join(","))?;
            }
        }
        Ok(())
    }

    /// Draws, of the last round of each scenario, what came from whom and how memory went; returns what
    /// was written.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn draw(&self, folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
        let mut written = Vec::new();
        for row in &self.rows {
            let Some(round) = row.rounds.last() else { continue };
            let base = format!("transfer-{}", row.scenario.slug());
            let setting = format!("{}; {}", security_name(row.scenario.security), machine::in_words());
            let [throughput, memory] = [OverTime::throughput, OverTime::memory]
                .map(|picture| picture(round, &row.scenario.name(), setting.clone()));
            for (name, picture) in [("throughput", throughput), ("memory", memory)] {
                if !picture.lines.is_empty() {
                    written.extend(plot::save(folder, &format!("{base}-{name}"), &picture)?);
                }
            }
        }
        Ok(written)
    }
}

/// Columns of one width each: the first to the left, the others to the right.
fn write_aligned(out: &mut String, lines: &[Vec<String>]) -> std::fmt::Result {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for (n, line) in lines.iter().enumerate() {
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            match column {
                0 => write!(out, "| {cell:width$} |")?,
                _ => write!(out, " {cell:>width$} |")?,
            }
        }
        writeln!(out)?;
        if n == 0 {
            let rules = widths.iter().enumerate().map(|(column, width)| match column {
                0 => format!("|{}|", "-".repeat(width + 2)),
                _ => format!("{}:|", "-".repeat(width + 1)),
            });
            writeln!(out, "{}", rules.collect::<String>())?;
        }
    }
    writeln!(out)
}

/// Who sent how much in the last round.
fn write_sources(out: &mut String, row: &Row) -> std::fmt::Result {
    let Some(round) = row.rounds.last().filter(|round| round.sources.len() > 1) else { return Ok(()) };
    let sent = round.sources.iter().map(|source| {
        let banned = if source.banned { ", banned" } else { "" };
        #[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
        let mib = source.bytes as f64 / f64::from(1 << 20);
        format!("{} {mib:.1} MiB{banned}", source.label)
    });
    writeln!(out, "{}: {}\n", row.scenario.name(), sent.collect::<Vec<_>>().join("; "))
}

/// Three digits that say something.
fn shown(figure: f64) -> String {
    match figure.abs() {
        whole if whole.fract() == 0.0 => format!("{figure:.0}"),
        large if large >= 100.0 => format!("{figure:.0}"),
        middle if middle >= 10.0 => format!("{figure:.1}"),
        _ => format!("{figure:.3}"),
    }
}

fn row_json(row: &Row) -> Value {
    let mut object = scenario_json(&row.scenario);
    for metric in METRICS {
        object.insert(metric.key.to_owned(), json!(row.median(metric.key).map(rounded)));
    }
    let count = |of: fn(&Round) -> usize| row.rounds.iter().map(of).sum::<usize>();
    // Of these not the median counts, but all.
    object.insert("wrong".to_owned(), json!(count(|round| round.wrong)));
    object.insert("errors".to_owned(), json!(count(|round| round.errors.len())));
    object.insert("failures".to_owned(), json!(row.errors().take(ERRORS_SHOWN).collect::<Vec<_>>()));
    object.insert("rounds".to_owned(), row.rounds.iter().map(round_json).collect());
    Value::Object(object)
}

fn scenario_json(scenario: &Scenario) -> Map<String, Value> {
    let Scenario { what, sources, readers, security, cap_up, cap_down, corrupt, seed, .. } = scenario;
    let (bulk, change, small) = match *what {
        What::Whole(bulk) | What::Publish(bulk) => (Some(bulk), None, None),
        What::Change(bulk, change) => (Some(bulk), Some(change), None),
        What::Files { count, bytes } => (None, None, Some((count, bytes))),
    };
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
    put("scenario", json!(scenario.name()));
    put("command", json!(scenario.command()));
    put("security", json!(security_name(*security)));
    put("size_bytes", json!(bulk.map(|bulk| bulk.size)));
    put("sparse", json!(bulk.is_some_and(|bulk| bulk.sparse)));
    put("sources", json!(sources));
    put("readers", json!(readers));
    put("cap_up_bytes_per_s", json!(cap_up));
    put("cap_down_bytes_per_s", json!(cap_down));
    put("corrupt_percent", json!(corrupt));
    put("change_percent", json!(change.map(|change| change.percent)));
    put("change_places", json!(change.map(|change| change.places)));
    put("change_how", json!(change.map(|change| change.how.name())));
    put("files", json!(small.map(|(count, _)| count)));
    put("file_bytes", json!(small.map(|(_, (least, most))| [least, most])));
    put("seed", json!(seed));
    object
}

fn round_json(round: &Round) -> Value {
    let mut object = Map::new();
    for metric in METRICS {
        object.insert(metric.key.to_owned(), json!((metric.of)(round).map(rounded)));
    }
    let sources = round.sources.iter().map(|source| {
        json!({ "source": source.label, "origin": source.is_origin, "bytes": source.bytes, "banned": source.banned })
    });
    object.insert("by_source".to_owned(), sources.collect());
    let nodes = round.senders.iter().chain(&round.readers).map(|(label, usage)| {
        json!({ "node": label, "cpu_s": rounded(usage.cpu_s), "peak_bytes": usage.peak_bytes })
    });
    object.insert("nodes".to_owned(), nodes.collect());
    object.insert("took_s".to_owned(), round.took_s.iter().map(|took_s| json!(rounded(*took_s))).collect());
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::figures::tests::round;

    fn report() -> Report {
        let scenario = Scenario { readers: 2, rounds: 1, ..Scenario::whole(1 << 30) };
        let rows = vec![Row { scenario, rounds: vec![round()] }];
        Report { rows, folder: "files in /tmp (ext4)".to_owned(), interrupted: false }
    }

    #[test]
    fn columns_of_the_table_are_aligned() {
        let table = report().table();
        let lines: Vec<&str> = table.lines().filter(|line| line.starts_with('|')).collect();
        assert!(lines.iter().all(|line| line.chars().count() == lines[0].chars().count()), "{table}");
        assert!(table.contains("hostile 1024.0 MiB, banned"), "{table}");
        assert!(!table.contains("publishing"), "what is not measured is not shown: {table}");
    }

    #[test]
    fn results_for_machines_have_scenario_and_rounds() {
        let json = report().json();
        let row = &json["rows"][0];
        assert_eq!((&row["ratio_tcp"], &row["readers"]), (&json!(4.0), &json!(2)));
        assert_eq!(row["rounds"][0]["by_source"][1]["banned"], true);
        let mut csv = Vec::new();
        report().write_csv(&mut csv).unwrap();
        let csv = String::from_utf8(csv).unwrap();
        let columns: Vec<usize> =
            csv.replace(", ", " ").lines().map(|line| line.split(',').count()).collect();
        assert_eq!(columns, [3 + METRICS.len(); 2]);
    }

    #[test]
    fn both_pictures_are_drawn() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(report().draw(folder.path()).unwrap().len(), 4);
    }
}
