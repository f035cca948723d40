//! What several commands say at their end.

use std::io;

use serde_json::json;

use super::{Ended, output::Output};
use crate::download::{DownloadError, Downloaded};

/// A file that nobody offers is an end of its own.
pub(super) fn failed(error: DownloadError, output: &Output) -> anyhow::Result<Ended> {
    if matches!(error, DownloadError::NotFound { .. }) {
        output.error(&error.into());
        return Ok(Ended::NotFound);
    }
    Err(error.into())
}

/// Names the sources that sent what is not the file.
pub(super) fn report_corrupt_sources(done: &Downloaded, output: &Output) {
    for source in done.sources.iter().filter(|source| source.banned) {
        output.note(&format!(
            "note: source {} at {} sent what is not the file's, and was asked no more",
            source.node.short(),
            source.addr
        ));
    }
}

/// Says one thing for machines and one for people.
pub(super) fn say(output: &Output, text: &str) -> io::Result<()> {
    if output.is_json() { output.object(&json!({ "done": text })) } else { output.line(text) }
}
