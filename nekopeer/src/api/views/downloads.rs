//! Shows downloads.

use std::io;

use super::{Failed, View, parsed, tell_failed};
use crate::{
    api::{Done, DownloadedRow, Row, Wanted, rows::VersionRow},
    terminal::{Output, units::size},
};

/// Failures, and notes, of a bulk download that are listed one by one.
const FAILURES_TOLD_MAX: usize = 20;
/// Other origins of the same bytes that a note names.
const OTHERS_TOLD_MAX: usize = 8;

/// One download: a line, and notes.
#[derive(Default)]
pub(in crate::api) struct One {
    /// Its bytes went to stdout, so the line goes to stderr.
    pub(in crate::api) to_stdout: bool,
    pub(in crate::api) wanted: Wanted,
}

impl View for One {
    fn rows(&mut self, rows: &[Row], output: Output) -> io::Result<()> {
        for done in parsed::<DownloadedRow>(rows) {
            match self.to_stdout {
                true => output.note(&line(&done)),
                false => output.text(&line(&done))?,
            }
            for source in done.sources.iter().filter(|source| source.banned) {
                output.note(&format!(
                    "note: source {} at {} sent what is not the file's, and was asked no more",
                    short(&source.node),
                    source.addr
                ));
            }
            notes(&done).for_each(|why| output.note(&format!("note: {why}")));
            tell_older(&self.wanted, &done, output);
        }
        Ok(())
    }

    fn finish(&mut self, done: &Done, output: Output) -> io::Result<()> {
        tell_failed(done, output); // of a folder named without its slash
        Ok(())
    }
}

/// Several downloads: their counts.
#[derive(Default)]
pub(in crate::api) struct Many {
    pub(in crate::api) wanted: Wanted,
    done: usize,
    bytes: u64,
    moved: u64,
    seconds: f64,
    notes: usize,
}

impl Many {
    pub(in crate::api) fn of(wanted: Wanted) -> Self {
        Self { wanted, ..Self::default() }
    }
}

impl View for Many {
    fn rows(&mut self, rows: &[Row], output: Output) -> io::Result<()> {
        for done in parsed::<DownloadedRow>(rows) {
            self.done += 1;
            self.bytes += done.version.size;
            self.moved += done.bytes_moved;
            self.seconds = self.seconds.max(done.seconds);
            tell_older(&self.wanted, &done, output);
            for why in notes(&done) {
                self.notes += 1;
                if self.notes <= FAILURES_TOLD_MAX {
                    output.note(&format!("note: {}: {why}", done.version.name));
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self, done: &Done, output: Output) -> io::Result<()> {
        let Failed { failed } = done.fields.parse().unwrap_or_default();
        let (moved, bytes) = (size(self.moved), size(self.bytes));
        let (all, seconds) = (self.done + failed.len(), self.seconds);
        output.text(&format!(
            "{} of {all} files here, {moved} of {bytes} moved in {seconds:.2} s",
            self.done
        ))?;
        if let Some(more) = self.notes.checked_sub(FAILURES_TOLD_MAX).filter(|more| *more > 0) {
            output.note(&format!("note: and {more} more notes; --json has them all"));
        }
        let errors = failed.iter().take(FAILURES_TOLD_MAX);
        errors.for_each(|failed| failed.why.print(output));
        if let Some(more) = failed.len().checked_sub(FAILURES_TOLD_MAX).filter(|more| *more > 0) {
            output.note(&format!("error: and {more} more; --json names them all"));
        }
        Ok(())
    }
}

/// What is to be said of a download: why it may not be the newest, and whose it is if there is a choice.
fn notes(done: &DownloadedRow) -> impl Iterator<Item = String> {
    let (VersionRow { name, origin, .. }, others) = (&done.version, &done.other_origins);
    let named = others.iter().take(OTHERS_TOLD_MAX).map(|id| format!("{name}@{}", short(id)));
    let (all, origin, named) = (others.len() + 1, short(origin), named.collect::<Vec<_>>().join(" or "));
    let whose = || {
        format!(
            "{all} origins share these bytes: taken as the file of {origin}, as its next versions will be; of another, {named}"
        )
    };
    done.doubt.clone().into_iter().chain((all > 1).then(whose))
}

/// Says whether a download is older than its ticket promises.
fn tell_older(wanted: &Wanted, done: &DownloadedRow, output: Output) {
    let (name, found) = (&done.version.name, done.version.version);
    let promised = wanted.of(name).and_then(|named| named.version).filter(|promised| promised.get() > found);
    if let Some(promised) = promised {
        output.note(&format!(
            "note: only version {found} of {name} was found; the ticket is for version {promised} or later"
        ));
    }
}

/// The digits of an id or hash that lists show.
pub(in crate::api) fn short(digits: &str) -> &str {
    digits.get(..10).unwrap_or(digits)
}

fn line(done: &DownloadedRow) -> String {
    let (version, path, seconds) = (&done.version, &done.path, done.seconds);
    let what = format!("{} version {}, {}", version.name, version.version, size(version.size));
    match done.bytes_moved {
        _ if done.was_here => format!("{what}: already here at {path}"),
        moved if moved < version.size => {
            let whole = size(version.size);
            format!("{what}: {} of {whole} moved in {seconds:.2} s to {path}", size(moved))
        }
        moved => format!("{what}: {} moved in {seconds:.2} s to {path}", size(moved)),
    }
}
