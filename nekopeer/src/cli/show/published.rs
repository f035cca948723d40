//! Shows what was published.

use std::io;

use super::{View, table::JsonList, tickets::command_of};
use crate::{
    cli::{Ended, output::Output, units::size},
    commands::{PublishedRow, Row, Summary, VersionRow},
    json::{TicketedJson, UnpublishedJson},
};

/// Files that are listed one by one.
const LISTED_MAX: usize = 20;
/// Tickets that are printed: each takes some lines of a terminal.
const TICKETS_MAX: usize = 3;

/// Lines, file by file if there are few; or `{"files":[...],"failed":[...],"indexers_told","confirmed"}`.
#[derive(Default)]
pub(super) struct Published {
    list: JsonList,
    new: usize,
    unchanged: usize,
    bytes: u64,
    copies: Vec<String>,
    /// Of the first files.
    tickets: Vec<String>,
    failed: Vec<UnpublishedJson>,
}

/// The line of one version.
pub(super) fn line_of(what: &str, version: &VersionRow) -> String {
    let VersionRow { name, version, size: bytes, .. } = version;
    format!("{what} {name} version {version}, {}", size(*bytes))
}

impl Published {
    /// Counts a version and lists it, if there are few.
    fn version(
        &mut self,
        version: &VersionRow,
        ticket: Option<String>,
        what: &str,
        output: Output,
    ) -> io::Result<()> {
        self.bytes += version.size;
        self.tickets.extend(ticket.filter(|_| self.tickets.len() < TICKETS_MAX));
        if !output.is_json() && self.new + self.unchanged <= LISTED_MAX {
            output.line(&line_of(what, version))
        } else {
            Ok(())
        }
    }
}

impl View for Published {
    fn rows(&mut self, rows: Vec<Row>, output: Output) -> io::Result<()> {
        if output.is_json() {
            let versions = rows.iter().filter_map(|row| match row {
                Row::Published(
                    PublishedRow::New(version, ticket) | PublishedRow::Unchanged(version, ticket),
                ) => Some((version, ticket)),
                _ => None,
            });
            self.list.add(versions.map(TicketedJson::from), output)?;
        }
        for row in rows {
            let Row::Published(row) = row else { continue };
            match row {
                PublishedRow::New(version, ticket) => {
                    self.new += 1;
                    self.version(&version, ticket, "published", output)?;
                }
                PublishedRow::Unchanged(version, ticket) => {
                    self.unchanged += 1;
                    self.version(&version, ticket, "unchanged", output)?;
                }
                PublishedRow::Copy(name) => self.copies.push(name.to_string()),
                PublishedRow::Failed { path, why } => {
                    let path = path.0.to_string_lossy().into_owned();
                    self.failed.push(UnpublishedJson { error: why, path });
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self, summary: Summary, output: Output) -> io::Result<Ended> {
        let (told, is_confirmed) = match summary {
            Summary::Published { indexers_told, is_confirmed } => (indexers_told, is_confirmed),
            Summary::Done => (0, false),
        };
        if output.is_json() {
            let failed = serde_json::to_value(&self.failed)?;
            let fields =
                [("failed", failed), ("indexers_told", told.into()), ("confirmed", is_confirmed.into())];
            self.list.end(&fields, output)?;
        } else {
            if let Some(more) = (self.new + self.unchanged).checked_sub(LISTED_MAX).filter(|more| *more > 0) {
                output.line(&format!("... and {more} more"))?;
            }
            for name in &self.copies {
                output.line(&format!("kept as a copy {name}: another origin's file"))?;
            }
            let Self { new, unchanged, bytes, .. } = self;
            let unconfirmed = if is_confirmed { "" } else { ", not confirmed by an indexer yet" };
            output.line(&format!("{new} new, {unchanged} unchanged, {}{unconfirmed}", size(*bytes)))?;
            for ticket in &self.tickets {
                output.machine_line(&format!("elsewhere: {}", command_of(ticket)))?;
            }
            if !self.tickets.is_empty() && self.new + self.unchanged > self.tickets.len() {
                output.line("others: nekopeer ticket NAME prints what to type elsewhere")?;
            }
        }
        self.failed.iter().for_each(|failed| output.note(&format!("error: {}", failed.error)));
        Ok(match self.failed.is_empty() {
            true => Ended::Well,
            false if self.new + self.unchanged > 0 => Ended::Partly,
            false => Ended::Failed,
        })
    }

    fn abandon(&mut self, output: Output) -> io::Result<()> {
        self.list.abandon(&[], output)
    }
}
