//! Where output goes: results to stdout, everything else to stderr.

use std::{
    borrow::Cow,
    io::{self, BufWriter, StdoutLock, Write},
};

use serde::Serialize;
use serde_json::json;

use crate::commands::in_one_line;

/// Prints text or JSON.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output {
    json: bool,
}

impl Output {
    pub(super) const fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether results are JSON objects.
    pub(super) const fn is_json(self) -> bool {
        self.json
    }

    /// Prints one line of the result, for people.
    pub(super) fn line(self, text: &str) -> io::Result<()> {
        self.machine_line(&visible(text))
    }

    /// Prints one line of the result, as it is.
    pub(super) fn machine_line(self, text: &str) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{text}")?;
        stdout.flush()
    }

    /// Prints many lines; the caller flushes it.
    pub(super) fn lines(self) -> BufWriter<StdoutLock<'static>> {
        BufWriter::new(io::stdout().lock())
    }

    /// Prints the result as JSON.
    pub(super) fn object(self, value: &impl Serialize) -> io::Result<()> {
        self.machine_line(&serde_json::to_string(value)?)
    }

    /// Prints a short result as JSON or as plain text.
    pub(super) fn say(self, text: &str) -> io::Result<()> {
        if self.json { self.object(&json!({ "done": text })) } else { self.line(text) }
    }

    /// Prints a note to stderr.
    pub(super) fn note(self, text: &str) {
        // If stderr is closed there is nowhere left to report the failure.
        let _ = writeln!(io::stderr().lock(), "{}", visible(text));
    }

    /// Prints an error and its causes in one line.
    pub(super) fn error(self, error: &anyhow::Error) {
        self.note(&format!("error: {}", in_one_line(error.as_ref())));
    }
}

/// `text` for a terminal, in one line: names, paths and messages of others may contain what it would obey, or not
/// show. Control and format characters are escaped.
pub(super) fn visible(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Cow::Borrowed(text);
    }
    // `escape_debug` also escapes these.
    let is_kept = |c| matches!(c, '\'' | '"' | '\\' | '\u{a0}' | '\u{3000}');
    let mut shown = String::with_capacity(text.len());
    for part in text.split_inclusive(is_kept) {
        let escaped = part.strip_suffix(is_kept).unwrap_or(part);
        shown.extend(escaped.escape_debug());
        shown.push_str(&part[escaped.len()..]);
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_or_hide_is_escaped_and_letters_are_not() {
        for text in
            ["plain 'quoted' \"text\" a\\b", "Ünïcödé", "e\u{301}te\u{301}", "資料\u{3000}最終", "Ж ✓ 😀"]
        {
            assert_eq!(visible(text), text);
        }
        for (text, shown) in [
            ("\x1b[31mred", "\\u{1b}[31mred"),
            ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
            ("\u{9b}2J\x7f", "\\u{9b}2J\\u{7f}"),
            ("gpj.\u{202e}exe\u{200b}\u{feff}", "gpj.\\u{202e}exe\\u{200b}\\u{feff}"),
            ("a\u{2028}b\u{2029}'c'\u{1b}", "a\\u{2028}b\\u{2029}'c'\\u{1b}"),
        ] {
            assert_eq!(visible(text), shown);
        }
    }
}
