//! Two shells on one data folder: commands beside a running peer, its end, and what breaks in between.

use std::os::unix::net::UnixStream;

use crate::program::*;

/// Bytes of a file that takes 3 s at [`SLOW`].
const BIG: usize = 12 * MIB;
const SLOW: [&str; 2] = ["--limit-down", "4MB"];

/// A reader's running download of a large file, of which more bytes have come than were there.
fn downloading(home: &Home, name: &str) -> Running {
    let before = home.partial_len();
    let mut getting = home.start(&["get", name, SLOW[0], SLOW[1]]);
    until(&mut getting, "more bytes came", || home.partial_len() > before + MIB as u64 / 2);
    getting
}

fn steady(home: &Home, ended: &Ended) -> (Option<i32>, Vec<String>) {
    let root = fs::canonicalize(home.path("")).unwrap().to_str().unwrap().to_owned();
    // A peer that lives longer remembers what origins confirmed; the columns are as wide as that.
    let line = |line: &String| {
        let line = line.split(" moved in ").next().unwrap().replace("unverified", "fresh").replace(&root, "");
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    (ended.code, ended.out.iter().map(line).collect())
}

#[test]
fn commands_beside_a_running_share_answer_as_they_would_alone() {
    let indexers = Indexers::one();
    let [origin, home, other] = [(); 3].map(|()| Home::at(&indexers, 0));
    (0..3).for_each(|n| drop(origin.write(&format!("{n}.txt"), format!("{n}\n"))));
    let _theirs = origin.share(&["0.txt", "1.txt", "2.txt"]);
    home.write("mine.txt", "mine\n");
    other.write("mine.txt", "mine\n");
    let mut sharing = home.share(&["mine.txt"]);
    other.publish(&["mine.txt"]);
    for words in [
        &["get", "0.txt"][..],
        &["get", "1.txt", "2.txt"],
        &["get", "0.txt", "nothing"],
        &["get", "nothing"],
        &["get", "mine.txt"],
        &["query", "0.txt", "nothing"],
        &["search", "nothing"],
        &["ls"],
        &["status"],
        &["deregister", "nothing"],
        &["get", "0.txt", "-o", "-"],
    ] {
        let (beside, alone) = (home.run(words), other.run(words));
        if words[0] == "query" {
            assert_eq!(beside.code, alone.code, "{words:?}: {beside:?} {alone:?}");
            continue; // the first one's copy is a hit for the second
        }
        assert_eq!(steady(&home, &beside), steady(&other, &alone), "{words:?}: {beside:?} {alone:?}");
        assert_eq!(beside.err.len(), alone.err.len(), "{words:?}: {beside:?} {alone:?}");
    }
    assert!(sharing.is_running());
    assert_eq!(home.read("1.txt"), b"1\n");
}

#[test]
fn share_beside_a_running_peer_publishes_and_returns_and_flags_that_it_does_not_follow_are_named() {
    let (_indexers, home, reader) = two_homes();
    let _sharing = home.share_files([("a.txt", "a\n"), ("b.txt", "b\n")], &["a.txt"]);
    let shared = home.done(&["share", "b.txt", "--policy", "push", "--lease", "5"]);
    assert_eq!(shared.out[..2], ["shared b.txt version 1, 2 B", "1 new, 0 unchanged, 2 B"]);
    assert!(shared.out.len() == 3 && shared.out[2].contains("nekopeer get neko:"), "{shared:?}");
    assert!(shared.err.iter().any(|line| line.starts_with("served by process ")), "{shared:?}");
    reader.done(&["get", "b.txt"]);
    // What was not said about the policy stays as it was.
    home.write("b.txt", "b again\n");
    home.done(&["register", "b.txt"]);
    let rows = home.done(&["ls"]).out;
    assert!(rows.iter().any(|row| row.starts_with("b.txt") && row.contains("push")), "{rows:?}");
    home.done(&["deregister", "b.txt"]);
    reader.run(&["query", "b.txt", "--ttl", "0"]).failed_with(1, &["nobody shares b.txt"]);
    home.run(&["share", "missing.txt"]).failed_with(3, &["missing.txt", "No such file"]);

    let shared = home.done(&["share", "a.txt", "--limit-up", "1MB", "--listen", "127.0.0.1:1", "--ttr", "9"]);
    let named: Vec<_> = shared.err.iter().filter(|line| line.starts_with("note: ")).collect();
    let [note] = named.as_slice() else { panic!("one note: {shared:?}") };
    assert!(note.contains("keeps its own --listen, --limit-up"), "{note}");
    home.run(&["query", "a.txt", "--insecure"]).failed_with(3, &["TLS", "--insecure", "nekopeer stop"]);
    for words in [&["query", "a.txt"][..], &["ls"], &["status"], &["deregister", "a.txt"], &["stop"]] {
        home.run(&[words, &["--insecure"]].concat()).failed_with(3, &["TLS", "--insecure"]);
        home.run(&[words, &["--network", "x"]].concat()).failed_with(3, &["network nekop2p", "--network x"]);
    }
    let listed = home.done(&["ls", "--listen", "127.0.0.1:1", "--limit-down", "1MB"]);
    assert!(listed.err[0].contains("keeps its own --listen, --limit-down"), "{listed:?}");
    assert!(listed.out.join("\n").contains("a.txt"), "{listed:?}");
}

#[test]
fn paths_are_those_of_the_callers_folder_and_then_of_the_share_folder() {
    let indexers = Indexers::one();
    let addr = indexers.addr(0);
    let home = Home::with(&[]);
    let (inside, both) = (("share/inside.txt", "inside\n"), ("share/outside.txt", "not this\n"));
    home.write_all([inside, both, ("elsewhere/outside.txt", "outside\n")]);
    let node = ["--indexer", &addr, "--dir", &home.text("share")];
    let _serving = home.start_err(&[&node[..], &["serve"]].concat(), "serving on ");
    let share = |paths: &[&str]| {
        let mut command = home.command([&node[..], &["share"], paths].concat());
        command.current_dir(home.path("elsewhere"));
        Running::start(command).wait()
    };
    share(&["nowhere"]).failed_with(3, &["elsewhere/nowhere: No such file"]);
    let shared = share(&["outside.txt", "inside.txt"]);
    assert_eq!(shared.code, Some(0), "{shared:?}");
    assert!(shared.out.join("\n").contains("2 new"), "{shared:?}");
    let reader = Home::at(&indexers, 0);
    fs::create_dir(reader.path("down")).unwrap();
    let _reading = reader.serve(&[]);
    let mut command = reader.command(["get", "outside.txt", "-o", "here.txt", "--dir", ".."]);
    command.current_dir(reader.path("down"));
    Running::start(command).wait().ended_with(0, "");
    assert_eq!(reader.read("down/here.txt"), b"outside\n");
}

#[test]
fn interrupted_download_in_the_running_peer_stops_and_goes_on_by_itself_when_that_is_killed() {
    let (_indexers, origin, reader) = two_homes();
    let _sharing = origin.share_file("big.bin", bytes(2, BIG));
    let serving = reader.serve(&SLOW);
    for signal in ["INT", "KILL"] {
        let getting = downloading(&reader, "big.bin");
        getting.signal(signal);
        let ended = getting.wait();
        if signal == "INT" {
            ended.failed_with(3, &["interrupted; what came so far is kept"]);
        } else {
            assert_eq!(ended.code, None);
        }
        assert!(!reader.path("big.bin").exists());
    }
    // Nothing is left of the interrupted ones that would refuse the next.
    let before = reader.partial_len();
    let mut getting = reader.start(&["get", "big.bin", "--json"]);
    until(&mut getting, "more bytes came", || reader.partial_len() > before + MIB as u64 / 4);
    until_interruptible(&mut getting); // the bytes may be the rest of what was killed
    let told = getting.interrupt();
    assert_eq!((told.code, &told.json()["error"]["kind"]), (Some(3), &"cancelled".into()), "{told:?}");
    let mut getting = reader.start(&["get", "big.bin", "--json"]);
    until(&mut getting, "more bytes came", || reader.partial_len() > before + MIB as u64 / 2);
    serving.kill();
    let ended = getting.wait();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let moved = ended.json()["bytes_moved"].as_u64().unwrap();
    assert!(0 < moved && moved < BIG as u64, "{moved} bytes moved");
    assert!(same(&origin.path("big.bin"), &reader.path("big.bin")) && reader.partials().is_empty());
    assert!(!reader.path(".neko/run/peer.sock").exists(), "the killed peer's is replaced");
}

#[test]
fn stop_ends_the_peer_and_says_when_there_is_none() {
    let (_indexers, home, reader) = two_homes();
    home.run(&["stop"]).failed_with(1, &["no peer runs on", ".neko"]);
    home.write("a.txt", "a\n");
    for words in [&["share", "a.txt"][..], &["serve"], &[]] {
        let mut running = home.start(words);
        if !words.is_empty() {
            running.err_line("serving on ");
        }
        running.err_line("registered 1 file");
        reader.done(&["query", "a.txt"]);
        let stopped = home.done(&["stop"]);
        assert!(stopped.out[0].starts_with("stopped the peer of "), "{stopped:?}");
        // It is gone: its files are withdrawn and its folder is free.
        reader.run(&["query", "a.txt"]).failed_with(1, &["nobody shares a.txt"]);
        assert_eq!(running.wait_with_input_open().code, Some(0), "{words:?}");
        assert!(!home.path(".neko/run/peer.sock").exists());
        home.run(&["stop"]).failed_with(1, &["no peer runs on"]);
    }
    for signal in ["KILL", "TERM", "INT"] {
        let mut serving = home.serve(&[]);
        serving.err_line("registered 1 file");
        reader.done(&["query", "a.txt"]);
        home.run(&["serve"]).failed_with(3, &["a peer already runs on", ".neko", "process "]);
        serving.signal(signal);
        let code = serving.wait().code;
        assert_eq!(code, (signal != "KILL").then_some(0), "{signal}");
        if code == Some(0) {
            reader.run(&["query", "a.txt"]).failed_with(1, &["nobody shares a.txt"]);
        }
    }
    // After the kill its socket stood there; nobody minded.
    home.done(&["ls"]);
}

#[test]
fn stopped_peer_is_waited_for_and_ctrl_c_ends_the_waiting() {
    let (_indexers, home) = one_home();
    let sharing = home.share_file("a.txt", "a\n");
    let mut attached = home.start(&[]);
    attached.answers("ls", "a.txt");
    sharing.signal("STOP");
    attached.type_line("stop");
    let mut listing = ["jobs", "ls"].map(|verb| home.start(&[verb]));
    listing.iter_mut().chain([&mut attached]).for_each(|waiting| drop(waiting.err_line("does not answer")));
    attached.signal("INT");
    assert_eq!(attached.wait_with_input_open().code, Some(3));
    let [interrupted, waiting] = listing;
    assert_eq!(interrupted.interrupt().code, Some(3));
    sharing.signal("CONT");
    let listed = waiting.wait();
    assert!(listed.code == Some(0) && listed.out.join("\n").contains("a.txt"), "{listed:?}");
}

#[test]
fn shells_that_start_at_once_all_get_their_answer() {
    let (_indexers, origin, home) = two_homes();
    for n in 0..6 {
        origin.write(&format!("{n}.txt"), format!("{n}\n"));
        home.write(&format!("own-{n}.txt"), format!("{n}\n"));
    }
    let _theirs = origin.share(&["0.txt", "1.txt", "2.txt", "3.txt", "4.txt", "5.txt"]);
    for _ in 0..2 {
        let getting: Vec<Running> = (0..6)
            .map(|n| home.start(&["get", &format!("{n}.txt"), "--force"]))
            .chain((0..3).map(|_| home.start(&["ls"])))
            .collect();
        for running in getting {
            running.wait().ended_with(0, "");
        }
    }
    // Of several that would serve, one does.
    let mut sharing: Vec<Running> = (0..4).map(|n| home.start(&["share", &format!("own-{n}.txt")])).collect();
    for running in &mut sharing {
        running.err_line(" as "); // "serving on ..." or "served by ..."
    }
    let list = home.done(&["ls"]).out.join("\n");
    assert!((0..4).all(|n| list.contains(&format!("own-{n}.txt"))), "{list}");
    home.done(&["stop"]);
    for running in sharing {
        assert_eq!(running.wait().code, Some(0));
    }
}

#[test]
fn commands_beside_one_that_does_not_serve_run_in_it_or_wait_and_go_on_when_it_leaves() {
    let (_indexers, origin, home) = two_homes();
    let source = origin.write("big.bin", bytes(4, BIG));
    origin.write("other.bin", bytes(6, BIG));
    origin.write("small.txt", "small\n");
    let _theirs = origin.share(&["big.bin", "other.bin", "small.txt"]);
    home.write("mine.txt", "mine\n");
    let mut getting = downloading(&home, "other.bin");
    home.done(&["get", "small.txt"]);
    assert!(home.done(&["ls"]).out.join("\n").contains("small.txt"));
    let mut sharing = home.start_err(&["share", "mine.txt"], "waits for process ");
    let mut second = home.start(&["get", "big.bin", "--json"]);
    until(&mut second, "its first bytes came", || home.partials().len() == 2);
    assert!(getting.is_running(), "make the file larger");
    assert_eq!(getting.interrupt().code, Some(3));
    let second = second.wait();
    assert_eq!(second.code, Some(0), "{second:?}");
    assert_eq!(second.json()["size"], BIG);
    assert!(same(&source, &home.path("big.bin")));
    sharing.err_line("serving on ");
}

#[test]
fn folder_that_is_locked_for_a_moment_is_waited_for_by_one_that_starts_no_indexer_meanwhile() {
    let home = Home::with(&["--discover", "127.0.0.1:0"]);
    home.write("a.txt", "a\n");
    home.run(&["get", "nothing", "--no-discovery"]).failed_with(3, &[]);
    let lock = fs::File::open(home.path(".neko/lock")).unwrap();
    lock.lock().unwrap();
    let mut sharing = home.start_err(&["share", "a.txt"], "takes no commands");
    assert!(sharing.is_running() && !sharing.err_was("started one at"), "{}", sharing.said());
    drop(lock);
    sharing.err_line("started one at");
    sharing.err_line("serving on ");
}

#[test]
fn what_stands_in_the_sockets_place_is_left_alone_and_one_that_was_removed_is_put_back() {
    let (_indexers, home) = one_home();
    home.write_all([("a.txt", "a\n"), (".neko/run/peer.sock", "a user's file")]);
    let mut sharing = home.share(&["a.txt"]);
    assert!(sharing.err_line("note: other commands").contains("is no socket"));
    assert_eq!(home.read(".neko/run/peer.sock"), b"a user's file");
    drop(sharing);
    home.done(&["ls"]);

    let deep = format!("{}/deep", ["a-folder-with-a-long-name"; 8].join("/"));
    fs::create_dir_all(home.path(&deep)).unwrap();
    let data = ["--data-dir", &home.text(&format!("{deep}/data"))];
    let sharing = home.start_err(&[&data[..], &["share", "a.txt"]].concat(), "serving on ");
    let list = || home.done(&[&data[..], &["ls"]].concat()).out[1].clone();
    assert!(list().starts_with("a.txt"));
    let path = |name: &str| home.path(&format!("{deep}/data/{name}"));
    let mode = |name: &str| fs::metadata(path(name)).unwrap().permissions().mode();
    assert_eq!((mode("run") & 0o777, mode("run/peer.sock") & 0o777), (0o700, 0o600));
    fs::remove_file(path("run/peer.sock")).unwrap();
    assert!(list().starts_with("a.txt"));
    fs::remove_dir_all(path("run")).unwrap();
    home.done(&[&data[..], &["stop"]].concat());
    assert_eq!(sharing.wait().code, Some(0));
}

#[test]
fn file_that_the_command_publishes_is_not_said_to_have_changed_before() {
    let (_indexers, home) = one_home();
    home.write_all([("f", "1"), ("g", "1")]);
    home.publish(&["f", "g"]);
    let mut sharing = home.share_files([("f", "22"), ("g", "22")], &["f"]);
    sharing.err_line("g was changed or removed on disk");
    assert!(!sharing.err_was("f changed on disk"), "{}", sharing.said());
}

#[test]
fn second_get_of_a_file_waits_for_the_first() {
    let (_indexers, origin, reader) = two_homes();
    let source = origin.write("big.bin", bytes(8, BIG));
    origin.write("small.txt", "small\n");
    let _theirs = origin.share(&["big.bin", "small.txt"]);
    let _serving = reader.serve(&SLOW);
    let first = downloading(&reader, "big.bin");
    let alone = reader.start(&["get", "big.bin"]);
    let among = reader.start(&["get", "big.bin", "small.txt"]);
    assert!(first.wait().out[0].contains(" moved in "));
    let alone = alone.wait();
    assert!(alone.code == Some(0) && alone.out[0].contains("already here"), "{alone:?}");
    let among = among.wait();
    assert!(among.code == Some(0) && among.out[0].starts_with("2 of 2 files here, 6 B of"), "{among:?}");
    assert!(same(&source, &reader.path("big.bin")));
}

#[test]
fn repl_attaches_to_the_running_peer_takes_over_when_it_is_gone_and_follows_one_that_starts() {
    let (_indexers, origin, home, _theirs) = sharing("a.txt", "first\n");
    let mut sharing = home.share_files([("mine.txt", "mine\n"), ("second.txt", "second\n")], &["mine.txt"]);
    let mut attached = home.start(&[]);
    attached.answers("get a.txt", "a.txt version 1");
    attached.answers("share mine.txt second.txt", "1 new, 1 unchanged");
    // What happens in the running peer is shown in both.
    origin.share_anew("a.txt", "second\n");
    attached.err_line("invalidated a.txt");
    sharing.err_line("invalidated a.txt");
    sharing.kill();
    let again = home.serve(&["--limit-up", "1MB"]);
    home.write("third.txt", "third\n");
    attached.type_line("share third.txt --limit-up 2MB");
    attached.answers("share third.txt", "shared third.txt");
    origin.share_anew("a.txt", "third\n");
    attached.err_line("version 3 is out"); // an event of the peer that is there now
    again.kill();
    attached.answers("get a.txt", "a.txt version 3");
    assert_eq!(attached.wait().code, Some(2));
    assert_eq!(home.read("a.txt"), b"third\n");
}

/// As a service has with a /tmp of its own, and no home.
const MOUNTS: &str =
    r#"mount -t tmpfs none tmp && mkdir tmp/both && touch tmp/mine && mount -t tmpfs none home && exec "$@""#;

#[test]
fn running_peer_refuses_paths_at_which_it_sees_folders_of_its_own() {
    let (_indexers, origin, reader) = two_homes();
    let _sharing = origin.share_file("f", "one");
    reader.write_all([("tmp/both/mine", "mine"), ("tmp/mine", "mine"), ("home/me/mine", "mine")]);
    let inside = ["-rm", "sh", "-c", MOUNTS, "sh"];
    let mut serving = Running::start(reader.command_by("unshare", &inside, &["serve"]));
    serving.err_line("serving on ");
    for out in ["tmp/f", "tmp/new/", "tmp/both"] {
        let ended = reader.run(&["get", "f", "-o", &reader.text(out)]);
        ended.failed_with(3, &["sees something else at", "go to stdout", "--data-dir"]);
        assert!(ended.out.is_empty(), "{out}");
    }
    let share = |path: &str| reader.run(&["share", &reader.text(path)]);
    share("tmp/both/mine").failed_with(3, &["sees something else at", "stdin"]);
    std::os::unix::fs::symlink(reader.path("tmp/mine"), reader.path("link")).unwrap();
    share("link").failed_with(3, &["sees something else at", "stdin"]);
    share("home/me/mine").failed_with(3, &["cannot see", "stdin"]);
    reader.done(&["get", "f", "-o", &reader.text("here")]);
    assert_eq!(reader.read("here"), b"one");
}

#[test]
fn interrupted_share_of_stdin_ends_at_once_and_leaves_nothing() {
    let (_indexers, home) = one_home();
    for is_beside in [false, true] {
        let _serving = is_beside.then(|| home.serve(&[]));
        let mut sharing = home.start(&["share", "-", "--name", "piped.bin"]);
        sharing.type_line("some bytes, and then nothing");
        until(&mut sharing, "they came", || home.partial_len() > 0);
        let began = Instant::now();
        sharing.signal("INT");
        sharing.wait_with_input_open().ended_with(3, "");
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        while !home.partials().is_empty() {
            assert!(began.elapsed() < LIMIT, "the partial file stays");
            std::thread::yield_now();
        }
        assert!(!home.path("piped.bin").exists());
    }
}

#[test]
fn interrupted_publish_of_a_large_file_ends_soon_in_the_running_peer() {
    let (_indexers, home) = one_home();
    let mut serving = home.serve(&[]);
    // Sparse, but to be read to its end.
    fs::File::create(home.path("huge.bin")).unwrap().set_len(64 << 30).unwrap();
    let mut sharing = home.start(&["share", "huge.bin"]);
    let open_files = format!("/proc/{}/fd", serving.id());
    let is_read = || {
        let mut files = fs::read_dir(&open_files).unwrap().flatten();
        files.any(|file| fs::read_link(file.path()).is_ok_and(|path| path.ends_with("huge.bin")))
    };
    until(&mut sharing, "the running peer read the file", is_read);
    home.done(&["ls"]); // the peer answers others meanwhile
    sharing.interrupt().failed_with(3, &["interrupted"]);
    until(&mut serving, "the end of the reading", || !is_read());
    // Connections that say nothing keep no command waiting.
    let connect = || UnixStream::connect(home.path(".neko/run/peer.sock"));
    let _silent: Vec<_> = (0..600).map_while(|_| connect().ok()).collect();
    let stopped = home.done(&["stop"]);
    assert!(stopped.err.iter().all(|line| !line.contains("does not answer")), "{stopped:?}");
    assert!(home.run(&["ls"]).out.is_empty(), "nothing was published");
    assert_eq!(serving.wait().code, Some(0));
}

#[test]
fn script_at_its_end_waits_for_what_another_shell_is_doing() {
    let (_indexers, home) = one_home();
    let mut script = home.start(&[]);
    let socket = home.path(".neko/run/peer.sock");
    until(&mut script, "it takes commands", || socket.exists());
    let mut storing = home.start(&["share", "-", "--name", "x"]);
    storing.type_line("one");
    until(&mut storing, "bytes came", || home.partial_len() > 0);
    script.close_input();
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(700) {
        assert!(script.is_running(), "{}", script.said());
        std::thread::sleep(Duration::from_millis(20));
    }
    storing.type_line("two");
    storing.wait().ended_with(0, "");
    assert_eq!(home.read("x"), b"one\ntwo\n");
    assert_eq!(script.wait().code, Some(0));
}
