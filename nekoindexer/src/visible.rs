//! Text for people, of which nothing is obeyed by a terminal, or hidden from whoever reads it.

use std::borrow::Cow;

use nekoproto::is_invisible;
use unicode_normalization::{UnicodeNormalization as _, char::is_combining_mark};

/// Selectors of a letter's variant; in front of a keycap also behind a digit.
const VARIANTS_START: char = '\u{fe00}';
const VARIANTS_END: char = '\u{fe0f}';

/// `text` for a terminal or a log, in one line: names, paths and messages of others may contain what it would obey, or
/// not show. Control and format characters are escaped, and so
/// are blanks that look like a space; joiners are not within emoji and within words that need them.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let (mut before, mut chars) = (' ', text.chars().peekable());
    while let Some(c) = chars.next() {
        let after = chars.peek().copied().unwrap_or(' ');
        match c {
            '\'' | '"' | '\\' | '\u{3000}' => shown.push(c), // `escape_debug` escapes these
            '\u{200c}' | '\u{200d}' if is_joined(before) && is_joined(after) => shown.push(c),
            VARIANTS_START..=VARIANTS_END if before.is_ascii() && after != '\u{20e3}' => {
                shown.extend(c.escape_unicode());
            }
            _ if is_invisible(c) => shown.extend(c.escape_unicode()),
            _ if is_combining_mark(c) && !shown.is_empty() => shown.push(c),
            _ => shown.extend(c.escape_debug()),
        }
        before = c;
    }
    Cow::Owned(shown)
}

/// Whether a joiner without width does something beside `c`: in emoji, and in Arabic and Indic words.
const fn is_joined(c: char) -> bool {
    !is_invisible(c)
        && matches!(c, '\u{600}'..='\u{109f}' | '\u{1780}'..='\u{18af}' | '\u{2190}'..='\u{2bff}' | '\u{fe0f}' | '\u{1f000}'..='\u{1faff}')
}

/// What texts have in common that look the same where all of them are shown by [`visible`].
#[must_use]
pub fn look_of(text: &str) -> String {
    text.nfc().filter(|c| !matches!(c, '\u{200c}' | '\u{200d}' | VARIANTS_START..=VARIANTS_END)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_or_hide_is_escaped_and_letters_are_not() {
        let cases = [
            "plain 'quoted' \"text\" a\\b",
            "Ünïcödé",
            "e\u{301}te\u{301}",
            "資料\u{3000}最終",
            "Ж ✓ 😀",
            "👩\u{200d}💻 ❤\u{fe0f}\u{200d}🔥 1\u{fe0f}\u{20e3}",
            "می\u{200c}خواهم",
        ];
        for text in cases {
            assert_eq!(visible(text), text);
        }
        for (text, shown) in [
            ("\x1b[31mred", "\\u{1b}[31mred"),
            ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
            ("\u{9b}2J\x7f", "\\u{9b}2J\\u{7f}"),
            ("gpj.\u{202e}exe\u{200b}\u{feff}", "gpj.\\u{202e}exe\\u{200b}\\u{feff}"),
            ("a\u{2028}b\u{2029}'c'\u{1b}", "a\\u{2028}b\\u{2029}'c'\\u{1b}"),
            ("a\u{200d}b\u{200c}é\u{fe0f}ok\u{fe0f}", "a\\u{200d}b\\u{200c}é\u{fe0f}ok\\u{fe0f}"),
            ("9.22\u{202f}PM\u{a0}x", "9.22\\u{202f}PM\\u{a0}x"),
            ("a\u{3164}b\u{e0041}\u{34f}", "a\\u{3164}b\\u{e0041}\\u{34f}"),
        ] {
            assert_eq!(visible(text), shown);
        }
    }
}
