//! Shows the files that are shared and held here.

use std::io;

use clap::ValueEnum;
use nekoproto::Staleness;
use serde::Deserialize;

use super::{View, downloads::short, parsed};
use crate::{
    api::{Detail, Done, EarlierRow, FileRow, Row},
    library::subscribers::named,
    terminal::{
        Output,
        table::{Cells, Table},
        units::{age_since, size},
    },
};

const HEADINGS: [&str; 8] = ["NAME", "VERSION", "SIZE", "ROLE", "POLICY", "FRESHNESS", "", "PATH"];

pub(in crate::api) struct Files {
    table: Table,
    is_empty: bool,
}

#[derive(Default, Deserialize)]
struct Damage {
    damaged: Vec<String>,
}

impl Default for Files {
    fn default() -> Self {
        Self { table: Table::new(&HEADINGS, &[1, 2]).sparing(&[7, 4, 3, 2]), is_empty: true }
    }
}

impl View for Files {
    fn rows(&mut self, rows: &[Row], output: Output) -> io::Result<()> {
        self.is_empty &= rows.is_empty();
        if output.is_json() {
            return Ok(());
        }
        let files: Vec<FileRow> = parsed(rows).collect();
        let mut cells = Cells::default();
        files.iter().for_each(|file| add_cells(&mut cells, file));
        self.table.print(&cells, output)?;
        for (file, detail) in files.iter().filter_map(|file| Some((file, file.detail.as_ref()?))) {
            if files.len() > 1 {
                output.text(&format!("{}:", file.version.name))?;
            }
            lines(file, detail).iter().try_for_each(|line| output.text(line))?;
        }
        Ok(())
    }

    fn finish(&mut self, done: &Done, output: Output) -> io::Result<()> {
        let Damage { damaged } = done.fields.parse().unwrap_or_default();
        damaged.iter().for_each(|why| output.note(&format!("error: {why}")));
        if self.is_empty && damaged.is_empty() {
            output.note("nothing is shared or held here");
        }
        Ok(())
    }
}

fn add_cells(cells: &mut Cells, file: &FileRow) {
    cells.add_name(file.version.name.as_str());
    cells.add(file.version.version);
    cells.add(size(file.version.size));
    let role = if file.own { "shared" } else { "copy" };
    match file.version.set {
        true => cells.add(format_args!("{role}, set")),
        false => cells.add(role),
    }
    match file.staleness {
        Staleness::ServeStale => cells.add(&file.mode),
        other => cells.add(format_args!("{}, {other}", file.mode)),
    }
    cells.add(&file.freshness);
    cells.add(&file.doubt);
    cells.add(&file.path);
}

fn lines(file: &FileRow, detail: &Detail) -> Vec<String> {
    let version = file.version.version;
    let shared = detail.shared_ms.map(age_since);
    let shared = shared.map_or_else(String::new, |age| format!(", shared {age} ago"));
    let past = match file.staleness {
        Staleness::Strict => "and each read is confirmed by the origin, or refused",
        Staleness::Bounded => "not served past that",
        Staleness::ServeStale => "served as stale past that",
    };
    let fresh = detail.policy_bound_secs;
    let mut lines = vec![format!("  version {version}{shared}; a copy is fresh for {fresh} s, {past}")];
    if let Some(confirmed_ms) = file.confirmed_ms {
        lines.push(format!("  its origin confirmed it {} ago", age_since(confirmed_ms)));
    }
    if let Some(ago) = file.read_at_ms.map(age_since) {
        lines.push(format!("  last read or served {ago} ago"));
    }
    let (off, leased): (Vec<_>, Vec<_>) =
        detail.readers.iter().partition(|reader| reader.lease_ends_in_ms == 0);
    if !leased.is_empty() {
        let behind = leased.iter().filter(|reader| reader.version < version).count();
        lines.push(format!(
            "  peers with a lease on it: {}; {behind} did not acknowledge version {version}:",
            leased.len()
        ));
    }
    for reader in leased {
        let most =
            if reader.version < version { ", may take it for fresh for" } else { ", its lease ends in" };
        let told = match reader.version > reader.holds {
            true => format!(", was told of version {}", reader.version),
            false => String::new(),
        };
        lines.push(format!(
            "    {} at {} had version {} last{told}{most} {} s",
            named(reader.label.as_ref(), short(&reader.node)),
            reader.addr,
            reader.holds,
            reader.lease_ends_in_ms.div_ceil(1000)
        ));
    }
    for reader in off {
        let (node, addr, holds) =
            (named(reader.label.as_ref(), short(&reader.node)), &reader.addr, reader.holds);
        let heard = reader.heard_ms.map_or_else(String::new, age_since);
        let behind = if holds < version { ", is behind; `forget` it if it will not come back" } else { "" };
        lines.push(format!("  reader {node} at {addr}, last heard {heard} ago with version {holds}{behind}"));
    }
    if !detail.earlier.is_empty() {
        lines.push("  versions kept for rollback:".to_owned());
    }
    for EarlierRow { refused, shared_ms, version } in &detail.earlier {
        let age = shared_ms.map_or_else(String::new, |ms| format!(", shared {} ago", age_since(ms)));
        let refused = if *refused { ", refused by the command of follow" } else { "" };
        lines.push(format!("    version {version}{age}{refused}"));
    }
    if let Some(version) = detail.passed_over {
        let why = match detail.passed_over_why.as_deref() {
            Some("failed") => "the command of follow failed on it",
            _ => "it was rolled back",
        };
        lines.push(format!("  none up to version {version} takes its place by itself: {why}"));
    }
    lines.extend(detail.bound_secs.map(|secs| format!("  wanted here: fresh for {secs} s at most")));
    let outdated = detail.on_stale.and_then(|on_stale| on_stale.to_possible_value());
    lines.extend(outdated.map(|what| format!("  wanted here of an outdated copy: {}", what.get_name())));
    lines
}
