//! Errors of the program: one clear line, the right exit code, no damage.

use std::{
    fs,
    io::pipe,
    net::{SocketAddr, TcpListener},
    os::unix::ffi::OsStringExt,
    os::unix::fs::MetadataExt,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use nekoproto::{Purpose, Records, Refusal};

use crate::{
    common::{Goods, Holder, holder::patient, identity, indexer},
    program::{FreeAddr, Home, Indexers, MIB, Running, bytes, one_home, same, two_homes},
};

/// Time limit of a command against an indexer that does not answer.
const BOUNDED: Duration = Duration::from_secs(20);

/// An address where nothing listens.
const NOBODY: &str = "127.0.0.1:1";

#[test]
fn wrong_usage_ends_with_2_and_names_what_is_wrong() {
    let home = Home::with(&["--indexer", NOBODY]);
    let long = "x/".repeat(1000) + "x";
    let cases: [(&[&str], &str); 14] = [
        (&["query", "a", "--colour"], "--colour"),
        (&["fetch", "a"], "fetch"),
        (&["get"], "<NAME>"),
        (&["share"], "<PATH>"),
        (&["get", "/etc/passwd"], "/etc/passwd"),
        (&["get", "../x"], "../x"),
        (&["get", "a\\b"], "backslash"),
        (&["query", &long], "1024 bytes"),
        (&["query", "two\nlines"], "control characters"),
        (&["search", ""], "empty"),
        (&["query", "a", "--ttl", "17"], "17"),
        (&["query", "a", "--ttl", "255"], "255"),
        (&["ls", "--indexer", "nowhere"], "nowhere"),
        (&["share", "a", "--force"], "stdin"),
    ];
    for (words, part) in cases {
        let ended = home.run(words);
        assert_eq!(ended.code, Some(2), "{words:?}: {ended:?}");
        assert!(ended.out.is_empty() && ended.err.join("\n").contains(part), "{words:?}: {ended:?}");
    }
    assert!(!home.path(".neko").exists(), "no data folder was created");
}

#[test]
fn missing_file_to_share_is_named_once() {
    let (_indexers, home) = one_home();
    let ended = home.run(&["share", "missing.bin"]);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    let line = ended.err.iter().find(|line| line.starts_with("error: ")).unwrap();
    assert!(line.contains("missing.bin"), "{line}");
    assert_eq!(line.matches("No such file").count(), 1, "{line}");
}

#[test]
fn share_that_publishes_nothing_ends_although_the_folder_has_files() {
    let (_indexers, home) = one_home();
    home.write("a.txt", "a\n");
    let sharing = home.share(&["a.txt"]);
    sharing.signal("INT");
    assert_eq!(sharing.wait().code, Some(0));
    let ended = home.run(&["share", "missing.txt"]);
    assert_eq!(ended.code, Some(3), "{ended:?}");
}

#[test]
fn indexer_that_is_not_there_is_named_soon() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap(); // accepts connections, never replies
    for addr in [NOBODY.to_owned(), silent.local_addr().unwrap().to_string()] {
        let home = Home::with(&["--indexer", &addr]);
        let started = Instant::now();
        let asking = ["query", "search", "get"].map(|command| {
            home.start(&[command, "a.bin", "--data-dir", command]) // concurrently
        });
        for running in asking {
            running.wait().failed_with(3, &[&addr]);
        }
        assert!(started.elapsed() < BOUNDED, "it took {:?}", started.elapsed());
    }
}

#[test]
fn share_with_its_indexer_away_serves_and_registers_when_it_comes() {
    let free = FreeAddr::reserve();
    let addr = free.addr;
    let home = Home::with(&["--indexer", &addr.to_string()]);
    home.write("a.txt", "a\n");
    let mut sharing = home.start(&["share", "a.txt"]);
    assert!(sharing.err_line("is away").contains(&addr.to_string()));
    sharing.err_line("serving on ");
    drop(free);
    let indexers = Indexers::at(addr);
    sharing.err_line(&format!("registered 1 file with {addr}"));
    let reader = Home::at(&indexers, 0);
    reader.done(&["get", "a.txt"]);
    assert_eq!(reader.read("a.txt"), b"a\n");
}

#[test]
fn folder_that_is_given_twice_fails_once() {
    let (_indexers, home) = one_home();
    home.write("a/good", "a");
    home.write("a/back\\slash", "a");
    let sharing = home.share(&["a", "a"]);
    sharing.signal("INT");
    let ended = sharing.wait();
    assert_eq!(ended.err.iter().filter(|line| line.contains("backslash")).count(), 1, "{ended:?}");
}

#[test]
fn stdout_that_takes_nothing_is_named() {
    let (_indexers, origin, reader) = two_homes();
    origin.write("a.bin", bytes(13, 4 * MIB));
    let _sharing = origin.share(&["a.bin"]);
    let mut command = reader.command(["get", "a.bin", "-o", "-"]);
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    command.stdin(Stdio::null()).stdout(full).stderr(Stdio::piped());
    Running::start_with(command).wait().failed_with(3, &["a.bin: cannot write to stdout: No space left"]);
}

/// Runs `get NAME` with a file size limit of `mib` MiB, as on a full disk.
fn get_on_full_disk(home: &Home, indexer: &str, name: &str, mib: usize) -> crate::program::Ended {
    let script = format!("trap '' XFSZ; ulimit -f {}; exec \"$@\"", mib * 1024);
    let mut command = Command::new("bash");
    let program = env!("CARGO_BIN_EXE_nekopeer");
    command.args(["-c", &script, "bash", program, "--indexer", indexer, "get", name]);
    // Both connections keep pace, so that most of what fits is written before one of them meets the end.
    command.args(["--limit-down", "20MB"]);
    home.settle(&mut command);
    Running::start(command).wait()
}

#[test]
fn full_disk_is_said_and_a_later_download_moves_only_the_rest() {
    let (indexers, origin, reader) = two_homes();
    let size = 24 * MIB;
    let source = origin.write("a.bin", bytes(10, size));
    let _sharing = origin.share(&["a.bin"]);

    get_on_full_disk(&reader, &indexers.addr(0), "a.bin", 12).failed_with(3, &["no space", "a.bin"]);
    assert!(!reader.path("a.bin").exists());
    let partial = std::fs::read_dir(reader.path("")).unwrap().map(|entry| entry.unwrap());
    let partial = partial.filter(|entry| entry.file_name().to_string_lossy().starts_with(".neko-part-"));
    let kept: u64 = partial.map(|entry| entry.metadata().unwrap().blocks() * 512).sum();
    assert!(kept > 2 * MIB as u64, "{kept} bytes were kept");

    let got = reader.done(&["get", "a.bin", "--json"]).json();
    let moved = got["bytes_moved"].as_u64().unwrap();
    // One chunk per connection may have been written in part.
    let rest = size as u64 - kept;
    assert!(
        (rest..rest + 4 * 128 * 1024).contains(&moved),
        "{moved} of {size} bytes moved, {kept} were kept"
    );
    assert!(same(&source, &reader.path("a.bin")));
}

#[test]
fn full_disk_leaves_the_older_copy_as_it_was() {
    let (indexers, origin, reader) = two_homes();
    let first = bytes(11, 4 * MIB);
    origin.write("a.bin", &first);
    let sharing = origin.share(&["a.bin"]);
    reader.done(&["get", "a.bin"]);
    drop(sharing);
    let second = origin.write("a.bin", bytes(12, 24 * MIB));
    let _sharing = origin.share(&["a.bin"]);

    get_on_full_disk(&reader, &indexers.addr(0), "a.bin", 12).failed_with(3, &["no space"]);
    assert!(reader.read("a.bin") == first, "the old version still stands");
    reader.done(&["get", "a.bin"]);
    assert!(same(&second, &reader.path("a.bin")));
}

#[test]
fn file_of_the_users_own_is_not_replaced_unasked() {
    let (_indexers, origin, reader) = two_homes();
    origin.write("a.txt", "theirs");
    let _sharing = origin.share(&["a.txt"]);
    reader.write("a.txt", "mine!!");
    reader.run(&["get", "a.txt"]).failed_with(3, &["a.txt", "--force"]);
    assert_eq!(reader.read("a.txt"), b"mine!!");
    reader.done(&["get", "a.txt", "--force"]);
    assert_eq!(reader.read("a.txt"), b"theirs");
}

#[test]
fn without_any_indexer_one_is_started_that_others_can_use() {
    let home = Home::with(&["--discover", "127.0.0.1:0"]);
    home.write("a.txt", "a\n");
    let mut sharing = home.share(&["a.txt"]);
    let told = sharing.err_line("started one at ");
    assert!(told.contains("no indexer given and none found"), "{told}");
    let addr = told.split("--indexer ").nth(1).unwrap().trim_end_matches(')');
    let reader = Home::with(&["--indexer", addr]);
    reader.done(&["get", "a.txt"]);
    assert_eq!(reader.read("a.txt"), b"a\n");
    // Another peer finds and uses that indexer.
    let finder = Home::with(&["--discover", addr]);
    let found = finder.done(&["query", "a.txt"]);
    assert!(found.err.is_empty(), "{found:?}");
}

#[test]
fn stdout_that_nobody_reads_is_no_reason_to_panic() {
    let (_indexers, origin, reader) = two_homes();
    origin.write("a.txt", "a\n");
    let _sharing = origin.share(&["a.txt"]);
    reader.done(&["get", "a.txt"]);
    for words in
        [&["--help"][..], &["ls"], &["ls", "--json"], &["status"], &["query", "a.txt"], &["get", "a.txt"]]
    {
        let (unread, stdout) = pipe().unwrap();
        drop(unread);
        let mut command = reader.command(words);
        command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped());
        let ended = Running::start_with(command).wait();
        assert!(matches!(ended.code, Some(0 | 3)), "{words:?}: {ended:?}");
        assert!(ended.err.len() <= 1 && !ended.err.concat().contains("panicked"), "{words:?}: {ended:?}");
    }
}

#[test]
fn folder_with_one_impossible_name_is_shared_without_it() {
    let (_indexers, origin, reader) = two_homes();
    origin.write("f/good.txt", "good\n");
    origin.write("f/back\\slash.txt", "bad\n");
    let no_text = std::ffi::OsString::from_vec(b"latin-\xe9.txt".to_vec());
    fs::write(origin.path("f").join(no_text), "bad\n").unwrap();
    let mut sharing = origin.share(&["f"]);
    assert!(sharing.err_line("error: ").contains("f/"));
    assert!(sharing.err_line("back\\slash.txt").contains("backslash"));
    assert!(sharing.err_line("latin-").contains("UTF-8"));
    reader.done(&["get", "f/good.txt"]);
    sharing.signal("TERM");
    assert_eq!(sharing.wait().code, Some(3));
}

#[test]
fn terminated_share_withdraws_its_files_and_ends_well() {
    let (_indexers, origin, reader) = two_homes();
    origin.write("a.txt", "a\n");
    for signal in ["TERM", "INT"] {
        let sharing = origin.share(&["a.txt"]);
        reader.done(&["query", "a.txt"]);
        sharing.signal(signal);
        let ended = sharing.wait();
        assert_eq!(ended.code, Some(0), "{signal}: {ended:?}");
        reader.run(&["query", "a.txt"]).failed_with(1, &["nobody offers a.txt"]);
    }
}

/// Whatever name a stranger gives a file, and whatever place the user.
#[test]
fn nothing_is_received_into_the_data_folder() {
    let (_indexers, origin, reader) = two_homes();
    let content = ["a stranger's".to_owned(), "large ".repeat(1 << 20)];
    for (name, content) in ["state/http.token", "state/indexers.json"].iter().zip(&content) {
        origin.write(name, content);
    }
    let _sharing = origin.share(&["state"]);
    let id = reader.done(&["id"]).out;
    let refused = |args: &[&str], what: &str| {
        let ended = reader.run(args);
        assert!(ended.code != Some(0) && ended.err.join("").contains("data folder"), "{what}: {ended:?}");
    };
    let data_dir = reader.path("state").display().to_string();
    let inside = |args: &[&'static str]| {
        let mut all = vec!["--data-dir", &*data_dir];
        all.extend(args);
        refused(&all, "by its name");
    };
    inside(&["get", "state/http.token"]);
    inside(&["get", "state/indexers.json"]);
    inside(&["get", "state/http.token", "state/indexers.json"]);
    assert!(!reader.path("state/http.token").exists() && !reader.path("state/indexers.json").exists());
    let key = reader.path(".neko/peer.key").display().to_string();
    refused(&["get", "state/http.token", "-o", &key, "--force"], "by its place");
    assert_eq!(reader.done(&["id"]).out, id);
}

/// What cannot be stored is not acknowledged, however often it is told.
#[testkit::test(multi_thread)]
async fn news_on_a_full_disk_is_never_acknowledged() {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};

    let indexer = indexer(&[]).await;
    let home = Home::with(&["--indexer", &indexer.local_addr().to_string()]);
    let goods = |version| Goods::new(&identity(1), "a", version, format!("version {version}").into_bytes());
    let script = goods(1);
    let origin = Holder::begin(identity(1), move |request| script.honest(request));
    origin.register(indexer.local_addr(), [goods(1).record.to_signed()]).await;
    home.done(&["get", "a"]);
    home.write("own", "mine");
    let mut command = Command::new("bash");
    let indexer = indexer.local_addr().to_string();
    let program = env!("CARGO_BIN_EXE_nekopeer");
    command.args(["-c", "trap '' XFSZ; exec \"$@\"", "bash", program, "--indexer", &indexer, "share", "own"]);
    home.settle(&mut command);
    let mut sharing = Running::start(command);
    let line = sharing.err_line("serving on ");
    let addr = line.split_whitespace().find_map(|word| word.trim_end_matches(',').parse().ok());
    let client = origin.call(addr.unwrap_or_else(|| panic!("{line}"))).await;
    let full = Rlimit { current: Some(4096), maximum: Some(4096) };
    prlimit(Pid::from_raw(sharing.id()), Resource::Fsize, full).unwrap();
    for _ in 0..3 {
        let news = Records::first_of([goods(2).record.to_signed()]);
        let answer = client.invalidate(patient(), news).await.unwrap();
        assert_eq!(answer, Err(Refusal::Busy));
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
    let mut command = Command::new("bash");
    let program = env!("CARGO_BIN_EXE_nekopeer");
    command.args(["-c", "ulimit -n 256; exec \"$@\"", "bash", program, "--indexer", &addr, "share", "own"]);
    home.settle(&mut command);
    let mut sharing = Running::start(command);
    let line = sharing.err_line("serving on ");
    let addr = line.split_whitespace().find_map(|word| word.trim_end_matches(',').parse().ok());
    let addr: SocketAddr = addr.unwrap_or_else(|| panic!("{line}"));
    let greedy = Holder::idle(identity(66));
    let mut idle = Vec::new();
    for _ in 0..400 {
        idle.push(greedy.endpoint.dial(addr, Purpose::Data, None).await.unwrap());
    }
    reader.done(&["get", "own"]);
    assert_eq!(reader.read("own"), b"mine");
    drop(idle);
}

#[test]
fn name_that_looks_like_another_is_no_new_one() {
    let (_indexers, home) = one_home();
    for (name, why) in [
        ("trail ", "no blank at the beginning or the end"),
        ("ok\u{fe0f}.txt", "U+FE0F"),
        ("a\u{a0}b", "U+00A0"),
    ] {
        home.write(name, "x");
        let mut refused = home.start(&["share", name]);
        refused.err_line(why);
        refused.signal("INT");
        refused.wait();
        let mut stored = home.start(&["share", "-", "--name", &format!("new/{name}")]);
        stored.close_input();
        stored.err_line(why);
        stored.signal("INT");
        stored.wait();
        assert!(!home.path("new").exists());
    }
}
