//! The program itself: what it prints, how it ends, what it keeps.

use std::{
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    process::{Output, Stdio},
};

pub(crate) use rustix::process::Signal;
use rustix::process::{Pid, kill_process};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

use crate::common::*;

/// The program with these arguments, in a bare environment; it ends with this test.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nekoindexer"));
    command.args(args).env_clear().kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs it to its end: the exit code, and what it printed.
pub(crate) async fn run(args: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let output = command(args).envs(variables.iter().copied()).output().await.unwrap();
    let Output { status, stdout, stderr } = output;
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// Runs it with each of these arguments; it ends with this code and names what is wrong.
pub(crate) async fn fails<const N: usize>(code: i32, cases: [(&[&str], &str); N]) {
    for (args, named) in cases {
        let (ended, stdout, stderr) = run(args, &[]).await;
        assert_eq!((ended, &stdout[..]), (Some(code), ""), "{args:?}: {stderr}");
        assert!(stderr.contains(named), "{args:?}: {stderr}");
    }
}

/// A running indexer.
pub(crate) struct Running {
    child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
    pub(crate) addr: SocketAddr,
}

impl Running {
    /// Starts it on a free port and reads where it listens.
    pub(crate) async fn begin(args: &[&str]) -> Self {
        Self::of(command(&[&["--listen", "127.0.0.1:0"], args].concat())).await
    }

    /// The same, allowed to open this number of files and sockets.
    pub(crate) async fn begin_with_files(files: u32) -> Self {
        let program = env!("CARGO_BIN_EXE_nekoindexer");
        let line = format!("ulimit -n {files}; exec {program} --listen 127.0.0.1:0");
        let mut command = Command::new("sh");
        command.args(["-c", &line]).env_clear().kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        Self::of(command).await
    }

    pub(crate) async fn of(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut running = Self { child, stdout, addr: ANY_PORT };
        running.addr = running.next_line("listening on ").await;
        running
    }

    /// The address in the next line that it prints, which begins like this.
    async fn next_line(&mut self, begin: &str) -> SocketAddr {
        let line = self.stdout.next_line().await.unwrap().unwrap_or_default();
        let addr = line.strip_prefix(begin).and_then(|addr| addr.trim_end_matches('/').parse().ok());
        addr.unwrap_or_else(|| panic!("no {begin:?} in {line:?}"))
    }

    /// Who it is.
    async fn node(&self) -> NodeId {
        let asker = endpoint(1, Role::Peer, Security::Tls);
        asker.dial(self.addr, Purpose::Control, None).await.unwrap().remote.node
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().unwrap().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Sends a signal; the exit code, when nothing further was printed.
    pub(crate) async fn ends_on(mut self, signal: Signal) -> Option<i32> {
        self.signal(signal);
        assert_eq!(self.stdout.next_line().await.unwrap(), None, "a second line");
        self.child.wait().await.unwrap().code()
    }

    /// Bytes of memory, by this line of its status.
    pub(crate) fn memory(&self, line: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id().unwrap())).unwrap();
        let kib = status.lines().find_map(|text| text.strip_prefix(line)).unwrap();
        kib.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
    }
}

#[testkit::test]
async fn two_programs_find_what_the_other_holds_and_end_when_told() {
    for (flags, security) in [(&[][..], Security::Tls), (&["--insecure"], Security::Insecure)] {
        let first = Running::begin(flags).await;
        let neighbor = first.addr.to_string();
        let second = Running::begin(&[&["--neighbors", &neighbor], flags].concat()).await;
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
        assert_eq!(first.ends_on(Signal::TERM).await, Some(0));
        assert_eq!(second.ends_on(Signal::INT).await, Some(0));
    }
}

#[testkit::test]
async fn stopped_program_gives_its_port_back_at_once() {
    let mut running = Running::begin(&[]).await;
    for _ in 0..3 {
        let _open = Peer::join(1, running.addr, Security::Tls).await;
        let addr = running.addr;
        assert_eq!(running.ends_on(Signal::TERM).await, Some(0));
        running = Running::of(command(&["--listen", &addr.to_string()])).await;
        assert_eq!(running.addr, addr);
    }
}

#[testkit::test]
async fn port_in_use_is_said_in_one_line() {
    let taken = TcpListener::bind(ANY_PORT).unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    let (code, _, stderr) = run(&["--listen", &addr], &[]).await;
    assert_eq!((code, stderr.lines().count()), (Some(3), 1), "{stderr}");
    let is_said = stderr.contains(&format!("cannot listen on {addr}"));
    assert!(is_said && stderr.matches("in use").count() == 1, "{stderr}");
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
    fails(2, cases).await;
}

#[testkit::test]
async fn configuration_file_is_obeyed_and_its_faults_are_named() {
    let (_folder, path) = testkit::temp_path("indexer.toml");
    let path = path.to_str().unwrap();
    fs::write(path, "listen = '127.0.0.1:0'\nlease_secs = 7\ninsecure = true").unwrap();
    let running = Running::begin(&["--config", path, "--lease-secs", "8"]).await;
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
        fails(2, [(&["--config", path], named)]).await;
    }
    fails(2, [(&["--config", "/no/such/file"], "/no/such/file")]).await;
}

#[testkit::test]
async fn data_folder_keeps_the_node_and_its_key_private() {
    let (_folder, data_dir) = testkit::temp_path("made/by/the/program");
    let args = ["--data-dir", data_dir.to_str().unwrap()];
    let (code, id, _) = run(&[&args[..], &["id"]].concat(), &[]).await;
    assert_eq!(code, Some(0));
    let key = data_dir.join("indexer.key");
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    for _ in 0..2 {
        let running = Running::begin(&args).await;
        assert_eq!(format!("{}\n", running.node().await), id);
        assert_eq!(running.ends_on(Signal::TERM).await, Some(0));
    }
    assert_ne!(format!("{}\n", Running::begin(&[]).await.node().await), id);
    fails(3, [(&["id"], "--data-dir")]).await;

    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let start = [&["--listen", "127.0.0.1:0"][..], &args].concat();
    fails(3, [(&start, "indexer.key"), (&start, "chmod 600")]).await;
}

#[testkit::test]
async fn secret_without_tls_is_refused_unless_the_link_is_closed() {
    let (_folder, secret) = testkit::temp_path("secret");
    fs::write(&secret, "s".repeat(64)).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let pair = ["--insecure", "--network-secret", secret.to_str().unwrap()];
    fails(2, [(&pair, "--closed-link")]).await;
    drop(Running::begin(&[&pair[..], &["--closed-link"]].concat()).await);
}

#[testkit::test]
async fn program_that_stands_still_is_a_hop_that_did_not_answer_in_time() {
    let still = Running::begin(&["--insecure"]).await;
    let asked = connected(CLEAR, &[still.addr]).await;
    let peer = Peer::join(1, asked.local_addr(), CLEAR).await;
    let answer = async || {
        let reply = peer.client.query(within(Duration::from_millis(800)), traced("a", 2)).await;
        let reply = reply.expect("the asker itself answers in time").unwrap().trace.unwrap();
        assert_eq!((reply.hops.len(), reply.hops[1].addr), (2, Some(still.addr)), "{reply:?}");
        reply.hops[1].answer.clone().map(|_| ())
    };
    still.signal(Signal::STOP);
    assert_eq!(answer().await, Err(NoAnswer::Late));
    still.signal(Signal::CONT);
    eventually(async || answer().await.ok()).await;
}

/// Goal: a thousand readers of events cost less than 64 MiB, and each of them is told. Method: as many connections,
/// of which none reads before all are open.
#[testkit::test]
async fn a_thousand_readers_of_events_cost_little() {
    nekoproto::transport::raise_file_limit();
    let mut running = Running::begin(&["--http", "127.0.0.1:0"]).await;
    let addr = running.next_line("http on http://").await;
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
    assert_eq!(running.ends_on(Signal::TERM).await, Some(0));
}
