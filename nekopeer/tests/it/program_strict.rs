//! `share --strict`: nobody reads a copy unless its origin confirms it for this read.

use crate::{common::http::Http, program::two_homes};

/// Under `pull` with a bound of ten minutes nothing but the question of the read can tell of a new version.
#[test]
fn each_read_of_a_strict_file_is_confirmed_by_its_origin_or_refused() {
    let (_indexers, origin, reader) = two_homes();
    let terms = ["--policy", "pull", "--ttr", "600", "--strict"];
    origin.write("a", "one");
    let sharing = origin.start_err(&[&["share", "a"][..], &terms].concat(), "serving on ");
    let (_serving, door) = Http::serving(&reader, &[]);
    reader.done(&["get", "a"]);
    assert_eq!(reader.status("a")["staleness"], "strict");
    assert!(reader.done(&["ls"]).out.iter().any(|line| line.contains("pull, strict")));
    let one = door.get("/f/a");
    assert_eq!((one.status, one.text()), (200, "one"));
    assert_eq!(one.header("cache-control"), "max-age=0, must-revalidate");
    assert_eq!(one.header("x-neko-freshness"), "fresh");

    origin.share_anew("a", "two");
    let two = door.get("/f/a");
    assert_eq!((two.status, two.text()), (200, "two"));
    reader.gets("a", b"two");

    sharing.signal("STOP");
    door.get("/f/a").refused(504, "the policy of a is strict");
    reader.run(&["get", "a"]).failed_with(3, &["the policy of a is strict, and its origin does not confirm"]);
    reader.run(&["get", "a", "-o", "-"]).failed_with(3, &["strict"]);
    sharing.signal("CONT");
    assert_eq!(&door.get("/f/a").body[..], b"two");
    reader.done(&["get", "a"]);

    // Gone, it is asked for in vain too: nobody lists the file any more.
    let sharing = {
        sharing.kill();
        door.get("/f/a").refused(504, "the policy of a is strict");
        reader.run(&["get", "a"]).failed_with(3, &["the policy of a is strict"]);
        origin.share(&["a"])
    };
    reader.done(&["get", "a"]);

    // Another word takes its place, and is kept as long.
    origin.done(&["share", "a", "--serve-stale"]);
    reader.done(&["get", "a"]);
    sharing.signal("STOP");
    assert_eq!(&door.get("/f/a").body[..], b"two");
    sharing.signal("CONT");
}
