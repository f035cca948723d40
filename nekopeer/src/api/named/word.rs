//! [`Word`]: what names a file to be fetched.

use std::str::FromStr;

use nekoproto::{FileName, NameError, TICKET_PREFIX, Term, Ticket, TicketError};
use serde::{Deserialize, Serialize};

use super::wanted::Pattern;

/// A name, which may end with `@ID`; a folder (`NAME/`) or glob; or a ticket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Word {
    Name(FileName),
    Ticket(Box<Ticket>),
    Pattern(String),
    /// A ticket that cannot be read, and why.
    Wrong(String),
}

/// What stands before a ticket where the whole command was copied.
const COMMAND: &str = "nekopeer get ";
/// Characters of a wrong ticket that are shown.
const SHOWN_MAX: usize = 24;

#[derive(Debug, thiserror::Error)]
pub enum WordError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Ticket(#[from] TicketError),
}

impl Word {
    /// What was said at the command line, where a wrong ticket is told in one line of its own.
    pub(crate) fn said(text: &str) -> Result<Self, WordError> {
        match text.parse() {
            Err(WordError::Ticket(why)) => {
                let begin: String = text.trim().chars().take(SHOWN_MAX).collect();
                let more = if begin.len() < text.trim().len() { "..." } else { "" };
                Ok(Self::Wrong(format!("{begin}{more}: {why}")))
            }
            word => word,
        }
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Self::Ticket(ticket) => ticket.name.to_string(),
            word => word.clone().into(),
        }
    }

    pub(crate) fn name(&self) -> Option<&FileName> {
        match self {
            Self::Name(name) => Some(name),
            Self::Ticket(ticket) => ticket.version.map(|_| &ticket.name),
            Self::Pattern(_) | Self::Wrong(_) => None,
        }
    }

    pub(in crate::api) fn names(words: &[Self]) -> Vec<&FileName> {
        words.iter().filter_map(Self::name).collect()
    }

    pub(in crate::api) fn folder(&self) -> Option<FileName> {
        FileName::new(self.pattern().text.strip_suffix('/')?).ok()
    }

    /// The names that it stands for, if none is just its own: those below the folder of that name, or that match.
    pub(in crate::api) fn pattern(&self) -> Pattern {
        match self {
            Self::Ticket(ticket) => Pattern::of_ticket(ticket),
            Self::Name(folder) => Pattern { text: format!("{folder}/"), origin: None },
            Self::Pattern(text) | Self::Wrong(text) => Pattern { text: text.clone(), origin: None },
        }
    }
}

impl From<FileName> for Word {
    fn from(name: FileName) -> Self {
        Self::Name(name)
    }
}

impl From<Word> for String {
    fn from(word: Word) -> Self {
        match word {
            Word::Name(name) => name.to_string(),
            Word::Ticket(ticket) => ticket.to_string(),
            Word::Pattern(text) | Word::Wrong(text) => text,
        }
    }
}

impl FromStr for Word {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, WordError> {
        let ticket = text.trim();
        let ticket = ticket.strip_prefix(COMMAND).unwrap_or(ticket).trim_start();
        let ticket = ticket.split_once(" --").map_or(ticket, |(ticket, _flags)| ticket);
        match ticket.split_at_checked(TICKET_PREFIX.len()) {
            Some((prefix, rest)) if prefix.eq_ignore_ascii_case(TICKET_PREFIX) => {
                Ok(Self::Ticket(Box::new(format!("{TICKET_PREFIX}{rest}").parse()?)))
            }
            _ => {
                let text = as_typed(text);
                match is_pattern(&text) {
                    true => Ok(Self::Pattern(text)),
                    false => Ok(Self::Name(FileName::new(&text)?)),
                }
            }
        }
    }
}

/// `text` with the characters that are printed as `\u{202f}`, which no name has otherwise.
fn as_typed(text: &str) -> String {
    let mut parts = text.split("\\u{");
    let mut typed = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let escaped = part
            .split_once('}')
            .and_then(|(digits, rest)| Some((char::from_u32(u32::from_str_radix(digits, 16).ok()?)?, rest)));
        match escaped {
            Some((character, rest)) => {
                typed.push(character);
                typed.push_str(rest);
            }
            None => typed.extend(["\\u{", part]),
        }
    }
    typed
}

/// Whether `text` is a folder or a glob. A name may look like a glob: it is tried where nothing matches.
fn is_pattern(text: &str) -> bool {
    let is_folder = text.strip_suffix('/').is_some_and(|folder| FileName::new(folder).is_ok());
    is_folder || Term::new(text).is_ok_and(|term| term.is_glob())
}

impl TryFrom<String> for Word {
    type Error = WordError;

    fn try_from(text: String) -> Result<Self, WordError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_are_known_however_they_were_copied_and_wrong_ones_are_told_briefly() {
        for text in
            ["neko:aa", "NEKO:aa", "  neko:aa", "nekopeer get neko:aa", "nekopeer get neko:aa --insecure"]
        {
            assert!(matches!(text.parse::<Word>(), Err(WordError::Ticket(_))), "{text}");
        }
        let long = format!("neko:{}", "a".repeat(60_000));
        match Word::said(&long) {
            Ok(Word::Wrong(why)) => assert!(why.len() < 150 && why.contains("neko:aaa"), "{why}"),
            other => panic!("{other:?}"),
        }
        assert!(matches!(Word::said("neko"), Ok(Word::Name(_))));
        for pattern in ["odd/", "a/odd/", "odd/**", "*.bin", "song [live].mp3"] {
            assert!(matches!(Word::said(pattern), Ok(Word::Pattern(_))), "{pattern}");
        }
        for (shown, name) in [("9.22\\u{202f}PM.png", "9.22\u{202f}PM.png"), ("\\u{61}b", "ab")] {
            assert_eq!(Word::said(shown).unwrap().text(), name);
        }
        assert!(matches!(Word::said("\\u{2e}./a"), Err(WordError::Name(_))));
        assert!(matches!(Word::said("../"), Err(WordError::Name(_))));
        assert!(matches!(Word::said("../a"), Err(WordError::Name(_))));
    }
}
