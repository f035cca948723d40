//! Tickets: what `share` prints is all that is needed elsewhere, and stays good.

use nekoindexer::{Config, Indexer};
use nekoproto::{Identity, IndexerAddr, List, Ticket, Version};

use crate::program::*;

fn stranger() -> Home {
    Home::with(&["--discover", "127.0.0.1:0"])
}

pub(crate) fn ticket_of(sharing: &mut Running) -> String {
    ticket_in(&sharing.out_line("nekopeer get neko:")).to_owned()
}

pub(crate) fn ticket_in(text: &str) -> &str {
    text.split_whitespace().find(|word| word.starts_with("neko:")).unwrap()
}

/// A sharer of `f.txt`, and the ticket of that.
fn shared() -> (Indexers, Home, Running, String) {
    let (indexers, origin) = one_home();
    let mut sharing = origin.share_file("f.txt", "one\n");
    let ticket = ticket_of(&mut sharing);
    (indexers, origin, sharing, ticket)
}

/// Runs `status` until it lists this, as the news comes in its own time.
fn status_until(home: &Home, what: &str) -> Ended {
    let began = Instant::now();
    loop {
        let ended = home.done(&["status"]);
        if ended.out.iter().any(|line| line.contains(what)) {
            return ended;
        }
        assert!(began.elapsed() < LIMIT, "{what}: {ended:?}");
    }
}

#[test]
fn a_ticket_alone_brings_the_file_also_after_an_update_and_is_followed_without_an_indexer_being_started() {
    let (_indexers, origin, _sharing, ticket) = shared();
    let text = ticket.parse::<Ticket>().unwrap();
    assert_eq!((text.name.as_str(), text.version, text.insecure), ("f.txt", Version::new(1), false));
    for (n, bytes) in ["one\n", "two, longer\n"].into_iter().enumerate() {
        if n > 0 {
            origin.share_anew("f.txt", bytes);
        }
        let reader = stranger();
        let got = reader.done(&["get", &ticket]);
        assert!(got.err.is_empty(), "{got:?}");
        assert_eq!(reader.read("f.txt"), bytes.as_bytes());
        // The folder remembers the indexer: neither needs an address.
        let listed = reader.done(&["status"]);
        assert!(listed.out[1].contains("fresh"), "{listed:?}");
        origin.share_anew("g.txt", "another\n");
        reader.gets("g.txt", b"another\n");
        assert_eq!(reader.done(&["get", &ticket, "-o", "-"]).out, [bytes.trim_end()]);
    }
    let reader = stranger();
    let mut following = reader.start_out(&["follow", &ticket], "f.txt is at version 2");
    origin.share_anew("f.txt", "three\n");
    following.out_line("f.txt is at version 3");
    following.interrupt();
    // The folder remembers the indexers: the name alone is enough.
    let mut following = reader.start_out(&["follow", "f.txt"], "f.txt is at version 3");
    assert!(!reader.path(".neko/indexer.key").exists(), "an indexer was started: {}", following.said());
}

#[test]
fn a_ticket_outlives_a_restart_of_who_shares_with_an_indexer_of_its_own() {
    let (_port, at) = kept_port();
    let origin = Home::with(&["--discover", &at.to_string()]);
    let mut sharing = origin.share_file("f.txt", "one\n");
    let ticket = ticket_of(&mut sharing);
    assert_eq!(sharing.interrupt().code, Some(0));
    let mut sharing = origin.share_file("f.txt", "two, longer\n");
    let summary = sharing.out_line("0 new, 1 changed");
    assert!(!summary.contains("not confirmed"), "{}", sharing.said());
    let reader = stranger();
    reader.done(&["get", &ticket]);
    assert_eq!(reader.read("f.txt"), b"two, longer\n");
}

#[test]
fn tickets_and_names_go_together_and_are_printed_later_too() {
    let (indexers, origin) = one_home();
    origin.write_each(&["a", "b", "c", "d", "sub/e"]);
    let mut sharing = origin.start_err(&["share", "a", "b", "c", "d", "sub"], "serving on ");
    sharing.out_line("nekopeer ticket NAME");
    let printed = origin.done(&["ticket", "a", "sub/e"]);
    let tickets: Vec<&str> =
        printed.out.iter().map(|line| line.strip_prefix("nekopeer get ").unwrap()).collect();
    assert_eq!(tickets.len(), 2);
    let json = origin.done(&["ticket", "d", "--json"]).json();
    let of_d = json["tickets"][0]["ticket"].as_str().unwrap();
    origin.run(&["ticket", "nothing"]).failed_with(1, &["nothing"]);
    let reader = Home::at(&indexers, 0);
    reader.write("list", format!("{of_d}\nc\n"));
    reader.done(&["get", tickets[0], "b", tickets[1], "--names-from", "list"]);
    for name in ["a", "b", "c", "d", "sub/e"] {
        assert_eq!(reader.read(name), name.as_bytes());
    }
    // The ticket of a copy leads to its origin too.
    let of_copy =
        reader.done(&["ticket", "a"]).out[0].replace("nekopeer get ", "").parse::<Ticket>().unwrap();
    assert_eq!(of_copy.origin, tickets[0].parse::<Ticket>().unwrap().origin);
    origin.write("new", "new");
    let shared = origin.done(&["share", "new", "a", "--json"]).json();
    for file in shared["files"].as_array().unwrap() {
        let ticket = file["ticket"].as_str().unwrap().parse::<Ticket>().unwrap();
        assert_eq!(ticket.name.as_str(), file["name"].as_str().unwrap());
    }
}

/// A ticket of one machine says so there, and elsewhere, where at its loopback address nobody or somebody else listens.
#[test]
fn another_key_or_nobody_at_an_address_of_a_ticket_is_passed_over_and_said_where_there_is_no_other() {
    let (indexers, _origin, mut sharing, good) = shared();
    let good = good.parse::<Ticket>().unwrap();
    let other = Indexers::one();
    let wrong = IndexerAddr { addr: other.addr(0).parse().unwrap(), node: Identity::generate().id() };
    let both = Ticket { indexers: List::first_of([wrong, good.indexers[0]]), ..good.clone() };
    let reader = stranger();
    let got = reader.done(&["get", &both.to_string()]);
    assert!(got.err.iter().any(|line| line.contains(&other.addr(0)) && line.contains("key")), "{got:?}");
    assert_eq!(reader.read("f.txt"), b"one\n");
    // One that answers at one of its addresses is not complained of.
    let (_port, closed) = kept_port();
    let dead = IndexerAddr { addr: closed, ..good.indexers[0] };
    let both = Ticket { indexers: List::first_of([dead, good.indexers[0]]), ..good.clone() };
    let reader = stranger();
    let got = reader.done(&["get", &both.to_string()]);
    assert!(got.err.is_empty(), "{got:?}");
    // Whoever serves is told that its files are listed there, too.
    reader.write("own.txt", "own\n");
    reader.start(&["share", "own.txt"]).err_line("known here from before");
    assert!(sharing.out_line("nekopeer get neko:").starts_with("on this machine: "), "{}", sharing.said());
    sharing.err_line("for other machines: share with --lan");
    assert!(good.is_local());
    let elsewhere = "another machine than the one where the ticket was made";
    for (at, why) in [(dead, ""), (wrong, "key")] {
        let there = Ticket { indexers: List::first_of([at]), ..good.clone() };
        stranger().run(&["get", &there.to_string()]).failed_with(3, &[elsewhere, why]);
    }
    drop(indexers);
}

#[test]
fn a_running_peer_with_other_indexers_fetches_by_ticket_and_keeps_the_copy_coherent_wherever_its_origin_moves()
 {
    let (_indexers, origin, sharing, ticket) = shared();
    let (_others, reader) = one_home();
    let _serving = reader.serve(&[]);
    reader.run(&["get", "f.txt"]).failed_with(1, &["nobody shares f.txt"]);
    let got = reader.done(&["get", &ticket]);
    assert!(got.err.is_empty(), "{got:?}");
    origin.share_anew("f.txt", "two, longer\n");
    status_until(&reader, "version 2 is out");
    reader.gets("f.txt", b"two, longer\n");
    // By name alone, at the remembered indexers.
    origin.share_anew("g.txt", "another\n");
    reader.done(&["get", "g.txt"]);
    // An origin that moved is found again.
    drop(sharing);
    let _sharing = origin.share_file("f.txt", "three\n"); // at another port
    status_until(&reader, "version 3 is out");
    let elsewhere = stranger();
    elsewhere.done(&["get", &ticket]);
    assert_eq!(elsewhere.read("f.txt"), b"three\n");
}

#[test]
fn what_a_ticket_cannot_do_is_said_in_one_line() {
    let (_indexers, _origin, _sharing, text) = shared();
    let ticket = text.parse::<Ticket>().unwrap();
    let reader = stranger();
    let typo = format!("{}{}", &text[..text.len() - 1], if text.ends_with('a') { 'b' } else { 'a' });
    for (wrong, why) in [(typo.as_str(), "mistyped"), ("neko:", "mistyped"), ("neko:a!", "mistyped")] {
        let ended = reader.run(&["get", wrong]);
        assert!(ended.code == Some(2) && ended.err.concat().contains(why), "{wrong}: {ended:?}");
        assert!(ended.err.len() == 1 && ended.err[0].len() < 150, "{ended:?}");
    }
    let network = |name: &str| nekoproto::NetworkName::try_from(name.to_owned()).unwrap();
    let other = Ticket { network: network("other"), ..ticket.clone() }.to_string();
    reader.run(&["get", &other, "--network", "mine"]).failed_with(3, &["other", "mine"]);
    reader.run(&["get", &other, &text]).failed_with(2, &["different networks"]);
    let insecure = Ticket { insecure: true, ..ticket.clone() }.to_string();
    reader.run(&["get", &insecure]).failed_with(3, &["--insecure"]);
    reader.run(&["get", &text, "--insecure"]).failed_with(3, &["--insecure"]);
    let _serving = reader.serve(&[]);
    reader.run(&["get", &other]).failed_with(3, &["other", "nekop2p"]);
    let later = Ticket { version: Version::new(7), ..ticket }.to_string();
    let got = reader.done(&["get", &later]);
    assert!(got.err.iter().any(|line| line.contains("version 7 or later")), "{got:?}");
}

#[test]
fn a_ticket_of_a_network_without_tls_says_so_and_works() {
    let indexers = Indexers::line(1, Security::Insecure);
    let origin = Home::with(&["--insecure", "--indexer", &indexers.addr(0)]);
    let mut sharing = origin.share_file("f.txt", "one\n");
    let line = sharing.out_line("nekopeer get neko:");
    assert!(line.ends_with(" --insecure"), "{line}");
    let reader = Home::with(&["--insecure", "--discover", "127.0.0.1:0"]);
    reader.done(&["get", &ticket_of(&mut sharing)]);
    assert_eq!(reader.read("f.txt"), b"one\n");
}

#[test]
fn an_indexer_for_all_addresses_is_named_by_those_that_others_reach() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config = Config { listen: ([0, 0, 0, 0], 0).into(), ..Config::default() };
    let indexer = runtime.block_on(Indexer::spawn(config)).unwrap();
    let port = indexer.local_addr().port();
    let origin = Home::with(&["--indexer", &format!("127.0.0.1:{port}")]);
    let mut sharing = origin.share_file("f.txt", "one\n");
    let ticket = ticket_of(&mut sharing).parse::<Ticket>().unwrap();
    let expected: Vec<_> = nekoproto::transport::interfaces::addresses();
    let expected = expected.into_iter().filter(std::net::IpAddr::is_ipv4);
    let expected: Vec<_> = expected.chain([[127, 0, 0, 1].into()]).take(4).collect();
    let found: Vec<_> = ticket.indexers.iter().map(|indexer| indexer.addr.ip()).collect();
    assert_eq!(found, expected);
    assert!(ticket.indexers.iter().all(|at| at.node == indexer.node() && at.addr.port() == port));
    stranger().done(&["get", &ticket.to_string()]);
    drop(sharing);
    runtime.block_on(indexer.shutdown());
}

#[test]
fn what_is_here_by_a_ticket_is_updated_by_its_name_though_the_own_indexer_lists_the_old_copy() {
    let (_indexers, origin) = one_home();
    let mut sharing = origin.share_files([("f.txt", "one\n"), ("g.txt", "one\n")], &["f.txt", "g.txt"]);
    let ticket = ticket_of(&mut sharing);
    let of_g = origin.done(&["ticket", "g.txt"]).out[0].replace("nekopeer get ", "");
    let (_others, reader) = one_home();
    let _serving = reader.serve(&[]);
    reader.done(&["get", &ticket]);
    reader.done(&["get", &of_g]);
    for (n, names) in [&["f.txt"][..], &["f.txt", "g.txt"]].into_iter().enumerate() {
        let bytes = format!("version {}\n", n + 2);
        names.iter().for_each(|name| drop(origin.write(name, &bytes)));
        origin.done(&[&["share"], names].concat());
        reader.done(&[&["get"], names].concat());
        names.iter().for_each(|name| assert_eq!(reader.read(name), bytes.as_bytes(), "{name}"));
    }
}

#[test]
fn ticket_of_a_private_network_names_the_flag_of_its_secret() {
    let origin = Home::with(&["--discover", "127.0.0.1:0", "--network-secret", "secret"]);
    let secret = origin.secret("secret", "s");
    let mut sharing = origin.share_file("f.txt", "one\n");
    let line = sharing.out_line("nekopeer get neko:");
    assert!(line.ends_with(" --network-secret FILE"), "{line}");
    let ticket = ticket_in(&line);
    let reader = stranger();
    reader.run(&["get", ticket]).failed_with(3, &["--network-secret FILE"]);
    reader.done(&["get", ticket, "--network-secret", &secret]);
    assert_eq!(reader.read("f.txt"), b"one\n");
}
