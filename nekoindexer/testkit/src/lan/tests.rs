//! Hosts reach each other as far as the network lets them, and leave nothing behind.

use std::{
    fs,
    io::{self, Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    process::Command,
    time::Duration,
};

use super::{Cable, Lan};

const LONG: Duration = Duration::from_secs(10);
/// Time after which a connection does not come.
const SHORT: Duration = Duration::from_millis(300);

/// A connection from one host to another at this address, and both its ends, if it comes within this time.
fn connect(lan: &Lan, [from, to]: [u8; 2], at: &str, limit: Duration) -> io::Result<[TcpStream; 2]> {
    let listener = lan.host(to).within(|| TcpListener::bind("[::]:0"))?;
    let addr = SocketAddr::new(at.parse().unwrap(), listener.local_addr()?.port());
    let near = lan.host(from).within(|| TcpStream::connect_timeout(&addr, limit))?;
    Ok([near, listener.accept()?.0])
}

/// The address that `to` sees of who connects to it, if bytes pass in both directions.
fn seen(lan: &Lan, hosts: [u8; 2], at: &str) -> IpAddr {
    let ends = connect(lan, hosts, at, LONG).unwrap_or_else(|error| panic!("{hosts:?} at {at}: {error}"));
    passes(&ends);
    let [_, far] = ends;
    far.peer_addr().unwrap().ip().to_canonical()
}

fn passes([near, far]: &[TcpStream; 2]) {
    for (mut from, mut to) in [(near, far), (far, near)] {
        from.write_all(b"?").unwrap();
        to.set_read_timeout(Some(LONG)).unwrap();
        to.read_exact(&mut [0]).unwrap();
    }
}

fn is_blocked(lan: &Lan, hosts: [u8; 2], at: &str) -> bool {
    connect(lan, hosts, at, SHORT).is_err()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn hosts_of_a_network_reach_each_other_and_no_others() {
    let Some(lan) = Lan::of([&[1, 2], &[1, 3]]) else { return };
    for (hosts, at, seen_as) in [
        ([1, 2], "10.66.0.2", "10.66.0.1"),
        ([2, 1], "fd66::1", "fd66::2"),
        ([3, 1], "10.67.0.1", "10.67.0.3"),
        ([1, 3], "fd67::3", "fd67::1"),
        ([2, 2], "127.0.0.1", "127.0.0.1"),
    ] {
        assert_eq!(seen(&lan, hosts, at), ip(seen_as));
    }
    for (hosts, at) in [([2, 3], "10.67.0.3"), ([2, 3], "fd67::3"), ([2, 1], "10.67.0.1")] {
        assert!(is_blocked(&lan, hosts, at), "{hosts:?}");
    }
}

#[test]
fn firewall_drops_what_comes_and_lets_replies_pass() {
    let Some(lan) = Lan::of([&[1, 2]]) else { return };
    let before = connect(&lan, [1, 2], "10.66.0.2", LONG).unwrap();
    lan.firewall(2);
    for (near, far) in [("10.66.0.2", "10.66.0.1"), ("fd66::2", "fd66::1")] {
        assert!(is_blocked(&lan, [1, 2], near), "{near}");
        assert_eq!(seen(&lan, [2, 1], far), ip(near));
        assert_eq!(seen(&lan, [2, 2], near), ip(near), "the host itself");
    }
    passes(&before);
}

#[test]
fn translator_lets_out_and_nothing_in() {
    let Some(lan) = Lan::of([&[1, 2], &[2, 3]]) else { return };
    lan.translate(2);
    assert_eq!(seen(&lan, [3, 1], "10.66.0.1"), ip("10.66.0.2"));
    assert_eq!(seen(&lan, [3, 2], "10.67.0.2"), ip("10.67.0.3"));
    assert!(is_blocked(&lan, [1, 3], "10.67.0.3"));
    lan.ip(1, "route replace default via 10.66.0.2\n");
    assert!(is_blocked(&lan, [1, 3], "10.67.0.3"), "also if asked to");
}

#[test]
fn host_that_moved_is_where_it_moved_to() {
    let Some(lan) = Lan::of([&[1, 2]]) else { return };
    let _before = connect(&lan, [1, 2], "10.66.0.2", LONG).unwrap();
    lan.move_to(2, 22);
    for (old, new, other) in [("10.66.0.2", "10.66.0.22", "10.66.0.1"), ("fd66::2", "fd66::22", "fd66::1")] {
        assert!(is_blocked(&lan, [1, 2], old));
        assert_eq!(seen(&lan, [1, 2], new), ip(other));
        assert_eq!(seen(&lan, [2, 1], other), ip(new));
    }
}

#[test]
fn cable_that_is_out_lets_nothing_pass_and_connections_go_on_when_it_is_in() {
    let Some(lan) = Lan::of([&[1, 2]]) else { return };
    let before = connect(&lan, [1, 2], "10.66.0.2", LONG).unwrap();
    lan.cable(2, Cable::Out);
    for hosts in [[1, 2], [2, 1]] {
        assert!(is_blocked(&lan, hosts, &format!("10.66.0.{}", hosts[1])));
        assert!(is_blocked(&lan, hosts, &format!("fd66::{}", hosts[1])));
    }
    lan.cable(2, Cable::In);
    passes(&before);
    assert_eq!(seen(&lan, [2, 1], "fd66::1"), ip("fd66::2"));
}

#[test]
fn nothing_is_left_of_a_network_whose_test_panicked() {
    fn held() -> Vec<PathBuf> {
        let open = fs::read_dir("/proc/self/fd").unwrap().map(|file| file.unwrap().path());
        open.filter_map(|path| fs::read_link(path).ok()).collect()
    }
    let mut hosts = Vec::new();
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let Some(lan) = Lan::of([&[1, 2]]) else { return };
        let number = |host: u8| lan.host(host).within(|| fs::read_link("/proc/thread-self/ns/net")).unwrap();
        hosts.extend([1, 2].map(number));
        assert!(hosts.iter().all(|host| held().contains(host)));
        let mut program = Command::new("sh");
        program.args(["-c", "test $TOLD = so && ip -brief addr | grep -q 10.66.0.1"]).env("TOLD", "so");
        assert!(lan.host(1).command(&program).status().unwrap().success());
        panic!("as a test does");
    }));
    assert_eq!(ended.is_err(), !hosts.is_empty());
    assert!(hosts.iter().all(|host| !held().contains(host)));
}
