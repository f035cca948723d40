//! Text for people, of which nothing is obeyed by a terminal, or hidden from whoever reads it.

use std::borrow::Cow;

use nekoproto::is_invisible;

/// `text` for a terminal or a log, in one line: names, paths and messages of others may contain what it would obey, or
/// not show. Control and format characters are escaped.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Cow::Borrowed(text);
    }
    // `escape_debug` also escapes these.
    let is_kept = |c| matches!(c, '\'' | '"' | '\\' | '\u{a0}' | '\u{3000}');
    let mut shown = String::with_capacity(text.len());
    for part in text.split_inclusive(is_kept) {
        let escaped = part.strip_suffix(is_kept).unwrap_or(part);
        for c in escaped.escape_debug() {
            if is_invisible(c) { shown.extend(c.escape_unicode()) } else { shown.push(c) }
        }
        shown.push_str(&part[escaped.len()..]);
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_or_hide_is_escaped_and_letters_are_not() {
        let cases =
            ["plain 'quoted' \"text\" a\\b", "Ünïcödé", "e\u{301}te\u{301}", "資料\u{3000}最終", "Ж ✓ 😀"];
        for text in cases {
            assert_eq!(visible(text), text);
        }
        for (text, shown) in [
            ("\x1b[31mred", "\\u{1b}[31mred"),
            ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
            ("\u{9b}2J\x7f", "\\u{9b}2J\\u{7f}"),
            ("gpj.\u{202e}exe\u{200b}\u{feff}", "gpj.\\u{202e}exe\\u{200b}\\u{feff}"),
            ("a\u{2028}b\u{2029}'c'\u{1b}", "a\\u{2028}b\\u{2029}'c'\\u{1b}"),
            ("a\u{3164}b\u{e0041}\u{34f}", "a\\u{3164}b\\u{e0041}\\u{34f}"),
        ] {
            assert_eq!(visible(text), shown);
        }
    }
}
