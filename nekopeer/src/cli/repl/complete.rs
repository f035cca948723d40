//! Completion and hints: what a half typed line may become. Pure.

use std::borrow::Cow;

use clap::{Arg, CommandFactory};

use super::line::{Words, commands, usage};

#[derive(Debug, PartialEq, Eq)]
pub(in crate::cli) struct LastWord<'a> {
    /// Where it begins, its quotation mark included.
    pub(super) start: usize,
    /// It, without quotation marks and backslashes.
    pub(in crate::cli) text: String,
    /// The first word, if this is not it.
    pub(super) verb: Option<&'a str>,
    /// The word before it; empty if it is the first.
    last: &'a str,
    /// Whether another word stands between the two.
    pub(super) is_later: bool,
    /// It names a file, and no name.
    pub(super) is_path: bool,
}

impl<'a> LastWord<'a> {
    pub(in crate::cli) fn of(before: &'a str) -> Self {
        let (mut start, mut text, mut quote, mut escaped) = (0, String::new(), None, false);
        let mut words = Vec::new();
        for (at, c) in before.char_indices() {
            match (quote, c) {
                _ if escaped => {
                    escaped = false;
                    text.push(c);
                }
                (None | Some('"'), '\\') => escaped = true,
                (None, '\'' | '"') => quote = Some(c),
                (Some(mark), c) if mark == c => quote = None,
                (None, ' ') => {
                    if at > start {
                        words.push(start..at);
                    }
                    start = at + 1;
                    text.clear();
                }
                _ => text.push(c),
            }
        }
        let verb = words.first().map(|word| &before[word.clone()]);
        let last = words.last().map_or("", |word| &before[word.clone()]);
        let takes_paths = verb.and_then(usage).is_some_and(|usage| usage.starts_with("PATH"));
        let is_path = takes_paths || matches!(last, "-o" | "--output" | "--names-from");
        Self { start, text, verb, last, is_later: words.len() > 1, is_path }
    }

    /// Whether it may be the name of a file of the network.
    pub(super) fn is_name(&self) -> bool {
        let usage = self.verb.and_then(usage).unwrap_or_default();
        !self.is_path && !usage.is_empty()
    }

    /// The flags of the verb that it may become, or the values of a flag that takes only some; `None` if it is neither.
    pub(super) fn flags(&self) -> Option<Vec<String>> {
        let mut command = Words::command();
        command.build();
        let verb = command.find_subcommand(self.verb?)?;
        // Only what is shared has a policy, whose flags are global.
        let takes_policy = usage(verb.get_name()).is_none_or(|usage| usage.starts_with("PATH"));
        let flags = verb.get_arguments().filter(|arg| takes_policy || !arg.is_global_set());
        let flags: Vec<(String, &Arg)> =
            flags.filter_map(|arg| Some((format!("--{}", arg.get_long()?), arg))).collect();
        let values = |said: &str| {
            let (_, arg) = flags
                .iter()
                .find(|(flag, _)| flag == said)
                .filter(|(_, arg)| arg.get_action().takes_values())?;
            let values = arg.get_value_parser().possible_values()?;
            Some(values.map(|value| value.get_name().to_owned()).collect::<Vec<_>>())
        };
        let proposed = match self.text.split_once('=') {
            _ if !self.text.starts_with('-') => values(self.last)?,
            Some((flag, _)) => values(flag)?.iter().map(|value| format!("{flag}={value}")).collect(),
            None => flags.into_iter().map(|(flag, _)| flag).collect(),
        };
        Some(proposed.into_iter().filter(|word| word.starts_with(&self.text)).collect())
    }

    pub(super) fn verbs(&self) -> impl Iterator<Item = String> {
        commands().into_iter().filter(|word| word.starts_with(&self.text))
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rest<'a> {
    Word(String),
    Usage(&'a str),
}

/// The hint behind the line `before`: the rest of the only verb or name that it may be, or else of the latest of the
/// `recent` ones; or what the verb takes. `names` include `recent`, which are the last `recent` of them.
pub(super) fn rest(before: &str, names: &[String], recent: usize) -> Option<Rest<'static>> {
    let word = LastWord::of(before);
    if word.verb.is_none() {
        let mut verbs = word.verbs().filter(|_| !word.text.is_empty());
        let (first, second) = (verbs.next()?, verbs.next());
        let rest = first[word.text.len()..].to_owned();
        return (second.is_none() && !rest.is_empty()).then_some(Rest::Word(rest));
    }
    if word.start == before.len() {
        let usage = word.verb.and_then(usage).filter(|usage| !usage.is_empty() && !word.is_later);
        return usage.map(Rest::Usage);
    }
    if !word.is_name() || word.text.is_empty() || before[word.start..] != word.text {
        return None; // no name, or one in quotation marks
    }
    let fits = |name: &&String| name.starts_with(&word.text) && is_plain(name);
    let latest = names[names.len().saturating_sub(recent)..].iter().rev().find(fits);
    let mut all = names.iter().filter(fits);
    let only = all.next().filter(|_| all.next().is_none());
    let rest = &latest.or(only)?[word.text.len()..];
    (!rest.is_empty()).then(|| Rest::Word(rest.to_owned()))
}

pub(super) fn quoted(name: &str) -> Option<Cow<'_, str>> {
    if is_plain(name) { Some(name.into()) } else { shlex::try_quote(name).ok() }
}

pub(super) fn is_plain(name: &str) -> bool {
    name.chars().all(|c| c.is_alphanumeric() || "_-./+:@%=,".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_word_is_found_in_and_out_of_quotation_marks() {
        for (line, start, text) in [
            ("", 0, ""),
            ("ge", 0, "ge"),
            ("get ", 4, ""),
            ("get a b", 6, "b"),
            ("get 'some no", 4, "some no"),
            ("get \"some no", 4, "some no"),
            ("get some\\ no", 4, "some no"),
            ("get 'a b' c", 10, "c"),
        ] {
            let word = LastWord::of(line);
            assert_eq!((word.start, word.text.as_str()), (start, text), "{line:?}");
        }
        for (line, is_name, is_path) in [
            ("get a", true, false),
            ("get a -o b", false, true),
            ("share a", false, true),
            ("jobs a", false, false),
            ("g", false, false),
        ] {
            let word = LastWord::of(line);
            assert_eq!((word.is_name(), word.is_path), (is_name, is_path), "{line:?}");
        }
    }

    #[test]
    fn flags_and_their_values_are_proposed_after_a_dash_and_a_flag() {
        for (line, expected) in [
            ("get --or", Some(&["--origin"][..])),
            ("limit -", Some(&["--up", "--down"])),
            ("share a --poli", Some(&["--policy"])),
            ("get a --poli", Some(&[])),
            ("share a --policy ", Some(&["push", "pull", "hybrid"])),
            ("register a --policy pu", Some(&["push", "pull"])),
            ("share a --policy=h", Some(&["--policy=hybrid"])),
            ("get a --when-stale re", Some(&["refetch"])),
            ("get a --force ", None),
            ("get a --origin ", None),
            ("get a", None),
            ("get ", None),
            ("--po", None),
        ] {
            let expected = expected.map(|words| words.iter().map(ToString::to_string).collect());
            assert_eq!(LastWord::of(line).flags(), expected, "{line:?}");
        }
    }

    #[test]
    fn hint_is_the_only_or_the_latest_match_or_the_usage() {
        let names = ["data/b.bin", "models/a.bin", "with space", "models/c.bin", "models/b.bin"];
        let names = names.map(str::to_owned);
        for (line, expected) in [
            ("", None),
            ("quer", Some("y")),
            ("uns", Some("hare")),
            ("s", None),
            ("get", None),
            ("get dat", Some("a/b.bin")),
            ("get models/", Some("b.bin")),
            ("get models/a", Some(".bin")),
            ("get models/a.bin", None),
            ("get wi", None),
            ("get 'mod", None),
            ("get '", None),
            ("jobs mod", None),
            ("share mod", None),
        ] {
            let expected = expected.map(|rest| Rest::Word(rest.to_owned()));
            assert_eq!(rest(line, &names, 2), expected, "{line:?}");
        }
        assert_eq!(rest("get models/", &names, 0), None, "none of three is the latest");
        assert!(matches!(rest("get ", &names, 2), Some(Rest::Usage(usage)) if usage.starts_with("NAME")));
        assert_eq!(rest("jobs ", &names, 2), None);
    }
}
