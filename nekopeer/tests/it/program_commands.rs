//! The commands, each in a process of its own: share, find, download, show, update.

use std::os::{fd::OwnedFd, unix::net::UnixDatagram};

use crate::program::*;

fn edited(mut text: Vec<u8>, len: usize) -> Vec<u8> {
    let middle = text.len() / 2;
    text[middle..middle + len].fill(0xa5);
    text
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key} in {value}"))
}

/// Nobody sends the version that it began with any more.
#[test]
fn get_goes_on_with_a_version_that_is_shared_meanwhile() {
    let (_indexers, origin, reader) = two_homes();
    let (first, second) = (bytes(1, 6 * MIB), bytes(2, 6 * MIB));
    let _sharing = origin.share_file("big", &first);
    let mut getting = reader.start(&["get", "big", "--limit-down", "1MB"]);
    until(&mut getting, "some of it is here", || reader.partial_len() > 0);
    origin.share_anew("big", &second);
    let ended = getting.wait();
    assert_eq!((ended.code, reader.read("big") == second), (Some(0), true), "{ended:?}");
}

#[test]
fn what_only_asks_leaves_nothing_behind_and_a_folder_that_is_missing_is_no_new_peer() {
    let indexers = Indexers::one();
    let home = Home::at(&indexers, 0);
    let answers = [&["query", "f"][..], &["search", "f"], &["ls"], &["status"]].map(|words| home.run(words));
    assert!(answers[2].err.join("").contains("no peer was here"), "{answers:?}");
    assert_eq!(fs::read_dir(home.path("")).unwrap().count(), 0, "{answers:?}");
    let missing = Home::with(&["--dir", &home.text("missing")]);
    missing.run(&["ls"]).failed_with(3, &["missing is no folder", "check --dir"]);
    missing.run(&["query", "f", "--indexer", &indexers.addr(0)]).failed_with(1, &[]);
    assert!(!home.path("missing").exists());
}

/// Nothing of another program comes between a line and its end.
#[test]
fn line_is_written_at_once() {
    let (_indexers, home) = one_home();
    for words in [&["trace", "nope"][..], &["search", "nope", "--json"], &["ls"]] {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        let to_us = || Stdio::from(OwnedFd::from(theirs.try_clone().unwrap()));
        home.command(words).stdout(to_us()).stderr(to_us()).status().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut buffer = [0; 4096];
        let written: Vec<String> = std::iter::from_fn(|| {
            let len = ours.recv(&mut buffer).ok()?;
            Some(String::from_utf8_lossy(&buffer[..len]).into_owned())
        })
        .collect();
        assert!(!written.is_empty() && written.iter().all(|text| text.ends_with('\n')), "{written:?}");
    }
}

#[test]
fn shared_folder_is_downloaded_and_updated() {
    let (_indexers, origin, reader) = two_homes();
    let first = bytes(1, 3 * MIB);
    let big = origin.write("course/week 1/slides.bin", &first);
    origin.write_all([("course/notes.txt", "short\n"), ("course/empty.txt", "")]);
    let mut sharing = origin.share(&["course"]);
    let told = sharing.out_line("3 new");
    assert!(told.contains("0 unchanged") && told.contains("3.0 MiB"), "{told}");
    let got = reader.done(&["get", "course/week 1/slides.bin"]);
    assert_eq!(got.out.len(), 1, "{got:?}");
    for part in
        ["course/week 1/slides.bin", "version 1", "3.0 MiB moved", &reader.text("course/week 1/slides.bin")]
    {
        assert!(got.out[0].contains(part), "{part} in {got:?}");
    }
    assert!(same(&big, &reader.path("course/week 1/slides.bin")));
    let got = reader.done(&["get", "course/empty.txt"]);
    assert!(got.out[0].contains("version 1, 0 B: 0 B moved in "), "not here before it is fetched: {got:?}");
    assert_eq!(reader.read("course/empty.txt"), b"");
    for name in ["course/empty.txt", "course/week 1/slides.bin"] {
        let again = reader.done(&["get", name]);
        assert!(again.out[0].contains("already here"), "{again:?}");
    }
    let copied = reader.done(&["get", "course/week 1/slides.bin", "-o", "elsewhere.bin"]);
    assert!(copied.out[0].contains(": 0 B of ") && copied.out[0].contains(" moved in "), "{copied:?}");
    assert!(same(&big, &reader.path("elsewhere.bin")));
    // What was edited is stale elsewhere, and only the change moves.
    let shared = origin.share_anew("course/week 1/slides.bin", edited(first, 100_000));
    assert!(shared.out[0].starts_with("shared course/week 1/slides.bin version 2"), "{shared:?}");
    let status = reader.done(&["status"]);
    let row = status.out.iter().find(|line| line.contains("slides.bin")).unwrap();
    assert!(row.contains("stale") && row.contains("version 2 is out"), "{status:?}");
    let known = reader.status("course/week 1/slides.bin");
    assert_eq!((number(&known, "version"), number(&known, "newest")), (1, 2));
    let got = reader.done(&["get", "course/week 1/slides.bin", "-o", "elsewhere.bin", "--json"]).json();
    let moved = number(&got, "bytes_moved");
    assert_eq!(number(&got, "version"), 2);
    assert!((1..MIB as u64).contains(&moved), "{moved} bytes moved");
    assert!(same(&big, &reader.path("elsewhere.bin")));
    assert_eq!(reader.partial_len(), 0, "no partial file is left");
}

#[test]
fn o_with_a_folder_puts_one_file_or_several_into_it() {
    let (_indexers, origin, reader) = two_homes();
    origin.write_each(&["a.txt", "d/b.txt", "d/c.txt", "e/b.txt"]);
    let _sharing = origin.share(&["a.txt", "d", "e"]);
    reader.write("there/mine", "mine");
    reader.done(&["get", "a.txt", "-o", "there"]);
    reader.done(&["get", "a.txt", "-o", "there"]);
    reader.done(&["get", "d/b.txt", "d/c.txt", "-o", "there"]);
    for (path, bytes) in [("a.txt", "a.txt"), ("b.txt", "d/b.txt"), ("c.txt", "d/c.txt"), ("mine", "mine")] {
        assert_eq!(reader.read(&format!("there/{path}")), bytes.as_bytes());
    }
    reader.run(&["get", "d/b.txt", "e/b.txt", "-o", "there"]).failed_with(2, &["end alike"]);
    reader.run(&["get", "e/b.txt", "-o", "there"]).failed_with(3, &["there/b.txt", "--force"]);
    for words in [&["a.txt", "d/b.txt"][..], &["*.txt"], &["d/?.txt"], &["d/"]] {
        let wrong = reader.run(&[&["get", "-o", "nowhere"], words].concat());
        wrong.failed_with(2, &["nowhere is none: make it, or write nowhere/"]);
    }
    reader.run(&["get", "*.txt", "-o", "-"]).failed_with(2, &["-o - writes a single file"]);
    for words in [&["a.txt", "-o", "there/mine/"][..], &["d/", "-o", "there/mine"]] {
        reader.run(&[&["get"], words].concat()).failed_with(2, &["there/mine is a file"]);
    }
    reader.run(&["get", "nothing", "-o", "nowhere/"]).failed_with(1, &["nobody shares nothing"]);
    assert!(!reader.path("nowhere").exists(), "made for nothing");
    for (words, folder, path) in [
        (&["a.txt"][..], "one/", "one/a.txt"),
        (&["a.txt"], "./one/two/", "one/two/a.txt"),
        (&["d/"], "several/", "several/b.txt"),
        (&["a.txt", "d/?.txt"], "both/", "both/c.txt"),
    ] {
        let into = [&["get", "--json", "-o", folder], words].concat();
        reader.done(&into);
        assert!(reader.path(path).is_file(), "{path}");
        reader.done(&into);
    }
    let full = reader.run(&["get", "a.txt", "-o", "/dev/full"]);
    full.failed_with(3, &["/dev/full is a device, no file; -o chooses another place"]);
    assert!(!full.err.concat().contains("remove"), "{full:?}");
}

#[test]
fn json_of_every_command_is_one_object_with_the_promised_keys_and_flags_may_stand_anywhere() {
    let indexers = Indexers::one();
    let (origin, reader, addr) = (Home::at(&indexers, 0), Home::with(&[]), indexers.addr(0));
    let _sharing = origin.share_file("a.bin", bytes(2, 5000));
    let content = blake3::hash(&bytes(2, 5000)).to_hex().to_string();
    let node = ["--indexer", &addr, "--json"];
    let done = |words: &[&str]| reader.done(&[&node[..], words].concat()).json();

    for command in ["search", "query"] {
        let answer = done(&[command, "a.bin"]);
        assert_eq!((&answer["name"], &answer["complete"]), (&"a.bin".into(), &true.into()));
        let [hit] = answer["hits"].as_array().unwrap().as_slice() else { panic!("one hit: {answer}") };
        assert!(has_keys(hit, &["name", "origin", "version", "size", "content", "holders"]), "{hit}");
        assert_eq!((number(hit, "version"), number(hit, "size")), (1, 5000));
        assert_eq!(hit["content"], content.as_str());
        let [holder] = hit["holders"].as_array().unwrap().as_slice() else { panic!("one holder: {hit}") };
        assert_eq!(holder["node"], hit["origin"]);
        let addr = holder["addr"].as_str().unwrap();
        assert!(addr.parse::<std::net::SocketAddr>().is_ok(), "{addr}");
    }
    let got = done(&["get", "a.bin"]);
    let keys = ["name", "origin", "version", "size", "bytes_moved", "seconds", "path"];
    assert!(has_keys(&got, &keys), "{got}");
    assert_eq!((number(&got, "size"), number(&got, "bytes_moved")), (5000, 5000));
    assert!(got["seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(got["path"], std::fs::canonicalize(reader.path("a.bin")).unwrap().to_str().unwrap());
    for command in ["ls", "status"] {
        let list = done(&[command]);
        let [file] = list["files"].as_array().unwrap().as_slice() else { panic!("one file: {list}") };
        assert_eq!((&file["name"], number(file, "version")), (&"a.bin".into(), 1), "{file}");
    }
    assert_eq!(done(&["status"])["files"][0]["freshness"], "fresh", "its origin was asked");

    let before = done(&["--dir", "down", "get", "a.bin"]);
    let after = reader.done(&["get", "a.bin", "--json", "--dir", "down", "--indexer", &addr]).json();
    assert_eq!(reader.read("down/a.bin"), bytes(2, 5000));
    assert!(reader.path("down/.neko").is_dir(), "the data folder is in the folder");
    assert_eq!((number(&before, "bytes_moved"), number(&after, "bytes_moved")), (5000, 0));
    assert_eq!(before["path"], after["path"]);
}

#[test]
fn many_names_are_looked_for_at_once_and_one_that_nobody_offers_is_not_found_in_one_line() {
    let (_indexers, origin, reader) = two_homes();
    let texts: Vec<String> = (0..200).map(|n| format!("t/f{n}")).collect();
    texts.iter().for_each(|text| drop(origin.write(text, bytes(4, 10))));
    let all: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut sharing = origin.start(&["share", "t", "--json"]);
    let published: Value = serde_json::from_str(&sharing.out_line("files")).unwrap();
    let names = published["files"].as_array().unwrap().iter().map(|file| file["name"].as_str().unwrap());
    assert!(names.eq(all.iter().copied()), "in the order of their numbers: {published}");
    sharing.err_line("serving on ");
    // More names than one call takes.
    let found = reader.done(&[&["query", "--json"], &all[..]].concat()).json();
    let answers = found["answers"].as_array().unwrap();
    assert!(answers.iter().map(|answer| answer["name"].as_str().unwrap()).eq(all.iter().copied()));
    assert!(answers.iter().all(|answer| answer["hits"][0]["size"] == 10 && answer["complete"] == true));

    let some = reader.run(&["query", "t/f1", "nothing.bin", "t/f2"]);
    some.ended_with(1, "nobody shares nothing.bin");
    let out = some.out.join("\n");
    assert!(out.contains("t/f1") && out.contains("t/f2"), "{some:?}");
    for (verb, said) in [("get", "nobody shares"), ("query", "nobody shares"), ("search", "nothing matches")]
    {
        let ended = reader.run(&[verb, "nothing.bin"]);
        ended.failed_with(1, &[&format!("{said} nothing.bin")]);
        assert!(ended.out.is_empty(), "{ended:?}");
    }
    let answer = reader.run(&["query", "nothing.bin", "--json"]);
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert_eq!(answer.json()["hits"], Value::Array(Vec::new()));
    assert_eq!(answer.json()["complete"], true);
}

#[test]
fn peers_of_neighboring_indexers_find_each_other_within_the_ttl_with_and_without_tls() {
    for (security, flags) in [(Security::Tls, &[][..]), (Security::Insecure, &["--insecure"][..])] {
        let indexers = Indexers::line(2, security);
        let home = |place| Home::with(&[flags, &["--indexer", &indexers.addr(place)]].concat());
        let (origin, reader) = (home(0), home(1));
        let _sharing = origin.share_file("a.bin", bytes(7, MIB));
        assert_eq!(reader.run(&["search", "a.bin", "--here"]).code, Some(1), "its own indexer does not know");
        assert_eq!(reader.run(&["query", "a.bin", "--ttl", "0"]).code, Some(1), "no hop, no hit");
        let hits = reader.done(&["query", "a.bin", "--ttl", "1"]);
        assert_eq!(hits.out.len(), 2, "a heading and a row: {hits:?}");
        assert!(hits.out[1].starts_with("a.bin") && hits.out[1].contains("origin"), "{hits:?}");
        reader.done(&["get", "a.bin"]);
        assert!(same(&origin.path("a.bin"), &reader.path("a.bin")));
        for (home, role) in [(&origin, " shared "), (&reader, " copy ")] {
            let listed = home.done(&["ls"]);
            assert!(listed.out[1].starts_with("a.bin") && listed.out[1].contains(role), "{listed:?}");
        }
        // One node with other security among others is told which flag differs.
        let other: &[&str] = if flags.is_empty() { &["--insecure"] } else { &[] };
        let stranger = Home::with(&[other, &["--indexer", &indexers.addr(0)]].concat());
        for command in ["query", "get", "search"] {
            stranger.run(&[command, "a.bin"]).failed_with(3, &["--insecure", &indexers.addr(0)]);
        }
        stranger.write("mine.txt", "mine");
        let mut sharing = stranger.start(&["share", "mine.txt"]);
        assert!(sharing.err_line("does not let this peer in").contains("--insecure"));
        sharing.out_line("not confirmed by an indexer yet");
        sharing.err_line("serving on ");
    }
}

#[test]
fn wrong_name_is_answered_with_the_one_that_looks_like_it_and_a_quiet_command_says_errors_only() {
    let (_indexers, origin, reader) = two_homes();
    let _sharing = origin.share_files([("course/notes.txt", "notes")], &["course"]);
    reader.run(&["get", "course/nots.txt"]).failed_with(1, &["did you mean course/notes.txt?"]);
    let other = reader.run(&["get", "x"]);
    assert!(other.code == Some(1) && !other.err.concat().contains("did you mean"), "{other:?}");
    let quiet = reader.run(&["-q", "get", "x", "course/notes.txt"]);
    assert_eq!((quiet.code, quiet.err.len()), (Some(1), 1), "{quiet:?}");
    let listed = reader.done(&["ls"]);
    assert!(listed.out[1].contains(reader.path("course/notes.txt").to_str().unwrap()), "{listed:?}");
    let drawn = reader.done(&["ticket", "course/notes.txt", "--qr"]);
    assert!(drawn.out[0].contains("neko:") && drawn.out.concat().contains('\u{2588}'), "{drawn:?}");
}
