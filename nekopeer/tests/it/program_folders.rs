//! `FOLDER/`, globs and folders without their slash, in the commands that take names.

use nekoproto::Ticket;

use crate::program::*;

/// What the rows of an answer with a list say under `key`, or they themselves.
fn listed(home: &Home, words: &[&str], key: &str) -> Vec<String> {
    let answer = home.done(&[words, &["--json"]].concat()).json();
    let rows = ["files", "answers", "tickets", "unshared"].iter().find_map(|list| answer[list].as_array());
    let rows = rows.unwrap_or_else(|| panic!("{words:?}: {answer}"));
    let text = |row: &Value| row.get(key).unwrap_or(row).as_str().map(str::to_owned);
    rows.iter().filter_map(text).collect()
}

const BELOW: [&str; 2] = ["odd/a", "odd/in/b"];

#[test]
fn each_command_takes_folders_globs_and_folders_without_their_slash() {
    let (_indexers, origin, reader) = two_homes();
    origin.write_all([("odd/a", "1"), ("odd/in/b", "2"), ("odder", "3"), ("song [live].mp3", "4")]);
    let sharing = origin.share(&["odd", "odder", "song [live].mp3"]);
    for word in ["odd/", "odd", "odd/**"] {
        for verb in ["query", "get"] {
            assert_eq!(listed(&reader, &[verb, word], "name"), BELOW, "{verb} {word}");
        }
        for verb in ["ls", "status"] {
            assert_eq!(listed(&origin, &[verb, word], "name"), BELOW, "{verb} {word}");
        }
        let tickets = listed(&origin, &["ticket", word], "ticket");
        let tickets: Vec<Ticket> = tickets.iter().map(|ticket| ticket.parse().unwrap()).collect();
        let names: Vec<&str> = tickets.iter().map(|ticket| ticket.name.as_str()).collect();
        match word {
            "odd/**" => assert_eq!(names, BELOW),
            _ => assert_eq!((names, tickets[0].version), (vec!["odd"], None), "one ticket for all"),
        }
    }
    let rows = |words: &[&str]| origin.done(&[&["ls"], words].concat()).out.len() - 1;
    assert_eq!([rows(&[]), rows(&["odd"]), rows(&["odd/a", "odder"])], [4, 2, 2]);
    origin.run(&["ls", "odd/a/b"]).failed_with(1, &["nothing here is called odd/a/b"]);
    reader.run(&["get", "odd", "--version", "1"]).failed_with(1, &["odd"]);
    assert_eq!(listed(&reader, &["query", "odd/in"], "name"), ["odd/in/b"], "a list, of one too");
    assert_eq!(listed(&reader, &["get", "odd", "--bound", "77"], "name"), BELOW);
    assert_eq!(reader.status("odd/in/b")["bound_secs"], 77);
    let waiting = ["wait", "odd", "--timeout", "60"];
    assert_eq!(listed(&reader, &waiting, "name"), BELOW);
    origin.share_anew("odd/c", "5");
    // What is in the network counts, and is not here.
    reader
        .run(&["wait", "odd/", "--timeout", "1"])
        .failed_with(3, &["odd/c is neither shared nor held here"]);
    reader.done(&["get", "odd/"]);
    assert_eq!(listed(&reader, &waiting, "name"), ["odd/a", "odd/c", "odd/in/b"]);

    for verb in ["ls", "status", "ticket", "unshare", "wait", "query", "get"] {
        origin.run(&[verb, "even/"]).failed_with(1, &["nothing is below even/"]);
    }
    origin.run(&["unshare", "odder", "x*"]).failed_with(1, &["nothing matches x*"]);
    // A name that looks like a glob is itself, and one that is a file is no folder.
    reader.run(&["get", "song [dead"]).failed_with(1, &["nobody shares song [dead"]);
    reader.gets("song [live].mp3", "4");
    assert_eq!(listed(&origin, &["unshare", "song [live].mp3"], "name"), ["song [live].mp3"]);
    assert_eq!(listed(&origin, &["unshare", "odd"], "name"), ["odd/a", "odd/c", "odd/in/b"]);
    assert_eq!(origin.names(), ["odder"]);
    sharing.interrupt();
}

#[test]
fn folder_is_followed_with_what_is_shared_there_later_and_what_is_withdrawn_is_said() {
    let (_indexers, origin, reader) = two_homes();
    let _sharing = origin.share_files([("odd/a", "1"), ("odd/in/b", "2"), ("odder", "3")], &["odd", "odder"]);
    reader.write("odd/mine", "4");
    let hook = r#"echo "$NEKO_NAME $NEKO_VERSION" >> log"#;
    let words = ["follow", "odd", "later/*", "--exec", hook, "--on-stale", "refetch"];
    let mut following = reader.start_err(&words, "nothing matches later/* yet; follow waits for it");
    following.out_line("odd/a is at version 1");
    following.out_line("odd/in/b is at version 1");
    reader.done(&["share", "odd/mine"]);
    origin.share_anew("odd/c", "5");
    origin.share_anew("later/d", "6");
    following.out_line("odd/c is at version 1");
    following.out_line("later/d is at version 1");
    origin.share_anew("odd/c", "7");
    following.out_line("odd/c is at version 2");
    origin.done(&["unshare", "odd/in"]);
    following.err_line("odd/in/b was unshared by its origin as version 2");
    assert_eq!((reader.read("odd/c"), reader.read("later/d")), (b"7".to_vec(), b"6".to_vec()));
    assert!(!reader.path("odder").exists());
    following.interrupt();
    let mut ran: Vec<_> =
        std::str::from_utf8(&reader.read("log")).unwrap().lines().map(str::to_owned).collect();
    ran.sort();
    assert_eq!(ran, ["later/d 1", "odd/a 1", "odd/c 1", "odd/c 2", "odd/in/b 1"]);
}

#[test]
fn what_is_to_be_said_of_each_file_of_a_folder_is_said_of_the_first_and_counted() {
    let (indexers, origin, keeper) = two_homes();
    let names = ["odd/1", "odd/2", "odd/3", "odd/4", "odd/5", "odd/6"];
    origin.write_each(&names);
    let sharing = origin.share(&["odd"]);
    let _keeping = keeper.serve(&[]);
    keeper.done(&["get", "odd/"]);
    sharing.interrupt();
    for folder in ["odd/", "odd"] {
        let got = Home::at(&indexers, 0).done(&["get", folder]);
        assert!(got.out.len() == 1 && got.out[0].starts_with("6 of 6 files here"), "{got:?}");
        let note = "the origin could not be asked whether this is still the newest version";
        let of_each = got.err.iter().filter(|line| line.starts_with("note: odd/") && line.contains(note));
        assert_eq!(of_each.count(), 4, "{got:?}");
        assert_eq!(got.err.last().unwrap(), "note: and 2 more notes; --json has them all");
    }
}

/// One origin sends nothing until the folder, with what came from the other, is elsewhere.
#[test]
fn folder_that_is_moved_away_while_its_files_come_is_not_said_to_be_here() {
    let (indexers, origin, reader) = two_homes();
    let other = Home::at(&indexers, 0);
    let (_sharing, silent) = (origin.share_file("odd/a", "1"), other.share_file("odd/b", "2"));
    silent.signal("STOP");
    let _serving = reader.serve(&[]);
    let mut getting = reader.start(&["get", "odd/"]);
    until(&mut getting, "one is here", || reader.names() == ["odd/a"]);
    fs::rename(reader.path("odd"), reader.path("elsewhere")).unwrap();
    silent.signal("CONT");
    let got = getting.wait();
    let here = usize::from(reader.path("odd/b").exists());
    assert!(got.out[0].starts_with(&format!("{here} of 2 files here")), "{got:?}");
    got.ended_with(3, "odd/a is not there any more");
}

#[test]
fn share_folder_itself_has_one_ticket_for_all() {
    let (_indexers, origin, other) = two_homes();
    origin.write_all([("a", "1"), ("odd/b", "2")]);
    let _other = other.share_file("odd/theirs", "3");
    let mut sharing = origin.start(&["share", "."]);
    let line = sharing.out_line("on this machine, all of them: ");
    sharing.err_line("serving on ");
    let ticket = line.rsplit(' ').next().unwrap();
    let reader = Home::with(&["--no-discovery", "--discover", "127.0.0.1:9"]);
    assert_eq!(listed(&reader, &["get", ticket], "name"), ["a", "odd/b"]);
    origin.share_anew("c", "4");
    let following = reader.start_out(&["follow", ticket], "c is at version 1");
    following.interrupt();
    // So has a folder in it, also of files that come later.
    let line = origin.done(&["ticket", "odd/"]).out.remove(0);
    let below = Home::with(&["--no-discovery", "--discover", "127.0.0.1:9"]);
    let get = ["get", line.rsplit(' ').next().unwrap()];
    assert_eq!(listed(&below, &get, "name"), ["odd/b"]);
    origin.share_anew("odd/d", "5");
    assert_eq!(listed(&below, &get, "name"), ["odd/b", "odd/d"]);
    assert!([reader, below].iter().all(|home| !home.path("odd/theirs").exists()));
    // Several files have none: it would be for what was not shared with them.
    let shared = origin.done(&["share", "a", "c", "--json"]).json();
    assert_eq!(shared["ticket"], Value::Null);
}

/// Over connections that are open, of which the end of a file may just have closed one.
#[test]
fn large_files_of_one_folder_all_come() {
    let (_indexers, origin, reader) = two_homes();
    let files: Vec<(String, Vec<u8>)> =
        (0..6).map(|n| (format!("big/{n}"), testkit::goods::bytes(n, 9_000_000))).collect();
    files.iter().for_each(|(name, bytes)| drop(origin.write(name, bytes)));
    let _sharing = origin.share(&["big"]);
    reader.done(&["get", "big/"]);
    assert!(files.iter().all(|(name, bytes)| reader.read(name) == *bytes));
}
