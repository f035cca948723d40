//! One process of a schedule: how it is started, asked, killed and paused.

use testkit::lan::Host;

use crate::program::indexer::{LISTENS, an_indexer};

use crate::program::*;

/// Time limit of one command; a slower one counts as failed.
const COMMAND_WITHIN: Duration = Duration::from_secs(15);

pub(super) struct Node {
    pub(super) home: Home,
    role: Role,
    host: Option<Host>,
    process: Mutex<Option<Running>>,
    /// Held while a command runs, and while the peer starts: a command that finds no running peer would be one.
    asking: Mutex<()>,
}

enum Role {
    Peer(Vec<String>),
    /// An indexer, with the addresses of itself and its neighbors.
    Indexer(Vec<SocketAddr>),
}

impl Node {
    pub(super) fn indexer(addr: SocketAddr, others: &[SocketAddr], host: Option<Host>) -> Self {
        let role = Role::Indexer([&[addr], others].concat());
        Self::start_as(role, Home::with(&[]), host)
    }

    pub(super) fn peer(
        addr: SocketAddr,
        indexers: &[SocketAddr],
        flags: &[String],
        host: Option<Host>,
    ) -> Self {
        let home = Home::with(&["--indexer", &text(indexers)]);
        let mut words = vec!["serve".to_owned(), "--listen".to_owned(), addr.to_string()];
        words.extend_from_slice(flags);
        Self::start_as(Role::Peer(words), home, host)
    }

    /// A peer with a copy of the folder of `other`, which does not run; nor does this one.
    pub(super) fn peer_of(addr: SocketAddr, indexers: &[SocketAddr], other: &Self) -> Self {
        let home = Home::with(&["--indexer", &text(indexers)]);
        copy_folder(&other.home.path("."), &home.path("."));
        let role = Role::Peer(vec!["serve".to_owned(), "--listen".to_owned(), addr.to_string()]);
        Self { home, role, host: None, process: Mutex::default(), asking: Mutex::default() }
    }

    /// Starts it; `None` if it does not end by itself.
    pub(super) fn ends_by_itself(&self) -> Option<Ended> {
        let Role::Peer(words) = &self.role else { return None };
        self.run(self.home.command(words)).wait_within(COMMAND_WITHIN)
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
                process = self.run(an_indexer(addrs));
                process.out_line(LISTENS);
            }
        }
        *self.process.lock().unwrap() = Some(process);
    }

    fn run(&self, command: Command) -> Running {
        let mut command = self.host.iter().fold(command, |command, host| host.namespace.command(&command));
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
