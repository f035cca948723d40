//! Two results beside each other: what became better, what became worse.

use std::fmt::Write;

use anyhow::{Context, bail, ensure};
use serde_json::{Map, Value};

use crate::report::{
    Table,
    figures::P99_FROM,
    metrics::{Better, METRICS, Metric},
};

/// Figures that are times: divided by the floor where that is asked for.
const TIMES: [&str; 5] = ["mean_us", "p50_us", "p90_us", "p99_us", "max_us"];
/// Figures that are rates: times the floor there.
const RATES: [&str; 2] = ["queries_per_s", "per_s"];
/// What tells one row of results from another.
const KEYS: [&str; 10] =
    ["scenario", "topology", "degree", "security", "layout", "routing", "rate", "miss", "files", "holders"];

/// How to compare.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    /// By how much a figure may be worse, as a share of what it was: 0.1 is a tenth.
    pub tolerance: f64,
    /// Times and rates count in floors of their own run, so that a slower machine does not look like
    /// a slower program.
    pub per_floor: bool,
}

/// The comparison of two results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Comparison {
    /// A table, for people.
    pub table: String,
    /// Every figure that is worse than the tolerance allows, in words.
    pub regressions: Vec<String>,
}

/// Compares results `a` (before) and `b` (after), row by row.
pub(crate) fn compare(a: &Value, b: &Value, rule: Rule) -> anyhow::Result<Comparison> {
    for result in [a, b] {
        ensure!(result["interrupted"] != true, "an interrupted result cannot be compared");
    }
    let (before, after) = (rows(a)?, rows(b)?);
    let has_floor = |row: &&Map<String, Value>| row.get("floor_us").is_some_and(Value::is_number);
    if rule.per_floor && !before.iter().chain(&after).all(has_floor) {
        bail!("not every row of these results has a floor to compare by");
    }
    let mut comparison = Comparison { table: String::new(), regressions: Vec::new() };
    let mut compared = 0;
    for old in &before {
        let Some(new) = after.iter().find(|new| identity(new) == identity(old)) else {
            comparison.regressions.push(format!("{}: not in the second result", identity(old)));
            continue;
        };
        compared += 1;
        compare_rows(old, new, rule, &mut comparison)?;
    }
    for new in after.iter().filter(|new| before.iter().all(|old| identity(old) != identity(new))) {
        writeln!(comparison.table, "{}: not in the first result\n", identity(new))?;
    }
    if compared == 0 {
        bail!("the two results have no scenario in common");
    }
    Ok(comparison)
}

fn compare_rows(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    rule: Rule,
    to: &mut Comparison,
) -> anyhow::Result<()> {
    let name = identity(old);
    let mut table = Table::new([name.as_str(), "before", "after", "ratio", ""]);
    for Metric { key, better, .. } in METRICS.into_iter().filter(|metric| metric.better != Better::Aside) {
        let (Some(before), Some(after)) = (figure(old, key, rule), figure(new, key, rule)) else {
            continue;
        };
        let ratio = if before == after { 1.0 } else { after / before };
        let is_worse = match better {
            Better::Lower => after > before * (1.0 + rule.tolerance),
            Better::Higher => after < before * (1.0 - rule.tolerance),
            Better::NoMore => after > before,
            Better::Shown | Better::Aside => false,
        };
        let cells = [format!("{before:.3}"), format!("{after:.3}"), format!("{ratio:.2} x")];
        let mark = if is_worse { "worse" } else { "" };
        table = table.line([key.to_owned()].into_iter().chain(cells).chain([mark.to_owned()]));
        if is_worse {
            let change = format!("{key} went from {before:.3} to {after:.3} ({ratio:.2} x)");
            to.regressions.push(format!("{name}: {change}"));
        }
    }
    writeln!(to.table, "{table}\n")?;
    Ok(())
}

fn figure(row: &Map<String, Value>, metric: &str, rule: Rule) -> Option<f64> {
    let figure = row.get(metric)?.as_f64()?;
    let times = row.get("times").and_then(Value::as_u64);
    if metric == "p99_us" && times.is_some_and(|times| times < P99_FROM) {
        return None;
    }
    let floor = row.get("floor_us").and_then(Value::as_f64);
    Some(match floor.filter(|_| rule.per_floor) {
        Some(floor) if TIMES.contains(&metric) => figure / floor,
        Some(floor) if RATES.contains(&metric) => figure * floor,
        _ => figure,
    })
}

/// The rows of a result: itself, or those listed in it.
fn rows(result: &Value) -> anyhow::Result<Vec<&Map<String, Value>>> {
    let object = result.as_object().context("a result is a JSON object")?;
    let rows = match object.get("rows") {
        None => vec![object],
        Some(rows) => {
            let rows = rows.as_array().context("\"rows\" of a result is a list")?;
            rows.iter().map(|row| row.as_object().context("a row is an object")).collect::<Result<_, _>>()?
        }
    };
    if rows.is_empty() || rows.iter().any(|row| !row.contains_key("scenario")) {
        bail!("a result of this program says which scenario it is of");
    }
    Ok(rows)
}

fn identity(row: &Map<String, Value>) -> String {
    let parts = KEYS.iter().filter_map(|key| match row.get(*key)? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(format!("{key} {other}")),
    });
    parts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const RULE: Rule = Rule { tolerance: 0.1, per_floor: false };

    fn result(p50: f64, per_s: f64, wrong: u64) -> Value {
        json!({"scenario": "1/1/0", "layout": "one", "p50_us": p50, "max_us": p50 * 9.0, "queries_per_s": per_s,
               "hits_wrong": wrong, "floor_us": 5.0})
    }

    fn regressions(a: &Value, b: &Value, rule: Rule) -> usize {
        compare(a, b, rule).unwrap().regressions.len()
    }

    #[test]
    fn worse_is_judged_by_what_should_go_which_way() {
        let before = result(100.0, 1000.0, 0);
        for (after, expected) in [
            (result(100.0, 1000.0, 0), 0),
            (result(109.0, 910.0, 0), 0),
            (result(111.0, 1000.0, 0), 1),
            (result(50.0, 2000.0, 0), 0),
            (result(100.0, 880.0, 0), 1),
            (result(100.0, 1000.0, 1), 1),
            (result(200.0, 500.0, 1), 3),
        ] {
            assert_eq!(regressions(&before, &after, RULE), expected, "{after}");
        }
        let text = compare(&before, &result(200.0, 1000.0, 0), RULE).unwrap().regressions;
        assert_eq!(text, ["1/1/0, one: p50_us went from 100.000 to 200.000 (2.00 x)"]);
    }

    #[test]
    fn a_p99_of_few_times_decides_nothing() {
        let result = |p99: f64, times: u64| json!({"scenario": "a", "p99_us": p99, "times": times});
        assert_eq!(regressions(&result(1.0, 1000), &result(2.0, 1000), RULE), 1);
        assert_eq!(regressions(&result(1.0, 1000), &result(2.0, 999), RULE), 0);
    }

    #[test]
    fn times_may_count_in_floors() {
        let (before, mut after) = (result(100.0, 1000.0, 0), result(200.0, 1000.0, 0));
        after["floor_us"] = json!(10.0);
        assert_eq!(regressions(&before, &after, RULE), 1);
        after["queries_per_s"] = json!(500.0);
        let per_floor = Rule { per_floor: true, ..RULE };
        assert_eq!(regressions(&before, &after, per_floor), 0);
        after["floor_us"] = Value::Null;
        assert!(compare(&before, &after, per_floor).is_err());
        after["interrupted"] = json!(true);
        assert!(compare(&before, &after, RULE).is_err());
    }

    #[test]
    fn rows_are_matched_by_what_they_are_of() {
        let row = |scenario: &str, us: f64| json!({"scenario": scenario, "p50_us": us});
        let a = json!({"rows": [row("a", 1.0), row("b", 1.0)]});
        let b = json!({"rows": [row("b", 1.0), row("a", 2.0), row("c", 1.0)]});
        let comparison = compare(&a, &b, RULE).unwrap();
        assert_eq!(comparison.regressions.len(), 1);
        let lost = compare(&b, &a, RULE).unwrap().regressions;
        assert_eq!(lost, ["c: not in the second result"]);
        assert!(comparison.table.contains("c: not in the first result"));
        assert!(compare(&row("a", 1.0), &row("b", 1.0), RULE).is_err());
        for bad in [json!([]), json!({}), json!({"rows": 7}), json!({"rows": []}), json!({"rows": [{}]})] {
            assert!(compare(&a, &bad, RULE).is_err(), "{bad}");
        }
    }
}
