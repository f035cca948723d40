//! `status NAME` and `wait`: who has which version, and when all have it.

use nekoproto::Verdict;
use testkit::goods::Goods;

use crate::program::*;

fn readers(origin: &Home) -> Vec<Value> {
    origin.status("f")["readers"].as_array().unwrap().clone()
}

/// Until what `wait --all` says is this.
fn until_read(origin: &Home, says: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while origin.done(&["wait", "f", "--all", "--timeout", "60"]).out != [says] {
        assert!(Instant::now() < deadline, "{says}");
    }
}

/// With a lease of ten minutes: news that is not acknowledged is repeated, and does not wait for the lease. The reader knows
/// another indexer, which is no neighbor of the origin's.
#[test]
fn origin_knows_who_is_behind_until_all_that_read_have_the_version() {
    let indexers = Indexers::line(3, Security::Tls);
    let (origin, reader) = (Home::at(&indexers, 0), Home::at(&indexers, 2));
    origin.write("f", "one");
    let _sharing = origin.start_err(&["share", "f", "--policy", "push", "--lease", "600"], "serving on ");
    let nobody = origin.done(&["wait", "f", "--all", "--timeout", "5"]);
    assert_eq!(nobody.out, ["f is at version 1; nobody who reads it was heard in the last 7 days"]);
    let following = reader.start_out(&["follow", "f"], "f is at version 1");
    until_read(&origin, "f is at version 1 at the one peer that reads it");
    let known = readers(&origin);
    let [known] = known.as_slice() else { panic!("one reader: {known:?}") };
    assert_eq!(known["version"], 1);
    assert!(known["lease_ends_in_ms"].as_u64().unwrap() > 500_000, "{known}");

    following.signal("STOP");
    origin.share_anew("f", "two");
    let ended = origin.run(&["wait", "f", "--all", "--timeout", "1"]);
    let short = &known["node"].as_str().unwrap()[..10];
    ended.failed_with(1, &["0 of 1 readers of f have version 2: reader", short, "with version 1"]);
    let told = origin.done(&["status", "f"]);
    let text = told.out.join("\n");
    assert!(text.contains("peers with a lease on it: 1; 1 did not acknowledge version 2"), "{text}");
    assert!(text.contains("had version 1 last, may take it for fresh for"), "{text}");
    assert_eq!(readers(&origin)[0]["version"], 1);

    following.signal("CONT");
    let reached = origin.done(&["wait", "f", "--all", "--timeout", "60", "--json"]).json();
    assert_eq!((&reached["name"], &reached["version"]), (&"f".into(), &2.into()));
    assert_eq!((reader.read("f"), &readers(&origin)[0]["version"]), (b"two".to_vec(), &2.into()));
}

/// Whatever it asks its origin meanwhile, which it does about the newest version that it knows.
#[test]
fn reader_that_knows_of_a_version_and_does_not_have_it_is_waited_for() {
    let (_indexers, origin, reader, _sharing) = sharing("f", "one");
    reader.done(&["get", "f"]);
    let mut serving = reader.start_err(&["serve"], "serving on ");
    origin.done(&["wait", "f", "--all", "--timeout", "60"]);
    until(&mut serving, "the reader", || !readers(&origin).is_empty());
    origin.share_anew("f", "two");
    until(&mut serving, "news", || reader.status("f")["newest"] == 2); // it asks
    let ended = origin.run(&["wait", "f", "--all", "--timeout", "1"]);
    ended.failed_with(1, &["0 of 1 readers of f have version 2", "with version 1"]);
    assert_eq!((&readers(&origin)[0]["holds"], reader.read("f")), (&1.into(), b"one".to_vec()));
    reader.done(&["get", "f"]);
    origin.done(&["wait", "f", "--all", "--timeout", "60"]);
    assert_eq!((&readers(&origin)[0]["holds"], reader.read("f")), (&2.into(), b"two".to_vec()));
}

const DECIDES: &str =
    "test $NEKO_VERSION = 1 || { touch begun; while ! test -e go; do sleep 0.05; done; grep -q good go; }";

fn is_behind(origin: &Home, version: u64) {
    let ended = origin.run(&["wait", "f", "--all", "--timeout", "2"]);
    let says = format!("0 of 1 readers of f have version {version}");
    ended.failed_with(1, &[&says, "with version 1, told of it", "its command may refuse it"]);
}

/// The command of the reader decides: a version on which it still runs, or which it refused, is not there. Also where it has
/// begun again.
#[test]
fn version_that_the_command_of_a_reader_has_not_accepted_is_waited_for() {
    let (_indexers, origin, reader, _sharing) = sharing("f", "one");
    let mut following = reader.start_out(&["follow", "f", "--exec", DECIDES], "f is at version 1");
    until_read(&origin, "f is at version 1 at the one peer that reads it");
    origin.share_anew("f", "bad");
    until(&mut following, "the command", || reader.path("begun").exists());
    reader.done(&["status", "f"]); // asks its origin
    is_behind(&origin, 2);
    reader.write("go", "bad");
    following.err_line("f: version 2 is refused");
    is_behind(&origin, 2);
    ["begun", "go"].iter().for_each(|file| std::fs::remove_file(reader.path(file)).unwrap());
    origin.share_anew("f", "good");
    until(&mut following, "the command", || reader.path("begun").exists());
    following.kill();
    std::fs::remove_file(reader.path("begun")).unwrap();
    let mut again = reader.start(&["follow", "f", "--exec", DECIDES]);
    until(&mut again, "the command", || reader.path("begun").exists());
    is_behind(&origin, 3);
    reader.write("go", "good");
    until_read(&origin, "f is at version 3 at the one peer that reads it");
}

#[test]
fn version_is_waited_for_where_the_command_of_its_reader_never_accepted_one() {
    let (_indexers, origin, reader, _sharing) = sharing("f", "one");
    let follow = ["follow", "f", "--exec", "touch begun; sleep 600"];
    let begin = || {
        let mut following = reader.start(&follow);
        until(&mut following, "the command", || reader.path("begun").exists());
        std::fs::remove_file(reader.path("begun")).unwrap();
        following
    };
    let following = begin();
    origin.share_anew("f", "two");
    is_behind(&origin, 2);
    following.kill();
    let _again = begin();
    is_behind(&origin, 2);
}

#[test]
fn version_is_there_when_all_commands_of_a_reader_accepted_it() {
    let (_indexers, origin, reader, _sharing) = sharing("f", "one");
    let _quick = reader.start_out(&["follow", "f", "--exec", "true"], "f is at version 1");
    let mut slow = reader.start_out(&["follow", "f", "--exec", DECIDES], "f is at version 1");
    origin.share_anew("f", "good");
    until(&mut slow, "the command", || reader.path("begun").exists());
    is_behind(&origin, 2);
    reader.write("go", "good");
    until_read(&origin, "f is at version 2 at the one peer that reads it");
}

#[test]
fn reader_waits_for_a_version_and_says_what_is_there_when_it_does_not_come() {
    let (_indexers, origin, reader) = two_homes();
    let fails = |home: &Home, more: &[&str], why: &str| {
        home.run(&[&["wait", "f", "--timeout", "1"], more].concat()).failed_with(3, &[why]);
    };
    fails(&reader, &[], "after 1 s f is neither shared nor held here");
    let _sharing = origin.share_file("f", "one");
    let _following = reader.start_out(&["follow", "f", "--keep", "2"], "f is at version 1");
    reader.done(&["wait", "f", "--timeout", "60"]);
    fails(&reader, &["--version", "2"], "f is at version 1 here, not at 2");
    fails(&reader, &["--all"], "only its origin knows");
    origin.run(&["wait", "g", "--all"]).failed_with(1, &["g is not shared here"]);
    fails(&origin, &["--version", "9"], "f is at version 1 here, not at 9");
    let waiting = reader.start(&["wait", "f", "--version", "2", "--timeout", "60"]);
    origin.share_anew("f", "two");
    let ended = waiting.wait();
    assert!(ended.code == Some(0) && ended.out == ["f is at version 2"], "{ended:?}");
    reader.done(&["rollback", "f"]);
    let file = reader.status("f");
    assert_eq!((&file["version"], &file["newest"], &file["passed_over"]), (&1.into(), &2.into(), &2.into()));
    assert_eq!((&file["kept"], &file["passed_over_why"]), (&vec![2].into(), &"rolled-back".into()));
    fails(&reader, &[], "is version 1, stale, and version 2 is out");
    reader.run(&["status", "g"]).failed_with(1, &["g is neither shared nor held here"]);
}

/// Also after the lease of the reader that is off, and a restart of the origin.
#[test]
fn reader_that_is_off_is_waited_for_and_listed_until_it_is_forgotten() {
    let (_indexers, origin, reader) = two_homes();
    let sharing = origin.share_files([("f", "one")], &["f", "--lease", "1"]);
    let following = reader.start_out(&["follow", "f"], "f is at version 1");
    origin.done(&["wait", "f", "--all", "--timeout", "60"]);
    following.kill();
    let mut running = sharing;
    until(&mut running, "the end of the lease", || readers(&origin)[0]["lease_ends_in_ms"] == 0);
    assert_eq!(running.interrupt().code, Some(0));
    let _sharing = origin.share_file("f", "two");
    let known = readers(&origin).remove(0);
    assert_eq!((&known["holds"], &known["lease_ends_in_ms"]), (&1.into(), &0.into()), "{known}");
    assert!(known["heard_ms"].as_u64().unwrap() > 1_700_000_000_000, "{known}");
    let id = known["node"].as_str().unwrap();
    let behind = ["0 of 1 readers of f have version 2", "s ago with version 1", &id[..10]];
    origin.run(&["wait", "f", "--all", "--timeout", "1"]).failed_with(1, &behind);
    let text = origin.done(&["status", "f"]).out.join("\n");
    assert!(text.contains(&id[..10]) && text.contains("with version 1, is behind"), "{text}");
    origin.done(&["wait", "f", "--all", "--version", "1"]);
    reader.done(&["get", "f"]); // by a command that does not serve
    origin.done(&["wait", "f", "--all"]);
    origin.run(&["forget", &id[..9]]).ended_with(2, "give at least 10 digits");
    assert_eq!(origin.done(&["forget", &id[..10], "--json"]).json()["forgotten"][0], id);
    origin.run(&["forget", id]).failed_with(1, &["no reader has this id"]);
    origin.done(&["wait", "f", "--all", "--timeout", "1"]);
}

#[test]
fn origin_is_asked_again_and_again_over_one_connection_while_a_name_is_waited_for() {
    let (indexers, reader) = one_home();
    let runtime = Runtime::new().unwrap();
    let goods = Goods::new(7, "f", 1, b"one".to_vec());
    let mut origin = runtime.block_on(goods.held(7, indexers.addr(0).parse().unwrap()));
    reader.done(&["get", "f"]);
    origin.confirms(Verdict::Unpublished);
    while origin.questions.try_recv().is_ok() {}
    let before = origin.called.load(Ordering::SeqCst);
    let began = Instant::now();
    let waiting = reader.start(&["wait", "f"]);
    for _ in 0..3 {
        runtime.block_on(origin.questions.recv()).unwrap();
    }
    assert!(began.elapsed() >= Duration::from_secs(1), "what an answer tells is no reason to ask again");
    origin.confirms(Verdict::Current);
    assert_eq!(waiting.wait().code, Some(0));
    assert_eq!(origin.called.load(Ordering::SeqCst) - before, 1);
}

/// Its first word to the origin says it, so that no line is without it.
#[test]
fn reader_is_called_by_its_label_wherever_it_is_shown_also_after_the_origin_began_anew() {
    let (_indexers, origin, reader, mut sharing) = sharing("f", "one");
    let mut following = reader.start_out(&["follow", "f", "--label", "desk-3"], "f is at version 1");
    let line = sharing.err_line("has f at version 1");
    assert!(line.starts_with("desk-3 ("), "{line}");
    origin.share_anew("f", "two");
    following.out_line("f is at version 2");
    let line = sharing.err_line("has f at version 2");
    let known = readers(&origin).remove(0);
    let named = format!("desk-3 ({})", &known["node"].as_str().unwrap()[..10]);
    assert!(line.starts_with(&named) && known["label"] == "desk-3", "{line}: {known}");
    let told = origin.done(&["status", "f"]).out.join("\n");
    assert!(told.contains(&format!("{named} at ")), "{told}");
    following.signal("STOP");
    origin.share_anew("f", "three");
    origin.run(&["wait", "f", "--all", "--timeout", "1"]).failed_with(1, &[&format!("reader {named}")]);
    following.kill();
    assert_eq!(sharing.interrupt().code, Some(0));
    let _sharing = origin.share(&["f"]);
    assert_eq!(readers(&origin)[0]["label"], "desk-3");
    let refused = reader.run(&["ls", "--label", "desk\n3"]);
    assert!(refused.code == Some(2) && refused.err.concat().contains("no control characters"), "{refused:?}");
}
