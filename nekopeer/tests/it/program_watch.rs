//! `share --watch`: files that are created, changed, replaced or removed, by programs that take their time.

use std::{io::Write, thread::sleep};

use crate::program::*;

/// Writes these files, and starts to watch with these words.
fn watch<const N: usize>(home: &Home, files: [(&str, &str); N], words: &[&str]) -> Running {
    home.write_all(files);
    home.start_err(&[&["share", "--watch"], words].concat(), "watching ")
}

fn listed(home: &Home) -> Vec<(String, u64, u64)> {
    let number = |file: &Value, key| file[key].as_u64().unwrap();
    let row = |(name, file): (String, &Value)| (name, number(file, "version"), number(file, "size"));
    home.names().into_iter().zip(&home.listed()).map(row).collect()
}

#[test]
fn created_changed_and_replaced_files_are_published_as_new_versions_that_others_get() {
    let (_indexers, origin, reader) = two_homes();
    let mut sharing = watch(&origin, [("d/a.txt", "first\n")], &["d", "--settle", "1"]);
    sharing.out_line("shared d/a.txt version 1");

    origin.write("d/a.txt", "second\n");
    sharing.out_line("shared d/a.txt version 2, 7 B");
    origin.write("d/new/deep/b.txt", "b\n");
    sharing.out_line("shared d/new/deep/b.txt version 1");
    // As editors do it.
    origin.write("d/.a.txt.swp", "third!\n");
    fs::rename(origin.path("d/.a.txt.swp"), origin.path("d/a.txt")).unwrap();
    sharing.out_line("shared d/a.txt version 3, 7 B");
    reader.done(&["get", "d/a.txt", "d/new/deep/b.txt"]);
    assert_eq!(reader.read("d/a.txt"), b"third!\n");

    // Neither data of this program, nor links, nor folders, nor what lies beside.
    origin.write("d/.neko-part-x", "partial");
    std::os::unix::fs::symlink(origin.path("d/a.txt"), origin.path("d/link")).unwrap();
    origin.write_all([("beside.txt", "beside"), ("d/last.txt", "last\n")]);
    sharing.out_line("shared d/last.txt version 1");
    assert_eq!(origin.names(), ["d/a.txt", "d/last.txt", "d/new/deep/b.txt"]);
    assert!(!sharing.said().contains("unshared"), "{}", sharing.said());
    // A folder in place of a file withdraws that, and what is in it is published.
    fs::remove_file(origin.path("d/last.txt")).unwrap();
    origin.write("d/last.txt/y", "in a folder");
    sharing.out_line("unshared d/last.txt: its file is gone");
    sharing.out_line("shared d/last.txt/y");
    assert_eq!(sharing.interrupt().code, Some(0));
}

#[test]
fn slow_writer_is_waited_for_and_only_the_complete_file_is_published() {
    let (_indexers, origin) = one_home();
    let mut sharing = watch(&origin, [("d/a.txt", "")], &["d"]);
    let mut file = fs::File::create(origin.path("d/slow.bin")).unwrap();
    for piece in 0..8 {
        file.write_all(&bytes(piece, 1000)).unwrap();
        sleep(Duration::from_millis(200)); // it is what the test is about
    }
    assert!(!sharing.said().contains("slow.bin"), "{}", sharing.said());
    drop(file);
    sharing.out_line("shared d/slow.bin version 1, 7.8 KiB");
    assert_eq!(listed(&origin)[1], ("d/slow.bin".to_owned(), 1, 8000));
    // One that only pauses has not ended, also before its first byte; a further name of a file is complete.
    let mut open = fs::File::create(origin.path("d/open.bin")).unwrap();
    sleep(Duration::from_secs(3)); // it is what the test is about
    open.write_all(b"abc").unwrap();
    sleep(Duration::from_secs(3));
    open.write_all(b"def").unwrap();
    fs::hard_link(origin.path("d/slow.bin"), origin.path("d/linked.bin")).unwrap();
    sharing.out_line("shared d/linked.bin version 1");
    assert!(!sharing.said().contains("open.bin"), "{}", sharing.said());
    drop(open);
    sharing.out_line("shared d/open.bin version 1, 6 B");
}

/// Its folder is not watched yet when it is opened, it is renamed, or another program touches it.
#[test]
fn file_that_is_open_is_waited_for_whatever_else_happens_to_it() {
    let (_indexers, origin) = one_home();
    let mut sharing = watch(&origin, [("d/a.txt", "")], &["d"]);
    let begin = |path: &str| {
        let mut open = fs::File::create(origin.path(path)).unwrap();
        open.write_all(b"half ").unwrap();
        open
    };
    fs::create_dir_all(origin.path("d/run/deep")).unwrap();
    let open = [begin("d/run/deep/new"), begin("part"), begin("d/touched")];
    fs::rename(origin.path("part"), origin.path("d/renamed")).unwrap();
    drop(fs::OpenOptions::new().append(true).open(origin.path("d/touched")).unwrap());
    // What is found in a new folder is shared after two seconds: this is found later than the first of them.
    origin.write("d/other/deep/z", "z\n");
    sharing.out_line("shared d/other/deep/z version 1");
    sleep(Duration::from_secs(3)); // it is what the test is about
    assert_eq!(origin.names(), ["d/a.txt", "d/other/deep/z"]);
    for (mut file, name) in open.into_iter().zip(["d/run/deep/new", "d/renamed", "d/touched"]) {
        file.write_all(b"whole").unwrap();
        drop(file);
        sharing.out_line(&format!("shared {name} version 1, 10 B"));
    }
}

/// A build removes a file and takes some seconds to make it anew; an editor moves it away and back.
#[test]
fn file_that_is_gone_for_a_while_is_not_withdrawn_and_becomes_one_version() {
    let (_indexers, origin, reader) = two_homes();
    let mut sharing = watch(&origin, [("d/a", "one"), ("d/sub/b", "b")], &["d"]);
    let _serving = reader.serve(&["--on-stale", "drop"]);
    reader.done(&["get", "d/a"]);
    let build = |content: &str| {
        fs::remove_file(origin.path("d/a")).unwrap();
        sleep(Duration::from_millis(1500)); // it is what the test is about
        origin.write("d/a", content);
    };
    build("two");
    sharing.out_line("shared d/a version 2");
    for path in ["d/a", "d/sub"] {
        fs::rename(origin.path(path), origin.path("away")).unwrap();
        sleep(Duration::from_millis(1500));
        fs::rename(origin.path("away"), origin.path(path)).unwrap();
    }
    build("three");
    sharing.out_line("shared d/a version 3");
    assert!(!sharing.said().contains("unshared"), "{}", sharing.said());
    assert_eq!(listed(&origin), [("d/a".to_owned(), 3, 5), ("d/sub/b".to_owned(), 1, 1)]);
    // By command it is withdrawn at once.
    origin.done(&["unshare", "d/a"]);
    assert_eq!(origin.names(), ["d/sub/b"]);
}

#[test]
fn set_waits_for_a_file_that_is_gone_for_a_while_and_for_one_that_is_open() {
    let (_indexers, origin, reader) = two_homes();
    let mut sharing = watch(&origin, [("d/a", "one"), ("d/b", "b")], &["--set", "d"]);
    fs::remove_file(origin.path("d/a")).unwrap();
    let mut open = fs::File::create(origin.path("d/b")).unwrap();
    open.write_all(b"bb").unwrap();
    sleep(Duration::from_secs(3)); // it is what the test is about
    origin.write("d/a", "two");
    sleep(Duration::from_secs(3));
    open.write_all(b"bb").unwrap();
    drop(open);
    sharing.out_line("shared d version 2");
    // What was never in it is not missed.
    origin.write("d/.swp", "three");
    fs::rename(origin.path("d/.swp"), origin.path("d/a")).unwrap();
    sharing.out_line("shared d version 3");
    reader.done(&["get", "d"]);
    assert_eq!((reader.read("d/a"), reader.read("d/b")), (b"three".to_vec(), b"bbbb".to_vec()));
}

#[test]
fn removed_file_is_withdrawn_and_published_again_when_it_is_back() {
    let (_indexers, origin, reader) = two_homes();
    let mut sharing =
        watch(&origin, [("d/a.txt", "a\n"), ("d/sub/b.txt", "b\n")], &["d", "--json", "--settle", "0"]);
    let first: Value = serde_json::from_str(&sharing.out_line("files")).unwrap();
    assert_eq!(first["files"].as_array().unwrap().len(), 2, "{first}");

    let event = |line: String| serde_json::from_str::<Value>(&line).unwrap();
    fs::remove_file(origin.path("d/a.txt")).unwrap();
    let withdrawn = event(sharing.out_line("unshared"));
    assert_eq!((&withdrawn["event"], &withdrawn["name"]), (&"unshared".into(), &"d/a.txt".into()));
    reader.run(&["get", "d/a.txt"]).failed_with(1, &["d/a.txt was unshared by its origin", "as version 2"]);
    origin.write("d/a.txt", "again\n");
    let published = event(sharing.out_line(r#""version":3"#));
    assert_eq!(published["event"], "shared");
    assert_eq!((&published["name"], &published["version"]), (&"d/a.txt".into(), &3.into()), "{published}");
    assert!(published["ticket"].as_str().unwrap().starts_with("neko:"), "{published}");
    // A folder that leaves takes its files with it.
    fs::rename(origin.path("d/sub"), origin.path("elsewhere")).unwrap();
    sharing.out_line(r#""name":"d/sub/b.txt"}"#);
    assert_eq!(listed(&origin), [("d/a.txt".to_owned(), 3, 6)]);
}

#[test]
fn folder_that_vanishes_is_told_withdraws_nothing_and_goes_on_with_what_is_there_when_it_is_back() {
    let (_indexers, origin, reader) = two_homes();
    let mut sharing =
        watch(&origin, [("d/a.txt", "a\n"), ("d/b.txt", "b\n"), ("d/c", "c")], &["d", "--settle", "1"]);
    fs::rename(origin.path("d"), origin.path("away")).unwrap();
    sharing.err_line("/d is gone: nothing in it is unshared");
    // As an empty mount point would stand there.
    fs::create_dir(origin.path("d")).unwrap();
    origin.write("away/a.txt", "changed\n");
    sleep(Duration::from_secs(3)); // two looks
    assert_eq!(listed(&origin).len(), 3);
    fs::remove_dir(origin.path("d")).unwrap();
    fs::rename(origin.path("away"), origin.path("d")).unwrap();
    sharing.err_line("/d is back, and is watched again");
    sharing.out_line("shared d/a.txt version 2, 8 B");
    origin.write("d/b.txt", "changed too\n");
    sharing.out_line("shared d/b.txt version 2, 12 B");
    assert!(!sharing.said().contains("unshared d/"), "{}", sharing.said());
    reader.done(&["get", "d/a.txt"]);
    // A file that it lacks when it is back, or made anew, is gone like any other.
    fs::rename(origin.path("d"), origin.path("away")).unwrap();
    sharing.err_line("/d is gone");
    fs::remove_file(origin.path("away/a.txt")).unwrap();
    fs::rename(origin.path("away"), origin.path("d")).unwrap();
    sharing.out_line("unshared d/a.txt: its file is gone");
    fs::rename(origin.path("d"), origin.path("away")).unwrap();
    sharing.err_line("/d is gone");
    origin.write("new/c", "c");
    fs::rename(origin.path("new"), origin.path("d")).unwrap();
    sharing.out_line("unshared d/b.txt: its file is gone");
    assert_eq!(listed(&origin).iter().map(|(name, ..)| name).collect::<Vec<_>>(), ["d/c"]);
}

const MOUNT: &str = "mount -t tmpfs none d/m && echo 1 > d/m/1 && echo 2 > d/m/2";

fn watch_with_mount(home: &Home, words: &[&str]) -> Running {
    let script = format!(r#"{MOUNT} && exec "$@""#);
    let mounting = ["-rm", "sh", "-c", &script, "sh"];
    let words = [&["share", "--watch"], words].concat();
    let mut sharing = Running::start(home.command_by("unshare", &mounting, &words));
    sharing.err_line("watching ");
    sharing
}

fn there(sharing: &Running, home: &Home, script: &str) {
    let (mut command, id) = (Command::new("nsenter"), sharing.id().to_string());
    command.args(["-U", "-m", "--preserve-credentials", "-t", &id, "sh", "-c"]);
    command.arg(format!("cd {} && {script}", home.text("")));
    assert!(command.status().unwrap().success(), "{script}");
}

#[test]
fn set_waits_for_a_disk_that_is_unmounted_below_its_folder() {
    let (_indexers, origin, reader) = two_homes();
    origin.write_all([("d/a", "one"), ("d/m/under", "")]);
    let mut sharing = watch_with_mount(&origin, &["--set", "d"]);
    sharing.out_line("shared d version 1");
    there(&sharing, &origin, "umount d/m");
    origin.write("d/a", "two");
    sharing.err_line("is not mounted any more");
    there(&sharing, &origin, MOUNT);
    origin.write("d/a", "three");
    sharing.out_line("shared d version 2");
    reader.done(&["get", "d"]);
    assert_eq!((reader.read("d/a"), reader.read("d/m/1")), (b"three".to_vec(), b"1\n".to_vec()));
}

/// A file system that is unmounted inside the watched folder takes no file with it, nor does another one in its place; a file
/// that is removed from it is gone.
#[test]
fn disk_that_is_unmounted_below_the_folder_withdraws_nothing() {
    let (_indexers, origin) = one_home();
    origin.write_each(&["d/a", "d/s/1", "d/t/1", "d/m/under"]);
    let mut sharing = watch_with_mount(&origin, &["d", "--settle", "0"]);
    there(&sharing, &origin, "rm d/m/2");
    sharing.out_line("unshared d/m/2");
    there(&sharing, &origin, "umount d/m");
    // A rescan finds each folder that leaves, and all else that is missing. The next disk there has the same number.
    for (folder, disk) in [("s", "true"), ("t", "mount -t tmpfs tmpfs d/m")] {
        there(&sharing, &origin, disk);
        fs::rename(origin.path(&format!("d/{folder}")), origin.path(folder)).unwrap();
        sharing.out_line(&format!("unshared d/{folder}/1"));
    }
    assert!(!sharing.said().contains("unshared d/m/1"), "{}", sharing.said());
}

#[test]
fn burst_of_files_is_published_completely() {
    let (_indexers, origin) = one_home();
    fs::create_dir(origin.path("d")).unwrap();
    let mut sharing = watch(&origin, [], &["d"]);
    for n in 0..200 {
        origin.write(&format!("d/{}/{n}", n % 7), format!("{n}\n"));
    }
    for n in 0..200 {
        sharing.out_line(&format!("shared d/{}/{n} version 1", n % 7));
    }
    let listed = listed(&origin);
    assert!(listed.len() == 200 && listed.iter().all(|(_, version, _)| *version == 1), "each once");
}

#[test]
fn running_peer_watches_for_another_command_which_takes_over_when_it_ends() {
    let (_indexers, origin, reader) = two_homes();
    origin.write("d/a.txt", "1");
    let serving = origin.serve(&[]);
    let mut watching = origin.start_err(&["share", "d", "--watch"], "served by process ");
    watching.err_line("watching ");
    origin.write("d/a.txt", "22");
    watching.out_line("shared d/a.txt version 2, 2 B");
    assert!(origin.done(&["jobs"]).out.iter().any(|line| line.contains("watch")), "it is a job");
    assert_eq!(serving.interrupt().code, Some(0));
    watching.err_line("serving on ");
    until(&mut watching, "it watches again", || listed(&origin).len() == 1);
    origin.write("d/a.txt", "333");
    watching.out_line("shared d/a.txt version 3, 3 B");
    reader.done(&["get", "d/a.txt"]);
    assert_eq!(watching.interrupt().code, Some(0));
}

#[test]
fn copies_that_are_replaced_stay_copies() {
    let (_indexers, origin, reader) = two_homes();
    let mut theirs = watch(&origin, [("a.txt", "one\n")], &["a.txt"]);
    reader.done(&["get", "a.txt"]);
    let mut ours = watch(&reader, [("own.txt", "own\n")], &[".", "--on-stale", "refetch"]);
    origin.write("a.txt", "two\n");
    theirs.out_line("shared a.txt version 2");
    ours.err_line("refreshed a.txt to version 2");
    reader.write("own.txt", "changed\n");
    ours.out_line("shared own.txt version 2");
    assert!(!ours.said().contains("shared a.txt"), "{}", ours.said());
    // A copy that is changed here is told, once.
    reader.write("a.txt", "mine\n");
    ours.err_line("error: a.txt");
}

/// As a build does that begins at once.
#[test]
fn file_of_a_set_that_is_away_for_moments_when_the_watch_begins_is_waited_for() {
    let (_indexers, origin, reader) = two_homes();
    let words = ["--set", "d", "app", "--settle", "60"];
    let mut sharing = watch(&origin, [("d/a", "one"), ("d/b", "one")], &words);
    fs::remove_file(origin.path("d/a")).unwrap();
    origin.write("d/b", "two");
    sleep(Duration::from_secs(1)); // longer than what is quiet waits
    origin.write("d/a", "two");
    sharing.out_line("shared app version 2");
    reader.done(&["get", "app"]);
    assert_eq!((reader.read("app/a"), reader.read("app/b")), (b"two".to_vec(), b"two".to_vec()));
}

#[test]
fn folder_that_is_watched_as_a_set_becomes_one_version_with_each_change() {
    let (_indexers, origin, reader) = two_homes();
    let mut sharing =
        watch(&origin, [("d/a", "one"), ("d/sub/b", "one")], &["--set", "d", "app", "--settle", "1"]);
    let mut following = reader.start_out(&["follow", "app"], "app is at version 1");
    let changes: [&dyn Fn(); 5] = [
        &|| drop(origin.write("d/a", "two")),
        &|| {
            origin.write_all([("d/new/deep/c", "new"), ("d/new/e", "new")]);
        },
        &|| fs::remove_file(origin.path("d/sub/b")).unwrap(),
        &|| fs::rename(origin.path("d/new"), origin.path("d/old")).unwrap(),
        &|| fs::set_permissions(origin.path("d/a"), fs::Permissions::from_mode(0o755)).unwrap(),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        change();
        sharing.out_line(&format!("shared app version {}", number + 2));
        following.out_line(&format!("app is at version {}", number + 2));
    }
    assert_eq!((reader.read("app/a"), reader.read("app/old/deep/c")), (b"two".to_vec(), b"new".to_vec()));
    assert!(!reader.path("app/new").exists() && !reader.path("app/sub/b").exists());
    assert_ne!(fs::metadata(reader.path("app/a")).unwrap().permissions().mode() & 0o111, 0);

    // Gone, nothing is lost; back, it goes on.
    fs::rename(origin.path("d"), origin.path("away")).unwrap();
    sharing.err_line("/d is gone");
    fs::write(origin.path("away/a"), "three").unwrap();
    fs::rename(origin.path("away"), origin.path("d")).unwrap();
    following.out_line("app is at version 7");
    assert_eq!(reader.read("app/a"), b"three");
    assert!(origin.done(&["share", "--set", "d", "app"]).out[0].starts_with("unchanged app version 7"));
}
