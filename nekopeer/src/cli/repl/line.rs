//! Parsing of one REPL line.

use std::path::PathBuf;

use clap::Parser;
use nekoproto::{FileName, Mode};

use super::super::args::{self, NodeArgs, Reach, Which};
use crate::publish::PolicyChange;

/// The text that `help` prints.
pub(super) const USAGE: &str = "\
register PATH [NAME]    publish a file, or the files of a folder; again after a change
deregister NAME         offer it no longer; the file stays
search NAME             ask the own indexer only
query NAME [--ttl N]    ask the network, N hops far
download NAME [-o PATH] download the newest version, verified
ls                      what is published and held here
status                  the same, after asking the origins of all copies
help or ?               this text
exit                    end (also: Ctrl-D)
Words with spaces are 'quoted'. register takes --policy push|pull|hybrid, --lease SECS, --ttr SECS.";

/// The commands, for completion.
pub(super) const COMMANDS: [&str; 9] =
    ["register", "deregister", "search", "query", "download", "ls", "status", "help", "exit"];

#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_subcommand = true, disable_help_flag = true)]
struct Words {
    #[command(subcommand)]
    line: Line,
}

/// One command of the REPL.
#[derive(Clone, Debug, clap::Subcommand)]
pub(super) enum Line {
    Register {
        path: PathBuf,
        name: Option<FileName>,
        #[command(flatten)]
        policy: PolicyWords,
    },
    Deregister {
        name: FileName,
    },
    Search {
        #[arg(required = true, value_name = "NAME")]
        names: Vec<FileName>,
    },
    Query {
        #[arg(required = true, value_name = "NAME")]
        names: Vec<FileName>,
        #[command(flatten)]
        reach: Reach,
    },
    Download {
        name: FileName,
        #[arg(short, long)]
        output: Option<PathBuf>,
        #[command(flatten)]
        reach: Reach,
        #[command(flatten)]
        which: Which,
    },
    Ls,
    Status,
    #[command(alias = "?")]
    Help,
    #[command(alias = "quit")]
    Exit,
}

/// The policy of one register.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct PolicyWords {
    #[arg(long)]
    policy: Option<Mode>,
    #[arg(long, value_parser = args::seconds())]
    lease: Option<u32>,
    #[arg(long, value_parser = args::seconds())]
    ttr: Option<u32>,
}

impl PolicyWords {
    /// What is said here; where it is silent, the command line's flags.
    pub(super) fn over(self, node: &NodeArgs) -> PolicyChange {
        let said = node.policy_change();
        PolicyChange {
            mode: self.policy.or(said.mode),
            lease_secs: self.lease.or(said.lease_secs),
            ttr_secs: self.ttr.or(said.ttr_secs),
            ..said
        }
    }
}

impl Line {
    /// Parses one line; `None` for an empty line or a comment.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, String> {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            return Ok(None);
        }
        let words = shlex::split(text).ok_or("a quotation mark is not closed")?;
        match Words::try_parse_from(words) {
            Ok(Words { line }) => Ok(Some(line)),
            Err(error) => Err(first_line(&error)),
        }
    }
}

/// The explanatory part of a usage error, as one line.
fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let wrong: Vec<&str> = text.lines().take_while(|line| !line.trim().is_empty()).map(str::trim).collect();
    let wrong = wrong.join(" ");
    let wrong = wrong.trim_start_matches("error: ").replace("subcommand", "command");
    format!("{wrong} (help lists the commands)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_read() {
        for text in [
            "register a.bin",
            "register 'my file' shared/name --policy pull --ttr 5",
            "deregister a",
            "search a",
            "query a --ttl 0",
            "download a -o /somewhere/b --force",
            "ls",
            "status",
            "help",
            "?",
            "exit",
        ] {
            assert!(matches!(Line::parse(text), Ok(Some(_))), "{text}: {:?}", Line::parse(text));
        }
        for text in ["", "   ", "# a comment"] {
            assert!(matches!(Line::parse(text), Ok(None)), "{text}");
        }
    }

    #[test]
    fn errors_are_one_line_and_say_what_to_do() {
        for (text, part) in [
            ("fetch a", "fetch"),
            ("query", "NAME"),
            ("query ../a", ".."),
            ("query a --ttl 99", "99"),
            ("register 'open", "quotation"),
        ] {
            let error = Line::parse(text).unwrap_err();
            assert!(error.contains(part) && !error.contains('\n'), "{text}: {error}");
        }
    }

    #[test]
    fn help_and_completion_know_every_command() {
        for command in COMMANDS {
            assert!(USAGE.lines().any(|line| line.starts_with(command)), "{command}");
        }
    }
}
