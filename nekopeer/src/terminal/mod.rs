//! What the terminal is like, and text that fits it.

pub(crate) mod output;
pub(crate) mod table;
pub mod units;

use std::{
    env,
    io::{self, IsTerminal},
    os::fd::AsFd,
};

use rustix::termios::tcgetwinsize;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

pub(crate) use self::output::Output;

/// Stands for what was cut off.
const CUT: char = '…';

/// The columns of `stream`; `None` if it is no terminal, or one that does not say.
pub(crate) fn columns(stream: &(impl IsTerminal + AsFd)) -> Option<usize> {
    let size = stream.is_terminal().then(|| tcgetwinsize(stream).ok()).flatten()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// The columns of a line on `stream`, of 80 where it does not say how many it has. The last one stays free: some terminals go to
/// the next line when it is used.
pub(crate) fn line_columns(stream: &(impl IsTerminal + AsFd)) -> usize {
    columns(stream).unwrap_or(80).saturating_sub(1)
}

/// Whether the terminal only takes text, line by line.
pub(crate) fn is_dumb() -> bool {
    env::var_os("TERM").is_none_or(|term| term == "dumb")
}

/// Whether stdout may have colors and other attributes. Nothing depends on them.
pub(crate) fn has_colors() -> bool {
    let is_unwanted = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stdout().is_terminal() && !is_dumb() && !is_unwanted
}

pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// `text`, or its beginning and a sign if it takes more than `columns`.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut left = columns.saturating_sub(1);
    let fits = |c: &char| {
        let width = c.width().unwrap_or(0);
        let fits = width <= left;
        left = left.saturating_sub(width);
        fits
    };
    let mut shown: String = text.chars().take_while(fits).collect();
    shown.extend((columns > 0).then_some(CUT));
    shown
}

/// `text` in lines of at most `columns`, broken at spaces; a word that is longer has a line of its own.
pub(crate) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut().filter(|line| width(line) + 1 + width(word) <= columns) {
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_text_takes_no_more_than_its_columns_whatever_is_in_it() {
        for text in ["", "a", "plain text", "資料最終版", "a資b料c", "e\u{301}te\u{301} 😀😀", "👩‍👩‍👧 family"]
        {
            for columns in 0..12 {
                let shown = cut(text, columns);
                assert!(width(&shown) <= columns, "{text:?} in {columns}: {shown:?}");
                assert_eq!(shown == text, width(text) <= columns, "{text:?} in {columns}: {shown:?}");
            }
        }
        assert_eq!(cut("資料最終版", 6), "資料…");
    }

    #[test]
    fn wrapped_text_keeps_its_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("extraordinary it is", 5), ["extraordinary", "it is"]);
    }
}
