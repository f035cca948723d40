//! Final messages that several commands share.

use std::io;

use serde_json::json;

use super::{Ended, output::Output};
use crate::download::{DownloadError, Downloaded};

/// Maps "no node offers it" to its own exit code; other errors pass through.
pub(super) fn failed(error: DownloadError, output: &Output) -> anyhow::Result<Ended> {
    if matches!(error, DownloadError::NotFound { .. }) {
        output.error(&error.into());
        return Ok(Ended::NotFound);
    }
    Err(error.into())
}

/// Names the sources that sent bytes which are not the file's.
pub(super) fn report_corrupt_sources(done: &Downloaded, output: &Output) {
    for source in done.sources.iter().filter(|source| source.banned) {
        output.note(&format!(
            "note: source {} at {} sent what is not the file's, and was asked no more",
            source.node.short(),
            source.addr
        ));
    }
}

/// Prints `text` as JSON or as plain text.
pub(super) fn say(output: &Output, text: &str) -> io::Result<()> {
    if output.is_json() { output.object(&json!({ "done": text })) } else { output.line(text) }
}
