//! Lists of names and tickets in files.

use std::{io::BufRead, path::Path};

use anyhow::Context;

use crate::commands::Word;

/// The names and tickets in `lines`, one per line; empty lines are skipped. `from` is for messages.
pub(super) fn read(lines: impl BufRead, from: &Path) -> anyhow::Result<Vec<Word>> {
    let mut names = Vec::new();
    for (number, line) in lines.lines().enumerate() {
        let line = line.with_context(|| format!("cannot read {}", from.display()))?;
        if !line.is_empty() {
            let name = line.parse::<Word>().with_context(|| format!("line {}: {line}", number + 1))?;
            names.push(name);
        }
    }
    Ok(names)
}
