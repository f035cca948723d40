//! The program itself: what it prints, how it ends, what it keeps.

use std::{net::TcpListener, os::unix::fs::PermissionsExt, process::Command};

use testkit::{
    holder::blocking,
    program::{self, Ended},
};

use crate::common::*;

pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nekoindexer"));
    command.args(args).env_clear();
    command
}

pub(crate) fn run(args: &[&str], variables: &[(&str, &str)]) -> Ended {
    let mut command = command(args);
    command.envs(variables.iter().copied());
    program::Running::start(command).wait()
}

/// Runs it with each of these arguments; it ends with this code and names what is wrong.
pub(crate) fn fails<const N: usize>(code: i32, cases: [(&[&str], &str); N]) {
    for (args, named) in cases {
        let ended = run(args, &[]);
        ended.ended_with(code, named);
        assert!(ended.out.is_empty(), "{args:?}: {ended:?}");
    }
}

pub(crate) struct Running {
    process: program::Running,
    pub(crate) addr: SocketAddr,
}

impl Running {
    pub(crate) fn begin(args: &[&str]) -> Self {
        Self::of(command(&[&["--listen", "127.0.0.1:0"], args].concat()))
    }

    pub(crate) fn begin_with_files(files: u32) -> Self {
        let program = env!("CARGO_BIN_EXE_nekoindexer");
        let line = format!("ulimit -n {files}; exec {program} --listen 127.0.0.1:0 --lease-secs 300");
        let mut command = Command::new("sh");
        command.args(["-c", &line]).env_clear();
        Self::of(command)
    }

    pub(crate) fn of(command: Command) -> Self {
        let mut running = Self { process: program::Running::start(command), addr: ANY_PORT };
        running.addr = running.addr_in("listening on ");
        running
    }

    /// The address in the line that it prints which begins like this.
    fn addr_in(&mut self, begin: &str) -> SocketAddr {
        let line = self.process.out_line(begin);
        line.trim_start_matches(begin).trim_end_matches('/').parse().unwrap()
    }

    async fn node(&self) -> NodeId {
        let asker = endpoint(1, Role::Peer, Security::Tls);
        asker.dial(self.addr, Purpose::Control, None).await.unwrap().remote.node
    }

    pub(crate) fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// Sends a signal; the exit code, if nothing was printed but where it listens.
    pub(crate) async fn ends_on(self, signal: &str) -> Option<i32> {
        self.signal(signal);
        let ended = blocking(move || self.process.wait()).await;
        assert!(ended.out.iter().all(|line| line.contains(" on ")), "{ended:?}");
        ended.code
    }

    pub(crate) fn memory(&self, line: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let kib = status.lines().find_map(|text| text.strip_prefix(line)).unwrap();
        kib.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
    }
}

#[testkit::test]
async fn two_programs_find_what_the_other_holds_and_end_when_told() {
    for (flags, security) in [(&[][..], Security::Tls), (&["--insecure"], Security::Insecure)] {
        let first = Running::begin(flags);
        let neighbor = first.addr.to_string();
        let second = Running::begin(&[&["--neighbors", &neighbor], flags].concat());
        assert!(first.addr.ip().is_loopback() && first.addr != second.addr);
        let here = Peer::join(1, first.addr, security).await;
        let there = Peer::join(2, second.addr, security).await;
        here.register([record(1, "here", 1)]).await;
        there.register([record(2, "there", 1)]).await;
        // The second misses its neighbor until it is connected; the first hears of it then, as of a guest.
        for (peer, text, origin) in [(&there, "here", 1), (&here, "there", 2)] {
            let reply = eventually(async || {
                let reply = peer.query(text, 1).await;
                (reply.complete && reply.messages == 1).then_some(reply)
            });
            assert_eq!(hits(&reply.await), [(1, nodes([origin]))]);
        }
        assert_eq!(first.ends_on("TERM").await, Some(0));
        assert_eq!(second.ends_on("INT").await, Some(0));
    }
}

#[testkit::test]
async fn stopped_program_gives_its_port_back_at_once() {
    let (_port, addr) = kept_port();
    for _ in 0..4 {
        let running = Running::of(command(&["--listen", &addr.to_string()]));
        assert_eq!(running.addr, addr);
        let _open = Peer::join(1, addr, Security::Tls).await;
        assert_eq!(running.ends_on("TERM").await, Some(0));
    }
}

#[testkit::test]
async fn port_in_use_is_said_in_one_line() {
    let taken = TcpListener::bind(ANY_PORT).unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    let ended = run(&["--listen", &addr], &[]);
    ended.failed_with(3, &[&format!("cannot listen on {addr}")]);
    assert_eq!(ended.err[0].matches("in use").count(), 1, "{ended:?}");
}

#[testkit::test]
async fn wrong_usage_is_named_and_exits_with_2() {
    let cases: [(&[&str], &str); 7] = [
        (&["--no-such-flag"], "--no-such-flag"),
        (&["--neighbors", "127.0.0.1:1,nowhere"], "nowhere"),
        (&["--neighbors", "127.0.0.1:99999"], "127.0.0.1:99999"),
        (&["--listen", "127.0.0.1"], "127.0.0.1"),
        (&["--lease-secs", "0"], "--lease-secs"),
        (&["surplus"], "surplus"),
        (&["--network", ""], "a network needs a name"),
    ];
    fails(2, cases);
}

#[testkit::test]
async fn configuration_file_is_obeyed_and_its_faults_are_named() {
    let (_folder, path) = testkit::temp_path("indexer.toml");
    let path = path.to_str().unwrap();
    fs::write(path, "listen = '127.0.0.1:0'\nlease_secs = 7\ninsecure = true").unwrap();
    let running = Running::begin(&["--config", path, "--lease-secs", "8"]);
    let peer = Peer::join(1, running.addr, CLEAR).await;
    assert_eq!(peer.register([record(1, "a", 1)]).await.lease.lease_ms, 8000, "the flag wins");

    let cases = [
        ("lisen = '127.0.0.1:0'", "lisen"),
        ("neighbors = ['nowhere']", "nowhere"),
        ("listen = ", "listen"),
        ("listen = '127.0.0.1:9'\nneighbors = ['127.0.0.1:9']", "127.0.0.1:9"),
        ("lease_secs = 0", "lease_secs"),
        ("listen = '127.0.0.1:9'\nhttp = '127.0.0.1:9'", "--http"),
    ];
    for (text, named) in cases {
        fs::write(path, text).unwrap();
        fails(2, [(&["--config", path], named)]);
    }
    fails(2, [(&["--config", "/no/such/file"], "/no/such/file")]);
}

#[testkit::test]
async fn data_folder_keeps_the_node_and_its_key_private() {
    let (_folder, data_dir) = testkit::temp_path("made/by/the/program");
    let args = ["--data-dir", data_dir.to_str().unwrap()];
    let id = run(&[&args[..], &["id"]].concat(), &[]).out;
    let key = data_dir.join("indexer.key");
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    for _ in 0..2 {
        let running = Running::begin(&args);
        assert_eq!([running.node().await.to_string()], *id);
        assert_eq!(running.ends_on("TERM").await, Some(0));
    }
    assert_ne!([Running::begin(&[]).node().await.to_string()], *id);
    fails(3, [(&["id"], "--data-dir")]);

    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let start = [&["--listen", "127.0.0.1:0"][..], &args].concat();
    fails(3, [(&start, "indexer.key"), (&start, "chmod 600")]);
}

#[testkit::test]
async fn secret_without_tls_is_refused_unless_the_link_is_closed() {
    let (_folder, secret) = testkit::temp_path("secret");
    fs::write(&secret, "s".repeat(64)).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let pair = ["--insecure", "--network-secret", secret.to_str().unwrap()];
    fails(2, [(&pair, "--closed-link")]);
    drop(Running::begin(&[&pair[..], &["--closed-link"]].concat()));
}

#[testkit::test]
async fn program_that_stands_still_is_a_hop_that_did_not_answer_in_time() {
    let still = Running::begin(&["--insecure"]);
    let asked = connected(CLEAR, &[still.addr]).await;
    let peer = Peer::join(1, asked.local_addr(), CLEAR).await;
    let answer = async || {
        let asked = async || peer.client.query(within(Duration::from_millis(800)), traced("a", 2)).await;
        let reply = in_time(asked).await.unwrap().trace.unwrap();
        assert_eq!((reply.hops.len(), reply.hops[1].addr), (2, Some(still.addr)), "{reply:?}");
        reply.hops[1].answer.clone().map(|_| ())
    };
    still.signal("STOP");
    assert_eq!(answer().await, Err(NoAnswer::Late));
    still.signal("CONT");
    eventually(async || answer().await.ok()).await;
}

/// Goal: a thousand readers of events cost less than 64 MiB, and each of them is told. Method: as many connections,
/// of which none reads before all are open.
#[testkit::test]
async fn a_thousand_readers_of_events_cost_little() {
    nekoproto::transport::raise_file_limit();
    let mut running = Running::begin(&["--http", "127.0.0.1:0"]);
    let addr = running.addr_in("http on http://");
    assert_eq!(http::get(addr, "/status").await.status, 200);
    let before = running.memory("VmRSS:");
    let readers = tokio::task::spawn_blocking(move || {
        let mut readers: Vec<_> = (0..1000).map(|_| http::Client::new(addr)).collect();
        readers.iter_mut().for_each(|reader| reader.request("GET", "/api/v1/events", &[], b""));
        readers.iter_mut().for_each(|reader| drop(reader.event("figures")));
        readers
    });
    let _readers = readers.await.unwrap();
    let cost = running.memory("VmRSS:").saturating_sub(before);
    assert!(cost < 64 << 20, "{cost} bytes");
    assert_eq!(http::get(addr, "/healthz").await.status, 200, "beside all readers");
    assert_eq!(running.ends_on("TERM").await, Some(0));
}
