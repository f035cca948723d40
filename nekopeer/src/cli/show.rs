//! Results as aligned tables and as JSON objects.

use nekoproto::{FileName, VerifiedRecord};
use serde_json::{Value, json};

use crate::{Answer, Downloaded, FileStatus, PublishOutcome};

/// Bytes as people read them.
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

/// Rows under headings, columns aligned; numbers of `right` columns to the right.
pub(super) fn table(headings: &[&str], right: &[usize], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([headings[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let cells = cells.iter().enumerate().map(|(column, cell)| {
            let width = widths[column];
            if right.contains(&column) { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let heading = line(headings.to_vec());
    let rows = rows.iter().map(|row| line(row.iter().map(String::as_str).collect()));
    [heading].into_iter().chain(rows).collect::<Vec<_>>().join("\n")
}

/// Hits, one row for each holder.
pub(super) fn hits(answers: &[Answer]) -> String {
    let rows = answers.iter().flat_map(|answer| &answer.candidates).flat_map(|found| {
        found.holders.iter().map(|holder| {
            let record = &found.record;
            let role = if holder.node == record.origin { "origin" } else { "copy" };
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
        let holders = found
            .holders
            .iter()
            .map(|holder| json!({ "node": holder.node.to_string(), "addr": holder.addr.to_string() }));
        hit["holders"] = holders.collect();
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
    value["sources"] = done.sources.into();
    value
}

/// What is published and held here.
pub(super) fn files(files: &[FileStatus]) -> String {
    let rows = files.iter().map(|file| {
        let newest = file.newest.map_or_else(String::new, |newest| format!("version {newest} is out"));
        vec![
            file.record.name.to_string(),
            file.record.version.to_string(),
            size(file.record.size),
            if file.own { "origin" } else { "copy" }.to_owned(),
            file.record.policy.mode().to_string(),
            file.condition.to_string(),
            newest,
        ]
    });
    let headings = ["NAME", "VERSION", "SIZE", "ROLE", "POLICY", "FRESHNESS", ""];
    table(&headings, &[1, 2], &rows.collect::<Vec<_>>())
}

/// `{"files":[...]}`
pub(super) fn files_json(files: &[FileStatus]) -> Value {
    let files = files.iter().map(|file| {
        let mut value = record_json(&file.record);
        value["role"] = if file.own { "origin" } else { "copy" }.into();
        value["policy"] = file.record.policy.mode().to_string().into();
        value["freshness"] = file.condition.to_string().into();
        value["newest"] = file.newest.map(nekoproto::Version::get).into();
        value["path"] = file.path.to_string_lossy().into();
        value
    });
    json!({ "files": files.collect::<Vec<_>>() })
}

/// What became of a publish, file by file when there are few.
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
    lines.push(format!(
        "{} new, {} unchanged, {}",
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
    fn columns_line_up_also_with_wide_letters() {
        let rows = vec![vec!["é".to_owned(), "5".to_owned()], vec!["long".to_owned(), "123".to_owned()]];
        assert_eq!(table(&["N", "V"], &[1], &rows), "N       V\né       5\nlong  123");
    }
}
