//! What `share` publishes of a folder: hidden files, `.nekoignore` files, globs, links; and what it says of the rest.

use std::os::unix::{fs::symlink, net::UnixListener};

use crate::program::*;

fn says(ended: &Ended, what: &str) -> bool {
    ended.err.iter().any(|line| line.contains(what))
}

#[test]
fn what_is_skipped_is_counted_and_named_if_that_is_asked() {
    let (_indexers, origin) = one_home();
    origin.write_each(&["d/a", "d/.env", "d/.profile", "d/.git/config", "d/build/x", "d/build/y", "d/x.log"]);
    origin.write_each(&["d/b.tmp", "d/o/.neko/key"]);
    origin.write("d/.nekoignore", "build/\n*.log\n");
    symlink(origin.path("d/a"), origin.path("d/link")).unwrap();
    UnixListener::bind(origin.path("d/socket")).unwrap();
    let _serving = origin.serve(&[]);

    let shared = origin.done(&["share", "d", "--exclude", "*.tmp"]);
    let kinds =
        "2 hidden files, 1 hidden folder, 1 link, 2 by .nekoignore, 1 by --exclude, 1 that are no files";
    let line = format!("skipped {kinds}: -v names them");
    assert!(says(&shared, &line) && !says(&shared, ".env"), "{shared:?}");
    assert_eq!(origin.names(), ["d/a"]);

    let shared = origin.done(&["share", "d", "-v", "--exclude", "*.tmp", "--exclude", ".git"]);
    for line in [
        "d/.env: hidden",
        "d/link: a link",
        "d/build: .nekoignore names it",
        "d/b.tmp: a glob excludes it",
        "d/.git: a glob excludes it",
        "2 by --exclude, 1 that are no files; --hidden shares hidden ones",
    ] {
        assert!(says(&shared, line), "{line}: {shared:?}");
    }

    let shared = origin.done(&["share", "d", "--hidden", "--json"]).json();
    let skipped = &shared["skipped"];
    assert_eq!((&skipped["links"], &skipped["ignored"]), (&1.into(), &2.into()), "{shared}");
    assert_eq!((&skipped["hidden_files"], &skipped["still_shared"]), (&0.into(), &0.into()), "{shared}");
    assert_eq!(origin.names(), ["d/.env", "d/.git/config", "d/.profile", "d/a", "d/b.tmp"]);

    origin.write("d/.env", "changed");
    let shared = origin.done(&["share", "d"]);
    assert!(says(&shared, "3 of them were shared before and stay so"), "{shared:?}");
    assert_eq!(origin.status("d/.env")["version"], 1);
    // What is named itself is shared, hidden or not; a glob holds for it too.
    origin.write("d/.named", "");
    let shared = origin.done(&["share", "d/.named", "d/x.log", "--exclude", "*.log"]);
    assert!(says(&shared, "1 by --exclude"), "{shared:?}");
    assert_eq!(origin.names(), ["d/.env", "d/.git/config", "d/.named", "d/.profile", "d/a", "d/b.tmp"]);
    let wrong = origin.run(&["share", "d", "--exclude", "{a"]);
    assert!(wrong.code == Some(2) && says(&wrong, "--exclude"), "{wrong:?}");
}

#[test]
fn what_was_removed_from_a_folder_that_is_shared_again_is_counted_and_stays_shared() {
    let (_indexers, origin) = one_home();
    origin.write_all([("d/a", "1"), ("d/in/b", "1"), ("d/.hidden", "1"), ("dd", "1"), ("e", "1")]);
    let _serving = origin.serve(&[]);
    let all = origin.done(&["share", ".", "--hidden", "--exclude", ".config/"]);
    assert!(!says(&all, "no longer there"), "{all:?}");
    ["d/in/b", "e"].iter().for_each(|name| fs::remove_file(origin.path(name)).unwrap());
    let one = origin.done(&["share", "d"]);
    assert!(says(&one, "1 file that was shared is no longer there: d/in/b; unshare NAME"), "{one:?}");
    let both = origin.done(&["share", ".", "d"]);
    assert!(says(&both, "2 files that were shared are no longer there: d/in/b, e; "), "{both:?}");
    assert_eq!(origin.done(&["share", "d", "--json"]).json()["missing"], json!(["d/in/b"]));
    assert_eq!(origin.names(), ["d/.hidden", "d/a", "d/in/b", "dd", "e"]);
    fs::remove_file(origin.path("dd")).unwrap();
    origin.write("dd/c", "1");
    let folder = origin.done(&["share", "dd"]);
    assert!(says(&folder, "1 file that was shared is no longer there: dd; unshare NAME"), "{folder:?}");
}

#[test]
fn watching_keeps_to_the_rules_and_withdraws_only_what_is_gone() {
    let (_indexers, origin) = one_home();
    origin.write_all([("d/a", "1"), ("d/old.log", "1")]);
    let mut sharing = origin.start_err(&["share", "d", "--watch", "--exclude", "*.tmp"], "watching ");
    origin.write("d/.nekoignore", "*.log\n");
    origin.write_each(&["d/.hidden", "d/b.tmp", "d/b.log", "d/.git/config", "d/last"]);
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

fn lead(home: &Home, link: &str, target: &str) {
    drop(fs::remove_file(home.path(link)));
    symlink(target, home.path(link)).unwrap();
}

#[test]
fn link_that_is_named_keeps_its_name_wherever_it_leads() {
    let (_indexers, origin, reader) = two_homes();
    origin.write_all([("builds/1", "1"), ("builds/2", "2"), ("r1/f", "1"), ("r2/f", "2")]);
    lead(&origin, "latest", "builds/1");
    lead(&origin, "cur", "r1");
    let _serving = origin.serve(&[]);
    origin.done(&["share", "latest", "cur/"]);
    origin.done(&["share", "--set", "cur", "all"]);
    assert_eq!(origin.names(), ["all", "cur/f", "latest"]);
    lead(&origin, "latest", "builds/2");
    lead(&origin, "cur", "r2");
    assert!(origin.done(&["share", "latest", "cur"]).out[0].starts_with("shared latest version 2"));
    origin.done(&["share", "--set", "cur", "all"]);
    reader.done(&["get", "latest", "cur/f", "all"]);
    assert_eq!([reader.read("latest"), reader.read("cur/f"), reader.read("all/f")], [b"2", b"2", b"2"]);
}

#[test]
fn watch_goes_where_a_link_leads_later() {
    let (_indexers, origin) = one_home();
    origin.write_all([("builds/1", "1"), ("builds/2", "2"), ("r1/f", "1"), ("r1/old", "1"), ("r2/f", "2")]);
    lead(&origin, "latest", "builds/1");
    lead(&origin, "cur", "r1");
    let watch = ["share", "latest", "cur", "--watch", "--settle", "1"];
    let mut sharing = origin.start_err(&watch, "watching ");
    lead(&origin, "latest", "builds/2");
    sharing.out_line("shared latest version 2");
    lead(&origin, "cur", "r2");
    sharing.out_line("shared cur/f version 2");
    let is_unshared = || !origin.names().iter().any(|name| name == "cur/old");
    until(&mut sharing, "cur/old to be unshared", is_unshared);
    origin.write("r2/f", "changed");
    sharing.out_line("shared cur/f version 3");
    assert_eq!(origin.names(), ["cur/f", "latest"]);
    assert_eq!(sharing.interrupt().code, Some(0));
}

#[test]
fn what_a_link_does_not_lead_to_for_moments_stays_shared_and_what_one_that_is_gone_led_to_does_not() {
    let (_indexers, origin) = one_home();
    origin.write_all([("r1/f", "1"), ("r1/old", "1"), ("r2/f", "1")]);
    lead(&origin, "cur", "r1");
    let mut sharing = origin.start_err(&["share", "cur", "--watch", "--settle", "60"], "watching ");
    for target in ["r2", "r1"] {
        lead(&origin, "cur", target);
        sharing.err_line("a link leads elsewhere now");
    }
    assert_eq!(origin.names(), ["cur/f", "cur/old"]);
    assert!(!sharing.said().contains("unshared"), "{}", sharing.said());
    sharing.interrupt();
    let mut sharing = origin.start_err(&["share", "cur", "--watch", "--settle", "1"], "watching ");
    fs::remove_file(origin.path("cur")).unwrap();
    sharing.err_line("a link is gone: what it led to is unshared unless it is back within 1 s");
    sharing.out_line("unshared cur/old");
    lead(&origin, "cur", "r1");
    sharing.out_line("shared cur/old version 3");
    assert_eq!(origin.names(), ["cur/f", "cur/old"]);
}

#[test]
fn links_in_folders_are_followed_only_if_asked_and_never_to_own_data_or_in_a_circle() {
    let (_indexers, origin, reader) = two_homes();
    origin.write("blobs/aa", "model");
    origin.write("tokens/deep/t", "token");
    fs::create_dir(origin.path("snap")).unwrap();
    lead(&origin, "snap/model", "../blobs/aa");
    lead(&origin, "snap/tokens", "../tokens");
    let _serving = origin.serve(&[]);
    let nothing = origin.run(&["share", "snap"]);
    assert!(nothing.code == Some(1) && says(&nothing, "nothing is shared: skipped 2 links"), "{nothing:?}");
    assert!(says(&nothing, "--follow-links"), "{nothing:?}");
    let refused = origin.run(&["share", "--set", "snap", "m"]);
    assert!(says(&refused, "snap/model") && says(&refused, "--follow-links"), "{refused:?}");
    let watched = origin.run(&["share", "snap", "--follow-links", "--watch"]);
    assert!(watched.code == Some(2) && says(&watched, "--watch"), "{watched:?}");

    origin.done(&["share", "--set", "snap", "m", "--follow-links"]);
    for (link, target) in [
        ("circle", ".."),
        ("gone", "nowhere"),
        ("key", "../.neko/peer.key"),
        ("own", "../.neko"),
        ("other", "/proc/self"),
    ] {
        lead(&origin, &format!("snap/{link}"), target);
    }
    let shared = origin.done(&["share", "snap", "--follow-links", "--json"]).json();
    assert_eq!(shared["skipped"]["links"], 5, "{shared}");
    assert_eq!(origin.names(), ["m", "snap/model", "snap/tokens/deep/t"]);
    reader.done(&["get", "m", "snap/"]);
    assert_eq!(reader.read("m/tokens/deep/t"), b"token");
    assert_eq!(reader.read("snap/model"), b"model");
}
