//! One key, one running node: a second process with the key of one that answers ends at once, one with the key of a process
//! that was killed or does not answer goes on in its place, and what is listed is what runs.

use crate::program::*;

fn cloned(from: &Home, indexers: &Indexers) -> Home {
    let copy = Home::at(indexers, 0);
    for file in ["peer.key", "catalogue.redb"] {
        let path = copy.write(&format!(".neko/{file}"), from.read(&format!(".neko/{file}")));
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    }
    copy
}

fn is_refused(running: Running) {
    let ended = running.wait_within(Duration::from_secs(30)).unwrap();
    assert_eq!(ended.code, Some(3), "{ended:?}");
    let is_said = |line: &String| {
        line.starts_with("error: this key has been running at 127.0.0.1:")
            && line.ends_with(" s: stop one of the two")
    };
    assert!(ended.err.iter().any(is_said), "{ended:?}");
}

/// What comes slowly is under way when the key is refused.
#[test]
fn download_with_a_key_that_runs_prints_one_object_and_the_cause() {
    let (indexers, origin, reader) = two_homes();
    origin.write("f", bytes(1, 32 * MIB));
    let _sharing = origin.share(&["f", "--limit-up", "1MB"]);
    let _serving = reader.serve(&[]);
    let copy = cloned(&reader, &indexers);
    let ended = copy.start(&["--json", "get", "f"]).wait();
    let [object] = &ended.out[..] else { panic!("{ended:?}") };
    let message = serde_json::from_str::<Value>(object).unwrap()["error"]["message"].clone();
    assert!(message.as_str().unwrap().starts_with("this key has been running at "), "{ended:?}");
    assert_eq!(ended.code, Some(3));
}

#[test]
fn second_node_with_a_key_that_runs_is_refused_and_changes_nothing() {
    let (indexers, from, to, first) = sharing("a", "first");
    let copy = cloned(&from, &indexers);
    copy.write("a", "by the copy");
    is_refused(copy.start(&["serve"]));
    is_refused(copy.start(&["share", "a"]));
    to.gets("a", b"first");
    let published = from.share_anew("a", "second");
    assert!(published.out[0].contains("version 2"), "{published:?}");
    drop(first.interrupt());
    let mut second = copy.share(&["a"]);
    second.err_line("registered 1 file");
    to.done(&["get", "a"]);
    assert_eq!(to.read("a"), b"by the copy", "above what was published meanwhile");
}

#[test]
fn node_that_was_killed_or_stopped_gives_way_and_is_refused_when_it_goes_on() {
    let (indexers, from, to, killed) = sharing("a", "first");
    killed.kill();
    let stopped = from.share(&["a"]);
    let copy = cloned(&from, &indexers);
    copy.write("a", "by the copy");
    stopped.signal("STOP");
    let _second = copy.share(&["a"]);
    to.gets("a", b"by the copy");
    stopped.signal("CONT");
    is_refused(stopped);
}
