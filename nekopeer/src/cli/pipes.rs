//! Commands whose files come from stdin or go to stdout.

use std::{
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context;
use nekoproto::FileName;

use super::{
    Ended,
    outcome::{failed, report_corrupt_sources},
    output::Output,
    show,
};
use crate::{download::DownloadOptions, peer::PeerHandle, util::progress::Progress};

/// The names in `file`, one per line; empty lines are skipped. `-` is stdin.
pub(super) fn names_from(file: &Path) -> anyhow::Result<Vec<FileName>> {
    let lines: Box<dyn BufRead> = if file == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        let opened = std::fs::File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
        Box::new(BufReader::new(opened))
    };
    let mut names = Vec::new();
    for (number, line) in lines.lines().enumerate() {
        let line = line.with_context(|| format!("cannot read {}", file.display()))?;
        if !line.is_empty() {
            let name = FileName::new(&line).with_context(|| format!("line {}: {line}", number + 1))?;
            names.push(name);
        }
    }
    Ok(names)
}

/// Writes a file to stdout, in order, as it arrives; messages go to stderr.
pub(super) async fn get(
    peer: &PeerHandle,
    name: &FileName,
    options: DownloadOptions,
    output: &Output,
) -> anyhow::Result<Ended> {
    if output.is_json() {
        output.note("error: --json and -o - would both write to stdout");
        return Ok(Ended::Usage);
    }
    let options = DownloadOptions { output: None, ..options };
    let progress = Arc::new(Progress::default());
    let reading = peer.read(name, &options, io::stdout(), &progress);
    match output.with_bar(name.as_str(), &progress, reading).await {
        Ok(done) => {
            output.note(&show::downloaded(&done));
            report_corrupt_sources(&done, output);
            Ok(Ended::Well)
        }
        Err(error) => failed(error, output),
    }
}

/// Stores stdin as the file `name` in the share folder; returns its path.
pub(super) async fn take_stdin(
    peer: &PeerHandle,
    name: &FileName,
    force: bool,
    output: &Output,
) -> anyhow::Result<PathBuf> {
    let progress = Arc::new(Progress::default());
    let taking = peer.store(name, io::stdin(), force, &progress);
    Ok(output.with_bar("stdin", &progress, taking).await?)
}
