//! `--bound` and `--when-stale` of `get` and `follow`: how copies of single names are kept coherent, each node in a process
//! of its own.

use crate::{program::*, tickets::ticket_of};

#[test]
fn outdated_copies_are_treated_by_name_as_was_said_also_by_a_later_process() {
    let (_indexers, origin, reader) = two_homes();
    let publish = |text: &str| {
        origin.write("a", text);
        origin.write("b", text);
        origin.done(&["share", "a", "b"]);
    };
    let _sharing = origin.share_files([("a", "one"), ("b", "one")], &["a", "b"]);
    let mut serving = reader.serve(&[]);
    reader.done(&["get", "a", "b"]);
    assert_eq!(reader.status("a").get("on_stale"), None);
    reader.done(&["get", "a", "--when-stale", "refetch"]);
    publish("two");
    until(&mut serving, "a is refetched", || reader.read("a") == b"two");
    until(&mut serving, "b is stale", || reader.status("b")["freshness"] == "stale");
    assert_eq!(reader.read("b"), b"one");
    reader.done(&["get", "b", "--when-stale", "refetch"]);
    assert_eq!(reader.read("b"), b"two");

    reader.done(&["stop"]);
    serving.wait();
    let mut serving = reader.serve(&[]);
    publish("three");
    for name in ["a", "b"] {
        until(&mut serving, "it is refetched again", || reader.read(name) == b"three");
    }
    let following = reader.start_out(&["follow", "a", "--when-stale", "drop"], "a is at version 3");
    assert_eq!(following.interrupt().code, Some(0));
    assert_eq!(reader.status("a")["on_stale"], "drop");
    publish("four");
    until(&mut serving, "a is dropped", || !reader.path("a").exists());
    until(&mut serving, "b is not", || reader.read("b") == b"four");
}

#[test]
fn bound_of_a_name_is_the_stricter_one_and_can_be_taken_back() {
    let (_indexers, origin, reader) = two_homes();
    let mut sharing = origin.share_files([("d/a", "one"), ("d/b", "one")], &["d"]);
    let ticket = ticket_of(&mut sharing);
    let mut serving = reader.serve(&[]);
    reader.done(&["get", "d/"]);
    let mut fresh_for = |name: &str, secs: u64| {
        until(&mut serving, "the bound counts", || {
            let file = reader.status(name);
            let at = |key| file[key].as_u64();
            at("fresh_until_ms")
                .zip(at("confirmed_ms"))
                .is_some_and(|(end, begin)| end - begin == secs * 1000)
        });
    };
    fresh_for("d/a", 60);
    let asked: [&[&str]; 4] = [&["d/a", "d/b"], &["d/"], &["d/*"], &[&ticket]];
    for (words, secs) in asked.into_iter().zip([10, 9, 8, 7]) {
        reader.done(&[&["get", "--bound", &secs.to_string()], words].concat());
        fresh_for("d/a", secs);
        fresh_for("d/b", secs);
    }
    assert_eq!(reader.status("d/a")["bound_secs"], 7);
    let said = reader.done(&["status", "d/a"]).out.join("\n");
    assert!(said.contains("wanted here: fresh for 7 s at most"), "{said}");
    reader.done(&["get", "d/a", "--bound", "600"]);
    fresh_for("d/a", 60);
    reader.done(&["get", "d/a*", "--no-preference"]);
    assert_eq!(reader.status("d/a").get("bound_secs"), None);
    fresh_for("d/b", 7);
    for wrong in [
        &["get", "a", "--bound", "0"][..],
        &["get", "a", "--when-stale", "burn"],
        &["follow", "../a", "--bound", "5"],
        &["get", "a", "-o", "-", "--bound", "5"],
    ] {
        assert_eq!(reader.run(wrong).code, Some(2), "{wrong:?}");
    }
}
