//! Two results beside each other: what became better, what became worse.

use std::fmt::Write;

use crate::outcome::{Begin, Fault, Outcome, print};
use crate::prelude::*;
use crate::report::metrics::{Better, compared};
use crate::report::{Row, aligned, bytes, figures::P99_FROM, outputs::read};

/// Figures that are times: divided by the floor where that is asked for.
const TIMES: [&str; 5] = ["mean_us", "p50_us", "p90_us", "p99_us", "max_us"];
/// Figures that are rates: times the floor there.
const RATES: [&str; 2] = ["queries_per_s", "per_s"];
/// What tells one row of results from another.
const KEYS: [&str; 10] =
    ["scenario", "topology", "degree", "security", "layout", "routing", "rate", "miss", "files", "holders"];

/// Two results.
#[derive(Args)]
pub(crate) struct Compare {
    /// The result before
    before: PathBuf,
    /// The result after
    after: PathBuf,
    #[command(flatten)]
    rule: Rule,
}

impl Compare {
    pub(crate) fn run(&self) -> Result<Outcome, Fault> {
        let read = |path: &Path| read::<Value>(path, &format!("cannot read the result {}", path.display()));
        let (before, after) = (read(&self.before)?, read(&self.after)?);
        let (table, worse) = compare(&before, &after, self.rule).or_cannot_begin()?;
        print(&table)?;
        Outcome::judged(&worse, "worse by more than the tolerance")
    }
}

/// How to compare.
#[derive(Clone, Copy, Debug, Args)]
pub struct Rule {
    /// By how much a figure may be worse, as a share
    #[arg(long, default_value_t = 0.1, value_parser = tolerance)]
    pub tolerance: f64,
    /// Count times in floors of their own run: for results of different machines, or of a noisy one
    #[arg(long)]
    pub per_floor: bool,
}

pub(crate) fn tolerance(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share: &f64| share.is_finite() && *share >= 0.0);
    share.ok_or_else(|| "the tolerance is a share of at least 0, such as 0.1".to_owned())
}

/// Compares results `a` (before) and `b` (after), row by row: tables, and in words what is worse than the tolerance allows.
pub fn compare(a: &Value, b: &Value, rule: Rule) -> Result<(String, Vec<String>)> {
    for result in [a, b] {
        ensure!(result["interrupted"] != true, "an interrupted result cannot be compared");
    }
    let (before, after) = (rows(a)?, rows(b)?);
    let has_floor = |row: &Row| row.get("floor_us").is_finite();
    if rule.per_floor && !before.iter().chain(&after).all(has_floor) {
        bail!("not every row of these results has a floor to compare by");
    }
    let (mut table, mut worse, mut compared) = (String::new(), Vec::new(), 0);
    for old in &before {
        let Some(new) = after.iter().find(|new| identity(new) == identity(old)) else {
            worse.push(format!("{}: not in the second result", identity(old)));
            continue;
        };
        compared += 1;
        let (of_rows, worse_rows) = compare_rows(old, new, rule);
        table += &of_rows;
        worse.extend(worse_rows);
    }
    for new in after.iter().filter(|new| before.iter().all(|old| identity(old) != identity(new))) {
        writeln!(table, "{}: not in the first result\n", identity(new))?;
    }
    if compared == 0 {
        bail!("the two results have no scenario in common");
    }
    Ok((table, worse))
}

fn compare_rows(old: &Row, new: &Row, rule: Rule) -> (String, Vec<String>) {
    let (name, mut worse) = (identity(old), Vec::new());
    let mut lines = vec![["", "before", "after", "ratio", ""].map(str::to_owned).to_vec()];
    for (key, better) in compared() {
        let (Some(before), Some(after)) = (figure(old, key, rule), figure(new, key, rule)) else {
            continue;
        };
        let ratio = if before == after { 1.0 } else { after / before };
        let is_worse = match better {
            Better::Lower => after > before * (1.0 + rule.tolerance),
            Better::Higher => after < before * (1.0 - rule.tolerance),
            Better::NoMore => after > before,
            Better::Shown => false,
        };
        let mark = if is_worse { "worse" } else { "" }.to_owned();
        let [was, is] = [before, after].map(|figure| format!("{figure:.3}"));
        lines.push(vec![key.to_owned(), was, is, format!("{ratio:.2} x"), mark]);
        if is_worse {
            worse.push(format!("{name}: {key} went from {before:.3} to {after:.3} ({ratio:.2} x)"));
        }
    }
    (format!("{name}\n\n{}\n\n", aligned(&lines)), worse)
}

fn figure(row: &Row, key: &str, rule: Rule) -> Option<f64> {
    let (figure, floor) = (row.get(key), if rule.per_floor { row.get("floor_us") } else { 1.0 });
    let is_decided_by_few = key == "p99_us" && row.get("times") < bytes(P99_FROM);
    Some(match key {
        _ if TIMES.contains(&key) => figure / floor,
        _ if RATES.contains(&key) => figure * floor,
        _ => figure,
    })
    .filter(|figure| figure.is_finite() && !is_decided_by_few)
}

/// The rows of a result: itself, or those listed in it.
fn rows(result: &Value) -> Result<Vec<Row>> {
    let rows = match result.get("rows") {
        Some(rows) => rows.as_array().context("\"rows\" of a result is a list")?,
        None => std::slice::from_ref(result),
    };
    let rows: Vec<Row> = rows.iter().cloned().map(Row::of).collect();
    let are_named = !rows.is_empty() && rows.iter().all(|row| row.0.contains_key("scenario"));
    ensure!(are_named, "a result of this program says which scenario it is of");
    Ok(rows)
}

fn identity(row: &Row) -> String {
    let parts = KEYS.iter().filter_map(|key| match row.0.get(*key)? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(format!("{key} {other}")),
    });
    parts.collect::<Vec<_>>().join(", ")
}
