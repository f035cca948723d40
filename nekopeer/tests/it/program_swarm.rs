//! `get` without a running peer: uploads large files to other readers while it downloads them, and gives up dead sources.

use crate::program::*;

/// A file that is served during its download, which its origin, at 5 MB/s, makes last for some seconds.
const BYTES: usize = 24 * 1024 * 1024;

fn holders(asking: &Home) -> usize {
    asking.done(&["--json", "query", "big"]).json()["hits"][0]["holders"].as_array().unwrap().len()
}

/// Goal: whoever gets a large file is a source of it for the others who do, while it downloads and as long as these do.
/// Method: the second one begins when the first is listed, and is fetched from.
#[test]
fn who_gets_a_large_file_serves_it_to_those_who_do_too() {
    let (indexers, origin) = one_home();
    let content = bytes(1, BYTES);
    let mut sharing = origin.share_files([("big", &content)], &["big", "--limit-up", "5MB"]);
    let [first, second, asking] = [0; 3].map(|place| Home::at(&indexers, place));
    let mut getting = first.start(&["--json", "get", "big"]);
    until(&mut getting, "a second holder", || holders(&asking) == 2);
    let got = second.done(&["--json", "get", "big"]).json();
    let id = first.done(&["id"]).out.join("");
    let bytes_of_first =
        got["sources"].as_array().unwrap().iter().find(|source| source["node"] == id.as_str());
    assert!(bytes_of_first.is_some_and(|source| source["bytes"].as_u64() > Some(0)), "{got}");
    assert_eq!(getting.wait().code, Some(0));
    assert!(first.read("big") == content && second.read("big") == content);
    until(&mut sharing, "nobody but the origin", || holders(&asking) == 1);
}

/// Goal: who says so serves nobody. Method: it has far more than another would have when it is listed.
#[test]
fn who_seeds_for_no_time_is_no_source() {
    let (indexers, origin) = one_home();
    let _sharing = origin.share_files([("big", bytes(1, BYTES))], &["big", "--limit-up", "5MB"]);
    let [first, asking] = [0; 2].map(|place| Home::at(&indexers, place));
    let mut getting = first.start(&["get", "big", "--seed", "0"]);
    until(&mut getting, "a third of the file", || first.partial_len() > BYTES as u64 / 3);
    assert_eq!(holders(&asking), 1);
    assert_eq!(getting.wait().code, Some(0));
}

/// Goal: a folder whose only source is gone is given up as one, not file by file. Method: killed when the first of many is there.
#[test]
fn folder_whose_only_source_is_gone_is_given_up_soon() {
    const FILES: usize = 1200;
    let (_indexers, origin, reader) = two_homes();
    (0..FILES).for_each(|n| drop(origin.write(&format!("d/f{n}"), bytes(n as u64, 2000))));
    let sharing = origin.share(&["d"]);
    let mut getting = reader.start(&["get", "d/", "--limit-down", "300KB"]);
    until(&mut getting, "a file", || reader.path("d").exists());
    drop(sharing); // killed
    getting.wait().ended_with(3, "run it again to go on");
}

/// A source that lacks some files is there for the others, and says why.
#[test]
fn files_that_are_gone_at_their_source_are_told_as_such() {
    let (_indexers, origin, reader) = two_homes();
    (0..40).for_each(|n| drop(origin.write(&format!("d/f{n}"), bytes(n, 2000))));
    ["d/big", "d/large"].iter().zip(100..).for_each(|(name, n)| drop(origin.write(name, bytes(n, 300_000))));
    let _sharing = origin.share(&["d"]);
    ["d/f2", "d/f3", "d/big"].iter().for_each(|name| fs::remove_file(origin.path(name)).unwrap());
    let ended = reader.run(&["get", "d/"]);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    let said = ended.err.iter().filter(|line| line.contains("the holder cannot read the file")).count();
    assert_eq!(said, 3, "{ended:?}");
    assert!(reader.read("d/large") == bytes(101, 300_000) && reader.path("d/f39").exists());
}
