//! Runs commands beside withdrawn names, refused versions and copies that were moved, and compares what they print with the files.

use std::time::UNIX_EPOCH;

use crate::program::*;

/// Goal: an indexer lists withdrawn names beside the others, and a page of these alone is not the answer.
#[test]
fn search_goes_on_past_names_that_are_withdrawn() {
    let (_indexers, origin, reader) = two_homes();
    let names = ["a.zzz", "b.zzz", "c.zzz", "d.zzz"];
    origin.write_each(&names);
    let _sharing = origin.share(&names);
    origin.done(&["unshare", "a.zzz", "b.zzz"]);
    for limit in ["1", "2", "3"] {
        let found = reader.done(&["search", "*.zzz", "--limit", limit]);
        assert!(found.out[1].starts_with("c.zzz"), "{found:?}");
        assert_eq!(found.err.iter().any(|line| line.contains("there is more")), limit == "1", "{found:?}");
    }
    let further = reader.done(&["search", "*.zzz", "--limit", "1"]);
    let after = further.err[0].rsplit_once(' ').unwrap().1;
    let further = reader.done(&["search", "*.zzz", "--after", after]);
    assert!(further.out.len() == 2 && further.out[1].starts_with("d.zzz"), "{further:?}");
}

#[test]
fn quiet_follow_says_what_its_command_refuses_and_what_cannot_be_stored() {
    let (_indexers, origin, reader) = two_homes();
    let _sharing = origin.share_files([("f", "f"), ("g", "g")], &["f", "g"]);
    let mut following = reader.start(&["-q", "follow", "f", "--exec", "false"]);
    following.err_line("version 1 is refused");
    drop(following);
    reader.write("g", "mine");
    reader.start(&["-q", "follow", "f", "g"]).err_line("g: ");
}

/// Its handle leads nowhere then. The data folder is elsewhere, as that of a service is.
#[test]
fn share_folder_that_was_removed_and_made_again_is_filled_by_its_follower() {
    let (_indexers, origin, reader, _sharing) = sharing("d/f", "one");
    let words = ["--dir", "files", "--data-dir", "state", "follow", "d/f"];
    let mut following = reader.start_out(&words, "d/f is at version 1");
    fs::remove_dir_all(reader.path("files")).unwrap();
    fs::create_dir(reader.path("files")).unwrap();
    origin.share_anew("d/f", "two");
    following.out_line("d/f is at version 2");
    assert_eq!(reader.read("files/d/f"), b"two");
}

/// A user's file in the place it had before is not replaced.
#[test]
fn copy_that_was_downloaded_to_another_place_since_is_replaced_where_it_was() {
    let (_indexers, origin, reader, _sharing) = sharing("f", "one");
    reader.gets("f", "one");
    reader.done(&["get", "f", "-o", "elsewhere/"]);
    origin.share_anew("f", "two");
    reader.gets("f", "two");
    reader.write("f", "mine");
    origin.share_anew("f", "three");
    reader.run(&["get", "f"]).ended_with(3, "--force");
    assert_eq!(reader.read("f"), b"mine");
}

/// As after `touch` and from a backup. Nobody compares it in the background.
#[test]
fn copy_with_another_time_is_looked_at_by_each_command_where_no_peer_runs() {
    let (_indexers, _origin, reader, _sharing) = sharing("f", "one");
    reader.done(&["get", "f"]);
    File::open(reader.path("f")).unwrap().set_modified(UNIX_EPOCH).unwrap();
    let listed = || reader.done(&["ls", "--json"]).json()["files"][0]["freshness"].clone();
    assert_eq!([listed(), reader.status("f")["freshness"].clone()], ["unverified", "fresh"]);
    reader.done(&["wait", "f"]);
    reader.write("f", "own");
    assert_eq!(listed(), "changed");
    reader.run(&["wait", "f", "--timeout", "1"]).ended_with(3, "the copy of f here is version 1, changed");
    reader.write("f", "one");
    assert_eq!(listed(), "unverified", "its bytes are back");
}

#[test]
fn details_of_several_names_say_whose_they_are_and_a_wrong_name_is_told_as_that() {
    let (_indexers, origin, reader) = two_homes();
    let names = ["README.md", "a", "b", "c"];
    origin.write_each(&names);
    let sharing = origin.share(&["."]);
    let status = origin.done(&["status", "a", "b"]);
    let lines: Vec<&str> = status.out.iter().map(String::as_str).filter(|line| line.ends_with(':')).collect();
    assert_eq!(lines, ["a:", "b:"], "{status:?}");
    for wrong in ["readme.md", "READM.md"] {
        reader.run(&["get", wrong]).failed_with(1, &["did you mean README.md?"]);
    }
    reader.start(&["wait", "a"]).err_line("waiting: a is neither shared nor held here");
    let shared = sharing.interrupt().out;
    assert!(shared.iter().any(|line| line.contains("all of them")), "{shared:?}");
    assert!(!shared.iter().any(|line| line.starts_with("others:")), "{shared:?}");
}

/// Nothing answers at this address: nobody lists what is shared, however often that is done.
#[test]
fn version_that_no_indexer_lists_is_unconfirmed_when_it_is_shared_again_too() {
    let (_kept, at) = kept_port();
    let origin = Home::with(&["--indexer", &at.to_string()]);
    origin.write("f", "f");
    for count in ["1 new", "0 new, 1 unchanged"] {
        let mut sharing = origin.start(&["share", "f"]);
        assert!(sharing.out_line(count).contains("not confirmed by an indexer yet"), "{}", sharing.said());
        sharing.err_line("serving on ");
        sharing.interrupt();
    }
}

/// It serves the large file while it downloads, so that others find it.
#[test]
fn get_of_a_folder_makes_nobody_a_reader_that_is_waited_for() {
    let (_indexers, origin, reader) = two_homes();
    origin.write("course/large", bytes(1, 9 * MIB));
    origin.write_all([("course/a", "a"), ("course/b", "b")]);
    let _sharing = origin.share(&["course"]);
    let got = reader.done(&["--json", "get", "course/"]);
    assert!(got.out.concat().contains("\"fresh\""), "the origin was asked: {got:?}");
    for name in ["course/a", "course/large"] {
        assert_eq!(origin.status(name)["readers"], json!([]), "{name}");
    }
}

#[test]
fn follow_says_where_it_goes_on_when_another_command_takes_the_copy_elsewhere() {
    let (_indexers, origin, reader, _sharing) = sharing("f", "one");
    let mut following = reader.start_out(&["follow", "f"], "f is at version 1");
    reader.done(&["get", "f", "-o", "elsewhere/"]);
    following.err_line("is followed at");
    origin.share_anew("f", "two");
    following.out_line("f is at version 2");
    assert_eq!(["elsewhere/f", "f"].map(|name| reader.read(name)), [b"two", b"one"]);
    reader.done(&["get", "f", "--force"]);
    assert_eq!(reader.read("f"), b"two");
}

/// An edit to lose is one that is there: what is missing comes back, also with the next version.
#[test]
fn file_that_was_moved_out_of_a_copy_of_a_set_comes_back_and_an_edit_is_told() {
    let (_indexers, origin, reader) = two_homes();
    origin.write_all([("build/a", "a"), ("build/b", "b")]);
    let _sharing = origin.share(&["--set", "build", "app"]);
    reader.done(&["get", "app"]);
    let freshness = || reader.status("app")["freshness"].clone();
    assert_eq!(freshness(), "fresh");
    reader.write("app/a", "mine");
    assert_eq!(freshness(), "changed");
    reader.run(&["get", "app"]).failed_with(3, &["app/a was changed", "move it away"]);
    reader.run(&["wait", "app", "--timeout", "1"]).failed_with(3, &["version 1, changed"]);
    fs::rename(reader.path("app/a"), reader.path("mine")).unwrap();
    reader.done(&["get", "app"]);
    assert_eq!((reader.read("app/a"), reader.read("mine")), (b"a".to_vec(), b"mine".to_vec()));
    fs::remove_file(reader.path("app/b")).unwrap();
    origin.write("build/a", "newer");
    origin.done(&["share", "--set", "build", "app"]);
    reader.done(&["get", "app"]);
    assert_eq!((reader.read("app/a"), reader.read("app/b")), (b"newer".to_vec(), b"b".to_vec()));
}

#[test]
fn wait_of_a_copy_asks_its_origin_and_passes_over_what_was_unshared_below_a_folder() {
    let (_indexers, origin, reader) = two_homes();
    origin.write_each(&["d/a", "d/b"]);
    let sharing = origin.share(&["d"]);
    reader.done(&["get", "d/"]);
    origin.done(&["unshare", "d/b"]);
    let waited = reader.done(&["wait", "d/"]);
    assert_eq!(waited.out, ["d/a is at version 1", "d/b is at version 1, and was unshared by its origin"]);
    reader.run(&["wait", "d/b", "--timeout", "1"]).failed_with(3, &["unshared as version 2"]);
    let _serving = reader.start_err(&["serve"], "serving on ");
    assert_eq!(reader.done(&["wait", "d/a"]).out, ["d/a is at version 1"]);
    sharing.kill();
    let waited = reader.run(&["wait", "d/a", "--timeout", "1"]);
    waited.failed_with(3, &["cannot be asked for its newest version"]);
    reader.done(&["wait", "d/a", "--version", "1"]);
}

/// The connection to the ticket's indexer belongs to who waits for a name.
#[test]
fn follower_of_a_ticket_ends_while_a_name_waits_for_its_user() {
    let (_indexers, origin) = one_home();
    origin.write("m/f", "one");
    let mut sharing = origin.start(&["share", "m"]);
    let line = sharing.out_line("get neko:");
    let ticket = line.rsplit_once(' ').unwrap().1;
    let alone = Home::with(&["--discover", "127.0.0.1:0", "--no-discovery"]);
    let mut following = alone.start_out(&["follow", ticket], "m/f is at version 1");
    alone.write("m/f", "mine");
    origin.share_anew("m/f", "two");
    following.err_line("move it away");
    sharing.kill();
    thread::sleep(Duration::from_secs(1));
    following.interrupt();
}

#[test]
fn follow_says_why_no_indexer_can_be_asked_and_takes_a_name_that_becomes_a_folder() {
    let (_kept, nobody) = kept_port();
    let (_indexers, origin, reader, _sharing) = sharing("f", "one");
    reader.done(&["get", "f"]);
    let alone = Home::with(&["--indexer", &nobody.to_string(), "--dir", &reader.text("")]);
    alone.start(&["follow", "f"]).err_line(&format!("indexer {nobody} is away, trying again: "));
    let mut following = reader.start_err(&["follow", "later"], "nobody shares later");
    origin.write("later/x", "x");
    origin.done(&["share", "later"]);
    following.out_line("later/x is at version 1");
}

/// The same folders are elsewhere then.
#[test]
fn copy_of_a_set_that_was_moved_with_its_data_folder_is_known() {
    let (indexers, origin, reader) = two_homes();
    origin.write_all([("build/a", "a"), ("build/b", "b")]);
    let sharing = origin.share(&["--set", "build", "app"]);
    let there = |dir: &str, words: &[&str]| reader.done(&[&["--dir", dir], words].concat());
    there("one", &["get", "app"]);
    fs::rename(reader.path("one"), reader.path("two")).unwrap();
    there("two", &["get", "app"]);
    origin.write("build/a", "newer");
    origin.done(&["share", "--set", "build", "app"]);
    there("two", &["get", "app"]);
    assert_eq!((reader.read("two/app/a"), reader.read("two/app/b")), (b"newer".to_vec(), b"b".to_vec()));
    // A follower goes on where it is now, and so does the origin.
    fs::rename(reader.path("two"), reader.path("five")).unwrap();
    let mut following = reader.start_out(&["--dir", "five", "follow", "app"], "app is at version 2");
    assert_eq!(there("five", &["ls", "--json"]).json()["files"][0]["path"], reader.text("five/app"));
    assert!(!following.said().contains("was changed"), "{}", following.said());
    drop(sharing);
    fs::create_dir(origin.path("moved")).unwrap();
    for entry in ["build", ".neko"] {
        fs::rename(origin.path(entry), origin.path("moved").join(entry)).unwrap();
    }
    let _sharing = origin.start_err(&["--dir", "moved", "serve"], "registered 1 file");
    let late = Home::at(&indexers, 0);
    late.done(&["get", "app"]);
    assert_eq!(late.read("app/a"), b"newer");
    let elsewhere = there("five", &["get", "app", "-o", "three"]);
    assert!(!elsewhere.out.concat().contains("already here"), "{elsewhere:?}");
    let help = ["nobody shares a file build", "get build/"];
    origin.done(&["--dir", "moved", "share", "moved/build"]);
    reader.run(&["--dir", "five", "get", "build", "-o", "four/"]).failed_with(1, &help);
}
