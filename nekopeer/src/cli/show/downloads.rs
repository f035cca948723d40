//! Shows downloads.

use std::io;

use super::{View, about, table::JsonList};
use crate::{
    cli::{Ended, output::Output, units::size},
    commands::{DownloadedRow, FailureKind, Row, Summary},
    json::{DownloadedJson, FailedJson, seconds},
    state::freshness::Doubt,
};

/// Failures, and notes about freshness, of a bulk download that are listed one by one.
const FAILURES_TOLD_MAX: usize = 20;

/// One download: a line or an object, and notes.
pub(super) struct One {
    /// Its bytes went to stdout, so the line goes to stderr.
    pub(super) to_stdout: bool,
    /// An earlier version was asked for: that a later one is out is no news.
    pub(super) is_earlier: bool,
}

impl View for One {
    fn rows(&mut self, rows: Vec<Row>, output: Output) -> io::Result<()> {
        for row in rows {
            let Row::Downloaded { outcome: Ok(done), .. } = row else { continue };
            match (self.to_stdout, output.is_json()) {
                (true, _) => output.note(&line(&done)),
                (false, true) => output.object(&DownloadedJson::from(&*done))?,
                (false, false) => output.line(&line(&done))?,
            }
            for source in done.sources.iter().filter(|source| source.banned) {
                output.note(&format!(
                    "note: source {} at {} sent what is not the file's, and was asked no more",
                    source.node.short(),
                    source.addr
                ));
            }
            match done.doubt {
                None if self.to_stdout || self.is_earlier => {} // otherwise no copy is kept that could be fresh
                _ => doubtful(&done).into_iter().for_each(|why| output.note(&format!("note: {why}"))),
            }
        }
        Ok(())
    }
}

/// Several downloads: their counts, or `{"files":[...],"failed":[{"name","error"}]}`.
#[derive(Default)]
pub(super) struct Many {
    list: JsonList,
    done: usize,
    bytes: u64,
    moved: u64,
    took_us: u64,
    /// In JSON, all failures; otherwise those that are listed.
    failures: Vec<FailedJson>,
    failed: usize,
    /// Whether one failed that is not just missing.
    is_serious: bool,
    /// Copies that are not known to be the newest.
    doubtful: usize,
}

impl View for Many {
    fn rows(&mut self, rows: Vec<Row>, output: Output) -> io::Result<()> {
        let mut downloads = Vec::new();
        for row in rows {
            let Row::Downloaded { name, outcome } = row else { continue };
            match outcome {
                Ok(done) => {
                    self.done += 1;
                    self.bytes += done.record.size;
                    self.moved += done.bytes_moved;
                    self.took_us = self.took_us.max(done.took_us);
                    if let Some(why) = doubtful(&done) {
                        self.doubtful += 1;
                        if self.doubtful <= FAILURES_TOLD_MAX {
                            output.note(&format!("note: {name}: {why}"));
                        }
                    }
                    downloads.extend(output.is_json().then_some(done));
                }
                Err(failure) => {
                    self.failed += 1;
                    self.is_serious |= failure.kind != FailureKind::NotFound;
                    if output.is_json() || self.failed <= FAILURES_TOLD_MAX {
                        let (name, error) = (name.to_string(), failure.message);
                        self.failures.push(FailedJson { name, error });
                    }
                }
            }
        }
        self.list.add(downloads.iter().map(|done| DownloadedJson::from(&**done)), output)
    }

    fn finish(&mut self, _: Summary, output: Output) -> io::Result<Ended> {
        if output.is_json() {
            self.list.end(&[("failed", serde_json::to_value(&self.failures)?)], output)?;
        } else {
            let (moved, bytes) = (size(self.moved), size(self.bytes));
            let all = self.done + self.failed;
            let secs = seconds(self.took_us);
            output.line(&format!(
                "{} of {all} files here, {moved} of {bytes} moved in {secs:.2} s",
                self.done
            ))?;
            if let Some(more) = self.doubtful.checked_sub(FAILURES_TOLD_MAX).filter(|more| *more > 0) {
                output.note(&format!("note: and {more} more that may not be the newest; ls lists them"));
            }
            let errors = self.failures.iter().map(|failure| &failure.error);
            errors.for_each(|error| output.note(&format!("error: {error}")));
            if let Some(more) = self.failed.checked_sub(FAILURES_TOLD_MAX).filter(|more| *more > 0) {
                output.note(&format!("error: and {more} more; --json names them all"));
            }
        }
        Ok(match (self.failed, self.is_serious) {
            (0, _) => Ended::Well,
            (_, false) => Ended::NotFound,
            (_, true) => Ended::Failed,
        })
    }

    fn abandon(&mut self, output: Output) -> io::Result<()> {
        self.list.abandon(&[], output)
    }
}

/// Why it may not be the newest version.
fn doubtful(done: &DownloadedRow) -> Option<&'static str> {
    done.doubt.map(Doubt::text).or_else(|| about(done.freshness))
}

/// One line about a download.
fn line(done: &DownloadedRow) -> String {
    let record = &done.record;
    let (path, secs) = (done.path.0.display(), seconds(done.took_us));
    let what = format!("{} version {}, {}", record.name, record.version, size(record.size));
    match done.bytes_moved {
        _ if done.was_here => format!("{what}: already here at {path}"),
        moved if moved < record.size => {
            let whole = size(record.size);
            format!("{what}: {} of {whole} moved in {secs:.2} s to {path}", size(moved))
        }
        moved => format!("{what}: {} moved in {secs:.2} s to {path}", size(moved)),
    }
}
