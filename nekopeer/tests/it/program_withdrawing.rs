//! Names that their origin withdraws, each node in a process of its own: a withdrawal is a version, and no older one
//! comes back.

use crate::program::*;

fn listed(home: &Home) -> Option<Value> {
    home.listed().into_iter().find(|file| file["name"] == "f")
}

fn is_withdrawn(home: &Home, version: u64) -> bool {
    listed(home).is_some_and(|file| file["freshness"] == "unshared" && file["newest"] == version)
}

/// The lease outlasts the test: a copy that is there learns by push alone.
const LASTING: [&str; 5] = ["f", "--policy", "push", "--lease", "600"];

fn shared(flags: &[&str]) -> (Indexers, Home, Home, Running, Running) {
    let (indexers, origin, reader) = two_homes();
    let sharing = origin.share_files([("f", "one")], &LASTING);
    let reading = reader.serve(flags);
    reader.done(&["get", "f"]);
    reader.done(&["status"]); // it subscribes
    (indexers, origin, reader, sharing, reading)
}

#[test]
fn copy_learns_of_a_withdrawal_by_push_and_stays_withdrawn_until_the_name_is_published_again() {
    let (_indexers, origin, reader, sharing, mut reading) = shared(&["--on-stale", "refetch"]);
    origin.run(&["unshare", "g"]).failed_with(1, &["error: g is not shared here: ls lists what is"]);
    origin.done(&["deregister", "f"]);
    assert!(listed(&origin).is_none(), "the origin has no file of that name");
    until(&mut reading, "the withdrawal", || is_withdrawn(&reader, 2));
    assert_eq!(reader.read("f"), b"one", "it is kept");
    reader.run(&["search", "f"]).failed_with(1, &["f"]);
    reader
        .run(&["get", "f"])
        .failed_with(1, &["unshared by its origin", "version 2", "until the origin does again"]);

    // What is known is known after a restart, although nobody can be asked.
    sharing.kill();
    reading.kill();
    assert!(is_withdrawn(&reader, 2));

    let _sharing = origin.share_file("f", "three");
    let mut reading = reader.serve(&["--on-stale", "refetch"]);
    until(&mut reading, "the next version", || fs::read(reader.path("f")).unwrap() == b"three");
    until(&mut reading, "its state", || listed(&reader).is_some_and(|file| file["freshness"] == "fresh"));
    assert_eq!(listed(&reader).unwrap()["version"], 3, "above the withdrawal");
}

#[test]
fn copy_that_was_away_learns_of_a_withdrawal_although_its_origin_was_restarted_and_does_not_bring_the_name_back()
 {
    let (indexers, origin, reader, sharing, reading) = shared(&[]);
    reading.kill();
    origin.done(&["deregister", "f"]);
    sharing.kill();
    let mut serving = origin.serve(&[]);
    // A reader that comes now hears the same, from the indexer.
    let other = Home::at(&indexers, 0);
    until(&mut serving, "the withdrawal", || {
        let ended = other.run(&["get", "f"]);
        ended.code == Some(1) && ended.err.iter().any(|line| line.contains("unshared by its origin"))
    });
    // The holder comes back, and offers what it has; it is not told before.
    let mut reading = reader.serve(&[]);
    until(&mut reading, "the withdrawal", || is_withdrawn(&reader, 2));
    other.run(&["query", "f"]).failed_with(1, &["f"]);
    other.run(&["get", "f"]).failed_with(1, &["unshared by its origin"]);
    // Also while the origin is away, whoever knows of it takes no older version.
    serving.kill();
    reader.run(&["get", "f"]).failed_with(1, &["unshared by its origin"]);
    assert_eq!(reader.read("f"), b"one");
}

#[test]
fn withdrawal_that_was_told_to_nobody_before_the_process_was_killed_is_told_after_the_restart() {
    let (indexers, origin, reader, sharing) = sharing("f", "one");
    reader.done(&["get", "f"]);
    sharing.kill();
    // Without an indexer it tells nobody: it is committed and no more.
    let nowhere = Home::with(&["--indexer", "127.0.0.1:1", "--dir", &origin.text("")]);
    let alone = nowhere.serve(&[]);
    nowhere.done(&["deregister", "f"]);
    alone.kill();
    let mut serving = origin.serve(&[]);
    let other = Home::at(&indexers, 0);
    until(&mut serving, "its registration", || {
        other.run(&["get", "f"]).err.iter().any(|line| line.contains("unshared by its origin"))
    });
    let mut reading = reader.serve(&[]);
    until(&mut reading, "the withdrawal", || is_withdrawn(&reader, 2));
}

#[test]
fn reader_that_drops_outdated_copies_drops_a_withdrawn_one_and_takes_no_older_one_again() {
    let (_indexers, origin, reader, _sharing, mut reading) = shared(&["--on-stale", "drop"]);
    origin.done(&["deregister", "f"]);
    until(&mut reading, "the withdrawal", || !reader.path("f").exists());
    reader.run(&["get", "f"]).failed_with(1, &["unshared by its origin"]);
}

#[test]
fn follower_keeps_the_last_file_says_that_its_name_was_withdrawn_and_goes_on_when_it_is_shared_again() {
    let (_indexers, origin, reader) = two_homes();
    let _sharing = origin.share_files([("f", "one")], &LASTING);
    let mut following = reader.start_out(&["follow", "f"], "f is at version 1");
    origin.done(&["deregister", "f"]);
    following.err_line("f was unshared by its origin as version 2");
    assert_eq!(reader.read("f"), b"one");
    assert_eq!(following.interrupt().code, Some(0));
    let mut following = reader.start_err(&["follow", "f"], "f was unshared by its origin as version 2");
    origin.share_anew("f", "three");
    following.out_line("f is at version 3");
    assert_eq!(reader.read("f"), b"three");
    // One that was killed before it heard of the withdrawal is told at its new address.
    drop(following);
    origin.done(&["unshare", "f"]);
    let mut following = reader.start_err(&["follow", "f"], "f was unshared by its origin as version 4");
    reader.done(&["status", "f"]); // asks the origin
    origin.share_anew("f", "five");
    following.out_line("f is at version 5");
}

#[test]
fn file_that_becomes_a_folder_and_back_makes_way_where_nobody_changed_its_copy() {
    let (_indexers, origin, reader) = two_homes();
    let _serving = origin.serve(&[]);
    let become_folder = |name: &str| {
        origin.share_anew(name, "file");
        reader.done(&["get", name]);
        origin.done(&["unshare", name]);
        fs::remove_file(origin.path(name)).unwrap();
        origin.share_anew(&format!("{name}/main"), "in it");
    };
    become_folder("s/vars");
    reader.gets("s/vars/main", "in it");
    become_folder("changed");
    reader.write("changed", "by its user");
    let refused = reader.run(&["get", "changed/main"]);
    refused.failed_with(3, &["changed/main needs a folder where a file stands: move that away"]);
    assert_eq!(reader.read("changed"), b"by its user");

    origin.share_anew("s/vars/in/deep", "deeper");
    reader.gets("s/vars/in/deep", "deeper");
    origin.done(&["unshare", "s/vars/main", "s/vars/in/deep"]);
    fs::remove_dir_all(origin.path("s/vars")).unwrap();
    origin.share_anew("s/vars", "a file again");
    fs::create_dir(reader.path("s/vars/empty")).unwrap();
    reader.write("s/vars/mine", "of its user");
    reader.run(&["get", "s/vars"]).ended_with(3, "is a folder");
    let there = ["s/vars/main", "s/vars/in/deep", "s/vars/mine"].map(|name| reader.read(name));
    assert_eq!(there, [&b"in it"[..], b"deeper", b"of its user"], "as the folder stays, all of it does");
    fs::remove_file(reader.path("s/vars/mine")).unwrap();
    reader.gets("s/vars", "a file again");
}
