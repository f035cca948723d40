//! Compares README.md and docs/ with the code. A table whose first heading is one of those below has a row for all that
//! the code has; a failure names the document, the heading, and the row that one of the two lacks.

use std::{collections::BTreeMap, collections::BTreeSet, fs};

use clap::{Arg, CommandFactory};
use walkdir::WalkDir;

#[path = "../../../nekoindexer/src/main.rs"]
#[expect(dead_code, reason = "only its flags are read")]
mod indexer_program;

type Texts = BTreeMap<String, String>;
const PROTOCOL: &str = "docs/protocol.md";
const OPERATIONS: &str = "docs/operations.md";
const LIMITS: &str = "nekoproto/src/limits.rs";

/// The files below these folders of the repository, by their paths.
fn texts(folders: &[&str], end: &str) -> Texts {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../");
    let entries = folders.iter().flat_map(|folder| WalkDir::new(root.to_owned() + folder));
    let paths = entries.map(|entry| entry.unwrap().path().to_str().unwrap().to_owned());
    let text = |path: String| (path[root.len()..].to_owned(), fs::read_to_string(path).unwrap());
    paths.filter(|path| path.ends_with(end)).map(text).collect()
}

/// The rows of the tables with this first heading: words of the first column, or pairs of columns.
fn rows(docs: &Texts, page: &str, heading: &str, columns: usize) -> Vec<String> {
    let begin = format!("| {heading} |");
    let tables = docs[page].split("\n\n").filter(|part| part.starts_with(&begin));
    let lines = tables.flat_map(|table| table.lines().skip(2)).map(|line| line.replace("\\|", "\0"));
    let rows = lines.flat_map(|line| {
        let cells = line.trim_matches('|').split('|').map(|cell| cell.trim().replace('\0', "|"));
        let cells: Vec<_> = cells.collect();
        match columns {
            1 => quoted(&cells[0]).map(|word| format!("`{word}`")).collect(),
            _ => cells.chunks_exact(2).map(|cells| cells.join(" | ")).collect::<Vec<_>>(),
        }
    });
    rows.filter(|row| row.starts_with('`')).collect()
}

fn compare(what: &str, said: Vec<String>, is: impl Iterator<Item = String>) -> Vec<String> {
    let [said, is] = [BTreeSet::from_iter(said), BTreeSet::from_iter(is)];
    let missing = said.difference(&is).map(|row| format!("{what}: the code lacks {row}"));
    missing.chain(is.difference(&said).map(|row| format!("{what} lacks {row}"))).collect()
}

fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.filter(|word| !word.is_empty()).map(str::to_owned)
}

fn word(text: &str) -> String {
    words(text).next().unwrap()
}

/// The value of a constant as the code writes it, if the name stands for one only.
fn constant(code: &str, name: &str) -> Option<String> {
    let begin = format!("const {name}: ");
    let (_, rest) = code.split_once(&begin).filter(|(_, rest)| !rest.contains(&begin))?;
    let value = rest.split(';').next()?.split_once('=')?.1.trim();
    let time = |call: &str, unit| Some(value.strip_prefix(call)?.trim_end_matches(')').to_owned() + unit);
    let time = time("Duration::from_secs(", " s").or(time("Duration::from_millis(", " ms"));
    let value = time.unwrap_or(value.to_owned()).replace(" * 1024 * 1024", " Mi").replace(" * 1024", " Ki");
    Some(format!("`{name}` | {value}"))
}

/// A flag with what it takes, and its default.
fn flag(arg: &Arg) -> Option<String> {
    let takes = arg.get_action().takes_values();
    let names = arg.get_value_names().filter(|_| takes).unwrap_or_default().join(" ");
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let stated = help.rsplit_once("[default: ").and_then(|(_, rest)| rest.split(']').next());
    let default = arg.get_default_values().first().filter(|_| takes).and_then(|value| value.to_str());
    let default = default.or(stated).map(|default| format!(" = {default}")).unwrap_or_default();
    Some(format!("--{} {names}", arg.get_long()?).trim_end().to_owned() + &default)
}

#[test]
fn documents_list_what_the_code_has() {
    let docs = texts(&["README.md", "docs"], ".md");
    let files = texts(&["nekoproto", "nekoindexer", "nekopeer", "profile"], ".rs");
    let lines = files.values().flat_map(|text| text.lines()).map(str::trim_start);
    let line = |line: &str| line.strip_suffix('\\').map_or(format!("{line}\n"), str::to_owned);
    let code = lines.map(line).collect::<String>(); // a literal of several lines is in one
    let messages = files.iter().filter(|(path, _)| path.starts_with("nekoproto")).map(|(_, text)| text);
    let item = |begin: &str| messages.clone().find_map(|text| text.split_once(begin)?.1.split("\n}").next());
    let (mut faults, mut others) = (Vec::new(), Vec::new());
    let mut check = |page, heading: &str, columns, is: &mut dyn Iterator<Item = String>| {
        faults.extend(compare(&format!("{page}, {heading}"), rows(&docs, page, heading, columns), is));
    };

    let items = files[LIMITS].split("pub const ").skip(1);
    let items = items.filter(|item| !item.split(';').next().unwrap().contains(" + ")); // sizes of encoded values
    let value = |name: String| constant(&files[LIMITS], &name).or_else(|| constant(&code, &name));
    let named = |page, heading| rows(&docs, page, heading, 2).into_iter().map(|row| word(&row));
    check(PROTOCOL, "limit", 2, &mut items.map(word).chain(named(PROTOCOL, "limit")).filter_map(value));
    check(OPERATIONS, "limit", 2, &mut named(OPERATIONS, "limit").filter_map(value));
    let variants = |name: String| {
        let lines = item(&format!("pub enum {name}"))?.lines().filter_map(|line| line.strip_prefix("    "));
        let names = lines.filter(|line| line.starts_with(char::is_uppercase)).map(word);
        Some(format!("`{name}` | {}", names.collect::<Vec<_>>().join(", ")))
    };
    check(PROTOCOL, "enum", 2, &mut named(PROTOCOL, "enum").filter_map(variants));
    for service in ["IndexerService", "PeerService"] {
        let calls = item(&format!("trait {service} {{")).unwrap().split("async fn ").skip(1);
        let mut calls = calls.map(|call| format!("`{}`", word(call)));
        check(PROTOCOL, &format!("call of `{service}`"), 1, &mut calls);
    }

    let [indexer, peer] = [indexer_program::Args::command(), nekopeer::cli::Args::command()];
    let mut is = Vec::new();
    for command in [&indexer, &peer].into_iter().chain(peer.get_subcommands()) {
        let words: String = command.get_positionals().map(|arg| format!(" {arg}")).collect();
        let name = format!("{}{words}", command.get_name());
        is.extend(command.get_arguments().filter_map(flag).map(|flag| format!("{name} {flag}")));
        is.push(name);
    }
    let said = rows(&docs, OPERATIONS, "command", 2).into_iter().flat_map(|row| {
        let (names, flags) = row.split_once(" | ").unwrap();
        let row = |name: &str| quoted(flags).map(|flag| format!("{name} {flag}")).chain([name.to_owned()]).collect::<Vec<_>>();
        quoted(names).flat_map(row).collect::<Vec<_>>()
    });
    others.extend(compare(&format!("{OPERATIONS}, command"), said.collect(), is.into_iter()));
    for program in ["indexer", "peer"] {
        let texts = files.iter().filter(|(path, _)| path.starts_with(&format!("neko{program}/src")));
        let routes = texts.clone().flat_map(|(_, text)| text.split("utoipa::path(").skip(1));
        let mut routes = routes.map(|item| format!("`{} {}`", word(item).to_uppercase(), item.split('"').nth(1).unwrap()));
        check(OPERATIONS, &format!("route of neko{program}"), 1, &mut routes);
        let prefix = format!("nekop2p_{program}_");
        let texts = texts.filter(|(_, text)| text.contains(&prefix) || text.contains("Self::ProbeLost, "));
        let literals = texts.flat_map(|(_, text)| text.split('"').skip(1).step_by(2));
        let is_word = |text: &&str| text.bytes().all(|c| c.is_ascii_lowercase() || c == b'_');
        let literals = literals.map(|text| text.trim_start_matches(&prefix)).filter(is_word);
        let said = rows(&docs, OPERATIONS, &format!("`{prefix}...`"), 2).join("").replace("_total", "");
        let said = quoted(&said).flat_map(words).collect();
        others.extend(compare(&format!("{OPERATIONS}, {prefix}"), said, literals.map(str::to_owned)));
    }

    for (heading, between, quote) in [("file", "/", "\""), ("what you see", "...", "")] {
        let has = |part: &str| part.is_empty() || code.contains(&format!("{quote}{}{quote}", part.trim()));
        let is_there = |row: &String| quoted(row).all(|text| text.split(between).all(has));
        check(OPERATIONS, heading, 1, &mut rows(&docs, OPERATIONS, heading, 1).into_iter().filter(is_there));
    }
    let rooms = files.keys().filter_map(|path| path.strip_prefix("nekopeer/src/")).map(word);
    let rooms = rooms.filter(|room| !["lib", "main", "config"].contains(&room.as_str()));
    check("docs/architecture.md", "room", 1, &mut rooms.map(|room| format!("`{room}`")));
    let has_field = |name: &str| code.contains(&format!("{}: ", name.to_lowercase().replace('-', "_")));
    for (page, text) in &docs {
        let lines = text.lines().filter(|line| !line.contains("cargo "));
        let words =
            lines.flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric() && !"-_".contains(c)));
        let is_unknown = |word: &&str| match word.split_at_checked(2) {
            Some(("--", flag)) => flag.starts_with(char::is_alphabetic) && !has_field(flag),
            _ if word.starts_with("NEKO_") => !code.contains(word) && !has_field(&word[5..]),
            _ => word.starts_with("nekop2p_") && !code.contains(word.trim_end_matches("_total")),
        };
        let unknown = words.collect::<BTreeSet<_>>().into_iter().filter(is_unknown);
        faults.extend(unknown.map(|word| format!("{page}: the code lacks {word}")));
    }
    faults.extend(others);
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}
