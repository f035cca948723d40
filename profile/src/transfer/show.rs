//! What came of transfers: for people, for machines, and as pictures.

use std::{io, io::Write};

use serde_json::{Value, json};

use super::figures::{METRICS, Measured, ORIGIN, Round};
use super::scenario::{Scenario, What};
use crate::plot::{Picture, over_time::memory, over_time::throughput};
use crate::report::figures::rounded;
use crate::report::{Report, Row, Section, Table, machine, mib, option_name, security_name, write_csv};

/// Failures that are shown; the rest are counted only.
const ERRORS_SHOWN: usize = 5;

/// What came of some scenarios.
#[derive(Clone, Debug)]
pub struct Transfers {
    /// A row for each scenario.
    pub rows: Vec<Measured>,
    /// Where the files are, in words.
    pub folder: String,
    /// It was ended early.
    pub interrupted: bool,
}

impl Transfers {
    pub(crate) fn is_all_well(&self) -> bool {
        !self.interrupted && self.rows.iter().all(Measured::is_all_well)
    }

    /// A line for each figure, a column for each scenario; medians of the rounds.
    pub fn report(&self) -> Report {
        let first = self.rows.first().map(|row| &row.scenario);
        let security = first.map_or("", |scenario| security_name(scenario.security));
        let (rounds, machine) = (first.map_or(0, |scenario| scenario.rounds), machine::in_words());
        let head = format!("Every node a process of its own, {security}, {}, {machine}", self.folder);
        let errors: Vec<&String> = self.rows.iter().flat_map(Measured::errors).collect();
        let mut foot: Vec<String> = self.rows.iter().filter_map(sources).collect();
        foot.extend(errors.iter().take(ERRORS_SHOWN).map(|error| format!("failed: {error}")));
        if errors.len() > ERRORS_SHOWN {
            foot.push(format!("failed: {} more", errors.len() - ERRORS_SHOWN));
        }
        let keys = ["scenario"].into_iter().chain(METRICS.map(|(key, _)| key));
        let shown: Vec<Row> = self.rows.iter().map(medians).collect();
        let table = Table::of(&shown, keys).transposed();
        Report {
            kind: Some("transfer"),
            head: format!("{head}; medians of {rounds} round(s)."),
            sections: vec![Section::of(table, self.rows.iter().map(all_rounds).collect())],
            foot,
            facts: Row::default().with("files", self.folder.clone()),
            ..Report::default()
        }
        .ended(self.interrupted, "interrupted: rounds are missing", None)
    }

    /// Writes a line for each round.
    pub fn write_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        let lines = self.rows.iter().flat_map(|row| {
            let (name, security) = (row.scenario.name(), security_name(row.scenario.security).to_owned());
            (1..).zip(&row.rounds).map(move |(n, round)| {
                let cells =
                    METRICS.iter().map(|(_, of)| of(round).map_or_else(String::new, |is| is.to_string()));
                [name.clone(), security.clone(), n.to_string()].into_iter().chain(cells).collect()
            })
        });
        let heads = ["scenario", "security", "round"].into_iter().chain(METRICS.map(|(key, _)| key));
        write_csv(out, &heads.collect::<Vec<_>>(), lines)
    }

    /// Of the last round of each scenario, what came from whom and how memory went.
    pub fn pictures(&self) -> Vec<(String, Picture)> {
        let of = |row: &Measured| {
            let round = row.rounds.last()?;
            let setting = format!("{}; {}", security_name(row.scenario.security), machine::in_words());
            let (name, base) = (row.scenario.name(), format!("transfer-{}", row.scenario.slug()));
            let throughput = throughput(round, &name, setting.clone());
            let both = [("throughput", throughput), ("memory", memory(round, &name, setting))];
            Some(both.map(|(what, picture)| Some((format!("{base}-{what}"), picture?))))
        };
        self.rows.iter().filter_map(of).flatten().flatten().collect()
    }
}

/// Who sent how much in the last round, if there were several.
fn sources(row: &Measured) -> Option<String> {
    let round = row.rounds.last().filter(|round| round.sources.len() > 1)?;
    let sent = round.sources.iter().map(|sent| {
        let banned = if sent.banned { ", banned" } else { "" };
        format!("{} {:.1} MiB{banned}", sent.source, mib(sent.bytes))
    });
    Some(format!("{}: {}", row.scenario.name(), sent.collect::<Vec<_>>().join("; ")))
}

fn medians(row: &Measured) -> Row {
    let named = Row::named(row.scenario.name());
    METRICS.iter().fold(named, |shown, (key, _)| shown.figure(key, row.median(key)))
}

fn all_rounds(row: &Measured) -> Row {
    let sum = |of: fn(&Round) -> usize| row.rounds.iter().map(of).sum::<usize>();
    medians(row)
        .and(scenario_row(&row.scenario))
        // Of these not the median counts, but all.
        .with("wrong", sum(|round| round.wrong))
        .with("errors", sum(|round| round.errors.len()))
        .with("failures", row.errors().take(ERRORS_SHOWN).cloned().collect::<Vec<_>>())
        .with("rounds", row.rounds.iter().map(round_json).collect::<Vec<_>>())
}

fn scenario_row(scenario: &Scenario) -> Row {
    let (bulk, change, small) = match scenario.what {
        What::Whole(bulk) | What::Publish(bulk) => (Some(bulk), None, None),
        What::Change(bulk, change) => (Some(bulk), Some(change), None),
        What::Files { count, bytes } => (None, None, Some((count, bytes))),
    };
    Row::of(json!({
        "scenario": scenario.name(),
        "command": scenario.command(),
        "security": security_name(scenario.security),
        "size_bytes": bulk.map(|bulk| bulk.size),
        "sparse": bulk.is_some_and(|bulk| bulk.sparse),
        "sources": scenario.sources,
        "readers": scenario.readers,
        "cap_up_bytes_per_s": scenario.cap_up,
        "cap_down_bytes_per_s": scenario.cap_down,
        "corrupt_percent": scenario.corrupt,
        "change_percent": change.map(|change| change.percent),
        "change_places": change.map(|change| change.places),
        "change_how": change.map(|change| option_name(&change.how)),
        "files": small.map(|(count, _)| count),
        "file_bytes": small.map(|(_, (least, most))| [least, most]),
        "seed": scenario.seed,
    }))
}

fn round_json(round: &Round) -> Value {
    let figures = METRICS.iter().fold(Row::default(), |row, (key, of)| row.figure(key, of(round)));
    let sources = round.sources.iter().map(|sent| {
        let is_origin = sent.source == ORIGIN;
        json!({ "source": sent.source, "origin": is_origin, "bytes": sent.bytes, "banned": sent.banned })
    });
    let nodes = round.senders.iter().chain(&round.readers).map(|(label, usage)| {
        json!({ "node": label, "cpu_s": rounded(usage.cpu_s), "peak_bytes": usage.peak_bytes })
    });
    let row = figures.with("by_source", sources.collect::<Vec<_>>()).with("nodes", nodes.collect::<Vec<_>>());
    let took_s = round.took_s.iter().map(|took_s| json!(rounded(*took_s))).collect::<Vec<_>>();
    Value::Object(row.with("took_s", took_s).0)
}
