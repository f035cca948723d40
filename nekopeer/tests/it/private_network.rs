//! Private networks, lists of allowed nodes, and indexers that fail, with real programs.

use crate::{program::*, tickets::ticket_in};

struct WithIndexer {
    home: Home,
    running: Running,
    indexer: String,
}

fn with_indexer(flags: &[&str]) -> WithIndexer {
    let home = Home::with(&[]);
    let mut running = home.start(&[&["serve", "--discover", "127.0.0.1:0"], flags].concat());
    let started = running.err_line("started one at ");
    let (_, indexer) = started.split_once("started one at ").unwrap();
    let indexer = indexer.split(';').next().unwrap().to_owned();
    running.err_line("serving on");
    WithIndexer { home, running, indexer }
}

/// Goal: nobody relies on a secret that whoever is on the link need not know.
#[test]
fn secret_without_tls_is_refused_unless_the_link_is_closed() {
    let files = Home::with(&[]);
    let path = files.secret("secret", "a");
    let pair = ["--insecure", "--network-secret", &path];
    let why = ["with --insecure", "--closed-link"];
    Home::with(&[]).run(&[&pair[..], &["ls"]].concat()).failed_with(2, &why);
    let inside = with_indexer(&[&pair[..], &["--closed-link"]].concat());
    let asks = |flags: &[&str]| Home::with(&["--indexer", &inside.indexer]).run(&[&pair, flags].concat());
    asks(&["query", "f"]).failed_with(2, &why);
    assert_eq!(asks(&["query", "f", "--closed-link"]).code, Some(1), "there is no f");
}

#[test]
fn stranger_is_told_of_the_secret_before_it_starts_an_indexer_too_and_so_is_the_node_that_it_came_to() {
    let files = Home::with(&[]);
    let (right, wrong) = (files.secret("right", "a"), files.secret("wrong", "b"));
    let mut inside = with_indexer(&["--network-secret", &right]);
    inside.home.share_anew("f", "x");
    let asks =
        |flags: &[&str]| Home::with(&["--indexer", &inside.indexer]).run(&[flags, &["query", "f"]].concat());
    let private = ["its network is private; give both the same secret with --network-secret FILE"];
    asks(&[]).failed_with(3, &private);
    assert!(!asks(&[]).err.join("").contains("check that it runs"), "that would lead nowhere");
    Home::with(&["--indexer", &inside.indexer]).run(&["trace", "f"]).failed_with(3, &private);
    inside.running.err_line("it gave no secret, and this network has one");
    asks(&["--network-secret", &wrong]).failed_with(3, &["its network has another secret"]);
    inside.running.err_line("it has another network secret");
    assert_eq!(asks(&["--network-secret", &right]).code, Some(0));

    let by_variable = Home::with(&["--indexer", &inside.indexer]);
    let mut command = by_variable.command(["query", "f"]);
    command.env("NEKO_NETWORK_SECRET_VALUE", "a".repeat(64));
    assert_eq!(Running::start(command).wait().code, Some(0));

    fs::set_permissions(&right, fs::Permissions::from_mode(0o644)).unwrap();
    asks(&["--network-secret", &right]).failed_with(2, &["chmod 600"]);

    let stranger = Home::with(&[]);
    let mut serving = stranger.start(&["serve", "--discover", &inside.indexer]);
    serving.err_line(&format!("the indexer at {} is not used: ", inside.indexer));
    serving.err_line("started one at ");
    assert!(serving.said().contains("--network-secret FILE"));
    let mut refused = stranger.start(&["serve", "--data-dir", "other", "--indexer", &inside.indexer]);
    refused.err_line("does not let this peer in, trying again: ");
}

#[test]
fn reader_that_is_refused_by_the_indexer_that_it_found_is_told_why_in_every_command() {
    let files = Home::with(&[]);
    let (right, wrong) = (files.secret("right", "a"), files.secret("wrong", "b"));
    let (open, private) = (with_indexer(&[]), with_indexer(&["--network-secret", &right]));
    let at_usual = |inside: &WithIndexer| Home::with(&["--discover", &inside.indexer]);
    let remembered = Home::with(&["--discover", "127.0.0.1:0"]);
    let shared = private.home.share_anew("f", "x").out.join(" ");
    remembered.done(&["get", ticket_in(&shared), "--network-secret", &right]);
    let missing = "its network is private; give both the same secret with --network-secret FILE";
    for (home, flags, why) in [
        (at_usual(&private), vec![], missing),
        (at_usual(&private), vec!["--network-secret", &wrong], "its network has another secret"),
        (at_usual(&open), vec!["--network-secret", &right], "--network-secret"),
        (remembered, vec![], missing),
    ] {
        for words in [&["search", "g"][..], &["get", "g"], &["get", "g/"], &["query", "g"], &["trace", "g"]] {
            home.run(&[&flags, words].concat()).failed_with(3, &["cannot be asked: ", why]);
        }
    }
}

#[test]
fn secret_is_shown_by_no_command_and_no_door_and_the_door_asks_for_the_token() {
    let files = Home::with(&[]);
    let path = files.secret("secret", "s3cr3t-");
    let text = fs::read_to_string(&path).unwrap().trim().to_owned();
    let mut inside = with_indexer(&["--network-secret", &path, "--http", "0.0.0.0:0", "--log", "trace"]);
    let http = Http::of(&inside.home, &mut inside.running);
    let said = inside.home.share_anew("f", "x");
    let checked = inside.home.done(&["config", "check", "--network-secret", &path]);
    for ended in [said, checked, inside.home.done(&["status", "--json"])] {
        assert!(!format!("{ended:?}").contains(&text), "{ended:?}");
    }
    let bearer = http.authorization();
    let find = ["/api/v1/catalogue", "/api/v1/search?q=*", "/api/v1/query?name=f", "/api/v1/jobs"];
    for route in ["/status", "/metrics", "/", "/f/f", "/api/v1/openapi.json"].into_iter().chain(find) {
        assert_eq!(http.get(route).status, 401, "{route}");
        let answer = http.ask("GET", route, &[&bearer], b"");
        assert!(answer.status == 200 && !answer.text().contains(&text), "{route}: {}", answer.text());
    }
    for route in ["/healthz", "/readyz"] {
        assert_eq!(http.get(route).status, 200, "{route}");
    }
    assert_eq!(http.ask("GET", "/f/f", &[&bearer], b"").body, b"x");
    let other = files.secret("other", "other-");
    let refused = inside.home.run(&["--network-secret", &other, "ls"]);
    refused.failed_with(3, &["has another secret of its network"]);
    inside.home.done(&["--network-secret", &path, "ls"]);
    assert!(!inside.running.said().contains(&text));
    // Files need no token on loopback.
    let mut near = with_indexer(&["--network-secret", &path, "--http", "127.0.0.1:0"]);
    let http = Http::of(&near.home, &mut near.running);
    near.home.share_anew("f", "x");
    assert_eq!(http.get("/f/f").body, b"x");
}

/// Goal: what the peer keeps secret stays here, wherever that was said: in the configuration, the environment or a flag.
#[test]
fn secrets_in_a_shared_folder_are_left_out_and_named_and_refused_where_they_are_named() {
    let home = Home::with(&["--data-dir", "d/state"]);
    home.secret("d/secret", "a");
    home.write("d/f", "x");
    home.write("d/allow", &home.done(&["id"]).out[0]);
    home.publish(&["d/secret", "--discover", "127.0.0.1:0"]);
    assert_eq!(home.names(), ["d/secret"], "nobody has said yet that it is one");

    home.write(".config/nekop2p/peer.toml", "network_secret = 'd/secret'\n");
    let mut command = home.command(["serve", "--discover", "127.0.0.1:0"]);
    command.env("NEKO_ALLOW", "d/allow");
    let mut serving = Running::start(command);
    serving.err_line("serving on");
    assert!(serving.err_was("this secret file was shared"), "{}", serving.said());
    fs::hard_link(home.path("d/secret"), home.path("d/linked")).unwrap();
    let shared = home.done(&["share", "d"]);
    let set = home.done(&["share", "--set", "d", "all", "--json"]);
    for name in ["secret", "allow", "state", "linked"] {
        let note = format!("d/{name}: this peer keeps it secret");
        for ended in [&shared, &set] {
            assert!(ended.err.iter().any(|line| line.contains(&note)), "{note}: {ended:?}");
        }
        home.run(&["share", &format!("d/{name}")]).failed_with(3, &["is kept secret by this peer"]);
    }
    home.run(&["share", "d/state/peer.key"]).failed_with(3, &["is kept secret by this peer"]);
    assert_eq!(set.json()["skipped"]["secret"], 4);
    assert_eq!(home.names(), ["all", "d/f"]);
}

#[test]
fn node_that_is_taken_off_the_list_is_refused_after_a_reload() {
    let (files, reader) = (Home::with(&[]), Home::with(&[]));
    let id = reader.done(&["id"]).out[0].clone();
    assert_eq!(id, reader.done(&["id"]).out[0], "it stays");
    let list = files.write("allow", format!("# the lab\n{id} # the reader\n"));
    let mut sharer = with_indexer(&["--allow", &list.display().to_string()]);
    let asks = || reader.run(&["--indexer", &sharer.indexer, "query", "nothing"]);
    asks().failed_with(1, &[]);
    let found = reader.run(&["--discover", &sharer.indexer, "query", "nothing"]);
    assert!(found.code == Some(1) && !found.err.join("").contains("not used"), "{found:?}");

    fs::write(&list, "no id\n").unwrap();
    sharer.running.signal("HUP");
    sharer.running.err_line("everything stays as it was");
    asks().failed_with(1, &[]);

    fs::write(&list, "").unwrap();
    sharer.running.signal("HUP");
    sharer.running.err_line("0 added, 1 removed");
    asks().failed_with(3, &["not on its list of allowed nodes"]);
}

/// What the second indexer lists is found while the first is stopped, and after it was killed.
#[test]
fn peer_with_two_indexers_goes_on_with_one() {
    let (first, second) = (with_indexer(&[]), with_indexer(&[]));
    let both = format!("{},{}", first.indexer, second.indexer);
    let sharer = Home::with(&["--indexer", &both]);
    let _sharing = sharer.share_file("f", "x");
    let reader = Home::with(&["--indexer", &both]);
    let mut serving = reader.serve(&[]);
    serving.err_line("serving on");
    let asks = || -> Value { reader.done(&["query", "f", "--json"]).json() };
    assert_eq!(asks()["complete"], true);

    first.running.signal("STOP");
    for _ in 0..2 {
        assert_eq!(asks()["complete"], false, "one did not answer");
    }
    first.running.signal("CONT");
    until(&mut serving, "the first answers again", || asks()["complete"] == true);
    first.running.signal("KILL");
    until(&mut serving, "the first is gone", || asks()["complete"] == false);
    assert_eq!(asks()["hits"][0]["name"], "f");
}
