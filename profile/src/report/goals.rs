//! What is aimed at, beside what was measured and the command that measures it alone: one table, for the
//! search and for the transfer.

use std::fmt;

use super::{Report, Row, Section, machine};
use crate::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    AtMost(f64),
    AtLeast(f64),
    Exactly(f64),
}

#[derive(Clone, Debug)]
pub struct Goal {
    /// What is measured, with its unit.
    pub what: String,
    pub bound: Bound,
    /// Not a number if it could not be measured.
    pub measured: f64,
    /// The command that measures it alone.
    pub command: String,
    /// No answer or file was wrong while it was measured.
    pub all_right: bool,
}

impl Bound {
    pub fn is_reached(self, measured: f64) -> bool {
        match self {
            Self::AtMost(most) => measured <= most,
            Self::AtLeast(least) => measured >= least,
            Self::Exactly(this) => (measured - this).abs() < 1e-9,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(most) => write!(f, "<= {}", shown(*most)),
            Self::AtLeast(least) => write!(f, ">= {}", shown(*least)),
            Self::Exactly(this) => f.write_str(&shown(*this)),
        }
    }
}

/// Large figures without decimals, small ones with two.
fn shown(figure: f64) -> String {
    if figure.abs() >= 100.0 { format!("{figure:.0}") } else { format!("{figure:.2}") }
}

impl Goal {
    pub(crate) fn new(what: impl Into<String>, bound: Bound, measured: f64, command: &str) -> Self {
        Self { what: what.into(), bound, measured, command: command.to_owned(), all_right: true }
    }

    fn verdict(&self) -> &'static str {
        match (self.all_right, self.bound.is_reached(self.measured)) {
            (false, _) => "**wrong answers**",
            (true, true) => "reached",
            (true, false) => "**missed**",
        }
    }

    fn row(&self) -> Row {
        let Self { what, bound, measured, command, all_right } = self;
        let reached = bound.is_reached(*measured);
        Row::of(json!({
            "goal": what, "bound": bound.to_string(), "measured": measured, "reached": reached, "all_right": all_right,
            "command": command,
        }))
    }

    fn shown(&self) -> Row {
        let command = format!("`{}`", self.command);
        let row = self.row().with("measured", shown(self.measured)).with("command", command);
        row.with("verdict", self.verdict())
    }
}

pub(crate) fn section(goals: &[Goal]) -> Section {
    let [shown, rows] = [Goal::shown, Goal::row].map(|row| goals.iter().map(row).collect());
    Section { rows, ..Section::new("", "goal bound measured verdict command", shown) }
}

/// That table alone; `place` says where they were measured. A goal that is missed is a result; a wrong answer is not.
pub fn report(goals: &[Goal], place: &str, interrupted: bool) -> Report {
    Report {
        kind: Some("goals"),
        head: format!("{place}{}.", machine::in_words()),
        sections: vec![section(goals)],
        interrupted,
        is_broken: goals.iter().any(|goal| !goal.all_right),
        ..Report::default()
    }
}
