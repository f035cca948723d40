//! Errors of the program: one clear line, the right exit code, no damage.

use std::{
    ffi::OsString,
    io::pipe,
    net::TcpListener,
    os::unix::{ffi::OsStringExt, fs::MetadataExt},
};

use nekoproto::{Purpose, Refusal};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::{
    common::{Goods, Holder, indexer},
    program::*,
};

const BOUNDED: Duration = Duration::from_secs(20);
const NOBODY: &str = "127.0.0.1:1";

const WRONG: &[(&[&str], &str)] = &[
    (&["query", "a", "--colour"], "--colour"),
    (&["fetch", "a"], "fetch"),
    (&["get"], "<NAME>"),
    (&["share"], "<PATH>"),
    (&["get", "/etc/passwd"], "/etc/passwd"),
    (&["get", "../x"], "../x"),
    (&["get", "a\\b"], "backslash"),
    (&["get", "a", "b", "-o", "x"], "single file"),
    (&["get", "a", "b", "--version", "1"], "--version is of one name"),
    (&["get", "a", "--version", "1", "-o", "x"], "--version is of one name"),
    (&["query", "two\nlines"], "control characters"),
    (&["query", "a", "--ttl", "17"], "17"),
    (&["query", "a", "--ttl", "255"], "255"),
    (&["search", ""], "empty"),
    (&["search"], "glob"),
    (&["search", "[a"], "[a"),
    (&["search", "a", "--newer-than", "soon"], "2026-11-01"),
    (&["search", "a", "--min-size", "much"], "64MiB"),
    (&["search", "a", "--limit", "0"], "1..=10000"),
    (&["search", "a", "--after", "nowhere"], "no place"),
    (&["search", "a", "--origin", "me"], "hexadecimal"),
    (&["search", "a", "--ttl", "17"], "17"),
    (&["follow", "f", "--exec-timeout", "3"], "--exec"),
    (&["ls", "--indexer", "nowhere"], "nowhere"),
    (&["--network", "", "ls"], "a network needs a name"),
    (&["share", "-"], "--name"),
    (&["share", "a", "--force"], "stdin"),
    (&["share", "-", "--name", "a", "--watch"], "not stdin"),
    (&["share", "-", "--name", "a", "--hidden"], "not stdin"),
    (&["share", "-", "--name", "a", "--exclude", "*.tmp"], "not stdin"),
    (&["share", "a", "--strict", "--serve-stale"], "--strict"),
    (&["get", "a", "--origin", "xyz"], "xyz"),
    (&["ls", "--ttr", "0"], "--ttr"),
    (&["ls", "--limit-up", "0"], "--limit-up"),
    (&["ls", "--limit-down", "fast"], "--limit-down"),
    (&["share", "a", "--serve-stale", "--no-serve-stale"], "--no-serve-stale"),
    (&["unshare"], "<NAME>"),
];

#[test]
fn trace_without_an_answer_says_nothing_of_who_shares() {
    let traced = Home::with(&["--indexer", "127.0.0.1:1"]).run(&["trace", "f"]);
    traced.failed_with(3, &["no indexer answered: who shares f is not known"]);
}

/// Before an indexer is looked for, and one is started.
#[test]
fn paths_that_cannot_be_are_told_first_and_leave_nothing_behind() {
    let home = Home::with(&["--discover", "127.0.0.1:0", "--no-discovery"]);
    home.run(&["share", "missing"]).failed_with(3, &["cannot read", "missing: No such file"]);
    let each = ["missing: No such file", "gone: No such file"];
    home.run(&["share", "missing", "a", "gone"]).failed_with(3, &each);
    let (dir, script) = (home.text(""), "mkdir gone && cd gone && rmdir ../gone && exec \"$@\"");
    for words in [["share", "f", "g"], ["get", "f", "-og"]] {
        let words = [&["--dir", dir.as_str()], &words[..]].concat();
        let inside = Running::start(home.command_by("sh", &["-c", script, "sh"], &words));
        inside.wait().failed_with(3, &["the current folder is gone", "change to another"]);
    }
    home.run(&["get", "f", "-o", "none/f"]).failed_with(3, &["none is no folder: make it"]);
    assert!(!home.path(".neko").exists());
}

#[test]
fn wrong_usage_ends_with_2_and_names_what_is_wrong() {
    let home = Home::with(&["--indexer", NOBODY]);
    let long = "x/".repeat(1000) + "x";
    let too_long: (&[&str], &str) = (&["query", &long], "1024 bytes");
    for (words, part) in WRONG.iter().copied().chain([too_long]) {
        let ended = home.run(words);
        ended.ended_with(2, part);
        assert!(ended.out.is_empty(), "{words:?}: {ended:?}");
    }
    assert!(!home.path(".neko").exists(), "no data folder was created");
}

#[test]
fn share_that_publishes_nothing_names_the_missing_file_once_and_ends_although_the_folder_has_files() {
    let (_indexers, home) = one_home();
    home.write("a.txt", "a\n");
    assert_eq!(home.publish(&["a.txt"]).code, Some(0));
    let ended = home.run(&["share", "missing.bin"]);
    ended.ended_with(3, "missing.bin");
    assert_eq!(ended.err.concat().matches("No such file").count(), 1, "{ended:?}");
    home.run(&["share", "nothing", "--watch"]).ended_with(3, "cannot read");
}

#[test]
fn indexer_that_is_not_there_is_named_soon_and_one_that_is_stopped_is_told_from_a_machine_that_is_off() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap(); // connections are taken, and nobody answers
    let stopped = silent.local_addr().unwrap().to_string();
    for (addr, why) in [(NOBODY, "cannot be asked: "), (&stopped, "takes connections and does not answer")] {
        let home = Home::with(&["--indexer", addr]);
        let started = Instant::now();
        let asking = ["query", "search", "get"].map(|command| {
            home.start(&[command, "a.bin", "--data-dir", command]) // concurrently
        });
        for (running, why) in asking.into_iter().zip([why, "", ""]) {
            running.wait().failed_with(3, &[addr, why]);
        }
        assert!(started.elapsed() < BOUNDED, "it took {:?}", started.elapsed());
    }
}

/// `nekopeer WORDS` in this home, whose files cannot be larger than `kib` KiB, as on a full disk; 0: they can at first.
fn on_small_disk(home: &Home, words: &[&str], kib: usize) -> Running {
    let limit = if kib > 0 { format!("ulimit -f {kib};") } else { String::new() };
    let script = format!("trap '' XFSZ; {limit} exec \"$@\"");
    Running::start(home.command_by("bash", &["-c", &script, "bash"], words))
}

/// No file of `running` grows beyond `max` bytes from now on; `None` ends that.
fn limit(running: &Running, max: Option<u64>) {
    prlimit(Pid::from_raw(running.id()), Resource::Fsize, Rlimit { current: max, maximum: None }).unwrap();
}

#[test]
fn full_disk_is_said_leaves_the_older_copy_as_it_was_and_a_later_download_moves_only_the_rest() {
    let (_indexers, origin, reader) = two_homes();
    let first = bytes(11, MIB);
    let _sharing = origin.share_file("a.bin", &first);
    reader.done(&["get", "a.bin"]);
    let size = 12 * MIB;
    origin.share_anew("a.bin", bytes(10, size));
    // Both connections keep pace, so that something is written before one of them meets the end; in the order of the file, as
    // it is served to nobody.
    let get = ["get", "a.bin", "--seed", "0", "--limit-down", "20MB"];
    let full = on_small_disk(&reader, &get, 8 * 1024).wait();
    full.failed_with(3, &["no space", "a.bin", "remove", ".neko/parts/"]);
    assert!(reader.read("a.bin") == first, "the old version still stands");
    let kept: u64 = reader.partials().iter().map(|partial| partial.blocks() * 512).sum();
    assert!(kept > 0, "how much depends on which connection meets the end first");

    let got = reader.done(&["get", "a.bin", "--json"]).json();
    let moved = got["bytes_moved"].as_u64().unwrap();
    // One chunk per connection may have been written in part.
    let (size, some) = (size as u64, 4 * 128 * 1024);
    assert!((size..size + some).contains(&(kept + moved)), "{moved} of {size}, {kept} were kept");
    assert!(same(&origin.path("a.bin"), &reader.path("a.bin")));
}

#[test]
fn running_peer_downloads_publishes_and_follows_once_there_is_space_again() {
    let (_indexers, origin, reader) = two_homes();
    let _sharing = origin.share_files([("small", "small\n"), ("f", "1\n")], &["small", "f"]);
    let mut serving = on_small_disk(&reader, &["--on-stale", "refetch", "serve"], 0);
    serving.err_line("serving");
    reader.done(&["get", "f"]);
    reader.write("own", "own\n");

    limit(&serving, Some(4096));
    for _ in 0..3 {
        reader.run(&["get", "small"]).failed_with(3, &["no space is left to write"]);
        reader.run(&["share", "own"]).ended_with(3, "no space is left to write");
    }
    let piped = fs::File::open(reader.write("large", bytes(1, 100_000))).unwrap();
    let piped = reader.command(["share", "-", "--name", "piped"]).stdin(piped).output().unwrap();
    let said = String::from_utf8(piped.stderr).unwrap();
    assert!(said.contains("no space is left to write") && !said.contains(".neko/parts"), "{said}");
    assert!(reader.done(&["ls"]).out.concat().contains('f'));
    origin.share_anew("f", "22\n");
    serving.err_line("f: no space is left to write"); // the new version cannot be stored yet

    limit(&serving, None);
    reader.gets("small", b"small\n");
    reader.done(&["share", "own"]);
    origin.done(&["query", "own"]);
    serving.err_line("refreshed f to version 2");
    assert_eq!(reader.read("f"), b"22\n");
}

#[test]
fn without_any_indexer_one_is_started_that_others_can_use() {
    let home = Home::with(&["--discover", "127.0.0.1:0"]);
    let mut sharing = home.share_file("a.txt", "a\n");
    let told = sharing.err_line("started one at ");
    assert!(told.contains("no indexer found: "), "{told}");
    let addr = told.split("--indexer ").nth(1).unwrap();
    let reader = Home::with(&["--indexer", addr]);
    reader.gets("a.txt", b"a\n");
    // Another peer finds and uses that indexer.
    let found = Home::with(&["--discover", addr]).done(&["query", "a.txt"]);
    assert!(found.err.is_empty(), "{found:?}");
}

#[test]
fn reading_without_any_indexer_says_what_to_do_and_starts_none() {
    let home = Home::with(&["--discover", "127.0.0.1:0"]);
    let asks = ["get a", "get a -o -", "search a", "search *", "query a", "query a b", "trace a"];
    for line in asks {
        let ended = home.run(&line.split(' ').collect::<Vec<_>>());
        ended.failed_with(3, &["error: no indexer found; ", "--indexer", "ticket", "nekoindexer"]);
    }
    home.run(&["get", "a", "b"]).ended_with(3, "a cannot be looked for: no indexer found; ");
    let error = json!({ "kind": "away", "message": "no indexer found", "remedy": "indexer" });
    assert_eq!(home.run(&["get", "a", "--json"]).json()["error"], error);
    assert!(!home.path(".neko/indexer.key").exists(), "an indexer was started");
}

#[test]
fn what_takes_connections_and_closes_them_is_told_from_a_machine_that_is_off() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let indexer = listener.local_addr().unwrap().to_string();
    thread::spawn(move || listener.incoming().for_each(drop));
    let home = Home::with(&["--indexer", &indexer]);
    home.run(&["query", "a"]).failed_with(3, &[&indexer, "has too many connections, or is no nekop2p node"]);
}

#[test]
fn stdin_that_cannot_be_read_is_told_as_that_by_a_running_peer_too() {
    let (_indexers, home) = one_home();
    let _serving = home.serve(&[]);
    let folder = File::open(home.path("")).unwrap();
    let stored = home.command(["share", "-", "--name", "d"]).stdin(folder).output().unwrap();
    let said = String::from_utf8(stored.stderr).unwrap();
    assert!(stored.status.code() == Some(3) && said.contains("stdin cannot be read to its end"), "{said}");
    assert!(home.names().is_empty());
}

#[test]
fn advice_names_no_setting_that_the_command_lacks() {
    let (_indexers, origin, reader, _sharing) = sharing("f", "one");
    reader.write("f/own", "mine");
    let followed = reader.run(&["follow", "f"]);
    assert!(followed.code == Some(3) && !followed.err.join(" ").contains("-o "), "{followed:?}");
    fs::remove_dir_all(reader.path("f")).unwrap();
    let mut following = reader.start_out(&["follow", "f", "--keep", "1"], "f is at version 1");
    origin.share_anew("f", "two");
    following.out_line("f is at version 2");
    reader.write("f", "mine");
    let back = reader.run(&["rollback", "f"]);
    assert!(back.code == Some(3) && !back.err.join(" ").contains("--force"), "{back:?}");
}

/// As on a machine that starts, or has no network now.
#[test]
fn indexer_whose_host_cannot_be_looked_up_is_waited_for_and_others_are_used() {
    let (indexers, reader) = one_home();
    let unknown = "nowhere.invalid:7707";
    let home = Home::with(&["--indexer", unknown]);
    home.done(&["ls"]);
    for words in [&["get", "a"][..], &["search", "a"], &["query", "a"]] {
        home.run(words).failed_with(3, &["cannot look up nowhere.invalid:7707", "check the name"]);
    }
    let mut serving = home.serve(&[]);
    serving.err_line("no known address is away, trying again: cannot look up nowhere.invalid:7707");
    assert!(serving.is_running());
    let both = Home::with(&["--indexer", &format!("{unknown},{}", indexers.addr(0))]);
    let _sharing = both.share_file("a", "a");
    reader.gets("a", "a");
}

#[test]
fn failure_with_json_is_an_object_with_its_kind() {
    let (_indexers, home) = one_home();
    let cases: [(&[&str], i32, &str); 8] = [
        (&["get", "nothing"], 1, "not-found"),
        (&["wait", "nothing", "--timeout", "1"], 3, "failed"),
        (&["deregister", "nothing"], 1, "not-found"),
        (&["ticket", "nothing"], 1, "not-found"),
        (&["stop"], 1, "not-found"),
        (&["cancel", "nothing"], 1, "not-found"),
        (&["get", "a", "--background"], 2, "invalid"),
        (&["get", "a", "-o", "-"], 2, "invalid"),
    ];
    for (words, code, kind) in cases {
        let ended = home.run(&[words, &["--json"]].concat());
        let error = &ended.json()["error"];
        assert!(ended.code == Some(code) && error["kind"] == kind, "{words:?}: {ended:?}");
        let said = format!("error: {}", error["message"].as_str().unwrap());
        assert!(ended.err.contains(&said), "{words:?}: {ended:?}");
    }
}

#[test]
fn stdout_that_nobody_reads_ends_a_command_quietly_and_one_that_takes_nothing_with_an_error() {
    let (_indexers, _origin, reader, _sharing) = sharing("a.txt", "a\n");
    reader.done(&["get", "a.txt"]);
    let run = |words: &[&str], stdout: Stdio| {
        let mut command = reader.command(words);
        command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped());
        Running::start_with(command).wait()
    };
    let unread: [&[&str]; 11] = [
        &["--help"],
        &["--print-config"],
        &["completions", "bash"],
        &["id"],
        &["ls"],
        &["ls", "--json"],
        &["status"],
        &["query", "a.txt"],
        &["get", "a.txt"],
        &["get", "a.txt", "-o", "-"],
        &["search", "a*", "--json"],
    ];
    for words in unread {
        let (reading, writing) = pipe().unwrap();
        drop(reading);
        let ended = run(words, writing.into());
        let quiet = if words == ["--help"] { 0 } else { 141 };
        assert!(ended.code == Some(quiet) && ended.err.is_empty(), "{words:?}: {ended:?}");
    }
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let ended = run(&["get", "a.txt", "-o", "-"], full.try_clone().unwrap().into());
    ended.failed_with(3, &["a.txt: cannot write to stdout: No space left"]);
    for words in [&["ls"][..], &["ls", "--json"], &["query", "a.txt"], &["id"], &["status", "a.txt"]] {
        let ended = run(words, full.try_clone().unwrap().into());
        ended.failed_with(3, &["error: cannot write to stdout: No space left"]);
    }
}

#[test]
fn every_name_of_other_programs_is_shared_and_shown_so_that_it_misleads_nobody() {
    let (_indexers, origin, reader) = two_homes();
    let names = [
        ("Screenshot 9.22.20\u{202f}PM.png", "f/Screenshot 9.22.20\\u{202f}PM.png"),
        ("a\u{a0}b", "f/a\\u{a0}b"),
        ("\u{2764}\u{fe0f}.txt", "f/\u{2764}\u{fe0f}.txt"),
        ("\u{1f469}\u{200d}\u{1f4bb}.md", "f/\u{1f469}\u{200d}\u{1f4bb}.md"),
        ("\u{645}\u{6cc}\u{200c}\u{62e}", "f/\u{645}\u{6cc}\u{200c}\u{62e}"),
        ("photo-\u{202e}gpj.exe", "f/photo-\\u{202e}gpj.exe"),
        ("two\u{2028}lines", "f/two\\u{2028}lines"),
        ("zero\u{200b}width", "f/zero\\u{200b}width"),
        ("trail ", "f/trail\\u{20}"),
        ("U\u{308}bung", "f/U\u{308}bung"),
        ("\u{dc}bung", "f/\\u{dc}bung"),
    ];
    names.iter().for_each(|(name, _)| drop(origin.write(&format!("f/{name}"), name)));
    let _sharing = origin.share(&["f"]);
    reader.done(&["get", "f/*"]);
    for (name, _) in names {
        assert_eq!(reader.read(&format!("f/{name}")), name.as_bytes());
    }
    let (listed, shared) = (reader.done(&["ls"]), origin.done(&["share", "f"]));
    for (_, shown) in names {
        let line = format!("unchanged {shown} version 1, ");
        assert!(shared.out.iter().any(|shared| shared.starts_with(&line)), "{shown}: {shared:?}");
        assert_eq!(
            listed.out.iter().filter(|line| line.starts_with(shown)).count(),
            1,
            "{shown}: {listed:?}"
        );
    }
    for word in ["ubung", "\u{dc}BUNG"] {
        let found = reader.done(&["search", word]);
        assert_eq!(found.out.iter().filter(|line| line.contains("bung")).count(), 2, "{found:?}");
    }
}

#[test]
fn folder_with_impossible_names_is_shared_without_them_and_each_is_named_once() {
    let (_indexers, origin, reader) = two_homes();
    let names =
        [("back\\slash.txt", "backslash"), ("\x1b]0;owned\x07", "f/\\u{1b}]0;owned\\u{7} cannot be shared")];
    names.iter().for_each(|(name, _)| drop(origin.write(&format!("f/{name}"), "bad\n")));
    origin.write("f/good.txt", "good\n");
    fs::write(origin.path("f").join(OsString::from_vec(b"latin-\xe9.txt".to_vec())), "bad\n").unwrap();
    let mut sharing = origin.share(&["f", "f"]);
    sharing.err_line("UTF-8");
    reader.done(&["get", "f/good.txt"]);
    sharing.signal("TERM");
    let ended = sharing.wait();
    assert_eq!(ended.code, Some(3), "{ended:?}");
    let mut said = ended.err.concat();
    for (name, why) in names {
        let count = ended.err.iter().filter(|line| line.contains(why)).count();
        assert_eq!(count, 1, "{name:?}: {ended:?}");
        let refused = reader.run(&["get", &format!("f/{name}")]);
        assert_ne!(refused.code, Some(0), "{name:?}: {refused:?}");
        let stored = origin.run(&["share", "-", "--name", &format!("new/{name}")]);
        assert!(stored.code != Some(0) && !origin.path("new").exists(), "{name:?}: {stored:?}");
        said.extend(refused.err.into_iter().chain(stored.err));
    }
    assert!(!said.contains('\x1b'), "a terminal obeys it: {said:?}");
    // Those that are named by themselves are all told at once.
    let bad = [origin.write("f/one\\.txt", "bad"), origin.write("f/two\\.txt", "bad")];
    let words = ["share", "f/good.txt", bad[0].to_str().unwrap(), bad[1].to_str().unwrap()];
    let ended = origin.run(&words);
    let error =
        ended.err.iter().find(|line| line.starts_with("error: ")).unwrap_or_else(|| panic!("{ended:?}"));
    let told = |name: &str| error.contains(&format!("{name} cannot be shared"));
    assert!(ended.code == Some(3) && told("one\\.txt") && told("two\\.txt"), "{ended:?}");
}

/// Whatever name a stranger gives a file, and whatever place the user.
#[test]
fn nothing_is_received_into_the_data_folder() {
    let (_indexers, origin, reader) = two_homes();
    let (token, list) = ("state/http.token", "state/indexers.json");
    origin.write(token, "a stranger's");
    origin.write(list, "large ".repeat(1 << 20));
    let _sharing = origin.share(&["state"]);
    let id = reader.done(&["id"]).out;
    let refused = |args: &[&str]| {
        let ended = reader.run(args);
        assert!(ended.code != Some(0) && ended.err.join("").contains("data folder"), "{args:?}: {ended:?}");
    };
    for names in [&[token][..], &[list], &[token, list]] {
        refused(&[&["--data-dir", &reader.text("state"), "get"], names].concat());
    }
    assert!(!reader.path(token).exists() && !reader.path(list).exists());
    refused(&["get", token, "-o", &reader.text(".neko/peer.key"), "--force"]);
    assert_eq!(reader.done(&["id"]).out, id);
}

#[testkit::test(multi_thread)]
async fn news_on_a_full_disk_is_never_acknowledged() {
    let indexer = indexer(&[]).await;
    let home = Home::with(&["--indexer", &indexer.local_addr().to_string()]);
    let goods = |version| Goods::new(1, "a", version, format!("version {version}").into_bytes());
    let origin = goods(1).held(1, indexer.local_addr()).await;
    home.done(&["get", "a"]);
    home.write("own", "mine");
    let mut sharing = on_small_disk(&home, &["share", "own"], 0);
    let addr = sharing.serves_at();
    limit(&sharing, Some(4096));
    for _ in 0..3 {
        assert_eq!(origin.tell(addr, [goods(2).record.to_signed()]).await, Err(Refusal::Busy));
    }
}

/// Goal: who opens data streams and asks for nothing keeps no reader out. Method: more of them than the program may have
/// descriptors.
#[testkit::test(multi_thread)]
async fn idle_data_streams_keep_no_reader_out() {
    let indexer = indexer(&[]).await;
    let addr = indexer.local_addr().to_string();
    let (home, reader) = (Home::with(&["--indexer", &addr]), Home::with(&["--indexer", &addr]));
    home.write("own", "mine");
    let few = ["-c", "ulimit -n 256; exec \"$@\"", "bash"];
    let mut sharing = Running::start(home.command_by("bash", &few, &["share", "own"]));
    let (addr, greedy, mut idle) = (sharing.serves_at(), Holder::idle(66), Vec::new());
    for _ in 0..400 {
        idle.push(greedy.endpoint.dial(addr, Purpose::Data, None).await.unwrap());
    }
    reader.gets("own", b"mine");
    drop(idle);
}
