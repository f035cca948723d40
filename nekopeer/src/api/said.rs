//! What a user's words are read with: where they were said, the files and folders that they name.

use std::{
    borrow::Cow,
    io,
    path::{Path, PathBuf, absolute},
};

use anyhow::Context;
use clap::builder::RangedI64ValueParser;
use nekoproto::limits::{POLICY_SECS_MAX, TTL_MAX};

use super::{LocalPath, Word, named::list};
use crate::{publish::PolicyChange, rules::check_glob};

/// The path that stands for stdin or stdout.
pub(super) const STDIO: &str = "-";

/// Why words mean no command.
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

/// Where a command was said.
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

    /// The names in the file `from`, one in a line.
    pub(super) fn names_in(self, from: &Path) -> Result<Vec<Word>, NoCommand> {
        let read = if from != Path::new(STDIO) {
            let file = std::fs::File::open(self.find(from));
            let opened = file.with_context(|| format!("cannot read {}", from.display()));
            opened.and_then(|file| list::read(io::BufReader::new(file), from))
        } else if self.line.is_none() {
            list::read(io::stdin().lock(), from)
        } else {
            return Err(NoCommand::usage(NO_STDIN));
        };
        read.map_err(NoCommand::Failed)
    }
}

pub(super) const NO_STDIN: &str = "stdin has the commands, it cannot be read by one of them";

pub(super) fn from_root(path: LocalPath) -> LocalPath {
    LocalPath(absolute(&path.0).unwrap_or(path.0))
}

/// A glob that may be excluded.
pub(super) fn glob(text: &str) -> Result<String, String> {
    check_glob(text).map(|()| text.to_owned())
}

/// Hops beyond the own indexers.
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
    fn paths_are_tried_from_the_current_folder_then_from_the_share_folder() {
        let dir = tempfile::tempdir().unwrap();
        let find = |path: &str| {
            let saying = Saying { dir: dir.path(), policy: PolicyChange::default(), line: None };
            saying.find(Path::new(path))
        };
        std::fs::write(dir.path().join("only-there.txt"), "").unwrap();
        assert_eq!(find("only-there.txt"), dir.path().join("only-there.txt"));
        std::fs::write(dir.path().join("Cargo.toml"), "").unwrap();
        let here = std::env::current_dir().unwrap();
        assert_eq!(find("Cargo.toml"), here.join("Cargo.toml"));
        assert_eq!(find("nowhere"), here.join("nowhere"));
    }
}
