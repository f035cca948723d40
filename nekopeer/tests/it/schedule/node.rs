//! One process of a schedule: how it is started, asked, killed and paused.

use std::{
    env, fs,
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
    sync::Mutex,
    thread,
    time::Duration,
};

use nekoindexer::{Config, Indexer};
use nekoproto::transport::Security;

use super::network::Host;
use crate::program::{Ended, Home, Running};

/// Time limit of one command; a slower one counts as failed.
const COMMAND_WITHIN: Duration = Duration::from_secs(15);
/// Set for a process that is to be an indexer: its address and its neighbors.
const BE_INDEXER: &str = "NEKO_TEST_INDEXER";

/// A folder and the process that works on it.
pub(super) struct Node {
    pub(super) home: Home,
    role: Role,
    /// The host that it runs on, if not this one.
    host: Option<Host>,
    process: Mutex<Option<Running>>,
    /// Held while a command runs, and while the peer starts: a command that finds no running peer would be one.
    asking: Mutex<()>,
}

enum Role {
    /// A peer, with the arguments that it is started with.
    Peer(Vec<String>),
    /// An indexer, with the addresses of itself and its neighbors.
    Indexer(String),
}

/// Runs an indexer until it is killed, if this process was started for that.
#[expect(clippy::print_stdout, reason = "the line says that it listens")]
pub(super) fn be_an_indexer() {
    let Ok(text) = env::var(BE_INDEXER) else { return };
    let mut addrs = text.split(',').map(|addr| addr.parse().unwrap());
    let listen = addrs.next().unwrap();
    let config = Config { listen, neighbors: addrs.collect(), security: Security::Tls, ..Config::default() };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _indexer = runtime.block_on(Indexer::spawn(config)).unwrap();
    println!("listening");
    loop {
        thread::park();
    }
}

impl Node {
    /// A running indexer.
    pub(super) fn indexer(addr: SocketAddr, others: &[SocketAddr], host: Option<Host>) -> Self {
        let role = Role::Indexer(text([&[addr], others].concat().as_slice()));
        Self::start_as(role, Home::with(&[]), host)
    }

    /// A running peer that listens at `addr`.
    pub(super) fn peer(
        addr: SocketAddr,
        indexers: &[SocketAddr],
        flags: &[String],
        host: Option<Host>,
        home_of: Option<&Self>,
    ) -> Self {
        let home = Home::with(&["--indexer", &text(indexers)]);
        if let Some(other) = home_of {
            copy_folder(&other.home.path("."), &home.path("."));
        }
        let mut words = vec!["serve".to_owned(), "--listen".to_owned(), addr.to_string()];
        words.extend_from_slice(flags);
        Self::start_as(Role::Peer(words), home, host)
    }

    fn start_as(role: Role, home: Home, host: Option<Host>) -> Self {
        let node = Self { home, role, host, process: Mutex::default(), asking: Mutex::default() };
        node.start();
        node
    }

    pub(super) fn start(&self) {
        let _asking = self.asking.lock().unwrap();
        let mut process;
        match &self.role {
            Role::Peer(words) => {
                process = self.run(self.home.command(words));
                process.err_line("serving on ");
            }
            Role::Indexer(addrs) => {
                let mut command = Command::new(env::current_exe().unwrap());
                command.args(["--exact", "schedule::be_an_indexer", "--nocapture"]).env(BE_INDEXER, addrs);
                process = self.run(command);
                process.out_line("listening");
            }
        }
        *self.process.lock().unwrap() = Some(process);
    }

    fn run(&self, command: Command) -> Running {
        let mut command = self.host.iter().fold(command, |command, host| host.command(&command));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::start_with(command)
    }

    pub(super) fn kill(&self) {
        *self.process.lock().unwrap() = None; // dropping it kills it
    }

    pub(super) fn kill_for(&self, down: Duration) {
        self.kill();
        thread::sleep(down);
        self.start();
    }

    pub(super) fn pause_for(&self, down: Duration) {
        let process = self.process.lock().unwrap();
        process.as_ref().unwrap().signal("STOP");
        thread::sleep(down);
        process.as_ref().unwrap().signal("CONT");
    }

    /// All that it printed so far.
    pub(super) fn output(&self) -> Option<String> {
        self.process.lock().unwrap().as_mut().map(Running::said)
    }

    /// Has the running peer carry out a command; `None` if there is none, or it took too long.
    pub(super) fn ask(&self, words: &[&str]) -> Option<Ended> {
        let _asking = self.asking.lock().unwrap();
        if self.process.try_lock().is_ok_and(|process| process.is_none()) {
            return None;
        }
        let mut line = vec!["--json"];
        line.extend(words);
        self.run(self.home.command(&line)).wait_within(COMMAND_WITHIN)
    }
}

fn text(addrs: &[SocketAddr]) -> String {
    addrs.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Copies a folder and all in it; sockets are left out.
pub(super) fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (kind, to) = (entry.file_type().unwrap(), to.join(entry.file_name()));
        if kind.is_dir() {
            copy_folder(&entry.path(), &to);
        } else if kind.is_file() {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}
