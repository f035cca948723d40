//! `wish`: what a reader wants of single names, each node in a process of its own.

use serde_json::Value;

use crate::program::{Home, two_homes, until};

fn status(reader: &Home, name: &str) -> Value {
    reader.done(&["status", name, "--json"]).json()["files"][0].clone()
}

#[test]
fn names_have_wishes_of_their_own_which_outlive_the_process_and_count_for_outdated_copies_too() {
    let (_indexers, origin, reader) = two_homes();
    let publish = |text: &str| {
        origin.write("a", text);
        origin.write("b", text);
        origin.done(&["share", "a", "b"]);
    };
    origin.write("a", "one");
    origin.write("b", "one");
    let _sharing = origin.share(&["a", "b"]);
    let mut serving = reader.serve(&[]);
    reader.done(&["get", "a", "b"]);
    assert_eq!(reader.done(&["wish", "a"]).out, ["wanted of a: what is wanted of all"]);
    reader.done(&["wish", "a", "--when-stale", "refetch"]);
    publish("two");
    until(&mut serving, "a is refetched", || reader.read("a") == b"two");
    until(&mut serving, "b is stale", || status(&reader, "b")["condition"] == "stale");
    assert_eq!(reader.read("b"), b"one");
    reader.done(&["wish", "b", "--when-stale", "refetch"]);
    until(&mut serving, "b is refetched", || reader.read("b") == b"two");

    reader.done(&["stop"]);
    serving.wait();
    let mut serving = reader.serve(&[]);
    publish("three");
    until(&mut serving, "a is refetched again", || reader.read("a") == b"three");
    reader.done(&["wish", "a", "--when-stale", "drop"]);
    publish("four");
    until(&mut serving, "a is dropped", || !reader.path("a").exists());
}

#[test]
fn bound_of_a_name_is_the_stricter_one_and_can_be_taken_back() {
    let (_indexers, origin, reader) = two_homes();
    origin.write("a", "one");
    let _sharing = origin.share(&["a"]);
    let mut serving = reader.serve(&[]);
    reader.done(&["get", "a"]);
    let mut fresh_for = |secs: u64| {
        until(&mut serving, "the bound counts", || {
            let file = status(&reader, "a");
            let at = |key| file[key].as_u64();
            at("fresh_until_ms")
                .zip(at("confirmed_ms"))
                .is_some_and(|(end, begin)| end - begin == secs * 1000)
        });
    };
    fresh_for(60);
    let wish = reader.done(&["wish", "a", "--bound", "7", "--json"]).json();
    assert_eq!(wish, serde_json::json!({ "name": "a", "wish": { "bound_secs": 7 } }));
    fresh_for(7);
    let said = reader.done(&["status", "a"]).out.join("\n");
    assert!(said.contains("wanted here: fresh for 7 s at most"), "{said}");
    reader.done(&["wish", "a", "--bound", "600"]);
    fresh_for(60);
    reader.done(&["wish", "a", "--none"]);
    assert_eq!(status(&reader, "a").get("bound_secs"), None);
    for wrong in
        [&["wish", "a", "--bound", "0"][..], &["wish", "a", "--when-stale", "burn"], &["wish", "../a"]]
    {
        assert_eq!(reader.run(wrong).code, Some(2), "{wrong:?}");
    }
}
