//! Shows the files published and held here, piece by piece as they are read.

use nekoproto::Version;
use serde::Serialize;

use super::{
    Ended,
    output::Output,
    show::{Table, size},
};
use crate::{library::status::FileStatus, listing::Listing};

/// Columns of the table, and those that are right-aligned.
const HEADINGS: [&str; 7] = ["NAME", "VERSION", "SIZE", "ROLE", "POLICY", "FRESHNESS", ""];
const RIGHT: [usize; 2] = [1, 2];

/// Shows all files of `listing`, as a table or as `{"files":[...]}`. Damaged entries are reported by name.
pub(super) async fn list(mut listing: Listing, output: &Output) -> anyhow::Result<Ended> {
    let (mut table, mut shown, mut ended) = (Table::new(&HEADINGS, &RIGHT), 0, Ended::Well);
    if output.is_json() {
        output.piece("{\"files\":[")?;
    }
    while let Some(piece) = listing.next().await? {
        let mut files = Vec::with_capacity(piece.len());
        for file in piece {
            match file {
                Ok(file) => files.push(file),
                Err(error) => {
                    output.note(&format!("error: {error}"));
                    ended = Ended::Failed;
                }
            }
        }
        if files.is_empty() {
            continue;
        }
        if output.is_json() {
            let separator = if shown == 0 { "" } else { "," };
            let objects = files.iter().map(|file| serde_json::to_string(&FileObject::of(file)));
            output.piece(&format!("{separator}{}", objects.collect::<Result<Vec<_>, _>>()?.join(",")))?;
        } else {
            output.line(&table.text(&files.iter().map(row).collect::<Vec<_>>()))?;
        }
        shown += files.len();
    }
    if output.is_json() {
        output.line("]}")?;
    } else if shown == 0 && ended == Ended::Well {
        output.note("nothing is published or held here");
    }
    Ok(ended)
}

fn row(file: &FileStatus) -> Vec<String> {
    vec![
        file.record.name.to_string(),
        file.record.version.to_string(),
        size(file.record.size),
        role(file).to_owned(),
        file.record.policy.mode().to_string(),
        file.condition.to_string(),
        file.newest.map_or_else(String::new, |newest| format!("version {newest} is out")),
    ]
}

const fn role(file: &FileStatus) -> &'static str {
    if file.own { "origin" } else { "copy" }
}

/// One file as JSON.
#[derive(Serialize)]
struct FileObject<'a> {
    content: String,
    freshness: String,
    name: &'a str,
    newest: Option<u64>,
    origin: String,
    path: std::borrow::Cow<'a, str>,
    policy: String,
    role: &'static str,
    size: u64,
    version: u64,
}

impl<'a> FileObject<'a> {
    fn of(file: &'a FileStatus) -> Self {
        let FileStatus { record, path, .. } = file;
        Self {
            content: record.content.to_string(),
            freshness: file.condition.to_string(),
            name: record.name.as_str(),
            newest: file.newest.map(Version::get),
            origin: record.origin.to_string(),
            path: path.to_string_lossy(),
            policy: record.policy.mode().to_string(),
            role: role(file),
            size: record.size,
            version: record.version.get(),
        }
    }
}
