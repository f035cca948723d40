//! Results as aligned tables and JSON objects.

use nekoproto::{FileName, Holder, VerifiedRecord};
use serde_json::{Value, json};

use crate::{
    download::{Delivery, DownloadError, Downloaded},
    indexers::Answer,
    publish::PublishOutcome,
};

/// A number of bytes with a binary unit.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ if value < 10.0 => format!("{value:.1} {}", UNITS[unit]),
        _ => format!("{value:.0} {}", UNITS[unit]),
    }
}

/// A table with headings and aligned columns; the columns listed in `right` are right-aligned.
pub(super) fn table(headings: &[&str], right: &[usize], rows: &[Vec<String>]) -> String {
    Table::new(headings, right).text(rows)
}

/// A table that is shown in pieces: its columns are as wide as the cells so far.
#[derive(Debug)]
pub(super) struct Table<'a> {
    headings: &'a [&'a str],
    right: &'a [usize],
    widths: Vec<usize>,
    is_begun: bool,
}

impl<'a> Table<'a> {
    pub(super) fn new(headings: &'a [&'a str], right: &'a [usize]) -> Self {
        let widths = headings.iter().map(|heading| heading.len()).collect();
        Self { headings, right, widths, is_begun: false }
    }

    /// The lines of the next rows, the first after the headings.
    pub(super) fn text(&mut self, rows: &[Vec<String>]) -> String {
        for row in rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut text = String::new();
        if !std::mem::replace(&mut self.is_begun, true) {
            self.line(self.headings.iter().copied(), &mut text);
        }
        rows.iter().for_each(|row| self.line(row.iter().map(String::as_str), &mut text));
        text.pop(); // the last line break
        text
    }

    fn line<'b>(&self, cells: impl Iterator<Item = &'b str>, text: &mut String) {
        for (column, (cell, width)) in cells.zip(&self.widths).enumerate() {
            if column > 0 {
                text.push_str("  ");
            }
            let blanks = std::iter::repeat_n(' ', width - cell.chars().count());
            if self.right.contains(&column) {
                text.extend(blanks);
                text.push_str(cell);
            } else {
                text.push_str(cell);
                text.extend(blanks);
            }
        }
        text.truncate(text.trim_end_matches(' ').len());
        text.push('\n');
    }
}

/// A table of hits, one row per holder.
pub(super) fn hits(answers: &[Answer]) -> String {
    let rows = answers.iter().flat_map(|answer| &answer.candidates).flat_map(|found| {
        found.holders.iter().map(|holder| {
            let record = &found.record;
            let role = match holder {
                holder if holder.partial => "partial",
                holder if holder.node == record.origin => "origin",
                _ => "copy",
            };
            vec![
                record.name.to_string(),
                record.version.to_string(),
                size(record.size),
                record.content.short(),
                record.origin.short(),
                role.to_owned(),
                holder.addr.to_string(),
            ]
        })
    });
    let headings = ["NAME", "VERSION", "SIZE", "CONTENT", "ORIGIN", "HOLDER", "ADDRESS"];
    table(&headings, &[1, 2], &rows.collect::<Vec<_>>())
}

/// `{"name","complete","hits":[...]}`
pub(super) fn hits_json(name: &FileName, answer: &Answer) -> Value {
    let hits = answer.candidates.iter().map(|found| {
        let mut hit = record_json(&found.record);
        let holder = |holder: &Holder| {
            json!({
                "node": holder.node.to_string(),
                "addr": holder.addr.to_string(),
                "partial": holder.partial,
            })
        };
        hit["holders"] = found.holders.iter().map(holder).collect();
        hit
    });
    json!({ "name": name.as_str(), "complete": answer.complete, "hits": hits.collect::<Vec<_>>() })
}

fn record_json(record: &VerifiedRecord) -> Value {
    json!({
        "name": record.name.as_str(),
        "origin": record.origin.to_string(),
        "version": record.version.get(),
        "size": record.size,
        "content": record.content.to_string(),
    })
}

/// One line about a download.
pub(super) fn downloaded(done: &Downloaded) -> String {
    let record = &done.record;
    let (path, secs) = (done.path.display(), done.took.as_secs_f64());
    let what = format!("{} version {}, {}", record.name, record.version, size(record.size));
    match done.bytes_moved {
        0 => format!("{what}: already here at {path}"),
        moved if moved < record.size => {
            let whole = size(record.size);
            format!("{what}: {} of {whole} moved in {secs:.2} s to {path}", size(moved))
        }
        moved => format!("{what}: {} moved in {secs:.2} s to {path}", size(moved)),
    }
}

/// `{"name","origin","version","size","bytes_moved","seconds","path"}`
pub(super) fn downloaded_json(done: &Downloaded) -> Value {
    let mut value = record_json(&done.record);
    value["bytes_moved"] = done.bytes_moved.into();
    value["seconds"] = done.took.as_secs_f64().into();
    value["path"] = done.path.to_string_lossy().into();
    value["freshness"] = done.freshness.to_string().into();
    let source = |source: &Delivery| {
        json!({
            "node": source.node.to_string(),
            "addr": source.addr.to_string(),
            "bytes": source.bytes,
            "banned": source.banned,
        })
    };
    value["sources"] = done.sources.iter().map(source).collect();
    value
}

/// Counts of a bulk download, as its outcomes come in.
#[derive(Debug, Default)]
pub(super) struct Tally {
    all: usize,
    here: usize,
    bytes: u64,
    moved: u64,
    took: std::time::Duration,
}

impl Tally {
    pub(super) fn count(&mut self, outcome: &Result<Downloaded, DownloadError>) {
        self.all += 1;
        if let Ok(done) = outcome {
            self.here += 1;
            self.bytes += done.record.size;
            self.moved += done.bytes_moved;
            self.took = self.took.max(done.took);
        }
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { all, here, .. } = self;
        let (moved, bytes, secs) = (size(self.moved), size(self.bytes), self.took.as_secs_f64());
        write!(f, "{here} of {all} files here, {moved} of {bytes} moved in {secs:.2} s")
    }
}

/// The outcome of a publish, file by file if there are few.
pub(super) fn published(outcome: &PublishOutcome) -> String {
    const LISTED_MAX: usize = 20;
    let all = outcome.published.iter().map(|record| (record, "published"));
    let all: Vec<_> = all.chain(outcome.unchanged.iter().map(|record| (record, "unchanged"))).collect();
    let mut lines: Vec<String> = all
        .iter()
        .take(LISTED_MAX)
        .map(|(record, what)| {
            format!("{what} {} version {}, {}", record.name, record.version, size(record.size))
        })
        .collect();
    if all.len() > LISTED_MAX {
        lines.push(format!("... and {} more", all.len() - LISTED_MAX));
    }
    lines.extend(outcome.copies.iter().map(|name| format!("kept as a copy {name}: another origin's file")));
    let bytes = all.iter().map(|(record, _)| record.size).sum();
    let unconfirmed = if outcome.is_confirmed { "" } else { ", not confirmed by an indexer yet" };
    lines.push(format!(
        "{} new, {} unchanged, {}{unconfirmed}",
        outcome.published.len(),
        outcome.unchanged.len(),
        size(bytes)
    ));
    lines.join("\n")
}

/// `{"files":[...],"failed":[...],"listening","node"}`
pub(super) fn published_json(outcome: &PublishOutcome) -> Value {
    let files = outcome.published.iter().chain(&outcome.unchanged).map(record_json);
    let failed = outcome
        .failed
        .iter()
        .map(|(path, error)| json!({ "path": path.to_string_lossy(), "error": error.to_string() }));
    json!({
        "files": files.collect::<Vec<_>>(),
        "failed": failed.collect::<Vec<_>>(),
        "indexers_told": outcome.indexers_told,
        "confirmed": outcome.is_confirmed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let cases =
            [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (12 << 20, "12 MiB"), (1 << 30, "1.0 GiB")];
        for (bytes, text) in cases {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn who_holds_a_part_is_called_so_in_tables_and_objects() {
        use nekoproto::{ContentHash, Identity, ManifestHash, Policy, Record, Version};
        let identity = |n| Identity::from_seed(&[n; 32]);
        let record = Record {
            origin: identity(1).id(),
            name: FileName::new("a").unwrap(),
            version: Version::FIRST,
            size: 1,
            content: ContentHash::from_bytes([1; 32]),
            manifest: ManifestHash::from_bytes([1; 32]),
            policy: Policy::default(),
        };
        let holder = |n| Holder::new(identity(n).id(), ([127, 0, 0, 1], 1).into());
        let part = |n| Holder { partial: true, ..holder(n) };
        let record = record.sign(&identity(1)).unwrap();
        let holders = vec![holder(1), holder(2), part(3)];
        let found = crate::state::choice::Candidate { record, holders };
        let answer = Answer { candidates: vec![found], complete: true };
        let table = hits(std::slice::from_ref(&answer));
        let role = |line: &str| line.split_whitespace().rev().nth(1).unwrap().to_owned();
        assert_eq!(table.lines().map(role).collect::<Vec<_>>(), ["HOLDER", "origin", "copy", "partial"]);
        let object = hits_json(&FileName::new("a").unwrap(), &answer);
        let partial = |n: usize| object["hits"][0]["holders"][n]["partial"].as_bool();
        assert_eq!([0, 1, 2].map(partial), [Some(false), Some(false), Some(true)]);
    }

    #[test]
    fn columns_line_up_also_with_wide_letters() {
        let rows = vec![vec!["é".to_owned(), "5".to_owned()], vec!["long".to_owned(), "123".to_owned()]];
        assert_eq!(table(&["N", "V"], &[1], &rows), "N       V\né       5\nlong  123");
    }
}
