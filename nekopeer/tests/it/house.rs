//! Reads from the code which file imports which: none in a loop, and in the peer only rooms below its own.

use std::{collections::BTreeMap, fs};

use crate::docs::{rows, texts};

const ROOT_FILES_MAX: usize = 14;

/// A module by the parts of its path; the root of the crate has none.
type Module = Vec<String>;

fn parts(path: &str, between: &str) -> Module {
    path.split(between).map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// The paths that the tree of a `use` names.
fn named(tree: &str) -> Vec<String> {
    let (mut heads, mut now, mut all) = (Vec::new(), String::new(), Vec::new());
    for c in tree.chars().chain([',']) {
        match c {
            '{' => heads.push(now.clone()),
            ',' | '}' => {
                all.push(now);
                heads.truncate(heads.len().saturating_sub(usize::from(c == '}')));
                now = heads.last().cloned().unwrap_or_default();
            }
            c => now.push(c),
        }
    }
    all
}

/// The paths from the root of the crate that a module imports outside its tests.
fn imported(module: &Module, code: &str) -> Vec<Module> {
    let code = code.split("#[cfg(test)]\nmod ").next().unwrap_or_default().lines();
    let code: String = code.flat_map(|line| [line.split("//").next().unwrap_or_default(), "\n"]).collect();
    let path = |path: String| {
        let mut at = module.clone();
        for part in parts(path.split(" as ").next().unwrap_or_default(), "::") {
            match part.as_str() {
                "crate" => at.clear(),
                "self" => {}
                "super" => drop(at.pop()),
                _ => at.push(part),
            }
        }
        at
    };
    code.split(';')
        .filter_map(|item| item.rsplit_once("use "))
        .flat_map(|(_, tree)| named(tree))
        .map(path)
        .collect()
}

/// What each module of a crate imports of that crate, apart from its parents and children.
fn imports(src: &str) -> BTreeMap<Module, Vec<Module>> {
    let mut files = BTreeMap::new();
    for (path, code) in texts(&[src], ".rs") {
        let mut module = parts(path.trim_start_matches(src).trim_end_matches(".rs"), "/");
        module.pop_if(|last| ["lib", "mod"].contains(&last.as_str()));
        if module.last().is_none_or(|last| !last.contains("tests") && last != "main") {
            files.insert(module, code);
        }
    }
    let of_root = imported(&Vec::new(), &files[&Vec::new()]);
    let file_of = |path: &Module| {
        (1..=path.len()).rev().map(|len| path[..len].to_vec()).find(|path| files.contains_key(path))
    };
    let found = |path: &Module| {
        let handed_on = || of_root.iter().find(|known| path.len() == 1 && known.last() == path.last());
        file_of(path).or_else(|| file_of(handed_on()?))
    };
    let is_apart = |a: &Module, b: &Module| !a.starts_with(b) && !b.starts_with(a);
    let each = files.iter().map(|(module, code)| {
        let to = imported(module, code).iter().filter_map(found).filter(|to| is_apart(module, to)).collect();
        (module.clone(), to)
    });
    each.collect()
}

#[test]
fn no_files_of_a_crate_import_each_other_in_a_loop() {
    for name in ["nekoproto/src", "nekoindexer/src", "nekopeer/src", "profile/src"] {
        let mut left = imports(name);
        // Without what imports nothing of the rest, or is imported by none, only loops are left, and what joins them.
        for _ in 0..left.len() {
            let before = left.clone();
            let is_imported = |module: &Module| before.values().any(|to| to.contains(module));
            left.retain(|module, to| is_imported(module) && to.iter().any(|to| before.contains_key(to)));
        }
        let files: Vec<String> = left.keys().map(|module| module.join("/")).collect();
        assert!(files.is_empty(), "{name}: a loop of {files:?}: move what both ends need to the lower one");
    }
    let files = fs::read_dir("src").unwrap().filter(|entry| entry.as_ref().unwrap().path().is_file());
    assert!(files.count() <= ROOT_FILES_MAX);
}

#[test]
fn rooms_of_the_peer_import_only_rooms_below_them() {
    let page = texts(&["docs"], "architecture.md").into_values().next().unwrap();
    let rooms = rows(&page, "room", false);
    let place = |module: &Module| rooms.iter().position(|room| room.trim_matches('`') == module[0]);
    for (module, to) in imports("nekopeer/src").iter().filter(|(module, _)| !module.is_empty()) {
        let up: Vec<_> = to.iter().filter(|to| place(to) < place(module)).collect();
        assert!(up.is_empty(), "{module:?} imports {up:?}: docs/architecture.md has that above it");
    }
}
