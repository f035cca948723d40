//! The program itself: what it prints, how it ends, what it keeps.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    os::unix::fs::PermissionsExt,
    process::{Output, Stdio},
    time::Duration,
};

use crate::common::{
    ANY_PORT, Peer, eventually, hits, http, indexer, nodes, peer::endpoint, query, record, within,
};
use nekoproto::{NoAnswer, NodeId, Purpose, Role, transport::Security};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

/// The program with these arguments, in a bare environment; it ends with this test.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nekoindexer"));
    command.args(args).env_clear().kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs it to its end.
pub(crate) async fn ends(args: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = command(args).output().await.unwrap();
    assert!(stdout.is_empty(), "{args:?} printed {}", String::from_utf8_lossy(&stdout));
    (status.code(), String::from_utf8(stderr).unwrap())
}

/// A running indexer.
pub(crate) struct Running {
    pub(crate) child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
    pub(crate) addr: SocketAddr,
}

impl Running {
    /// Starts it on a free port and reads where it listens.
    pub(crate) async fn begin(args: &[&str]) -> Self {
        Self::begin_on("127.0.0.1:0", args).await
    }

    async fn begin_on(listen: &str, args: &[&str]) -> Self {
        Self::of(command(&[&["--listen", listen], args].concat())).await
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

    async fn of(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = stdout.next_line().await.unwrap().unwrap_or_default();
        let addr = first.strip_prefix("listening on ").and_then(|addr| addr.parse().ok());
        let addr = addr.unwrap_or_else(|| panic!("the first line is {first:?}"));
        Self { child, stdout, addr }
    }

    /// Who it is.
    async fn node(&self) -> NodeId {
        let asker = endpoint(1, Role::Peer, Security::Tls);
        asker.dial(self.addr, Purpose::Control, None).await.unwrap().remote.node
    }

    /// Sends a signal; the exit code, when nothing further was printed.
    async fn ends_on(mut self, signal: Signal) -> Option<i32> {
        let pid = Pid::from_raw(self.child.id().unwrap().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
        assert_eq!(self.stdout.next_line().await.unwrap(), None, "a second line");
        self.child.wait().await.unwrap().code()
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
        for peer in [&here, &there] {
            peer.register([record(1, "a", 1)]).await;
        }
        // The second misses its neighbor until it is connected; the first hears of it then.
        for peer in [&there, &here] {
            let reply = eventually(async || {
                let reply = peer.query("a", 1).await;
                (reply.complete && reply.messages == 1).then_some(reply)
            });
            assert_eq!(hits(&reply.await), [(1, nodes([1, 2]))]);
        }
        assert_eq!(first.ends_on(Signal::TERM).await, Some(0));
        assert_eq!(second.ends_on(Signal::INT).await, Some(0));
    }
}

#[testkit::test]
async fn stopped_program_gives_its_port_back_at_once() {
    let mut running = Running::begin(&[]).await;
    for _ in 0..3 {
        let peer = Peer::join(1, running.addr, Security::Tls).await; // an open connection
        let addr = running.addr.to_string();
        assert_eq!(running.ends_on(Signal::TERM).await, Some(0));
        running = Running::begin_on(&addr, &[]).await;
        assert_eq!(running.addr.to_string(), addr);
        drop(peer);
    }
}

#[testkit::test]
async fn port_in_use_is_said_in_one_line() {
    let taken = TcpListener::bind(ANY_PORT).unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    let (code, stderr) = ends(&["--listen", &addr]).await;
    assert_eq!((code, stderr.lines().count()), (Some(3), 1), "{stderr}");
    assert!(
        stderr.contains(&format!("cannot listen on {addr}")) && stderr.matches("in use").count() == 1,
        "{stderr}"
    );
}

#[testkit::test]
async fn wrong_usage_is_named_and_exits_with_2() {
    let cases = [
        (&["--no-such-flag"][..], "--no-such-flag"),
        (&["--neighbors", "127.0.0.1:1,nowhere"], "nowhere"),
        (&["--neighbors", "127.0.0.1:99999"], "127.0.0.1:99999"),
        (&["--listen", "127.0.0.1"], "127.0.0.1"),
        (&["--lease-secs", "0"], "--lease-secs"),
        (&["surplus"], "surplus"),
    ];
    for (args, named) in cases {
        let (code, stderr) = ends(args).await;
        assert_eq!(code, Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(named), "{args:?}: {stderr}");
    }
}

#[testkit::test]
async fn configuration_file_is_obeyed_and_its_faults_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("indexer.toml");
    let path = path.to_str().unwrap();
    fs::write(path, "listen = '127.0.0.1:0'\nlease_secs = 7\ninsecure = true").unwrap();
    let running = Running::begin(&["--config", path, "--lease-secs", "8"]).await;
    let peer = Peer::join(1, running.addr, Security::Insecure).await;
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
        let (code, stderr) = ends(&["--config", path]).await;
        assert_eq!(code, Some(2), "{text}: {stderr}");
        assert!(stderr.contains(named), "{text}: {stderr}");
    }
    let (code, stderr) = ends(&["--config", "/no/such/file"]).await;
    assert_eq!(code, Some(2));
    assert!(stderr.contains("/no/such/file"), "{stderr}");
}

#[testkit::test]
async fn data_folder_keeps_the_node_and_its_key_private() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("made/by/the/program");
    let args = ["--data-dir", data_dir.to_str().unwrap()];
    let first = Running::begin(&args).await;
    let node = first.node().await;
    assert_eq!(first.ends_on(Signal::TERM).await, Some(0));
    let key = data_dir.join("indexer.key");
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);

    let again = Running::begin(&args).await;
    assert_eq!(again.node().await, node);
    assert_ne!(Running::begin(&[]).await.node().await, node);
    drop(again);

    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let (code, stderr) = ends(&[&["--listen", "127.0.0.1:0"][..], &args].concat()).await;
    assert_eq!(code, Some(3));
    assert!(stderr.contains("indexer.key") && stderr.contains("chmod 600"), "{stderr}");
}

#[testkit::test]
async fn program_that_stands_still_is_a_hop_that_did_not_answer_in_time() {
    let still = Running::begin(&["--insecure"]).await;
    let asked = indexer(Security::Insecure, &[still.addr]).await;
    asked.neighbors_reach(1).await;
    let peer = Peer::join(1, asked.local_addr(), Security::Insecure).await;
    let answer = async || {
        let reply = peer.client.trace(within(Duration::from_millis(800)), query("a", 2)).await;
        let reply = reply.expect("the asker itself answers in time").unwrap();
        assert_eq!((reply.hops.len(), reply.hops[1].addr), (2, Some(still.addr)), "{reply:?}");
        reply.hops[1].answer.clone().map(|_| ())
    };
    let pid = Pid::from_raw(still.child.id().unwrap().cast_signed()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    assert_eq!(answer().await, Err(NoAnswer::Late));
    kill_process(pid, Signal::CONT).unwrap();
    let answers = async || answer().await.ok();
    eventually(answers).await;
}

/// The program with an HTTP door, and where that is.
async fn with_http() -> (Running, SocketAddr) {
    let mut running = Running::begin(&["--http", "127.0.0.1:0"]).await;
    let line = running.stdout.next_line().await.unwrap().unwrap();
    let http = line.strip_prefix("http on http://").and_then(|line| line.strip_suffix('/'));
    (running, http.unwrap_or_else(|| panic!("the second line is {line:?}")).parse().unwrap())
}

/// Memory of a process in bytes.
fn memory(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    kib.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

/// Goal: a thousand readers of events cost less than 64 MiB, and each of them is told. Method: as many connections,
/// of which none reads before all are open.
#[testkit::test]
async fn a_thousand_readers_of_events_cost_little() {
    nekoproto::transport::raise_file_limit();
    let (running, http) = with_http().await;
    assert_eq!(http::page(http, "/status").await.0, 200);
    let before = memory(running.child.id().unwrap());
    let readers = tokio::task::spawn_blocking(move || {
        let request = "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let readers: Vec<_> = (0..1000).map(|_| http::send(http, request)).collect();
        let mut readers: Vec<_> = readers.into_iter().map(std::io::BufReader::new).collect();
        readers.iter_mut().for_each(|reader| drop(http::next_event(reader, "figures")));
        readers
    });
    let readers = readers.await.unwrap();
    let cost = memory(running.child.id().unwrap()).saturating_sub(before);
    assert!(cost < 64 << 20, "{cost} bytes");
    assert_eq!(http::page(http, "/healthz").await.0, 200, "beside all readers");
    drop(readers);
    assert_eq!(running.ends_on(Signal::TERM).await, Some(0));
}
