//! A file is reached although nobody can connect to who shares it: a firewall, or a translator of addresses. If the
//! reader can be connected to, the sharer does so; if neither can, the indexer passes the bytes on.

use testkit::{lan::Lan, proxy::Proxy};

use crate::program::{hosts::*, *};

/// Host `sharer` shares, and host `reader` gets it; both know the indexer on the first host. Gives that and who shares.
fn reaches(lan: &Lan, sharer: u8, reader: u8) -> (Running, Running, Home) {
    let indexer = indexer(lan, 1, "0.0.0.0:7707", &[]);
    let [sharer, reader] = [sharer, reader].map(|host| home(lan, host, "10.66.0.1:7707"));
    let content = bytes(1, 3 * MIB);
    let sharing = sharer.shares(&content);
    reader.gets_soon(NAME, &content);
    sharer.share_anew(NAME, "two\n");
    let mut following = reader.start(&["follow", NAME]);
    reader.has_soon(&mut following, "two\n");
    sharer.share_anew(NAME, "three\n");
    reader.has_soon(&mut following, "three\n");
    (indexer, sharing, sharer)
}

#[test]
fn firewalled_sharer_reaches_an_open_reader_and_is_told_that_nobody_can_connect_to_it() {
    let Some(lan) = Lan::of([&[1, 2, 3]]) else { return };
    lan.firewall(2);
    let (_indexer, mut sharing, sharer) = reaches(&lan, 2, 3);
    sharing.err_line("others cannot connect to this machine at 10.66.0.2:");
    let status = sharer.done(&["status"]);
    assert!(status.err.iter().any(|line| line.contains("others cannot connect")), "{status:?}");
}

#[test]
fn sharer_behind_a_translator_reaches_an_open_reader() {
    let Some(lan) = Lan::of([&[1, 2, 3], &[2, 4]]) else { return };
    lan.translate(2);
    reaches(&lan, 4, 3);
}

#[test]
fn two_behind_firewalls_reach_each_other_through_the_indexer() {
    let Some(lan) = Lan::of([&[1, 2, 3]]) else { return };
    [2, 3].into_iter().for_each(|host| lan.firewall(host));
    reaches(&lan, 2, 3);
}

#[test]
fn two_behind_translators_reach_each_other_through_the_indexer() {
    let Some(lan) = Lan::of([&[1, 2, 3], &[2, 4], &[3, 5]]) else { return };
    [2, 3].into_iter().for_each(|host| lan.translate(host));
    reaches(&lan, 4, 5);
}

/// It sees both at its own machine.
#[test]
fn two_of_separate_networks_reach_each_other_through_an_indexer_behind_a_forwarder() {
    let Some(lan) = Lan::of([&[1, 2], &[1, 3]]) else { return };
    let _indexer = indexer(&lan, 1, "127.0.0.1:7708", &[]);
    let [all, to] = ["0.0.0.0:7707", "127.0.0.1:7708"].map(|addr| addr.parse().unwrap());
    let _forwarding = lan.host(1).within(|| {
        let runtime = Runtime::new().unwrap();
        let proxy = runtime.block_on(async { Proxy::begin(all, to) });
        (proxy, runtime)
    });
    let [sharer, reader] =
        [(2, "10.66.0.1:7707"), (3, "10.67.0.1:7707")].map(|(host, at)| home(&lan, host, at));
    let _sharing = sharer.shares("hello\n");
    reader.gets_soon(NAME, "hello\n");
}
