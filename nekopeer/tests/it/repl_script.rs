//! The REPL with a script: every command, exit codes, JSON, and events while it waits for input.

use crate::program::*;

fn script(home: &Home, flags: &[&str], lines: &[&str]) -> Ended {
    let mut running = home.start(flags);
    lines.iter().for_each(|line| running.type_line(line));
    running.wait()
}

fn objects(ended: &Ended) -> Vec<Value> {
    let object = |line: &String| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    ended.out.iter().map(object).collect()
}

#[test]
fn every_command_works_from_a_script() {
    let indexers = Indexers::one();
    let content = bytes(20, MIB);
    let origin = Home::at(&indexers, 0);
    origin.write("theirs.bin", &content);
    origin.write("my notes.txt", "notes\n");
    let _sharing = origin.share(&["theirs.bin", "my notes.txt"]);
    let home = Home::at(&indexers, 0);
    home.write_all([("mine.txt", "mine\n"), ("a file", "file\n")]);
    let ended = script(
        &home,
        &[],
        &[
            "register mine.txt",
            "search mine.txt",
            "query theirs.bin --ttl 1",
            "download theirs.bin",
            "ls",
            "status",
            "help",
            "?",
            "deregister mine.txt",
            "download 'my notes.txt' -o \"a copy\"",
            "register \"a file\" 'two words/named so'",
            "search two\\ words/named\\ so",
            "exit",
            "deregister theirs.bin",
        ],
    );
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(same(&origin.path("theirs.bin"), &home.path("theirs.bin")));
    let text = ended.out.join("\n");
    for part in [
        "shared mine.txt version 1, 5 B",
        "theirs.bin version 1, 1.0 MiB: 1.0 MiB moved",
        "mine.txt is no longer shared; no file was removed",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let lines = |begin: &str| ended.out.iter().filter(|line| line.starts_with(begin)).count();
    assert_eq!(home.read("a copy"), b"notes\n");
    assert!(ended.out.last().unwrap().starts_with("two words/named so"), "{ended:?}");
    assert_eq!(lines("NAME"), 5, "search, query, ls and status show tables: {text}");
    assert_eq!(lines("get NAME"), 2, "help and ? show the commands: {text}");
    assert_eq!(lines("theirs.bin is no longer"), 0, "nothing runs after exit: {text}");
}

#[test]
fn comments_and_blank_lines_do_nothing_and_wrong_usage_is_one_clear_line() {
    let (_indexers, home) = one_home();
    let ended = script(&home, &[], &["# a comment", "", "   ", "  # another", "ls"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.is_empty(), "{ended:?}");
    assert!(ended.err.iter().any(|line| line == "nothing is shared or held here"), "{ended:?}");
    assert_eq!(script(&home, &[], &[]).code, Some(0));
    for (line, part) in [("get a --ttr 5", "policy"), ("share a --force", "stdin")] {
        let ended = script(&home, &[], &[line]);
        assert_eq!(ended.code, Some(2), "{line}: {ended:?}");
        let errors: Vec<_> = ended.err.iter().filter(|line| line.starts_with("error: ")).collect();
        let [error] = errors.as_slice() else { panic!("one error: {ended:?}") };
        assert!(error.contains(part), "{line}: {error}");
    }
}

#[test]
fn first_failure_decides_the_code_and_later_lines_still_run() {
    let (_indexers, home) = one_home();
    home.write("a.txt", "a\n");
    let (missing, absent, wrong) = ("register missing.txt", "download absent.txt", "nonsense");
    let cases = [([missing, absent, wrong], 3), ([absent, wrong, missing], 1), ([wrong, missing, absent], 2)];
    for (lines, code) in cases {
        let lines = [&lines[..], &["register a.txt"]].concat();
        let ended = script(&home, &[], &lines);
        assert_eq!(ended.code, Some(code), "{lines:?}: {ended:?}");
        assert_eq!(ended.err.iter().filter(|line| line.starts_with("error: ")).count(), 3, "{ended:?}");
        assert!(ended.out.iter().any(|line| line.contains("a.txt version 1")), "{ended:?}");
    }
}

#[test]
fn json_in_a_script_is_one_object_for_each_command() {
    let (_indexers, _origin, home, _sharing) = sharing("theirs.txt", "theirs\n");
    home.write("mine.txt", "mine\n");
    let lines = [
        "register mine.txt",
        "search mine.txt",
        "query nothing",
        "download theirs.txt",
        "ls",
        "status",
        "help",
        "deregister mine.txt",
    ];
    let ended = script(&home, &["--json"], &lines);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let objects = objects(&ended);
    assert_eq!(objects.len(), lines.len(), "{ended:?}");
    assert_eq!(objects[0]["files"][0]["name"], "mine.txt");
    assert_eq!(objects[1]["hits"][0]["name"], "mine.txt");
    assert_eq!(objects[2]["hits"], Value::Array(Vec::new()));
    assert_eq!((&objects[3]["name"], &objects[3]["bytes_moved"]), (&"theirs.txt".into(), &7.into()));
    for list in &objects[4..6] {
        assert_eq!(list["files"].as_array().unwrap().len(), 2, "{list}");
        assert_eq!(list["files"][1]["name"], "theirs.txt");
    }
    assert_eq!(objects[5]["files"][1]["freshness"], "fresh", "status asks the origin");
}

#[test]
fn terminated_script_ends_whether_it_waits_or_works() {
    let (_indexers, origin, home) = two_homes();
    let mut waiting = home.start(&[]);
    waiting.answers("help", "share PATH");
    waiting.signal("TERM");
    assert_eq!(waiting.wait_with_input_open().code, Some(0));

    let _sharing = origin.share_file("big.bin", bytes(21, 12 * MIB));
    let mut working = home.start(&["--limit-down", "4MB"]);
    working.type_line("download big.bin");
    until(&mut working, "some came", || home.partial_len() > 0);
    working.signal("TERM");
    working.wait_with_input_open().ended_with(3, "interrupted");
    assert!(!home.path("big.bin").exists() && home.partial_len() > 0, "what came is kept");
}
