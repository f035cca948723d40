//! What `share` publishes of a folder: hidden files, `.nekoignore` files, globs, links; and what it says of the rest.

use std::os::unix::fs::symlink;

use crate::program::*;

fn says(ended: &Ended, what: &str) -> bool {
    ended.err.iter().any(|line| line.contains(what))
}

#[test]
fn what_is_skipped_is_counted_and_named_if_that_is_asked() {
    let (_indexers, origin) = one_home();
    for file in ["a", ".env", ".profile", ".git/config", "build/x", "build/y", "x.log", "b.tmp"] {
        origin.write(&format!("d/{file}"), file);
    }
    origin.write("d/.nekoignore", "build/\n*.log\n");
    symlink(origin.path("d/a"), origin.path("d/link")).unwrap();
    let _serving = origin.serve(&[]);

    let shared = origin.done(&["share", "d", "--exclude", "*.tmp"]);
    let line =
        "skipped 2 hidden files, 1 hidden folder, 1 link, 2 by .nekoignore, 1 by --exclude: -v names them";
    assert!(says(&shared, line) && !says(&shared, ".env"), "{shared:?}");
    assert_eq!(origin.names(), ["d/a"]);

    let shared = origin.done(&["share", "d", "-v", "--exclude", "*.tmp", "--exclude", ".git"]);
    for line in [
        "d/.env: hidden",
        "d/link: a link",
        "d/build: .nekoignore names it",
        "d/b.tmp: a glob excludes it",
        "d/.git: a glob excludes it",
        "2 by --exclude; --hidden shares hidden ones",
    ] {
        assert!(says(&shared, line), "{line}: {shared:?}");
    }

    let shared = origin.done(&["share", "d", "--hidden", "--json"]).json();
    let skipped = &shared["skipped"];
    assert_eq!((&skipped["links"], &skipped["ignored"]), (&1.into(), &2.into()), "{shared}");
    assert_eq!((&skipped["hidden_files"], &skipped["still_shared"]), (&0.into(), &0.into()), "{shared}");
    assert_eq!(origin.names(), ["d/.env", "d/.git/config", "d/.profile", "d/a", "d/b.tmp"]);

    let shared = origin.done(&["share", "d"]);
    assert!(says(&shared, "3 of them were shared before and stay so"), "{shared:?}");
    let wrong = origin.run(&["share", "d", "--exclude", "{a"]);
    assert!(wrong.code == Some(2) && says(&wrong, "--exclude"), "{wrong:?}");
}

#[test]
fn watching_keeps_to_the_rules_and_withdraws_only_what_is_gone() {
    let (_indexers, origin) = one_home();
    origin.write_all([("d/a", "1"), ("d/old.log", "1")]);
    let mut sharing = origin.start_err(&["share", "d", "--watch", "--exclude", "*.tmp"], "watching ");
    origin.write("d/.nekoignore", "*.log\n");
    for file in [".hidden", "b.tmp", "b.log", ".git/config", "last"] {
        origin.write(&format!("d/{file}"), file);
    }
    sharing.out_line("shared d/last version 1");
    assert_eq!(origin.names(), ["d/a", "d/last", "d/old.log"]);

    // What was published before gets no new version, and is withdrawn once it is gone.
    origin.write_all([("d/old.log", "changed"), ("d/last", "changed")]);
    sharing.out_line("shared d/last version 2");
    assert!(!sharing.said().contains("old.log version 2") && !sharing.said().contains("unshared"));
    fs::remove_file(origin.path("d/old.log")).unwrap();
    sharing.out_line("unshared d/old.log");

    // Rules that let more in are followed at once.
    origin.write("d/.nekoignore", "!.hidden\n");
    sharing.out_line("shared d/.hidden version 1");
    sharing.out_line("shared d/b.log version 1");
    assert_eq!(origin.names(), ["d/.hidden", "d/a", "d/b.log", "d/last"]);
    assert_eq!(sharing.interrupt().code, Some(0));
}

#[test]
fn set_that_is_watched_waits_for_no_file_that_is_not_in_it() {
    let (_indexers, origin, reader) = two_homes();
    origin.write_all([("d/a", "1"), ("d/x.log", "1"), ("d/.nekoignore", "*.log\n")]);
    let mut sharing = origin.start_err(&["share", "--set", "d", "--watch"], "watching ");
    // A file that is held open and written all the time.
    let log = origin.path("d/x.log");
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let writing = std::thread::spawn(move || {
        let mut file = fs::File::create(log).unwrap();
        let pause = std::time::Duration::from_millis(50);
        while ended.recv_timeout(pause) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            std::io::Write::write_all(&mut file, b"line\n").unwrap();
        }
    });
    origin.write("d/a", "2");
    sharing.out_line("shared d version 2");
    drop(end);
    writing.join().unwrap();
    reader.done(&["get", "d"]);
    assert_eq!(reader.read("d/a"), b"2");
    assert!(!reader.path("d/x.log").exists());
    origin.write("d/.nekoignore", "");
    sharing.out_line("shared d version 3");
    reader.done(&["get", "d"]);
    assert!(reader.path("d/x.log").exists());
    assert_eq!(sharing.interrupt().code, Some(0));
}

/// What its watching withdraws is shared again when its file is back.
#[test]
fn file_that_was_unshared_by_name_stays_so_with_its_folder_until_it_is_named() {
    let (_indexers, origin) = one_home();
    origin.write_all([("d/a", "1"), ("d/b", "1")]);
    let watch = ["share", "d", "--watch"];
    let mut sharing = origin.start_err(&watch, "watching ");
    origin.done(&["unshare", "d/b"]);
    origin.write_all([("d/b", "changed"), ("d/a", "changed")]);
    sharing.out_line("shared d/a version 2");
    assert_eq!(sharing.interrupt().code, Some(0));
    origin.done(&["repair"]);
    let mut sharing = origin.start_err(&watch, "1 file stays unshared: d/b; name it to share it again");
    sharing.err_line("watching ");
    let shared = origin.done(&["share", "d", "--json"]).json();
    assert_eq!(shared["withdrawn"], serde_json::json!(["d/b"]), "{shared}");
    assert_eq!(origin.names(), ["d/a"]);

    let shared = origin.done(&["share", "d/b"]);
    assert_eq!(shared.out[0], "shared d/b version 3, 7 B");
    fs::remove_file(origin.path("d/b")).unwrap();
    sharing.out_line("unshared d/b");
    origin.write("d/b", "back");
    sharing.out_line("shared d/b version 5");
    assert!(!sharing.said().contains("version 4"));
}
