//! Parsing of one REPL line: the verbs of the command line, and those of a dialogue.

use std::iter;

use clap::{CommandFactory, Parser};

use crate::{
    cli::{
        args::PolicyArgs,
        help::{TEXT_AT, USAGE},
        verbs::Verb,
    },
    terminal,
};

/// Narrower terminals have the texts on lines of their own.
const COLUMNS_MIN: usize = 60;

/// What the verb takes: its words in [`USAGE`].
pub(super) fn usage(verb: &str) -> Option<&'static str> {
    let rest = USAGE.lines().find_map(|line| line.strip_prefix(verb)?.strip_prefix(' '))?;
    let len = TEXT_AT.saturating_sub(verb.len() + 1).min(rest.len());
    Some(rest[..len].trim())
}

pub(super) fn help(columns: Option<usize>) -> Vec<String> {
    let Some(columns) = columns else { return USAGE.lines().map(str::to_owned).collect() };
    let wrap = |line: &str| {
        if terminal::width(line) <= columns {
            return vec![line.to_owned()];
        }
        let Some((usage, text)) = line.split_at_checked(TEXT_AT).filter(|(usage, _)| usage.ends_with(' '))
        else {
            return terminal::wrapped(line, columns);
        };
        if line.starts_with(char::is_uppercase) {
            return terminal::wrapped(line, columns);
        }
        let indent = if columns < COLUMNS_MIN { 2 } else { TEXT_AT };
        let texts = terminal::wrapped(text, columns.saturating_sub(indent));
        let mut texts = texts.into_iter().map(|text| format!("{:indent$}{text}", ""));
        let first = match indent {
            TEXT_AT => texts.next().map(|text| format!("{usage}{}", text.trim_start())),
            _ => Some(usage.trim_end().to_owned()),
        };
        first.into_iter().chain(texts).collect()
    };
    USAGE.lines().flat_map(wrap).collect()
}

pub(super) fn help_of(command: &str) -> Option<Vec<String>> {
    let mut words = Words::command();
    let text = words.find_subcommand_mut(command)?.render_help().to_string();
    Some(text.lines().map(str::to_owned).collect())
}

pub(super) fn commands() -> Vec<String> {
    let names = |command: &clap::Command| {
        let names = iter::once(command.get_name()).chain(command.get_visible_aliases());
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    Words::command().get_subcommands().filter(|command| !command.is_hide_set()).flat_map(names).collect()
}

/// The words of one line.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_subcommand = true, disable_help_flag = true)]
pub(in crate::cli) struct Words {
    #[command(flatten)]
    pub(in crate::cli) policy: PolicyArgs,
    #[command(subcommand)]
    pub(in crate::cli) line: Line,
}

/// One command of the REPL.
#[derive(Clone, Debug, clap::Subcommand)]
pub(in crate::cli) enum Line {
    #[command(flatten)]
    Verb(Verb),
    #[command(alias = "?")]
    Help {
        /// The command
        command: Option<String>,
    },
    #[command(alias = "quit")]
    Exit,
}

/// Parses one line; `None` for an empty line or a comment.
pub(in crate::cli) fn parse(text: &str) -> Result<Option<Words>, String> {
    let text = text.trim();
    if text.is_empty() || text.starts_with('#') {
        return Ok(None);
    }
    let mut words = shlex::split(text).ok_or("a quotation mark is not closed")?;
    if let Some(last) = words.last_mut().filter(|last| *last == "&") {
        "--background".clone_into(last);
    }
    if let [verb, "-h" | "--help"] = &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        words = vec!["help".to_owned(), (*verb).to_owned()];
    }
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
            "trace a --ttl 2",
            "download a -o /somewhere/b --force",
            "get a b",
            "get a &",
            "jobs",
            "cancel a",
            "cancel 7",
            "ls",
            "ls a b/c",
            "help get",
            "get -h",
            "status",
            "status a",
            "follow a --exec 'make -C x' --keep 3",
            "rollback a 3",
            "wait a --all --timeout 5",
            "get a --bound 5 --when-stale refetch",
            "follow a --no-preference",
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
        assert!(!commands.iter().any(|command| command == "register"), "{commands:?}");
        for command in commands {
            assert!(USAGE.lines().any(|line| line.starts_with(&command)), "{command}");
            assert!(usage(&command).is_some(), "{command}");
        }
        assert_eq!(["share", "ls", "nonsense"].map(usage), [Some("PATH..."), Some("[NAME...]"), None]);
    }

    #[test]
    fn help_fits_the_terminal_and_loses_no_word() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for columns in [40, 59, 60, 80, 200] {
            let lines = help(Some(columns));
            assert!(lines.iter().all(|line| terminal::width(line) <= columns), "{columns}: {lines:#?}");
            assert_eq!(words(&lines.join("\n")), words(USAGE), "{columns}");
        }
        assert_eq!(help(None).join("\n"), USAGE);
    }
}
