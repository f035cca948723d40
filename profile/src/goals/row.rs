//! One goal beside what was measured.

use std::fmt;

use serde_json::{Value, json};

use crate::report::{figures::rounded, machine};

/// What is aimed at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
    /// This.
    Exactly(f64),
}

/// One goal.
#[derive(Clone, Debug)]
pub struct Row {
    /// What it is about.
    pub goal: String,
    /// What is aimed at.
    pub bound: Bound,
    /// What was measured.
    pub is: f64,
    /// What measures it alone.
    pub command: String,
    /// Every answer on the way was right.
    pub all_right: bool,
}

impl Bound {
    /// Whether `is` reaches it.
    #[must_use]
    pub fn is_reached(self, is: f64) -> bool {
        match self {
            Self::AtMost(most) => is <= most,
            Self::AtLeast(least) => is >= least,
            Self::Exactly(this) => (is - this).abs() < 1e-9,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(most) => write!(f, "<= {}", shown(*most)),
            Self::AtLeast(least) => write!(f, ">= {}", shown(*least)),
            Self::Exactly(this) => write!(f, "{}", shown(*this)),
        }
    }
}

/// Large figures without decimals, small ones with two.
fn shown(figure: f64) -> String {
    if figure.abs() >= 100.0 { format!("{figure:.0}") } else { format!("{figure:.2}") }
}

/// For people, in Markdown.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let head = format!(
        "{}.\n\n| what | goal | measured | | command |\n|---|--:|--:|---|---|\n",
        machine::in_words()
    );
    let lines = rows.iter().map(|row| {
        let Row { goal, bound, is, command, all_right } = row;
        let verdict = match (all_right, bound.is_reached(*is)) {
            (false, _) => "**wrong answers**",
            (true, true) => "reached",
            (true, false) => "**missed**",
        };
        format!("| {goal} | {bound} | {} | {verdict} | `{command}` |\n", shown(*is))
    });
    head + &lines.collect::<String>()
}

/// For machines.
#[must_use]
pub fn json(rows: &[Row], interrupted: bool) -> Value {
    let object = |row: &Row| {
        json!({
            "goal": row.goal,
            "bound": row.bound.to_string(),
            "measured": rounded(row.is),
            "reached": row.bound.is_reached(row.is),
            "all_right": row.all_right,
            "command": row.command,
        })
    };
    let rows: Vec<Value> = rows.iter().map(object).collect();
    json!({ "kind": "goals", "commit": machine::COMMIT, "machine": machine::describe(), "interrupted": interrupted, "rows": rows })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_reached_or_missed() {
        for (bound, reached, missed) in [
            (Bound::AtMost(2.0), 2.0, 2.01),
            (Bound::AtLeast(2.0), 2.0, 1.99),
            (Bound::Exactly(9.0), 9.0, 9.1),
        ] {
            assert!(bound.is_reached(reached) && !bound.is_reached(missed), "{bound}");
            assert!(!bound.is_reached(f64::NAN), "nothing measured");
        }
    }

    #[test]
    fn wrong_answers_reach_nothing() {
        let row = |is, all_right| {
            let (goal, command) = ("mean".to_owned(), "profile query".to_owned());
            Row { goal, bound: Bound::AtMost(1.0), is, command, all_right }
        };
        let table = table(&[row(0.5, true), row(1.5, true), row(0.5, false)]);
        let lines: Vec<&str> = table.lines().skip(4).collect();
        assert_eq!(lines[0], "| mean | <= 1.00 | 0.50 | reached | `profile query` |");
        assert!(lines[1].contains("| **missed** |") && lines[2].contains("| **wrong answers** |"));
    }
}
