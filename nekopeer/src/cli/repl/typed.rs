//! The names in the history of the REPLs on a data folder.

use std::path::Path;

use rustyline::history::{FileHistory, History};

use super::line::{Line, Words, parse};

pub(super) const HISTORY_FILE: &str = "history";
/// Lines that are read: it takes some microseconds each.
const LINES_MAX: usize = 100;

/// Names that begin with `begin` in the latest lines that have that text.
pub(in crate::cli) fn typed_before(data_dir: &Path, begin: &str) -> Vec<String> {
    let mut history = FileHistory::new();
    if history.load(&data_dir.join(HISTORY_FILE)).is_err() {
        return Vec::new(); // there was no REPL yet
    }
    let latest = history.iter().rev().filter(|line| line.contains(begin)).take(LINES_MAX);
    let mut names = Vec::new();
    for line in latest {
        if let Ok(Some(Words { line: Line::Verb(verb), .. })) = parse(line) {
            names.extend(verb.names().iter().map(ToString::to_string).filter(|name| name.starts_with(begin)));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_earlier_lines_are_found_by_their_beginning() {
        let folder = tempfile::tempdir().unwrap();
        assert!(typed_before(folder.path(), "").is_empty(), "there is no history yet");
        let mut history = FileHistory::new();
        for line in ["get notes.md -o nothing", "query 'not a word' other", "share nowhere", "nonsense not"] {
            history.add(line).unwrap();
        }
        history.save(&folder.path().join(HISTORY_FILE)).unwrap();
        assert_eq!(typed_before(folder.path(), "no"), ["not a word", "notes.md"]);
        assert_eq!(typed_before(folder.path(), "not a"), ["not a word"]);
        assert_eq!(typed_before(folder.path(), "").len(), 3);
    }
}
