//! `follow` and `rollback`, each in a process of its own.

use std::fmt::Display;

use crate::program::*;

fn publish(origin: &Home, content: impl AsRef<[u8]>) {
    origin.share_anew("f", content);
}

/// Publishes it, and waits until the follower has it as this version.
fn update(origin: &Home, following: &mut Running, version: impl Display, content: impl AsRef<[u8]>) {
    publish(origin, content);
    following.out_line(&format!("f is at version {version}"));
}

fn until_is(reader: &Home, following: &mut Running, content: &[u8]) {
    let is_it = || fs::read(reader.path("f")).is_ok_and(|now| now == content);
    until(following, "a version", is_it);
}

fn interrupt(following: Running) {
    following.interrupt().ended_with(0, "");
}

/// Writes what it is told into `log`, and fails if the file says `bad`.
const HOOK: &str =
    r#"echo "$NEKO_VERSION after $NEKO_PREVIOUS_VERSION of $NEKO_NAME" >> log; ! grep -q bad "$NEKO_PATH""#;

fn log(reader: &Home) -> Vec<String> {
    let text = fs::read_to_string(reader.path("log")).unwrap_or_default();
    text.lines().map(ToOwned::to_owned).collect()
}

/// Goal: a reader that went back is told of the next version although the origin was started again, and no indexer lists it.
#[test]
fn who_went_back_hears_of_the_next_version_of_an_origin_that_was_started_again() {
    let (_indexers, origin, reader) = two_homes();
    let sharing = origin.share_files([("f", "one")], &["--policy", "push", "--lease", "600", "f"]);
    let mut following = reader.start_out(&["follow", "f", "--keep", "3"], "f is at version 1");
    update(&origin, &mut following, 2, "two");
    reader.done(&["rollback", "f"]);
    assert_eq!(sharing.interrupt().code, Some(0));
    let _sharing = origin.serve(&[]);
    update(&origin, &mut following, 3, "three");
}

#[test]
fn version_that_the_command_refuses_is_put_back_if_another_was_accepted_and_the_next_one_comes() {
    let (_indexers, origin, reader, _sharing) = sharing("f", "bad");
    let run = ["follow", "f", "--exec", HOOK];
    let mut following = reader.start(&run);
    following.err_line("version 1 is refused, and none before can be put back");
    assert_eq!(reader.read("f"), b"bad");
    update(&origin, &mut following, 2, "two");
    publish(&origin, "bad again");
    let refused = following.err_line("version 3 is refused, and version 2 is back");
    assert!(refused.contains("exit code 1"), "{refused}");
    assert_eq!(reader.read("f"), b"two");
    update(&origin, &mut following, 4, "four");
    assert_eq!(reader.read("f"), b"four");
    interrupt(following);
    assert_eq!(log(&reader)[2..], ["3 after 2 of f", "4 after 2 of f"]);
    assert!(log(&reader)[1].starts_with("2 after "), "each once: {:?}", log(&reader));

    // What was accepted, and what was refused, outlives the process.
    publish(&origin, "bad at last");
    let mut following = reader.start(&run);
    following.err_line("version 5 is refused, and version 4 is back");
    interrupt(following);
    let mut following = reader.start(&run);
    update(&origin, &mut following, 6, "six");
    assert_eq!(log(&reader)[4..], ["5 after 4 of f", "6 after 4 of f"]);

    // It does not take the place of the version before because somebody removed that.
    publish(&origin, "bad for good");
    following.err_line("version 7 is refused, and version 6 is back");
    interrupt(following);
    fs::remove_file(reader.path("f")).unwrap();
    reader.run(&run).ended_with(1, "version 6 of f is not here");
    assert_eq!((reader.path("f").exists(), log(&reader).len()), (false, 7));
    publish(&origin, "eight");
    interrupt(reader.start_out(&run, "f is at version 8"));
    assert_eq!(log(&reader)[7..], ["8 after 6 of f"]);
}

#[test]
fn command_that_was_killed_with_the_follower_runs_again_and_one_that_hangs_is_ended() {
    let (_indexers, origin, reader, _sharing) = sharing("f", "one");
    // It ends when the test does: whoever kills the follower leaves it running.
    let hang = "test ! -e hang || { echo begun >> log; while test -e hang; do sleep .05; done; exit 1; }";
    let exec = format!("{hang}; {HOOK}");
    reader.write("hang", "");
    let mut following = reader.start(&["follow", "f", "--exec", &exec]);
    until(&mut following, "the command", || log(&reader).len() == 1);
    following.kill();
    fs::remove_file(reader.path("hang")).unwrap();
    let mut following = reader.start_out(&["follow", "f", "--exec", &exec], "f is at version 1");
    assert_eq!(log(&reader), ["begun", "1 after  of f"]);
    update(&origin, &mut following, 2, "two");
    interrupt(following);
    reader.write("hang", "");
    publish(&origin, "three");
    let mut following = reader.start(&["follow", "f", "--exec", &exec, "--exec-timeout", "1"]);
    let refused = following.err_line("version 3 is refused, and version 2 is back");
    assert!(refused.contains("killed after 1 s"), "{refused}");
    assert_eq!(reader.read("f"), b"two");
    interrupt(following);
}

#[test]
fn what_the_command_prints_is_shown_to_its_follower_alone_and_bounded() {
    let (_indexers, origin, reader, _sharing) = sharing("f", "one");
    let mut serving = reader.serve(&[]);
    let exec = r#"echo "out $NEKO_VERSION"; printf 'err\033[31m\n' >&2; test $NEKO_VERSION = 1 || seq 1000; test $NEKO_VERSION != 3"#;
    let mut following = reader.start_err(&["follow", "f", "--exec", exec], "f: out 1");
    following.err_line("f: err[31m");
    following.out_line("f is at version 1");
    publish(&origin, "two");
    following.err_line("f: out 2");
    following.err_line("f: 198");
    following.err_line("f: 802 more lines of the command are not shown");
    following.out_line("f is at version 2");
    interrupt(following);
    publish(&origin, "three");
    let mut following = reader.start(&["follow", "f", "--json", "--exec", exec]);
    let event: Value = serde_json::from_str(&following.out_line(r#""out 3""#)).unwrap();
    assert_eq!(fields(&event, &["event", "line", "name"]), json!(["printed", "out 3", "f"]));
    let event: Value = serde_json::from_str(&following.out_line(r#""not-shown""#)).unwrap();
    assert_eq!(event["lines"], 802);
    following.out_line(r#""refused""#);
    interrupt(following);
    assert!(!serving.said().contains("f: out"), "{}", serving.said());
    serving.interrupt();
}

/// Another command may bring a version while the command runs on the one before, whose failure is not that of the later.
/// The command before had accepted an earlier one; it does not run any more.
#[test]
fn version_that_is_put_back_is_the_last_that_the_running_command_accepted() {
    let (_indexers, origin, reader, _sharing) = sharing("f", "one");
    interrupt(reader.start_out(&["follow", "f", "--keep", "3", "--exec", "true"], "f is at version 1"));
    let mut following = reader.start_out(&["follow", "f", "--exec", HOOK], "f is at version 1");
    update(&origin, &mut following, 2, "two");
    publish(&origin, "bad");
    following.err_line("version 3 is refused, and version 2 is back");
    assert_eq!(reader.read("f"), b"two");
}

#[test]
fn command_that_runs_for_long_is_said_to_and_a_version_that_came_meanwhile_stays_and_has_its_turn() {
    let (_indexers, origin, reader, _sharing) = sharing("f", "one");
    let exec = r#"echo $NEKO_VERSION >> log; test $NEKO_VERSION != 2 || { until test -e go; do sleep .05; done; exit 1; }"#;
    let mut following = reader.start_out(&["follow", "f", "--exec", exec], "f is at version 1");
    publish(&origin, "two");
    until(&mut following, "the second command", || log(&reader).len() == 2);
    following.err_line("the command runs on f");
    publish(&origin, "three");
    reader.done(&["get", "f"]);
    reader.write("go", "");
    following.err_line("version 2: the command failed");
    following.out_line("f is at version 3");
    assert_eq!(reader.read("f"), b"three");
    assert_eq!(log(&reader), ["1", "2", "3"]);
    interrupt(following);
}

/// The last versions are kept by what they have of their own, and come back without the network.
#[test]
fn versions_that_are_kept_come_back_and_the_others_do_not() {
    let version = |n: u8| {
        let mut content = bytes(7, 2 * MIB);
        content[MIB..MIB + 1000].fill(n);
        content
    };
    let (_indexers, origin, reader, sharing) = sharing("f", version(1));
    let mut following = reader.start_out(&["follow", "f", "--keep", "3"], "f is at version 1");
    for n in 2..=5 {
        fs::set_permissions(reader.path("f"), fs::Permissions::from_mode(0o755)).unwrap(); // no other bytes
        update(&origin, &mut following, n, version(n));
    }
    let packs =
        fs::read_dir(reader.path(".neko/kept")).unwrap().map(|pack| pack.unwrap().metadata().unwrap().len());
    let packs: Vec<u64> = packs.collect();
    assert_eq!(packs.len(), 3);
    assert!(
        packs.iter().sum::<u64>() < MIB as u64,
        "chunks that are in the file are not kept twice: {packs:?}"
    );

    reader.done(&["rollback", "f", "3"]);
    assert!(reader.read("f") == version(3));
    let listed = reader.done(&["ls", "--json"]).json();
    assert_eq!((&listed["files"][0]["version"], &listed["files"][0]["newest"]), (&3.into(), &5.into()));
    reader.run(&["rollback", "f", "1"]).failed_with(1, &["version 1 of f is not kept here, but 5, 4, 2"]);
    update(&origin, &mut following, 6, version(6));
    interrupt(following);
    drop(sharing);
    for n in [3, 5, 4] {
        let moved = reader.done(&["rollback", "f", &n.to_string(), "--json"]).json();
        assert_eq!((&moved["version"], &moved["bytes_moved"]), (&Value::from(n), &0.into()));
        assert!(reader.read("f") == version(n));
    }
    // By the newest that it ever had, with nothing said.
    reader.done(&["rollback", "f"]);
    assert!(reader.read("f") == version(5));
    let keeping = ["follow", "f", "--keep", "3", "--keep-max", "1kB"];
    interrupt(reader.start_out(&keeping, "f is at version 5"));
    reader.run(&["rollback", "f"]).failed_with(1, &["no earlier version is kept here"]);
}

#[test]
fn what_cannot_be_followed_is_said_at_once() {
    let (_indexers, origin, reader, _sharing) = sharing("f", "published");
    reader.write("f", "of the user");
    for (home, text) in
        [(&origin, "f is shared by this peer itself"), (&reader, "exists and is not a copy from here")]
    {
        let ended = home.run(&["follow", "f"]);
        assert_eq!(ended.code, Some(3), "{ended:?}");
        assert!(ended.err.iter().any(|line| line.starts_with("error: ") && line.contains(text)), "{ended:?}");
    }
    reader.run(&["rollback", "f"]).failed_with(1, &["f is neither shared nor held here"]);
}

/// Strangers who share different files under one name end neither the command nor what it runs on another.
#[test]
fn name_that_needs_its_user_says_so_again_when_that_changes_and_the_others_go_on() {
    let (indexers, origin, reader, _sharing) = sharing("f", "one");
    let strangers = [0, 1, 2].map(|n| {
        let stranger = Home::at(&indexers, 0);
        stranger.write("g", n.to_string());
        stranger
    });
    let _one_two = [strangers[0].share(&["g"]), strangers[1].share(&["g"])];
    let hook = "echo $NEKO_NAME >> log; until test -e go; do sleep .05; done";
    let mut following = reader.start(&["follow", "f", "g", "--exec", hook]);
    following.err_line("g: 2 origins share different files as g: say which, g@");
    until(&mut following, "the command", || log(&reader) == ["f"]);
    let _three = strangers[2].share(&["g"]);
    following.err_line("g: 3 origins");
    reader.write("go", "");
    following.out_line("f is at version 1");
    strangers[..2].iter().for_each(|stranger| drop(stranger.done(&["unshare", "g"])));
    following.out_line("g is at version 1");
    update(&origin, &mut following, 2, "two");
    assert_eq!((reader.read("g"), log(&reader)), (b"2".to_vec(), ["f", "g", "f"].map(str::to_owned).into()));
    interrupt(following);
}

#[test]
fn follower_waits_for_a_name_and_never_replaces_what_it_cannot_keep() {
    let (_indexers, origin, reader) = two_homes();
    let mut following = reader.start_out(&["follow", "f", "--keep", "1", "--json"], "nobody shares f");
    let _sharing = origin.share_file("f", "one");
    let event: Value = serde_json::from_str(&following.out_line(r#""followed""#)).unwrap();
    assert_eq!(fields(&event, &["event", "name", "version"]), json!(["followed", "f", 1]));
    reader.write(".neko/kept", "no folder");
    publish(&origin, "two");
    following.out_line("kept");
    assert_eq!(reader.read("f"), b"one");
    fs::remove_file(reader.path(".neko/kept")).unwrap();
    until_is(&reader, &mut following, b"two");
    interrupt(following);
}

#[test]
fn command_that_goes_back_by_itself_is_told_that_its_exit_code_decides() {
    let (_indexers, origin, reader, _sharing) = sharing("f", "one");
    let hook = format!("{} rollback f 2>> log; true", env!("CARGO_BIN_EXE_nekopeer"));
    let mut following = reader.start_out(&["follow", "f", "--exec", &hook], "f is at version 1");
    for (number, content) in [(2, "two"), (3, "three")] {
        update(&origin, &mut following, number, content);
        assert_eq!(reader.read("f"), content.as_bytes());
    }
    interrupt(following);
    let refused = log(&reader).iter().filter(|line| line.contains("its exit code decides")).count();
    assert_eq!(refused, 2, "{:?}", log(&reader)); // the first version has none before it
}

/// Two followers judge it: what one of them refuses is not there, whatever the other says.
#[test]
fn rollback_waits_for_the_commands_of_followers_and_fails_with_what_they_say() {
    let (_indexers, origin, reader, _sharing) = sharing("f", "one");
    let _serving = reader.serve(&[]);
    let hook = "test ! -e hang$NEKO_VERSION || sleep 1000; test ! -e bad$NEKO_VERSION";
    let mut following =
        reader.start_out(&["follow", "f", "--keep", "3", "--exec", hook], "f is at version 1");
    let mut other = reader.start_out(&["follow", "f", "--exec", "true"], "f is at version 1");
    for (number, content) in [(2, "two"), (3, "three")] {
        update(&origin, &mut following, number, content);
        other.out_line(&format!("f is at version {number}"));
    }
    reader.write("bad2", "");
    let refused = reader.run(&["rollback", "f"]);
    refused.ended_with(3, "the command of follow refused version 2 of f: ");
    refused.ended_with(3, "exit code 1; version 3 was put back");
    assert_eq!(reader.read("f"), b"three");
    assert_eq!(reader.done(&["rollback", "f", "1", "--json"]).json()["version"], 1);
    following.out_line("f is at version 1");
    assert_eq!(reader.read("f"), b"one");
    // Who went back from version 3 is not brought there by a command that refuses version 2.
    reader.run(&["rollback", "f", "2"]).ended_with(3, "version 1 was put back");
    let file = reader.status("f");
    assert_eq!((&file["version"], &file["passed_over"]), (&1.into(), &3.into()), "{file}");
    interrupt(other);
    // One that ends without an answer leaves what was put back.
    reader.write("hang2", "");
    let going_back = reader.start_err(&["rollback", "f", "2"], "waits for the command of follow");
    interrupt(following);
    going_back.wait().ended_with(3, "when a follow ended without an answer");
    assert_eq!(reader.read("f"), b"two");
}

/// They run on what the other one puts back too, and what one refused is not put back for the other.
#[test]
fn versions_that_two_commands_disagree_on_do_not_stay() {
    let (_indexers, origin, reader, _sharing) = sharing("f", "one");
    let _serving = reader.serve(&[]);
    let hook = "test $NEKO_VERSION != 3";
    let mut first = reader.start_out(&["follow", "f", "--keep", "3", "--exec", hook], "f is at version 1");
    let hook = "test $NEKO_VERSION != 2 || { until test -e go; do sleep 0.01; done; false; }";
    let mut second = reader.start_out(&["follow", "f", "--exec", hook], "f is at version 1");
    update(&origin, &mut first, 2, "two");
    reader.write("go", "");
    second.err_line("version 2 is refused, and version 1 is back");
    first.out_line("f is at version 1");
    origin.share_anew("f", "three");
    first.err_line("version 3 is refused, and version 1 is back");
    assert_eq!(reader.read("f"), b"one");
    interrupt(second);
    interrupt(first);
}

#[test]
fn rollback_whose_peer_is_killed_does_not_go_back_once_more() {
    let (_indexers, origin, reader, _sharing) = sharing("f", "one");
    let serving = reader.serve(&[]);
    let hook = "while test -e hang; do sleep 0.05; done";
    let mut following =
        reader.start_out(&["follow", "f", "--keep", "3", "--exec", hook], "f is at version 1");
    for (number, content) in [(2, "two"), (3, "three")] {
        update(&origin, &mut following, number, content);
    }
    reader.write("hang", "");
    let going_back = reader.start_err(&["rollback", "f"], "waits for the command of follow");
    serving.kill();
    going_back.wait().ended_with(3, "ended before the command did");
    assert_eq!(reader.read("f"), b"two");
    drop(following); // it begins anew, perhaps still without a peer
}

#[test]
fn version_that_was_refused_is_judged_again_when_its_user_asks_for_it_and_get_says_that_a_command_decides() {
    let (_indexers, origin, reader, _sharing) = sharing("f", "one");
    let follow = ["follow", "f", "--exec", "test -e up"];
    let mut following = reader.start(&follow);
    following.err_line("version 1 is refused, and none before can be put back");
    reader.run(&["rollback", "f", "1"]).ended_with(3, "the command of follow refused version 1 of f");
    reader.write("up", "");
    reader.done(&["get", "f"]);
    following.out_line("f is at version 1");
    std::fs::remove_file(reader.path("up")).unwrap();
    origin.share_anew("f", "two");
    following.err_line("version 2 is refused, and version 1 is back");
    reader.run(&["get", "f"]).ended_with(0, "the command of follow decides whether version 2 stays there");
    following.err_line("version 2 is refused, and version 1 is back");
    reader.done(&["rollback", "f", "1"]); // its command accepted it last, and does not run again
    reader.write("up", "");
    reader.done(&["get", "f"]);
    following.out_line("f is at version 2");
    assert_eq!(reader.done(&["get", "f"]).err, [""; 0], "it is accepted");
    std::fs::remove_file(reader.path("up")).unwrap();
    origin.share_anew("g", "g");
    origin.share_anew("f", "three");
    following.err_line("version 3 is refused, and version 2 is back");
    reader.run(&["get", "f", "g"]).ended_with(0, "decides whether 1 of these versions stay there");
    until_is(&reader, &mut following, b"two");
    interrupt(following);
}

/// The origin keeps no earlier version: its readers do.
#[test]
fn earlier_version_that_a_reader_keeps_is_shared_anew_in_the_place_of_the_newest() {
    let (_indexers, origin, reader, _sharing) = sharing("d/f", bytes(1, MIB));
    let mut following = reader.start_out(&["follow", "d/f", "--keep", "2"], "d/f is at version 1");
    origin.share_anew("d/f", bytes(2, MIB));
    following.out_line("d/f is at version 2");
    origin.run(&["share", "d/f", "--version", "9"]).failed_with(1, &["version 9 of d/f is not here"]);
    origin.run(&["share", "d/f", "--version", "2"]).failed_with(3, &["is the newest already"]);
    origin.write("d/f", "the user's");
    origin.run(&["share", "d/f", "--version", "1"]).failed_with(3, &["is not what was shared", "--force"]);
    assert_eq!(origin.read("d/f"), b"the user's");
    let shared = origin.done(&["share", "d/f", "--version", "1", "--force"]);
    assert!(shared.out[0].starts_with("shared d/f version 3"), "{shared:?}");
    following.out_line("d/f is at version 3");
    assert!(origin.read("d/f") == bytes(1, MIB) && reader.read("d/f") == bytes(1, MIB));
    origin.run(&["share", "none", "--version", "1"]).failed_with(1, &["none is not shared here"]);
    interrupt(following);
}

#[test]
fn rollback_that_fails_leaves_the_place_wherever_it_is_to_later_versions() {
    let (_indexers, origin, reader, _sharing) = sharing("f", bytes(1, MIB));
    reader.done(&["get", "f", "-o", "there"]);
    let mut following = reader.start_out(&["follow", "f", "--keep", "1"], "f is at version 1");
    update(&origin, &mut following, 2, bytes(2, MIB));
    for pack in fs::read_dir(reader.path(".neko/kept")).unwrap() {
        fs::write(pack.unwrap().path(), vec![0; MIB]).unwrap();
    }
    assert_eq!(reader.run(&["rollback", "f"]).code, Some(3));
    assert_eq!(reader.status("f").get("passed_over"), None);
    update(&origin, &mut following, 3, "three");
    assert_eq!((reader.read("there"), reader.path("f").exists()), (b"three".to_vec(), false));
    interrupt(following);
}

#[test]
fn what_was_put_back_is_wanted_where_outdated_copies_are_dropped() {
    let (_indexers, origin, reader, _sharing) = sharing("f", "one");
    origin.share_anew("g", "one");
    let mut following = reader.start_out(&["follow", "f", "--keep", "1"], "f is at version 1");
    update(&origin, &mut following, 2, "two");
    interrupt(following);
    let mut serving = reader.serve(&["--on-stale", "drop"]);
    reader.done(&["get", "g"]);
    reader.done(&["rollback", "f"]);
    origin.share_anew("g", "two");
    until(&mut serving, "g is dropped", || !reader.path("g").exists());
    assert_eq!(reader.read("f"), b"one");
}

/// One is late: it runs on the next version too, and what it says of the one before is not what the other said.
#[test]
fn two_commands_on_one_name_both_run_on_each_version() {
    let (_indexers, origin, reader, _sharing) = sharing("f", "one");
    let _serving = reader.serve(&[]);
    let lines = |file: &str| fs::read_to_string(reader.path(file)).unwrap_or_default();
    let late = "echo $NEKO_VERSION >> late; test $NEKO_VERSION != 1 || { until test -e go; do sleep .05; done; exit 1; }";
    let mut late = reader.start(&["follow", "f", "--exec", late]);
    until(&mut late, "the first command", || lines("late") == "1\n");
    let mut quick = reader.start(&["follow", "f", "--exec", "echo $NEKO_VERSION >> quick"]);
    until(&mut quick, "the other command", || lines("quick") == "1\n");
    publish(&origin, "two");
    until(&mut quick, "version 2", || lines("quick") == "1\n2\n");
    reader.write("go", "");
    late.err_line("version 1: the command failed");
    until(&mut late, "version 2 of the one that is late", || lines("late") == "1\n2\n");
    publish(&origin, "three");
    for follower in [&mut late, &mut quick] {
        follower.out_line("f is at version 3");
    }
    until(&mut late, "version 3 of both", || {
        lines("late").ends_with("3\n") && lines("quick").ends_with("3\n")
    });
    assert_eq!((lines("late").as_str(), lines("quick").as_str()), ("1\n2\n3\n", "1\n2\n3\n"));
}

/// What one command accepted says nothing of another, whichever ended first.
#[test]
fn command_that_was_killed_runs_again_although_another_accepted_the_version() {
    let (_indexers, origin, reader, _sharing) = sharing("f", "one");
    let _serving = reader.serve(&[]);
    let lines = |file: &str| fs::read_to_string(reader.path(file)).unwrap_or_default();
    let killed = "echo $NEKO_VERSION >> killed; while test $NEKO_VERSION = 2 && ! test -e go && test -e killed; do sleep .05; done";
    let other = "echo $NEKO_VERSION >> other; until test $NEKO_VERSION = 1 || test -e go; do sleep .05; done";
    let start = |command| reader.start(&["follow", "f", "--exec", command]);
    let (mut one, mut two) = (start(killed), start(other));
    one.out_line("f is at version 1");
    two.out_line("f is at version 1");
    publish(&origin, "two");
    until(&mut two, "version 2", || lines("other") == "1\n2\n" && lines("killed") == "1\n2\n");
    one.kill();
    reader.write("go", "");
    two.out_line("f is at version 2");
    let mut one = start(killed);
    one.out_line("f is at version 2");
    assert_eq!((lines("killed").as_str(), lines("other").as_str()), ("1\n2\n2\n", "1\n2\n"));
    interrupt(one);
    interrupt(two);
}

/// The command takes away what is kept; once that is there again, the version before is too.
#[test]
fn refused_version_is_replaced_as_soon_as_the_one_before_can_be_put_back() {
    let (_indexers, origin, reader, _sharing) = sharing("f", "one");
    let exec = "test $NEKO_VERSION != 2 || { mv .neko/kept away; exit 1; }";
    let mut following = reader.start_out(&["follow", "f", "--exec", exec], "f is at version 1");
    publish(&origin, "two");
    let failed = following.err_line("version 2: the command failed, exit code 1");
    assert!(failed.contains("it stays in its place until"), "{failed}");
    assert_eq!(reader.read("f"), b"two");
    fs::rename(reader.path("away"), reader.path(".neko/kept")).unwrap();
    following.err_line("version 2 is refused, and version 1 is back");
    assert_eq!(reader.read("f"), b"one");
    interrupt(following);
}

/// Nothing is said of the version of a copy, and no command runs on it, before somebody looked at its bytes.
#[test]
fn copy_that_was_changed_is_said_one_that_is_gone_is_brought_back_and_a_touched_one_is_the_version() {
    let (_indexers, origin, reader, _sharing) = sharing("f", "one");
    let run = ["follow", "f", "--exec", HOOK];
    reader.done(&["get", "f"]);
    reader.write("f", "own");
    let said = "/f was changed here since it came: move it away; or replace it with --force";
    reader.run(&run).ended_with(3, said);
    assert_eq!((log(&reader), reader.read("f")), (vec![], b"own".to_vec()));
    let mut forced = reader.start_out(&[&run[..], &["--force"]].concat(), "f is at version 1");
    assert_eq!(reader.read("f"), b"one");
    reader.write("f", "own");
    interrupt(forced);
    fs::remove_file(reader.path("f")).unwrap();
    forced = reader.start_out(&run, "f is at version 1");
    assert_eq!(reader.read("f"), b"one");
    interrupt(forced);
    fs::set_permissions(reader.path("f"), fs::Permissions::from_mode(0o700)).unwrap();
    interrupt(reader.start_out(&run, "f is at version 1"));
    assert_eq!(log(&reader), ["1 after  of f"], "once, on the bytes that came");

    origin.write_all([("d/a", "a"), ("d/b", "b")]);
    origin.done(&["share", "--set", "d"]);
    let _serving = reader.serve(&[]);
    reader.done(&["get", "d"]);
    reader.done(&["wait", "d", "--version", "1"]);
    reader.write("d/a", "own");
    let wait = ["wait", "d", "--version", "1", "--timeout", "1"];
    reader.run(&wait).ended_with(3, "d/a was changed");
    reader.run(&["follow", "d"]).ended_with(3, "d/a was changed");
    fs::rename(reader.path("d"), reader.path("away")).unwrap();
    reader.run(&wait).ended_with(3, "d is missing");
    interrupt(reader.start_out(&["follow", "d"], "d is at version 1"));
    assert_eq!(reader.read("d/a"), b"a");
}

#[test]
fn mode_that_the_user_gave_a_copy_stays_whatever_takes_its_place() {
    let (_indexers, origin, reader, _sharing) = sharing("f", "one");
    reader.done(&["get", "f"]);
    let set = |mode| fs::set_permissions(reader.path("f"), fs::Permissions::from_mode(mode)).unwrap();
    let mode = || fs::metadata(reader.path("f")).unwrap().permissions().mode() & 0o777;
    set(0o751);
    let mut following = reader.start_out(&["follow", "f", "--exec", HOOK], "f is at version 1");
    update(&origin, &mut following, 2, "two");
    assert_eq!(mode(), 0o751, "after an update");
    publish(&origin, "bad");
    following.err_line("version 3 is refused, and version 2 is back");
    assert_eq!((mode(), reader.read("f")), (0o751, b"two".to_vec()), "after a refusal");
    set(0o440);
    update(&origin, &mut following, 4, "four");
    assert_eq!(mode(), 0o440, "nobody writes to it");
    reader.done(&["rollback", "f"]);
    assert_eq!((mode(), reader.read("f")), (0o440, b"two".to_vec()), "after a rollback");
    interrupt(following);
}
