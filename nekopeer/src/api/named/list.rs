//! Lists of names and tickets in files.

use std::{
    io::{BufRead, Read},
    path::Path,
};

use anyhow::{Context, ensure};

use super::Word;

/// Bytes of a line; no name and no ticket is as long.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// The names and tickets in `lines`, one per line; empty lines are skipped. `from` is for messages.
pub(in crate::api) fn read(mut lines: impl BufRead, from: &Path) -> anyhow::Result<Vec<Word>> {
    let mut names = Vec::new();
    let mut line = String::new();
    for number in 1.. {
        line.clear();
        let read = lines.by_ref().take(LINE_BYTES_MAX).read_line(&mut line);
        let read = read.with_context(|| format!("cannot read {}", from.display()))?;
        let too_long = read as u64 == LINE_BYTES_MAX;
        ensure!(!too_long, "line {number} of {} is longer than any name: it is no list", from.display());
        let name = line.trim_end_matches(['\r', '\n']);
        if !name.is_empty() {
            names.push(name.parse::<Word>().with_context(|| format!("line {number}: {name}"))?);
        }
        if read == 0 {
            break;
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_a_line_is_no_list() {
        let read = |text: &[u8]| read(text, Path::new("list")).map(|names| names.len());
        assert_eq!(read(b"a\n\nb\r\nc").unwrap(), 3);
        let zeros = std::io::BufReader::new(std::io::repeat(0));
        let error = super::read(zeros, Path::new("list")).unwrap_err().to_string();
        assert!(error.contains("line 1 of list is longer"), "{error}");
    }
}
