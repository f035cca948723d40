//! Searches by pattern: what is searched for, and where a page of matches begins.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{
    limits::{TERM_BYTES_MAX, TERMS_MAX},
    values::{FileName, List, NodeId, Record},
};

/// The terms of a search.
pub type Terms = List<Term, TERMS_MAX>;

/// One term: a glob if it has one of `*?[{`, otherwise a word. 1 to [`TERM_BYTES_MAX`] bytes without control characters.
/// Decoding checks that, not whether the glob can be read.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Term(Box<str>);

/// Text that is not a [`Term`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a term is not empty, has at most {TERM_BYTES_MAX} bytes and no control characters")]
pub struct NotATerm;

impl Term {
    /// Checks `text`.
    ///
    /// # Errors
    /// It is empty, too long, or has a control character.
    pub fn new(text: &str) -> Result<Self, NotATerm> {
        let is_good = (1..=TERM_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control);
        if is_good { Ok(Self(text.into())) } else { Err(NotATerm) }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is a glob and no word.
    #[must_use]
    pub fn is_glob(&self) -> bool {
        self.0.contains(['*', '?', '[', '{'])
    }
}

impl TryFrom<String> for Term {
    type Error = NotATerm;

    fn try_from(text: String) -> Result<Self, NotATerm> {
        Self::new(&text)
    }
}

impl From<Term> for String {
    fn from(term: Term) -> Self {
        term.0.into()
    }
}

impl fmt::Debug for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The first hexadecimal digits of a node's id: 1 to 64, in lower case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct IdDigits(String);

/// Text that is not [`IdDigits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected 1 to 64 hexadecimal digits")]
pub struct NotDigits;

impl IdDigits {
    /// Whether the id of `node` begins with them.
    #[must_use]
    pub fn begin(&self, node: &NodeId) -> bool {
        let nibbles = node.as_bytes().iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let value = |digit: u8| if digit.is_ascii_digit() { digit - b'0' } else { digit - b'a' + 10 };
        self.0.bytes().map(value).zip(nibbles).all(|(digit, nibble)| digit == nibble)
    }
}

impl TryFrom<String> for IdDigits {
    type Error = NotDigits;

    fn try_from(text: String) -> Result<Self, NotDigits> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_good = (1..=64).contains(&text.len()) && text.bytes().all(is_digit);
        if is_good { Ok(Self(text)) } else { Err(NotDigits) }
    }
}

impl From<IdDigits> for String {
    fn from(digits: IdDigits) -> Self {
        digits.0
    }
}

/// What is searched for. A file matches if all of it does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Search {
    /// Globs and words; each of them must match the name.
    pub terms: Terms,
    /// The least size, in bytes.
    pub min_size: u64,
    /// The earliest time of publication, in milliseconds since 1970; 0 for any, also for those that state none.
    pub published_from_ms: u64,
    /// Whose files.
    pub origin: Option<IdDigits>,
}

impl Search {
    /// Whether the size, time and origin of `record` are as wanted. Its name is left to the terms.
    #[must_use]
    pub fn takes(&self, origin: &NodeId, size: u64, published_ms: u64) -> bool {
        size >= self.min_size
            && published_ms >= self.published_from_ms
            && self.origin.as_ref().is_none_or(|digits| digits.begin(origin))
    }
}

/// The place of a file among all: by name in the order of its bytes, then by origin.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    /// The name.
    pub name: FileName,
    /// The origin.
    pub origin: NodeId,
}

/// Text that is not a [`Position`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no place to go on from: expected what the page before said")]
pub struct NotAPosition;

/// As a word for shells and addresses: the name, percent-encoded, `@`, and the origin.
impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.name.as_str().bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' => {
                    write!(f, "{}", char::from(byte))?
                }
                _ => write!(f, "%{byte:02X}")?,
            }
        }
        write!(f, "@{}", self.origin)
    }
}

impl FromStr for Position {
    type Err = NotAPosition;

    fn from_str(text: &str) -> Result<Self, NotAPosition> {
        let (encoded, origin) = text.rsplit_once('@').ok_or(NotAPosition)?;
        let (mut bytes, mut rest) = (Vec::with_capacity(encoded.len()), encoded.bytes());
        while let Some(byte) = rest.next() {
            let mut digit =
                || char::from(rest.next()?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            bytes.push(match byte {
                b'%' => 16 * digit().ok_or(NotAPosition)? + digit().ok_or(NotAPosition)?,
                other => other,
            });
        }
        let name = String::from_utf8(bytes).ok().and_then(|name| FileName::new(&name).ok());
        Ok(Self { name: name.ok_or(NotAPosition)?, origin: origin.parse().map_err(|_| NotAPosition)? })
    }
}

impl Position {
    /// The place of the file that `record` is of.
    #[must_use]
    pub fn of(record: &Record) -> Self {
        Self { name: record.name.clone(), origin: record.origin }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec;

    #[test]
    fn terms_are_bounded_when_they_are_decoded() {
        let decoded = |text: &str| codec::decode::<Term>(&codec::encode(&text).unwrap()).ok();
        for good in ["a", "*", "data {a,b}", "é?", &"x".repeat(TERM_BYTES_MAX)] {
            assert_eq!(decoded(good).unwrap().as_str(), good);
        }
        for bad in ["", "a\nb", "\u{1b}[2J", &"x".repeat(TERM_BYTES_MAX + 1)] {
            assert_eq!(decoded(bad), None, "{bad:?}");
        }
        let many = codec::encode(&vec!["a"; TERMS_MAX + 1]).unwrap();
        assert!(codec::decode::<Terms>(&many).is_err());
    }

    #[test]
    fn positions_are_read_as_they_are_shown() {
        let origin = NodeId::from_bytes([0xa1; 32]);
        for name in ["a/b-c_1.bin", "two words", "100%@home", "é\u{a0}x", "'quoted'"] {
            let position = Position { name: FileName::new(name).unwrap(), origin };
            let shown = position.to_string();
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/.%@_-".contains(&byte);
            assert!(shown.bytes().all(is_plain), "{shown}");
            assert_eq!(shown.parse(), Ok(position));
        }
        let of_origin = ["%FF", "../x", "a%"].map(|name| format!("{name}@{origin}"));
        for wrong in ["", "a", "a@", "@a1", "a%2@a1"].into_iter().chain(of_origin.iter().map(|text| &**text))
        {
            assert_eq!(wrong.parse::<Position>(), Err(NotAPosition), "{wrong}");
        }
    }

    #[test]
    fn digits_are_those_an_id_begins_with() {
        let node = NodeId::from_bytes([0xa1; 32]);
        let digits = |text: &str| IdDigits::try_from(text.to_owned());
        for (text, begins) in [("a", true), ("a1a", true), ("1", false), ("a2", false)] {
            assert_eq!(digits(text).unwrap().begin(&node), begins, "{text}");
        }
        assert!(digits(&node.to_string()).unwrap().begin(&node));
        for wrong in ["", "A", "g", &"a".repeat(65)] {
            assert_eq!(digits(wrong), Err(NotDigits));
        }
    }
}
