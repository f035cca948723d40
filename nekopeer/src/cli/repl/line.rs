//! Parsing of one REPL line: the verbs of the command line, and those of a dialogue.

use std::iter;

use clap::{CommandFactory, Parser};

use crate::cli::{args::PolicyArgs, verbs::Verb};

/// The text that `help` prints.
pub(super) const USAGE: &str = "\
share PATH...           publish files, or the files of folders; again after a change
register PATH [NAME]    the same; the name of a single file may be given
deregister NAME...      offer them no longer; the files stay
search TERM...          find by name, words or 'globs'; --min-size, --newer-than, --origin, --after
query NAME... [--ttl N] ask the network, N hops far
get NAME... [-o PATH]   download the newest versions, verified
download NAME...        the same
ls                      what is published and held here
status                  the same, after asking the origins of all copies
stop                    end the peer that carries out these commands
help or ?               this text
exit                    end (also: Ctrl-D)
Words with spaces are 'quoted'. share takes --policy push|pull|hybrid, --lease SECS, --ttr SECS.";

/// The commands, for completion.
pub(super) fn commands() -> Vec<String> {
    let names = |command: &clap::Command| {
        let names = iter::once(command.get_name()).chain(command.get_visible_aliases());
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    Words::command().get_subcommands().flat_map(names).collect()
}

/// The words of one line.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_subcommand = true, disable_help_flag = true)]
pub(super) struct Words {
    #[command(flatten)]
    pub(super) policy: PolicyArgs,
    #[command(subcommand)]
    pub(super) line: Line,
}

/// One command of the REPL.
#[derive(Clone, Debug, clap::Subcommand)]
pub(super) enum Line {
    #[command(flatten)]
    Verb(Verb),
    #[command(alias = "?")]
    Help,
    #[command(alias = "quit")]
    Exit,
}

/// Parses one line; `None` for an empty line or a comment.
pub(super) fn parse(text: &str) -> Result<Option<Words>, String> {
    let text = text.trim();
    if text.is_empty() || text.starts_with('#') {
        return Ok(None);
    }
    let words = shlex::split(text).ok_or("a quotation mark is not closed")?;
    Words::try_parse_from(words).map(Some).map_err(|error| one_line(&error))
}

/// The explanatory part of a usage error, and the nearest word, as one line.
fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let wrong: Vec<&str> = text.lines().take_while(|line| !line.trim().is_empty()).map(str::trim).collect();
    let wrong = wrong.join(" ").trim_start_matches("error: ").to_owned();
    let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: ").map(str::to_owned));
    let tip = tip.unwrap_or_else(|| "help lists the commands".to_owned());
    format!("{wrong} ({tip})").replace("subcommand", "command")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_read() {
        for text in [
            "register a.bin",
            "register 'my file' shared/name --policy pull --ttr 5",
            "share a b c --lease 3",
            "deregister a b",
            "search a b",
            "query a --ttl 0",
            "download a -o /somewhere/b --force",
            "get a b",
            "ls",
            "status",
            "stop",
            "help",
            "?",
            "exit",
        ] {
            assert!(matches!(parse(text), Ok(Some(_))), "{text}: {:?}", parse(text));
        }
        for text in ["", "   ", "# a comment"] {
            assert!(matches!(parse(text), Ok(None)), "{text}");
        }
    }

    #[test]
    fn errors_are_one_line_and_say_what_to_do() {
        for (text, part) in [
            ("nonsense a", "help lists the commands"),
            ("serach a", "'search'"),
            ("downlaod a", "'download'"),
            ("query", "NAME"),
            ("query ../a", ".."),
            ("query a --ttl 99", "99"),
            ("register 'open", "quotation"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part) && !error.contains('\n'), "{text}: {error}");
        }
    }

    #[test]
    fn help_and_completion_know_every_command() {
        let commands = commands();
        assert!(commands.iter().any(|command| command == "download"), "{commands:?}");
        for command in commands {
            assert!(USAGE.lines().any(|line| line.starts_with(&command)), "{command}");
        }
    }
}
