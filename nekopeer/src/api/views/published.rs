//! Shows what was shared.

use std::io;

use nekoproto::{FileName, Ticket, Version};

use super::{View, parsed};
use crate::{
    api::{Done, PublishedFields, PublishedRow, Row, SkippedFields, Ticketed, VersionRow},
    terminal::{Output, table::ShownNames, units::size},
};

/// Where a ticket can be used that names indexers of one machine alone; and what others need.
const HERE: &str = "on this machine";
const FOR_OTHERS: &str =
    "for other machines: share with --lan, or with --indexer ADDR of an indexer that they reach";
/// Files that are listed one by one.
const LISTED_MAX: usize = 20;
/// Files that stay unshared, or are gone, and are named.
const NAMED_MAX: usize = 4;
/// Tickets that are printed: each takes some lines of a terminal.
const TICKETS_MAX: usize = 3;

/// Lines, file by file if there are few.
#[derive(Default)]
pub(in crate::api) struct PublishedView {
    new: usize,
    /// Files that were shared before, as other bytes.
    changed: usize,
    unchanged: usize,
    bytes: u64,
    /// Of the first files.
    tickets: Vec<String>,
    names: ShownNames,
    names_skipped: bool,
    follows_links: bool,
}

pub(in crate::api) fn line_of(what: &str, version: &VersionRow, names: &mut ShownNames) -> String {
    let VersionRow { name, version, size: bytes, .. } = version;
    format!("{what} {} version {version}, {}", names.told_apart(name.as_str()), size(*bytes))
}

fn line_of_skipped(skipped: &SkippedFields) -> Option<String> {
    let SkippedFields { hidden_files, hidden_folders, links, ignored, excluded, others, .. } = *skipped;
    let one_or_more = |count, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    let counts = [
        (hidden_files, one_or_more(hidden_files, "hidden file")),
        (hidden_folders, one_or_more(hidden_folders, "hidden folder")),
        (links, one_or_more(links, "link")),
        (ignored, format!("{ignored} by .nekoignore")),
        (excluded, format!("{excluded} by --exclude")),
        (others, format!("{others} that are no files")),
    ];
    let counts: Vec<String> =
        counts.into_iter().filter(|(count, _)| *count > 0).map(|(_, text)| text).collect();
    (!counts.is_empty()).then(|| format!("skipped {}", counts.join(", ")))
}

impl PublishedView {
    pub(in crate::api) fn of(names_skipped: bool, follows_links: bool) -> Self {
        Self { names_skipped, follows_links, ..Self::default() }
    }

    const fn files(&self) -> usize {
        self.new + self.changed + self.unchanged
    }
}

impl View for PublishedView {
    fn rows(&mut self, rows: &[Row], output: Output) -> io::Result<()> {
        for row in parsed::<PublishedRow>(rows) {
            let (what, Ticketed { version, ticket }) = match row {
                PublishedRow::Published(version) => {
                    let is_first = version.version.version == Version::FIRST.get();
                    *(if is_first { &mut self.new } else { &mut self.changed }) += 1;
                    ("shared", version)
                }
                PublishedRow::Unchanged(version) => {
                    self.unchanged += 1;
                    ("unchanged", version)
                }
                _ => continue,
            };
            self.bytes += version.size;
            self.tickets.extend(ticket.filter(|_| self.tickets.len() < TICKETS_MAX));
            if self.files() <= LISTED_MAX {
                output.text(&line_of(what, &version, &mut self.names))?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, done: &Done, output: Output) -> io::Result<()> {
        let PublishedFields { failed, copies, withdrawn, missing, confirmed, skipped, ticket, .. } =
            done.fields.parse().unwrap_or_default();
        if let Some(more) = self.files().checked_sub(LISTED_MAX).filter(|more| *more > 0) {
            output.text(&format!("... and {more} more"))?;
        }
        let copies_count = copies.len();
        for name in copies {
            output.text(&format!("kept as a copy {name}: another origin's file"))?;
        }
        let Self { new, unchanged, bytes, .. } = self;
        let changed = if self.changed > 0 { format!(", {} changed", self.changed) } else { String::new() };
        let unconfirmed = if confirmed { "" } else { ", not confirmed by an indexer yet" };
        output.text(&format!("{new} new{changed}, {unchanged} unchanged, {}{unconfirmed}", size(*bytes)))?;
        if let Some(ticket) = &ticket {
            output.raw_text(&format!("{}, all of them: {}", place_of(ticket), command_of(ticket)))?;
        }
        for ticket in self.tickets.iter().filter(|_| ticket.is_none()) {
            output.raw_text(&format!("{}: {}", place_of(ticket), command_of(ticket)))?;
        }
        if ticket.iter().chain(&self.tickets).next().is_some_and(|ticket| place_of(ticket) == HERE) {
            output.note(FOR_OTHERS);
        }
        if ticket.is_none() && !self.tickets.is_empty() && self.files() > self.tickets.len() {
            output.text("others: nekopeer ticket NAME prints what to type elsewhere")?;
        }
        if let Some(line) = line_of_skipped(&skipped) {
            let is_nothing = self.files() + copies_count + withdrawn.len() == 0 && failed.is_empty();
            let is_nothing = is_nothing && skipped.has_unasked();
            let mut more = if self.names_skipped { String::new() } else { ": -v names them".to_owned() };
            for (count, flag) in [
                (skipped.hidden_files + skipped.hidden_folders, "; --hidden shares hidden ones"),
                (
                    skipped.links,
                    if self.follows_links { "" } else { "; --follow-links shares what links lead to" },
                ),
            ] {
                more += if count > 0 && (self.names_skipped || is_nothing) { flag } else { "" };
            }
            let nothing = if is_nothing { "error: nothing is shared: " } else { "" };
            output.note(&format!("{nothing}{line}{more}"));
        }
        if skipped.still_shared > 0 {
            let count = skipped.still_shared;
            output.note(&format!(
                "{count} of them were shared before and stay so: nekopeer unshare NAME ends that"
            ));
        }
        if let Some(named) = named(&withdrawn) {
            let (files, it) =
                if withdrawn.len() == 1 { ("file stays", "it") } else { ("files stay", "them") };
            let count = withdrawn.len();
            output.note(&format!("{count} {files} unshared: {named}; name {it} to share {it} again"));
        }
        if let Some(named) = named(&missing) {
            let files = match missing.len() {
                1 => "1 file that was shared is".to_owned(),
                more => format!("{more} files that were shared are"),
            };
            let help = "unshare NAME tells its readers, and --watch does for what is removed later";
            output.note(&format!("{files} no longer there: {named}; {help}"));
        }
        failed.iter().for_each(|failed| failed.why.print(output));
        Ok(())
    }
}

fn named(names: &[FileName]) -> Option<String> {
    let named: Vec<&str> = names.iter().take(NAMED_MAX).map(FileName::as_str).collect();
    let more = names.len() - named.len();
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    (!named.is_empty()).then(|| named.join(", ") + &more)
}

fn place_of(ticket: &str) -> &'static str {
    if ticket.parse::<Ticket>().is_ok_and(|ticket| ticket.is_local()) { HERE } else { "elsewhere" }
}

/// The command that gets the file of `ticket` where it can be used.
pub(in crate::api) fn command_of(ticket: &str) -> String {
    let parsed = ticket.parse::<Ticket>().ok();
    let [insecure, secret] = parsed.map_or([""; 2], |ticket| {
        [(ticket.insecure, " --insecure"), (ticket.private, " --network-secret FILE")]
            .map(|(is_needed, flag)| if is_needed { flag } else { "" })
    });
    format!("nekopeer get {ticket}{insecure}{secret}")
}
