//! What a user's words are read with: where they were said, the files and folders that they name.

use std::{
    borrow::Cow,
    io::{self, BufRead, Read},
    path::{Path, PathBuf, absolute},
};

use anyhow::{Context, ensure};
use clap::builder::RangedI64ValueParser;
use nekoproto::limits::{POLICY_SECS_MAX, TTL_MAX};

use super::{LocalPath, Word};
use crate::{publish::PolicyChange, rules::check_glob};

pub(super) const STDIO: &str = "-";
/// Bytes of a line; no name and no ticket is as long.
const LINE_BYTES_MAX: u64 = 64 * 1024;

#[derive(Debug)]
pub(crate) enum NoCommand {
    /// They contradict each other.
    Usage(Cow<'static, str>),
    /// A file that they name cannot be read.
    Failed(anyhow::Error),
}

impl NoCommand {
    pub(super) fn usage(why: impl Into<Cow<'static, str>>) -> Self {
        Self::Usage(why.into())
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Saying<'a> {
    /// The share folder, where paths are tried that the current folder does not have.
    pub(crate) dir: &'a Path,
    /// What was said about the policy at the start of the program.
    pub(crate) policy: PolicyChange,
    /// The same in this line of the REPL; `None` if no lines are read, and stdin is free to be read by the command.
    pub(crate) line: Option<PolicyChange>,
}

impl Saying<'_> {
    /// The absolute path of what `path` names: in the current folder, or else in the share folder.
    pub(super) fn find(self, path: &Path) -> PathBuf {
        let here = absolute(path).unwrap_or_else(|_| path.to_owned());
        let there = absolute(self.dir.join(path)).unwrap_or_else(|_| here.clone());
        if here.symlink_metadata().is_err() && there.symlink_metadata().is_ok() { there } else { here }
    }

    pub(super) fn names_in(self, from: &Path) -> Result<Vec<Word>, NoCommand> {
        let read = if from != Path::new(STDIO) {
            let file = std::fs::File::open(self.find(from));
            let opened = file.with_context(|| format!("cannot read {}", from.display()));
            opened.and_then(|file| read_names(io::BufReader::new(file), from))
        } else if self.line.is_none() {
            read_names(io::stdin().lock(), from)
        } else {
            return Err(NoCommand::usage(NO_STDIN));
        };
        read.map_err(NoCommand::Failed)
    }
}

/// The names and tickets in `lines`, one per line; empty lines are skipped. `from` is for messages.
fn read_names(mut lines: impl BufRead, from: &Path) -> anyhow::Result<Vec<Word>> {
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

pub(super) const NO_STDIN: &str = "stdin has the commands, it cannot be read by one of them";

pub(super) fn from_root(path: LocalPath) -> LocalPath {
    LocalPath(absolute(&path.0).unwrap_or(path.0))
}

pub(super) fn glob(text: &str) -> Result<String, String> {
    check_glob(text).map(|()| text.to_owned())
}

pub(super) fn ttl() -> RangedI64ValueParser<u8> {
    clap::value_parser!(u8).range(0..=i64::from(TTL_MAX))
}

/// Seconds of a lease, a TTR or a bound.
pub(crate) fn seconds() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(POLICY_SECS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_a_line_is_no_list() {
        let read = |text: &[u8]| read_names(text, Path::new("list")).map(|names| names.len());
        assert_eq!(read(b"a\n\nb\r\nc").unwrap(), 3);
        let zeros = io::BufReader::new(io::repeat(0));
        let error = read_names(zeros, Path::new("list")).unwrap_err().to_string();
        assert!(error.contains("line 1 of list is longer"), "{error}");
    }
}
