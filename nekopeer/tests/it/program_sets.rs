//! Sets (`share --set`), each command in a process of its own.

use std::os::{
    fd::AsRawFd as _,
    unix::fs::{MetadataExt as _, PermissionsExt as _},
};

use crate::program::*;

/// Files below `folder` and their bytes, and whether each is executable.
type Tree = BTreeMap<String, (Vec<u8>, bool)>;

fn tree(folder: &Path) -> Tree {
    let mut found = Tree::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(at).unwrap().map(Result::unwrap) {
            let (path, metadata) = (entry.path(), entry.metadata().unwrap());
            if metadata.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                found.insert(name, (fs::read(&path).unwrap(), metadata.permissions().mode() & 0o111 != 0));
            }
        }
    }
    found
}

/// Origin and reader, the folder `build` of the origin as version 1 of the set `app`, and the process that serves it.
fn shared() -> (Indexers, Home, Home, Running) {
    let (indexers, origin, reader) = two_homes();
    origin.write("build/bin/run", "#!/bin/sh\necho 1\n");
    fs::set_permissions(origin.path("build/bin/run"), fs::Permissions::from_mode(0o755)).unwrap();
    origin.write("build/data/large", bytes(1, 3 * MIB));
    origin.write("build/old", "old");
    let sharing = origin.share(&["--set", "build", "app"]);
    (indexers, origin, reader, sharing)
}

fn publish(origin: &Home, text: &str) {
    origin.write("build/bin/run", format!("#!/bin/sh\necho {text}\n"));
    origin.done(&["share", "--set", "build", "app"]);
}

fn one_file(ended: &crate::program::Ended) -> Value {
    serde_json::from_str(&ended.out[0]).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

#[test]
fn folder_comes_whole_and_only_what_changed_moves() {
    let (_indexers, origin, reader, _sharing) = shared();
    let done = reader.done(&["get", "app"]);
    assert_eq!(tree(&reader.path("app")), tree(&origin.path("build")), "{done:?}");
    let inode = || fs::metadata(reader.path("app/data/large")).unwrap().ino();
    let before = inode();

    fs::remove_file(origin.path("build/old")).unwrap();
    origin.write("build/new", "new");
    publish(&origin, "2");
    let moved = one_file(&reader.done(&["--json", "get", "app"]));
    assert_eq!(tree(&reader.path("app")), tree(&origin.path("build")));
    assert_eq!(inode(), before, "one file with another name");
    let moved = moved["bytes_moved"].as_u64().unwrap_or_else(|| panic!("{moved}"));
    assert!(moved < MIB as u64 / 2, "{moved}");

    // Shared as it is, it is the same version.
    let same = origin.done(&["share", "--set", "build", "app"]);
    assert!(same.out.iter().any(|line| line.contains("unchanged")), "{same:?}");
    let [of_reader, of_origin] =
        [&reader, &origin].map(|home| one_file(&home.done(&["--json", "status", "app"])));
    for (listed, path) in [(of_reader, reader.path("app")), (of_origin, origin.path("build"))] {
        let listed = &listed["files"][0];
        assert_eq!((&listed["set"], &listed["version"]), (&true.into(), &2.into()), "{listed}");
        assert_eq!(listed["path"], path.canonicalize().unwrap().to_str().unwrap());
    }
    let files = fs::read_dir(origin.path(".neko/sets")).unwrap().count();
    assert_eq!(files, 1, "that of the version before is gone");
}

#[test]
fn version_that_the_command_refuses_goes_as_a_whole_and_earlier_ones_come_back() {
    let (_indexers, origin, reader, _sharing) = shared();
    let first = tree(&origin.path("build"));
    let hook = r#"test -d "$NEKO_PATH" && ! grep -q bad "$NEKO_PATH/bin/run""#;
    let mut following = reader.start(&["follow", "app", "--keep", "3", "--exec", hook]);
    following.out_line("app is at version 1");
    origin.write("build/added", "2");
    publish(&origin, "2");
    following.out_line("app is at version 2");
    let second = tree(&origin.path("build"));
    assert_eq!(tree(&reader.path("app")), second);
    fs::remove_file(origin.path("build/data/large")).unwrap();
    publish(&origin, "bad");
    following.err_line("version 3 is refused, and version 2 is back");
    assert_eq!(tree(&reader.path("app")), second);
    publish(&origin, "4");
    following.out_line("app is at version 4");
    assert_eq!(tree(&reader.path("app")), tree(&origin.path("build")));
    reader.done(&["rollback", "app", "1"]);
    assert_eq!(tree(&reader.path("app")), first);
    let ended = following.interrupt();
    assert_eq!(ended.code, Some(0));
    let said = [ended.out, ended.err].concat().join("\n");
    assert!(!said.contains("cannot be asked"), "its origin is there: {said}");
}

#[test]
fn what_the_reader_made_of_it_is_not_replaced_unless_forced_and_the_rest_is_told_what_to_do() {
    let (_indexers, origin, reader, _sharing) = shared();
    reader.done(&["get", "app", "-o", "elsewhere"]);
    assert_eq!(tree(&reader.path("elsewhere")), tree(&origin.path("build")));
    reader.write("elsewhere/mine", "mine");
    publish(&origin, "2");
    let refused = reader.run(&["get", "app", "-o", "elsewhere"]);
    let is_told =
        |line: &String| line.contains("elsewhere/mine was changed or put there") && line.contains("--force");
    assert!(refused.code == Some(3) && refused.err.iter().any(is_told), "{refused:?}");
    assert_eq!(reader.read("elsewhere/bin/run"), b"#!/bin/sh\necho 1\n", "all of it is as it was");
    assert_eq!(reader.read("elsewhere/mine"), b"mine");
    reader.done(&["get", "app", "-o", "elsewhere", "--force"]);
    assert_eq!(tree(&reader.path("elsewhere")), tree(&origin.path("build")));

    for (words, why) in [
        (&["share", "--set", "build/old"][..], "is no folder"),
        (&["share", "--set", "build", "a", "b"], "--set takes one folder"),
        (&["share", "--set", "build", "../x"], "\"../x\" cannot be the name of a set"),
        (&["share", "--set", "nowhere"], "nowhere"),
        (&["share", "--set", ".neko"], "never shared"),
    ] {
        let refused = origin.run(words);
        assert_ne!(refused.code, Some(0), "{words:?}");
        let mut said = refused.err.iter().chain(&refused.out);
        assert!(said.any(|line| line.contains(why)), "{words:?}: {refused:?}");
    }
    fs::create_dir(origin.path("empty")).unwrap();
    let refused = origin.run(&["share", "--set", "empty"]);
    assert!(refused.err.iter().any(|line| line.contains("no files in it")), "{refused:?}");

    let refused = reader.run(&["get", "app", "-o", "-"]);
    assert!(refused.err.iter().any(|line| line.contains("app is a set, which is a folder")), "{refused:?}");

    // Deregistered, the folder is the reader's own.
    reader.done(&["deregister", "app"]);
    assert_eq!(reader.read("elsewhere/bin/run"), b"#!/bin/sh\necho 2\n");
    let left = fs::read_dir(reader.path(".neko/sets")).unwrap().count();
    assert_eq!(left, 0, "its file in the data folder is gone");
}

#[test]
fn files_of_a_copy_are_not_published_as_the_readers_own() {
    let (_indexers, _origin, reader, _sharing) = shared();
    reader.done(&["get", "app"]);
    reader.write("mine", "mine");
    let mut watching = reader.start_out(&["share", ".", "--watch"], "shared mine");
    watching.err_line("watching ");
    fs::write(reader.path("app/more"), "more").unwrap();
    reader.write("further", "further");
    watching.out_line("shared further");
    assert!(reader.done(&["share", "."]).out.iter().any(|line| line.contains("kept as a copy app")));
    assert_eq!(reader.names(), ["app", "further", "mine"]);
}

/// A reader that keeps its copy fresh does so with folders too.
#[test]
fn folder_that_was_replaced_also_by_news_stays_for_who_has_it_open_whatever_process_comes_next() {
    let (_indexers, origin, reader, _sharing) = shared();
    reader.done(&["get", "app"]);
    let open = fs::File::open(reader.path("app")).unwrap();
    let held = std::path::PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()));
    let before = tree(&held);
    publish(&origin, "2");
    reader.done(&["get", "app"]);
    reader.done(&["ls"]);
    let mut serving = reader.serve(&["--on-stale", "refetch"]);
    publish(&origin, "3");
    until(&mut serving, "the next version", || {
        fs::read(reader.path("app/bin/run")).is_ok_and(|now| now == b"#!/bin/sh\necho 3\n")
    });
    assert_eq!(tree(&held), before);
    assert_eq!(tree(&reader.path("app")), tree(&origin.path("build")));
}

#[test]
fn file_becomes_a_set_and_back_where_nobody_changed_the_copy() {
    let (_indexers, origin, reader, _sharing) = sharing("app", "a file");
    let next = |words: &[&str]| {
        origin.done(&["unshare", "app"]);
        origin.done(&[&["share"], words].concat());
    };
    let (set, file) = (["--set", "build", "app"], ["--name", "app", "build/one"]);
    origin.write("build/one", "1");
    reader.gets("app", "a file");
    next(&set);
    reader.done(&["get", "app"]);
    assert_eq!(tree(&reader.path("app")), tree(&origin.path("build")));
    next(&file);
    reader.gets("app", "1");
    let mut following = reader.start_out(&["follow", "app"], "app is at version");
    next(&set);
    let is_set = || fs::read(reader.path("app/one")).is_ok_and(|bytes| bytes == b"1");
    until(&mut following, "the set", is_set);
    next(&file);
    until(&mut following, "the file", || fs::read(reader.path("app")).is_ok_and(|bytes| bytes == b"1"));
    following.interrupt();
    let left = |folder: &str| fs::read_dir(reader.path(".neko").join(folder)).map_or(0, Iterator::count);
    assert_eq!((left("sets"), left("trees")), (0, 0), "nothing of the set is left");
    // What the user changed stays.
    reader.write("app", "mine");
    next(&set);
    reader
        .run(&["get", "app"])
        .failed_with(3, &["app is no folder", "move it away; or replace it with --force"]);
    assert_eq!(reader.read("app"), b"mine");
    reader.done(&["get", "app", "--force"]);
    assert_eq!(tree(&reader.path("app")), tree(&origin.path("build")));
    reader.write("app/two", "mine");
    next(&file);
    reader.run(&["get", "app"]).failed_with(3, &["app is a folder", "move it away"]);
    assert_eq!(reader.read("app/two"), b"mine");
}
