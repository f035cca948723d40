//! Discovery on a local network of two machines, with multicast as it is. Where the machine allows no emulated network,
//! the tests say so; what announcements are believed is a unit test of `nekoindexer::announce`.

use testkit::lan::Lan;

use crate::{
    program::{hosts::*, *},
    tickets::ticket_of,
};

fn assert_alone(lan: &Lan, flags: &[&str]) {
    let home = Home::with(&[flags, &["--discover", "127.0.0.1:0"]].concat()).on(lan.host(2));
    home.run(&["query", NAME]).ended_with(3, "no indexer found");
}

/// The first machine shares a file, which the second finds by multicast, and by a ticket without it.
fn shared_and_fetched(lan: &Lan) -> (Running, Home) {
    let sharer = home_that_discovers(lan, 1);
    let mut sharing = sharer.share_files([(NAME, "hello\n")], &["--lan", NAME]);
    let reader = home_that_discovers(lan, 2);
    reader.gets_soon(NAME, "hello\n");
    // What was just heard is found without multicast.
    let stranger = Home::with(&["--no-discovery"]).on(lan.host(2));
    stranger.done(&["--data-dir", &reader.text(".neko"), "query", NAME]);
    stranger.done(&["get", &ticket_of(&mut sharing)]);
    assert_eq!(stranger.read(NAME), b"hello\n");
    (sharing, sharer)
}

#[test]
fn two_machines_need_no_address() {
    let Some(lan) = Lan::of([&[1, 2]]) else { return };
    let _sharing = shared_and_fetched(&lan);
    // Who may not listen to announcements, or is of another network, finds none.
    assert_alone(&lan, &["--no-discovery"]);
    assert_alone(&lan, &["--no-discovery=false", "--network", "other"]);
}

/// Linux gives each end of a cable without a DHCP server an address of `fe80::/10`, and no other.
#[test]
fn two_machines_on_one_cable_need_no_address_but_those_of_the_link() {
    let Some(lan) = Lan::of([&[1, 2]]) else { return };
    [1, 2].into_iter().for_each(|host| lan.forget_addresses(host));
    shared_and_fetched(&lan);
}

#[test]
fn private_indexer_that_is_announced_is_named_where_there_is_no_other() {
    let Some(lan) = Lan::of([&[1, 2]]) else { return };
    let sharer = home_that_discovers(&lan, 1);
    let secret = sharer.secret("secret", "s");
    let words = ["--lan", NAME, "--network-secret", &secret];
    let mut sharing = sharer.share_files([(NAME, "hello\n")], &words);
    let (reader, mut asked) = (home_that_discovers(&lan, 2), None);
    // Questions to all hosts may get lost.
    until(&mut sharing, "the indexer is heard", || {
        let ended = asked.insert(reader.run(&["query", NAME]));
        !ended.err.join("").contains("no indexer found")
    });
    let why = ["cannot be asked: ", "its network is private", "--network-secret FILE"];
    asked.unwrap().failed_with(3, &why);
}

#[test]
fn indexer_of_a_ticket_is_found_at_another_address_and_one_on_loopback_is_not_announced() {
    let Some(lan) = Lan::of([&[1, 2]]) else { return };
    let sharer = home_that_discovers(&lan, 1);
    let shares_at = |at: &str, content: &str| {
        sharer.write(NAME, content);
        sharer.share(&["--discover", at, NAME])
    };
    let mut sharing = shares_at("10.66.0.1:7001", "hello\n");
    let ticket = ticket_of(&mut sharing);
    sharing.interrupt();
    let sharing = shares_at("10.66.0.1:7002", "hello again\n");
    home_that_discovers(&lan, 2).gets_soon(&ticket, "hello again\n");
    sharing.interrupt();
    let mut sharing = sharer.share(&[NAME]);
    sharing.err_line("this machine only");
    assert_alone(&lan, &["--no-discovery=false"]);
}
