//! Compares README.md and docs/ with the code: a table with a heading that is named here has a row for all the code has.

use std::{cell::RefCell, collections::BTreeMap, collections::BTreeSet, fs};

use clap::{Arg, CommandFactory};
use walkdir::WalkDir;

#[path = "../../../nekoindexer/src/main.rs"]
#[expect(dead_code, reason = "only its flags are read")]
mod indexer_program;

pub(crate) fn texts(folders: &[&str], end: &str) -> BTreeMap<String, String> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../");
    let entries = folders.iter().flat_map(|folder| WalkDir::new(root.to_owned() + folder));
    let paths = entries.map(|entry| entry.unwrap().path().to_str().unwrap().to_owned());
    let text = |path: String| (path[root.len()..].to_owned(), fs::read_to_string(path).unwrap());
    paths.filter(|path| path.ends_with(end)).map(text).collect()
}

/// The rows of the tables with this first heading: pairs of columns, or else the words of the first column.
pub(crate) fn rows(page: &str, heading: &str, pairs: bool) -> Vec<String> {
    let begin = format!("| {heading} |");
    let tables = page.split("\n\n").filter(|part| part.starts_with(&begin));
    let lines = tables.flat_map(|table| table.lines().skip(2)).map(|line| line.replace("\\|", "\0"));
    let rows = lines.flat_map(|line| {
        let cells = line.trim_matches('|').split('|').map(|at| at.trim().replace('\0', "|"));
        let cells: Vec<_> = cells.collect();
        let pairs = pairs.then(|| cells.chunks_exact(2).map(|pair| pair.join(" | ")).collect::<Vec<_>>());
        pairs.unwrap_or_else(|| quoted(&cells[0]).map(|word| format!("`{word}`")).collect())
    });
    rows.filter(|row| row.starts_with('`')).collect()
}

pub(crate) fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

pub(crate) fn words(text: &str) -> impl DoubleEndedIterator<Item = String> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.filter(|word| !word.is_empty()).map(str::to_owned)
}

/// The value of a constant as the code writes it, if the name stands for one only.
fn constant(code: &str, name: &str) -> Option<String> {
    let mut items = code.split("const ").filter_map(|item| item.strip_prefix(name)?.strip_prefix(": "));
    let value = items.next()?.split(';').next()?.split_once('=')?.1.trim();
    let of = |unit, short| Some(value.strip_prefix(unit)?.replace(')', short));
    let seconds = of("Duration::from_secs(", " s").or_else(|| of("Duration::from_millis(", " ms"));
    let value =
        seconds.unwrap_or(value.to_owned()).replace(" * 1024 * 1024", " Mi").replace(" * 1024", " Ki");
    items.next().is_none().then(|| format!("`{name}` | {value}"))
}

fn flag(arg: &Arg) -> Option<String> {
    let takes = arg.get_action().takes_values();
    let names = arg.get_value_names().filter(|_| takes).unwrap_or_default().join(" ");
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let stated = help.rsplit_once("[default: ").and_then(|(_, rest)| rest.split(']').next());
    let default = arg.get_default_values().first().filter(|_| takes).and_then(|value| value.to_str());
    let default = default.or(stated).map(|default| format!(" = {default}")).unwrap_or_default();
    Some(format!("--{} {names}", arg.get_long()?).trim_end().to_owned() + &default)
}

/// Who embeds a library, or asks over HTTP, has no flags: errors name what helps as a value, for which each program has words.
#[test]
fn libraries_name_no_flags() {
    // The structures of commands are words of the command line.
    let programs = "/cli/ /main.rs /daemon/settings/ /api/views/ /api/get.rs /api/limit.rs /api/share.rs";
    let is_program = |path: &str| programs.split(' ').any(|part| path.contains(part));
    let mut named = Vec::new();
    for (path, text) in texts(&["nekoproto/src", "nekoindexer/src", "nekopeer/src"], ".rs") {
        let code =
            text.split("#[cfg(test)]").next().unwrap().lines().filter(|line| !line.trim().starts_with("//"));
        let flags = |line: &&str| {
            line.split("--").skip(1).any(|flag| flag.starts_with(|c: char| c.is_ascii_lowercase()))
        };
        named.extend(
            code.filter(flags).filter(|_| !is_program(&path)).map(|line| format!("{path}: {}", line.trim())),
        );
    }
    assert!(named.is_empty(), "\n{}", named.join("\n"));
}

#[test]
#[expect(clippy::too_many_lines, reason = "one comparison after the other")]
fn documents_list_what_the_code_has() {
    let (docs, faults) = (texts(&["README.md", "docs"], ".md"), RefCell::new(Vec::new()));
    let files = texts(&["nekoproto", "nekoindexer", "nekopeer", "profile"], ".rs");
    let line = |line: &str| line.strip_suffix('\\').map_or(format!("{line}\n"), str::to_owned);
    let lines = files.values().flat_map(|text| text.lines()); // a literal of several lines is in one
    let code: String = lines.map(|text| line(text.trim_start())).collect();
    let compare = |what: &str, said: Vec<String>, is: &mut dyn Iterator<Item = String>| {
        let [said, is] = [BTreeSet::from_iter(said), is.collect()];
        faults.borrow_mut().extend(said.difference(&is).map(|row| format!("{what}: the code lacks {row}")));
        faults.borrow_mut().extend(is.difference(&said).map(|row| format!("{what}: the page lacks {row}")));
    };
    let rows = |page, heading: &str, pairs| rows(&docs[&format!("docs/{page}.md")], heading, pairs);
    let table = |page, heading: &str, pairs, is: &mut dyn Iterator<Item = String>| {
        compare(&format!("docs/{page}.md, {heading}"), rows(page, heading, pairs), is);
    };
    let word = |text: &str| words(text).next().unwrap();
    let limits = &files["nekoproto/src/limits.rs"]; // but for sizes of encoded values, which are sums
    let all = limits.split("pub const ").skip(1).filter(|at| !at[..at.find(';').unwrap()].contains(" + "));
    let value = |name: String| constant(limits, &name).or_else(|| constant(&code, &name));
    let named = |page, heading| rows(page, heading, true).into_iter().map(|row| word(&row));
    table("protocol", "limit", true, &mut all.map(word).chain(named("protocol", "limit")).filter_map(value));
    table("operations", "limit", true, &mut named("operations", "limit").filter_map(value));
    let item = |begin: &str| files.values().find_map(|text| text.split_once(begin)?.1.split("\n}").next());
    let variants = |name: String| {
        let lines = item(&format!("pub enum {name}"))?.lines().filter_map(|line| line.strip_prefix("    "));
        let names = lines.filter(|line| line.starts_with(char::is_uppercase)).map(word);
        Some(format!("`{name}` | {}", names.collect::<Vec<_>>().join(", ")))
    };
    table("protocol", "enum", true, &mut named("protocol", "enum").filter_map(variants));
    for service in ["IndexerService", "PeerService"] {
        let calls = item(&format!("trait {service} {{")).unwrap().split("async fn ").skip(1).map(word);
        table("protocol", &format!("call of `{service}`"), false, &mut calls.map(|call| format!("`{call}`")));
    }
    let (mut said, mut is) = (Vec::new(), Vec::new());
    let programs = [indexer_program::Args::command(), nekopeer::cli::Args::command()];
    for command in programs.iter().chain(programs[1].get_subcommands()) {
        let words = command.get_positionals().map(|arg| format!(" {arg}")).collect::<String>();
        let name = format!("{}{words}", command.get_name());
        is.extend(command.get_arguments().filter_map(flag).map(|flag| format!("{name} {flag}")));
        is.push(name);
    }
    for row in rows("operations", "command", true) {
        let (names, flags) = row.split_once(" | ").unwrap();
        let flags = |name| quoted(flags).map(move |flag| format!("{name} {flag}"));
        quoted(names).for_each(|name| said.extend(flags(name).chain([name.to_owned()])));
    }
    compare("docs/operations.md, command", said, &mut is.into_iter());
    for program in ["indexer", "peer"] {
        let texts = files.iter().filter(|(path, _)| path.starts_with(&format!("neko{program}/src")));
        let texts = texts.filter(|(path, _)| !path.ends_with("api/prelude.rs")); // `route!` is defined there
        let whole = texts.clone().flat_map(|(_, text)| text.split("utoipa::path(").skip(1));
        let short = texts.clone().flat_map(|(_, text)| text.split("\nroute! {").skip(1));
        let short = short.filter_map(|at| at.lines().find(|line| line.contains(" \"/")));
        let routes = whole.chain(short);
        let route = |at: &str| format!("`{} {}`", word(at).to_uppercase(), at.split('"').nth(1).unwrap());
        table("operations", &format!("route of neko{program}"), false, &mut routes.map(route));
        let what = format!("docs/operations.md, nekop2p_{program}_");
        let prefix = &what["docs/operations.md, ".len()..];
        let texts = texts.filter(|(_, text)| text.contains(prefix) || text.contains("Self::ProbeLost, "));
        let literals = texts.flat_map(|(_, text)| text.split('"').skip(1).step_by(2));
        let literals = literals.map(|text| text.trim_start_matches(prefix).to_owned());
        let mut literals = literals.filter(|text| text.bytes().all(|c| c.is_ascii_lowercase() || c == b'_'));
        let said = rows("operations", &format!("`{prefix}...`"), true).join("").replace("_total", "");
        compare(&what, quoted(&said).flat_map(words).collect(), &mut literals);
    }
    for (heading, between, quote) in [("file", "/", "\""), ("what you see", "...", "")] {
        let has = |part: &str| part.is_empty() || code.contains(&format!("{quote}{}{quote}", part.trim()));
        let said = rows("operations", heading, false).into_iter();
        let mut said = said.filter(|row| quoted(row).all(|text| text.split(between).all(has)));
        table("operations", heading, false, &mut said);
    }
    let modules = files.keys().filter_map(|path| path.strip_prefix("nekopeer/src/")).map(word);
    let modules = modules.filter(|name| !["lib", "main"].contains(&name.as_str()));
    table("architecture", "room", false, &mut modules.map(|name| format!("`{name}`")));
    let ids: BTreeSet<_> = code.split(": ").filter_map(|before| words(before).next_back()).collect();
    for (page, text) in &docs {
        let lines = text.lines().filter(|line| !line.contains("cargo ") && !line.trim().starts_with("|-"));
        let ends = |c: char| !c.is_ascii_alphanumeric() && !"-_".contains(c);
        let words = lines.flat_map(|line| line.split(ends)).map(str::to_owned).collect::<Vec<_>>();
        let is_known = |word: &String| match word.split_at_checked(2) {
            Some(("--", flag)) => ids.contains(&flag.replace('-', "_")),
            _ if word.starts_with("NEKO_") => code.contains(word) || ids.contains(&word[5..].to_lowercase()),
            _ => !word.starts_with("nekop2p_") || code.contains(word.trim_end_matches("_total")),
        };
        compare(page, words.clone(), &mut words.into_iter().filter(is_known));
    }
    assert!(faults.borrow().is_empty(), "\n{}", faults.borrow().join("\n"));
}
