//! A file is reached from other machines: who shares names no address, has several networks, moves, loses its cable.
//! Where the machine allows no emulated network, the tests say so.

use std::thread;

use testkit::lan::{Cable, Lan};

use crate::{
    program::{hosts::*, *},
    tickets::ticket_of,
};

const ALL: &str = "0.0.0.0:7707";
/// That indexer, on the first host.
const INDEXER: &str = "10.66.0.1:7707";

/// By IPv4 and by IPv6: the sharer knows its indexer by the loopback address, others by another one.
#[test]
fn who_shares_beside_an_open_indexer_is_reached_from_other_machines() {
    for (listen, loopback, known) in
        [(ALL, "127.0.0.1:7707", INDEXER), ("[::]:7707", "[::1]:7707", "[fd66::1]:7707")]
    {
        let Some(lan) = Lan::of([&[1, 2, 3]]) else { return };
        let _indexers = [indexer(&lan, 1, listen, &[]), indexer(&lan, 3, listen, &[known])];
        let sharer = home(&lan, 1, loopback);
        let mut sharing = sharer.shares("hello\n");
        home(&lan, 2, known).gets_soon(NAME, "hello\n");
        home(&lan, 3, loopback).gets_soon(NAME, "hello\n");
        let stranger = Home::with(&["--discover", "127.0.0.1:0"]).on(lan.host(2));
        stranger.gets_soon(&ticket_of(&mut sharing), "hello\n");
    }
}

/// Who shares knows its indexer by IPv6.
#[test]
fn reader_without_ipv6_reaches_who_is_seen_over_ipv6() {
    let Some(lan) = Lan::of([&[1, 2, 3]]) else { return };
    let _indexer = indexer(&lan, 1, "[::]:7707", &[]);
    let sharer = home(&lan, 2, "[fd66::1]:7707");
    let _sharing = sharer.shares("hello\n");
    let mut flush = Command::new("ip");
    flush.args(["-6", "addr", "flush", "dev", "e0"]);
    assert!(lan.host(3).command(&flush).status().unwrap().success());
    home(&lan, 3, INDEXER).gets_soon(NAME, "hello\n");
}

#[test]
fn who_has_two_networks_is_reached_through_both() {
    let Some(lan) = Lan::of([&[1, 2, 3], &[1, 2, 4]]) else { return };
    let _indexer = indexer(&lan, 1, ALL, &[]);
    let sharer = home(&lan, 2, INDEXER);
    let _sharing = sharer.shares("hello\n");
    home(&lan, 3, INDEXER).gets_soon(NAME, "hello\n");
    home(&lan, 4, "10.67.0.1:7707").gets_soon(NAME, "hello\n");
}

#[test]
fn who_gets_another_address_is_reached_there_by_readers_and_followers() {
    let Some(lan) = Lan::of([&[1, 2, 3]]) else { return };
    let _indexer = indexer(&lan, 1, ALL, &[]);
    let [sharer, follower, reader] = [2, 3, 3].map(|host| home(&lan, host, INDEXER));
    let _sharing = sharer.shares("one\n");
    let mut following = follower.start(&["follow", NAME]);
    follower.has_soon(&mut following, "one\n");
    lan.move_to(2, 22);
    sharer.share_anew(NAME, "two\n");
    follower.has_soon(&mut following, "two\n");
    reader.gets_soon(NAME, "two\n");
}

#[test]
fn download_goes_on_when_its_source_gets_another_address() {
    let Some(lan) = Lan::of([&[1, 2, 3]]) else { return };
    let _indexer = indexer(&lan, 1, ALL, &[]);
    let [sharer, reader] = [2, 3].map(|host| home(&lan, host, INDEXER));
    let content = bytes(1, 6 * MIB);
    let _sharing = sharer.shares(&content);
    let mut getting = reader.start(&["get", NAME, "--limit-down", "1MiB"]);
    until(&mut getting, "the beginning", || reader.partial_len() > MIB as u64);
    lan.move_to(2, 22);
    let ended = getting.wait_within(SOON * 2).unwrap_or_else(|| panic!("hangs"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(reader.read(NAME) == content);
}

#[test]
fn cable_that_was_out_keeps_no_follower_from_the_next_update_and_who_shares_alone_is_found_where_it_moved() {
    let Some(lan) = Lan::of([&[1, 2]]) else { return };
    let [sharer, follower] = [1, 2].map(|host| home_that_discovers(&lan, host));
    let _sharing = sharer.share_files([(NAME, "one\n")], &["--lan", NAME]);
    follower.gets_soon(NAME, "one\n");
    let mut following = follower.start_out(&["follow", NAME], "is at version 1");
    sharer.share_anew(NAME, "two\n");
    follower.has_soon(&mut following, "two\n");
    lan.cable(2, Cable::Out);
    thread::sleep(Duration::from_secs(4)); // this is what happens, and not a wait for something
    lan.cable(2, Cable::In);
    sharer.share_anew(NAME, "three\n");
    follower.has_soon(&mut following, "three\n");
    following.interrupt();
    // It has an indexer of its own, which others find anew.
    lan.move_to(1, 11);
    sharer.share_anew(NAME, "four\n");
    follower.gets_soon(NAME, "four\n");
}

#[test]
fn who_started_before_its_cable_was_in_is_reached() {
    let Some(lan) = Lan::of([&[1, 2]]) else { return };
    lan.cable(1, Cable::Out);
    let _indexer = indexer(&lan, 1, ALL, &[]);
    let sharer = home(&lan, 1, "127.0.0.1:7707");
    let _sharing = sharer.shares("hello\n");
    lan.cable(1, Cable::In);
    home(&lan, 2, INDEXER).gets_soon(NAME, "hello\n");
}
