//! Shows what was published.

use std::io;

use super::{View, parsed, tickets::command_of};
use crate::{
    cli::{output::Output, units::size},
    commands::{Done, PublishedFields, PublishedRow, Row, Ticketed, VersionRow},
};

/// Files that are listed one by one.
const LISTED_MAX: usize = 20;
/// Tickets that are printed: each takes some lines of a terminal.
const TICKETS_MAX: usize = 3;

/// Lines, file by file if there are few.
#[derive(Default)]
pub(super) struct Published {
    new: usize,
    unchanged: usize,
    bytes: u64,
    /// Of the first files.
    tickets: Vec<String>,
}

/// The line of one version.
pub(super) fn line_of(what: &str, version: &VersionRow) -> String {
    let VersionRow { name, version, size: bytes, .. } = version;
    format!("{what} {name} version {version}, {}", size(*bytes))
}

impl View for Published {
    fn rows(&mut self, rows: &[Row], output: Output) -> io::Result<()> {
        for row in parsed::<PublishedRow>(rows) {
            let (what, Ticketed { version, ticket }) = match row {
                PublishedRow::Published(version) => {
                    self.new += 1;
                    ("published", version)
                }
                PublishedRow::Unchanged(version) => {
                    self.unchanged += 1;
                    ("unchanged", version)
                }
                _ => continue,
            };
            self.bytes += version.size;
            self.tickets.extend(ticket.filter(|_| self.tickets.len() < TICKETS_MAX));
            if self.new + self.unchanged <= LISTED_MAX {
                output.text(&line_of(what, &version))?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, done: &Done, output: Output) -> io::Result<()> {
        let PublishedFields { failed, copies, confirmed, .. } = done.fields.parse().unwrap_or_default();
        if let Some(more) = (self.new + self.unchanged).checked_sub(LISTED_MAX).filter(|more| *more > 0) {
            output.text(&format!("... and {more} more"))?;
        }
        for name in copies {
            output.text(&format!("kept as a copy {name}: another origin's file"))?;
        }
        let Self { new, unchanged, bytes, .. } = self;
        let unconfirmed = if confirmed { "" } else { ", not confirmed by an indexer yet" };
        output.text(&format!("{new} new, {unchanged} unchanged, {}{unconfirmed}", size(*bytes)))?;
        for ticket in &self.tickets {
            output.raw_text(&format!("elsewhere: {}", command_of(ticket)))?;
        }
        if !self.tickets.is_empty() && self.new + self.unchanged > self.tickets.len() {
            output.text("others: nekopeer ticket NAME prints what to type elsewhere")?;
        }
        failed.iter().for_each(|failed| output.note(&format!("error: {}", failed.error)));
        Ok(())
    }
}
