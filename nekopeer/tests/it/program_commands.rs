//! The commands, each in a process of its own: share, find, download, show, update.

use crate::program::{Home, Indexers, MIB, Running, bytes, has_keys, one_home, same, two_homes};
use nekoproto::transport::Security;
use serde_json::Value;

/// `text` with `len` bytes in its middle overwritten.
fn edited(mut text: Vec<u8>, len: usize) -> Vec<u8> {
    let middle = text.len() / 2;
    text[middle..middle + len].fill(0xa5);
    text
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key} in {value}"))
}

#[test]
fn shared_folder_is_downloaded_by_another_process_byte_for_byte() {
    let (_indexers, origin, reader) = two_homes();
    let big = origin.write("course/week 1/slides.bin", bytes(1, 3 * MIB));
    origin.write("course/notes.txt", "short\n");
    origin.write("course/empty.txt", "");
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
    reader.done(&["get", "course/notes.txt"]);
    reader.done(&["get", "course/empty.txt"]);
    assert_eq!(
        (reader.read("course/notes.txt"), reader.read("course/empty.txt")),
        (b"short\n".to_vec(), Vec::new())
    );
    assert_eq!(reader.partial_len(), 0, "no partial file is left");
}

#[test]
fn json_of_every_command_is_one_object_with_the_promised_keys() {
    let (_indexers, origin, reader) = two_homes();
    origin.write("a.bin", bytes(2, 5000));
    let _sharing = origin.share(&["a.bin"]);
    let content = blake3::hash(&bytes(2, 5000)).to_hex().to_string();

    for command in ["search", "query"] {
        let answer = reader.done(&[command, "a.bin", "--json"]).json();
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
    let got = reader.done(&["get", "a.bin", "--json"]).json();
    assert!(
        has_keys(&got, &["name", "origin", "version", "size", "bytes_moved", "seconds", "path"]),
        "{got}"
    );
    assert_eq!((number(&got, "size"), number(&got, "bytes_moved")), (5000, 5000));
    assert!(got["seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(got["path"], std::fs::canonicalize(reader.path("a.bin")).unwrap().to_str().unwrap());

    for command in ["ls", "status"] {
        let list = reader.done(&[command, "--json"]).json();
        let [file] = list["files"].as_array().unwrap().as_slice() else { panic!("one file: {list}") };
        assert_eq!((&file["name"], number(file, "version")), (&"a.bin".into(), 1), "{file}");
    }
    let fresh = reader.done(&["status", "--json"]).json();
    assert_eq!(fresh["files"][0]["freshness"], "fresh", "its origin was asked");
}

#[test]
fn flags_before_and_after_the_command_mean_the_same() {
    let indexers = Indexers::one();
    let (origin, reader) = (Home::at(&indexers, 0), Home::with(&[]));
    origin.write("a.txt", "a\n");
    let _sharing = origin.share(&["a.txt"]);
    let addr = indexers.addr(0);
    let before = reader.done(&["--indexer", &addr, "--json", "--dir", "down", "get", "a.txt"]);
    let after = reader.done(&["get", "a.txt", "--json", "--dir", "down", "--indexer", &addr]);
    assert_eq!(reader.read("down/a.txt"), b"a\n");
    assert!(reader.path("down/.neko").is_dir(), "the data folder is in the folder");
    assert_eq!((number(&before.json(), "bytes_moved"), number(&after.json(), "bytes_moved")), (2, 0));
    assert_eq!(before.json()["path"], after.json()["path"]);
}

#[test]
fn download_to_a_path_of_the_users_choice_stands_there_and_nowhere_else() {
    let (_indexers, origin, reader) = two_homes();
    let source = origin.write("a.bin", bytes(3, MIB));
    let _sharing = origin.share(&["a.bin"]);
    std::fs::create_dir(reader.path("elsewhere")).unwrap();
    let got = reader.done(&["get", "a.bin", "-o", "elsewhere/b.bin", "--json"]).json();
    assert!(same(&source, &reader.path("elsewhere/b.bin")));
    assert!(!reader.path("a.bin").exists());
    assert!(got["path"].as_str().unwrap().ends_with("elsewhere/b.bin"), "{got}");
}

#[test]
fn name_that_nobody_offers_is_not_found_in_one_line() {
    let (_indexers, reader) = one_home();
    for words in [&["get", "nothing.bin"][..], &["query", "nothing.bin"], &["search", "nothing.bin"]] {
        let ended = reader.run(words);
        ended.failed_with(1, &["nobody offers nothing.bin"]);
        assert!(ended.out.is_empty(), "{ended:?}");
    }
    let answer = reader.run(&["query", "nothing.bin", "--json"]);
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert_eq!(answer.json()["hits"], Value::Array(Vec::new()));
    assert_eq!(answer.json()["complete"], true);
}

#[test]
fn many_names_are_looked_for_at_once() {
    let (_indexers, origin, reader) = two_homes();
    let texts: Vec<String> = (0..200).map(|n| format!("f{n}.bin")).collect();
    texts.iter().for_each(|text| drop(origin.write(text, bytes(4, 10))));
    let all: Vec<&str> = texts.iter().map(String::as_str).collect();
    let _sharing = origin.share(&all);
    // More names than one call takes.
    let found = reader.done(&[&["query", "--json"], &all[..]].concat()).json();
    let answers = found["answers"].as_array().unwrap();
    assert!(answers.iter().map(|answer| answer["name"].as_str().unwrap()).eq(all.iter().copied()));
    assert!(answers.iter().all(|answer| answer["hits"][0]["size"] == 10 && answer["complete"] == true));

    let some = reader.run(&["query", "f1.bin", "nothing.bin", "f2.bin"]);
    assert_eq!(some.code, Some(1), "{some:?}");
    let out = some.out.join("\n");
    assert!(out.contains("f1.bin") && out.contains("f2.bin"), "{some:?}");
    assert!(some.err.join("\n").contains("nobody offers nothing.bin"), "{some:?}");
}

#[test]
fn second_download_moves_nothing() {
    let (_indexers, origin, reader) = two_homes();
    origin.write("a.bin", bytes(4, MIB));
    let _sharing = origin.share(&["a.bin"]);
    reader.done(&["get", "a.bin"]);
    let again = reader.done(&["get", "a.bin"]);
    assert!(again.out[0].contains("already here"), "{again:?}");
    let copied = reader.done(&["get", "a.bin", "-o", "b.bin"]);
    assert!(copied.out[0].contains(": 0 B of ") && copied.out[0].contains(" moved in "), "{copied:?}");
    assert_eq!(number(&reader.done(&["get", "a.bin", "--json"]).json(), "bytes_moved"), 0);
}

#[test]
fn empty_file_is_not_here_before_it_is_fetched() {
    let (_indexers, origin, reader) = two_homes();
    origin.write("empty", "");
    let _sharing = origin.share(&["empty"]);
    assert!(reader.done(&["get", "empty"]).out[0].contains("version 1, 0 B: 0 B moved in "));
    assert!(reader.done(&["get", "empty"]).out[0].contains("already here"));
}

#[test]
fn files_of_a_folder_are_published_in_the_order_of_their_numbers() {
    let (_indexers, origin) = one_home();
    (0..12).for_each(|n| drop(origin.write(&format!("t/f{n}"), "")));
    let mut sharing = origin.start(&["share", "t", "--json"]);
    let published: serde_json::Value = serde_json::from_str(&sharing.out_line("files")).unwrap();
    let files = published["files"].as_array().unwrap().iter();
    let names: Vec<&str> = files.map(|file| file["name"].as_str().unwrap()).collect();
    assert_eq!(names, (0..12).map(|n| format!("t/f{n}")).collect::<Vec<_>>());
}

#[test]
fn names_and_paths_never_command_the_terminal() {
    let (_indexers, origin, reader) = two_homes();
    let hidden = ["photo-\u{202e}gpj.exe", "two\u{2028}lines", "zero\u{200b}width", "\x1b]0;owned\x07"];
    hidden.iter().for_each(|name| drop(origin.write(&format!("f/{name}"), "x")));
    origin.write("f/plain", "x");
    let sharing = origin.share(&["f"]);
    sharing.signal("INT");
    let errors = sharing.wait().err.join("\n");
    for shown in
        ["photo-\\u{202e}gpj.exe", "two\\u{2028}lines", "zero\\u{200b}width", "\\u{1b}]0;owned\\u{7}"]
    {
        assert!(errors.contains(&format!("f/{shown} cannot be shared")), "{errors}");
    }
    assert!(
        errors.contains("U+202E") && !errors.contains(['\u{202e}', '\u{2028}', '\u{200b}', '\x1b']),
        "{errors:?}"
    );
    let name = format!("f/{}", hidden[0]);
    let asked = reader.run(&["get", &name]);
    assert!(asked.code == Some(2) && asked.err.concat().contains("U+202E"), "{asked:?}");
    assert!(!asked.err.concat().contains('\u{202e}'), "{asked:?}");
}

#[test]
fn edited_file_shared_again_is_stale_elsewhere_and_only_the_change_moves() {
    let (_indexers, origin, reader) = two_homes();
    let first = bytes(5, 8 * MIB);
    origin.write("a.bin", &first);
    let sharing = origin.share(&["a.bin"]);
    reader.done(&["get", "a.bin"]);
    sharing.signal("INT");
    assert_eq!(sharing.wait().code, Some(0));

    let source = origin.write("a.bin", edited(first, 100_000));
    let mut sharing = origin.share(&["a.bin"]);
    sharing.out_line("published a.bin version 2");
    let status = reader.done(&["status"]);
    let row = status.out.iter().find(|line| line.starts_with("a.bin")).unwrap();
    assert!(row.contains("stale") && row.contains("version 2 is out"), "{status:?}");
    let known = reader.done(&["ls", "--json"]).json();
    assert_eq!((number(&known["files"][0], "version"), number(&known["files"][0], "newest")), (1, 2));

    let got = reader.done(&["get", "a.bin", "--json"]).json();
    let moved = number(&got, "bytes_moved");
    assert_eq!(number(&got, "version"), 2);
    assert!((100_000..2 * MIB as u64).contains(&moved), "{moved} bytes moved");
    assert!(same(&source, &reader.path("a.bin")));
}

#[test]
fn killed_download_goes_on_where_it_was() {
    let (_indexers, origin, reader) = two_homes();
    let size = 128 * MIB as u64;
    let source = origin.write("big.bin", bytes(6, 128 * MIB));
    let _sharing = origin.share(&["big.bin"]);

    let mut getting = reader.start(&["get", "big.bin"]);
    while reader.partial_len() < size / 4 {
        assert!(getting.is_running(), "the download ended before the kill: make the file larger");
        std::thread::yield_now();
    }
    getting.signal("KILL");
    let killed = getting.wait();
    assert_eq!(killed.code, None, "the download ended before the kill: make the file larger");
    assert!(!reader.path("big.bin").exists());

    let got = reader.done(&["get", "big.bin", "--json"]).json();
    let moved = number(&got, "bytes_moved");
    assert!(0 < moved && moved < size - size / 8, "{moved} of {size} bytes moved");
    assert!(same(&source, &reader.path("big.bin")));
    assert_eq!(reader.partial_len(), 0);
}

#[test]
fn peers_of_neighboring_indexers_find_each_other_within_the_ttl() {
    let indexers = Indexers::line(2, Security::Tls);
    let (origin, reader) = (Home::at(&indexers, 0), Home::at(&indexers, 1));
    let source = origin.write("a.bin", bytes(7, MIB));
    let _sharing = origin.share(&["a.bin"]);
    assert_eq!(reader.run(&["search", "a.bin"]).code, Some(1), "its own indexer does not know");
    assert_eq!(reader.run(&["query", "a.bin", "--ttl", "0"]).code, Some(1), "no hop, no hit");
    let hits = reader.done(&["query", "a.bin", "--ttl", "1"]);
    assert_eq!(hits.out.len(), 2, "a heading and a row: {hits:?}");
    assert!(hits.out[1].starts_with("a.bin") && hits.out[1].contains("origin"), "{hits:?}");
    reader.done(&["get", "a.bin"]);
    assert!(same(&source, &reader.path("a.bin")));
}

#[test]
fn network_without_tls_works_when_all_say_so() {
    let indexers = Indexers::line(2, Security::Insecure);
    let insecure = |place| Home::with(&["--insecure", "--indexer", &indexers.addr(place)]);
    let (origin, reader) = (insecure(0), insecure(1));
    let source = origin.write("a.bin", bytes(8, MIB));
    let _sharing = origin.share(&["a.bin"]);
    reader.done(&["get", "a.bin"]);
    assert!(same(&source, &reader.path("a.bin")));
}

#[test]
fn one_node_without_tls_among_others_is_told_which_flag_differs() {
    for (security, flags) in [(Security::Tls, &["--insecure"][..]), (Security::Insecure, &[])] {
        let indexers = Indexers::line(1, security);
        let reader = Home::at(&indexers, 0);
        for command in ["query", "get", "search"] {
            let ended = reader.run(&[&[command, "a.bin"], flags].concat());
            ended.failed_with(3, &["--insecure", &indexers.addr(0)]);
        }
        reader.write("mine.txt", "mine");
        let mut sharing: Running = reader.start(&[&["share", "mine.txt"], flags].concat());
        assert!(sharing.err_line("is away").contains("--insecure"));
        sharing.err_line("serving on ");
    }
}

#[test]
fn each_of_several_downloads_says_if_it_may_not_be_the_newest() {
    let (indexers, origin) = one_home();
    let names = ["c.txt", "d.txt"];
    names.iter().for_each(|name| drop(origin.write(name, "bytes\n")));
    let sharing = origin.share(&names);
    let holder = Home::at(&indexers, 0);
    holder.done(&["get", "c.txt", "d.txt"]);
    let mut serving = holder.start(&["serve"]);
    serving.err_line("registered 2 files");
    drop(sharing);
    let got = Home::at(&indexers, 0).done(&["get", "c.txt", "d.txt"]);
    for name in names {
        assert!(
            got.err.contains(&format!(
                "note: {name}: the origin could not be asked whether this is still the newest version"
            )),
            "{got:?}"
        );
    }
}

#[test]
fn trace_without_a_name_shows_the_way_of_a_probe() {
    let indexers = Indexers::line(3, Security::Tls);
    let home = Home::at(&indexers, 0);
    let shown = home.done(&["trace", "--hops", "3"]);
    assert!(shown.out[0].starts_with("HOP"), "{shown:?}");
    assert_eq!(shown.out.len(), 5, "four stops: {shown:?}");
    assert!(
        shown.err.iter().any(|line| line.contains("3 hops") && line.ends_with("no hops left")),
        "{shown:?}"
    );
    let way = home.done(&["--json", "trace", "--hops", "3"]).json()["indexers"][0].clone();
    let nodes: Vec<&str> =
        way["stops"].as_array().unwrap().iter().map(|stop| stop["node"].as_str().unwrap()).collect();
    assert_eq!(nodes.len(), 4, "{way}");
    assert!(nodes[1] == nodes[3] && nodes[0] != nodes[1] && nodes[1] != nodes[2], "back from the end: {way}");
    assert_eq!(way["stops"][0]["addr"], indexers.addr(0));
    assert_eq!(home.run(&["trace", "a", "--hops", "3"]).code, Some(2), "a query has no such hops");
    assert_eq!(home.run(&["trace", "--hops", "65"]).code, Some(2), "too many");
    let gone = Home::with(&["--indexer", "127.0.0.1:1"]);
    gone.run(&["trace"]).failed_with(3, &["127.0.0.1:1"]);
}
