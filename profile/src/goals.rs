//! What is aimed at, beside what was measured and the command that measures it alone: one table, for the
//! search and for the transfer.

pub(crate) mod search;
pub mod transfer;

use std::fmt;

use serde_json::json;

use crate::report::{Report, Row, Section, Table, figures::rounded, machine};

/// What is aimed at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
    /// This and nothing else.
    Exactly(f64),
}

/// One goal.
#[derive(Clone, Debug)]
pub struct Goal {
    /// What is measured, with its unit.
    pub what: String,
    /// What it should be.
    pub bound: Bound,
    /// Not a number if it could not be measured.
    pub measured: f64,
    /// The command that measures it alone.
    pub command: String,
    /// No answer or file was wrong while it was measured.
    pub all_right: bool,
}

impl Bound {
    /// Whether `measured` reaches it.
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

    fn line(&self) -> [String; 5] {
        let Self { what, bound, measured, command, .. } = self;
        let verdict = self.verdict().to_owned();
        [what.clone(), bound.to_string(), shown(*measured), verdict, format!("`{command}`")]
    }

    fn row(&self) -> Row {
        Row::of(json!({
            "goal": self.what,
            "bound": self.bound.to_string(),
            "measured": rounded(self.measured),
            "reached": self.bound.is_reached(self.measured),
            "all_right": self.all_right,
            "command": self.command,
        }))
    }
}

pub(crate) fn section(goals: &[Goal]) -> Section {
    let table = Table::new(["what", "goal", "measured", "verdict", "command"]);
    let table = goals.iter().fold(table, |table, goal| table.line(goal.line()));
    Section::of(table, goals.iter().map(Goal::row).collect())
}

/// That table alone; `place` says where they were measured.
pub fn report(goals: &[Goal], place: &str, interrupted: bool) -> Report {
    let (kind, sections) = (Some("goals"), vec![section(goals)]);
    Report {
        kind,
        head: format!("{place}{}.", machine::in_words()),
        sections,
        interrupted,
        ..Report::default()
    }
}
