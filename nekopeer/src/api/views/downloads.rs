//! Shows downloads.

use std::io;

use super::{Failed, View, parsed};
use crate::{
    api::{Done, DownloadedRow, Row, Wanted, rows::VersionRow},
    terminal::{Output, units::size},
};

/// Failures of a bulk download that are listed one by one, and notes.
const FAILURES_TOLD_MAX: usize = 20;
const NOTES_TOLD_MAX: usize = 4;
/// Other origins of the same bytes that a note names.
const OTHERS_TOLD_MAX: usize = 8;

/// Downloads, and notes: a line for the only one, or the counts of several.
#[derive(Default)]
pub(in crate::api) struct DownloadsView {
    wanted: Wanted,
    /// Its bytes went to stdout, so the line goes to stderr.
    to_stdout: bool,
    /// Several are wanted, or a folder that was named without its slash.
    is_many: bool,
    done: usize,
    bytes: u64,
    moved: u64,
    seconds: f64,
    notes: usize,
}

impl DownloadsView {
    pub(in crate::api) fn of(wanted: Wanted, is_many: bool, to_stdout: bool) -> Self {
        Self { wanted, is_many, to_stdout, ..Self::default() }
    }

    fn only(&self, done: &DownloadedRow, output: Output) -> io::Result<()> {
        match self.to_stdout {
            true => output.note(&line(done)),
            false => output.text(&line(done))?,
        }
        for source in done.sources.iter().filter(|source| source.banned) {
            output.note(&format!(
                "note: source {} at {} sent what is not the file's, and was asked no more",
                short(&source.node),
                source.addr
            ));
        }
        notes(&self.wanted, done).for_each(|why| output.note(&format!("note: {why}")));
        Ok(())
    }
}

impl View for DownloadsView {
    fn be_many(&mut self) {
        self.is_many = true;
    }

    fn rows(&mut self, rows: &[Row], output: Output) -> io::Result<()> {
        for done in parsed::<DownloadedRow>(rows) {
            if !self.is_many {
                self.only(&done, output)?;
                continue;
            }
            self.done += 1;
            self.bytes += done.version.size;
            self.moved += done.bytes_moved;
            self.seconds = self.seconds.max(done.seconds);
            for why in notes(&self.wanted, &done) {
                self.notes += 1;
                if self.notes <= NOTES_TOLD_MAX {
                    output.note(&format!("note: {}: {why}", done.version.name));
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self, done: &Done, output: Output) -> io::Result<()> {
        if !self.is_many {
            return Ok(());
        }
        let Failed { failed, gone } = done.fields.parse().unwrap_or_default();
        let (moved, bytes, seconds) = (size(self.moved), size(self.bytes), self.seconds);
        let here = self.done.saturating_sub(gone);
        let all = here + failed.len();
        output.text(&format!("{here} of {all} files here, {moved} of {bytes} moved in {seconds:.2} s"))?;
        if let Some(more) = self.notes.checked_sub(NOTES_TOLD_MAX).filter(|more| *more > 0) {
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

/// What is to be said of a download: why it may not be the newest, whose it is if there is a choice, and whether it is older
/// than its ticket promises.
fn notes(wanted: &Wanted, done: &DownloadedRow) -> impl Iterator<Item = String> {
    let (VersionRow { name, origin, version, .. }, others) = (&done.version, &done.other_origins);
    let named = others.iter().take(OTHERS_TOLD_MAX).map(|id| format!("{name}@{}", short(id)));
    let (all, origin, named) = (others.len() + 1, short(origin), named.collect::<Vec<_>>().join(" or "));
    let whose = || {
        format!(
            "{all} origins share these bytes: taken as the file of {origin}, as its next versions will be; of another, {named}"
        )
    };
    let promised =
        wanted.of(name).and_then(|named| named.version).filter(|promised| promised.get() > *version);
    let older = promised.map(|promised| {
        format!("only version {version} of {name} was found; the ticket is for version {promised} or later")
    });
    done.doubt.clone().into_iter().chain((all > 1).then(whose)).chain(older)
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
