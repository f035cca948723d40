//! Shows the files that are published and held here.

use std::io;

use clap::ValueEnum;
use nekoproto::Staleness;

use super::{
    View,
    table::{Cells, JsonList, Table},
};
use crate::{
    cli::{
        Ended,
        output::Output,
        units::{age_since, size},
    },
    commands::{Detail, FileRow, Row, Summary},
    json::{FileJson, role},
    library::status::Condition,
    state::freshness::Doubt,
    storage::catalogue::Why,
};

const HEADINGS: [&str; 7] = ["NAME", "VERSION", "SIZE", "ROLE", "POLICY", "FRESHNESS", ""];

/// A table, or `{"files":[...]}`.
pub(super) struct Files {
    table: Table,
    list: JsonList,
    is_damaged: bool,
}

impl Default for Files {
    fn default() -> Self {
        let (table, list) = (Table::new(&HEADINGS, &[1, 2]).sparing(&[4, 3, 2]), JsonList::new("files"));
        Self { table, list, is_damaged: false }
    }
}

impl View for Files {
    fn rows(&mut self, rows: Vec<Row>, output: Output) -> io::Result<()> {
        let (mut files, mut damaged) = (Vec::with_capacity(rows.len()), Vec::new());
        for row in rows {
            match row {
                Row::File(file) => files.push(file),
                Row::Damaged { why } => damaged.push(why),
                _ => {}
            }
        }
        self.is_damaged |= !damaged.is_empty();
        damaged.iter().for_each(|why| output.note(&format!("error: {why}")));
        match (files.is_empty(), output.is_json()) {
            (true, _) => Ok(()),
            (false, true) => self.list.add(files.iter().map(FileJson::from), output),
            (false, false) => {
                let mut cells = Cells::default();
                files.iter().for_each(|file| add_cells(&mut cells, file));
                self.table.rows(&cells, output.lines())?;
                let details = files.iter().filter_map(|file| Some((file, file.detail.as_deref()?)));
                details.flat_map(|(file, detail)| lines(file, detail)).try_for_each(|line| output.line(&line))
            }
        }
    }

    fn finish(&mut self, _: Summary, output: Output) -> io::Result<Ended> {
        if output.is_json() {
            self.list.end(&[], output)?;
        } else if !self.table.is_begun() && !self.is_damaged {
            output.note("nothing is published or held here");
        }
        Ok(if self.is_damaged { Ended::Failed } else { Ended::Well })
    }

    fn abandon(&mut self, output: Output) -> io::Result<()> {
        self.list.abandon(&[], output)
    }
}

fn add_cells(cells: &mut Cells, file: &FileRow) {
    cells.add(file.record.name.as_str());
    cells.add(file.record.version);
    cells.add(size(file.record.size));
    match file.record.is_set {
        true => cells.add(format_args!("{}, set", role(file))),
        false => cells.add(role(file)),
    }
    match file.record.staleness {
        Staleness::ServeStale => cells.add(file.record.mode),
        other => cells.add(format_args!("{}, {other}", file.record.mode)),
    }
    cells.add(file.condition);
    match (file.newest, file.condition) {
        (Some(newest), Condition::Doubtful(Doubt::Withdrawn)) => {
            cells.add(format_args!("its origin withdrew it as version {newest}"));
        }
        (Some(newest), _) => cells.add(format_args!("version {newest} is out")),
        (None, Condition::Doubtful(doubt)) => cells.add(doubt.text()),
        (None, _) => cells.add(""),
    }
}

/// What else is known of a file, in lines.
fn lines(file: &FileRow, detail: &Detail) -> Vec<String> {
    let (version, policy) = (file.record.version, detail.policy);
    let published =
        age_since(file.record.published_ms).map_or_else(String::new, |age| format!(", published {age} ago"));
    let past = match policy.staleness() {
        Staleness::ServeStale => "served as stale past that",
        Staleness::Bounded => "not served past that",
        Staleness::Strict => "and each read is confirmed by the origin, or refused",
    };
    let mut lines = vec![format!(
        "  version {version}{published}; a copy is fresh for {} s, {past}",
        policy.bound().as_secs()
    )];
    if let Some(confirmed) = file.confirmed {
        let confirmed = age_since(confirmed.at_ms).unwrap_or_default();
        lines.push(format!("  its origin confirmed it {confirmed} ago"));
    }
    if !detail.readers.is_empty() {
        let behind = detail.readers.iter().filter(|reader| reader.version < version).count();
        lines.push(format!(
            "  {} have a lease on it, {behind} did not acknowledge version {version}:",
            detail.readers.len()
        ));
    }
    for reader in &detail.readers {
        let most =
            if reader.version < version { ", may take it for fresh for" } else { ", its lease ends in" };
        lines.push(format!(
            "    {} at {} knows version {}{most} {} s",
            reader.holder.node.short(),
            reader.holder.addr,
            reader.version,
            reader.ends_in_ms.div_ceil(1000)
        ));
    }
    if !detail.kept.is_empty() {
        let kept: Vec<String> = detail.kept.iter().map(ToString::to_string).collect();
        lines.push(format!("  versions kept for rollback: {}", kept.join(", ")));
    }
    if let Some((version, why)) = detail.passed_over {
        let why = match why {
            Why::Failed => "the command of follow failed on it",
            Why::RolledBack => "it was rolled back",
        };
        lines.push(format!("  none up to version {version} takes its place by itself: {why}"));
    }
    let bound = detail.preference.bound_secs;
    lines.extend(bound.map(|secs| format!("  wanted here: fresh for {secs} s at most")));
    let outdated = detail.preference.on_stale.and_then(|on_stale| on_stale.to_possible_value());
    lines.extend(outdated.map(|what| format!("  wanted here of an outdated copy: {}", what.get_name())));
    lines
}
