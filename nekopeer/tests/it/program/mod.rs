//! Helpers for the tests of the program: the real binary with its own folders, its output line by line, and
//! indexers.
#![allow(clippy::expect_used, reason = "a helper of tests fails by panicking")]

pub(crate) mod hosts;
pub(crate) mod indexer;

use std::{
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::SocketAddr,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::{Duration, Instant},
};

use nekoindexer::{Config, Indexer, IndexerHandle};
use nekoproto::transport::Security;
use serde_json::Value;
use tempfile::TempDir;
use testkit::lan::Namespace;
use tokio::runtime::Runtime;

pub(crate) use crate::common::{MIB, bytes, kept_port};

/// Time limit of a program's run; one that exceeds it hangs, and fails the test.
pub(crate) const LIMIT: Duration = testkit::TEST_LIMIT;

/// Indexers in a line, each a neighbor of the previous one. Dropping them stops them.
pub(crate) struct Indexers {
    addrs: Vec<SocketAddr>,
    _handles: Vec<IndexerHandle>,
    _runtime: Runtime,
}

impl Indexers {
    pub(crate) fn one() -> Self {
        Self::line(1, Security::Tls)
    }

    pub(crate) fn line(count: usize, security: Security) -> Self {
        let runtime = Runtime::new().unwrap();
        let handles = runtime.block_on(testkit::network::line(security, count));
        let addrs = handles.iter().map(IndexerHandle::local_addr).collect();
        Self { addrs, _handles: handles, _runtime: runtime }
    }

    /// One indexer at this address.
    pub(crate) fn at(addr: SocketAddr) -> Self {
        let runtime = Runtime::new().unwrap();
        let config = Config { listen: addr, ..Config::default() };
        let handle = runtime.block_on(Indexer::spawn(config)).unwrap();
        Self { addrs: vec![addr], _handles: vec![handle], _runtime: runtime }
    }

    pub(crate) fn addr(&self, place: usize) -> String {
        self.addrs[place].to_string()
    }
}

/// A user's folder, and the indexer that the user gives.
pub(crate) struct Home {
    folder: TempDir,
    flags: Vec<String>,
    /// Where its commands run, if not on this machine.
    host: Option<Namespace>,
}

impl Home {
    /// Gives the indexer at index `place` with every command.
    pub(crate) fn at(indexers: &Indexers, place: usize) -> Self {
        Self::with(&["--indexer", &indexers.addr(place)])
    }

    /// Gives these flags with every command.
    pub(crate) fn with(flags: &[&str]) -> Self {
        let flags = flags.iter().map(ToString::to_string).collect();
        Self { folder: TempDir::new().unwrap(), flags, host: None }
    }

    /// The same, whose commands run on this host.
    pub(crate) fn on(self, host: &Namespace) -> Self {
        Self { host: Some(host.clone()), ..self }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    pub(crate) fn write_all<const N: usize>(&self, files: [(&str, &str); N]) {
        files.iter().for_each(|(name, text)| drop(self.write(name, text)));
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// What is known of the partial files of running downloads.
    pub(crate) fn partials(&self) -> Vec<fs::Metadata> {
        let entries = fs::read_dir(self.path(".neko/parts")).into_iter().flatten().map(Result::unwrap);
        let partials = entries.filter(|entry| entry.path().extension().is_none()); // the others are checkpoints
        partials.filter_map(|entry| entry.metadata().ok()).collect()
    }

    /// Bytes of partial files on disk: they have holes.
    pub(crate) fn partial_len(&self) -> u64 {
        self.partials().iter().map(|partial| partial.len().min(partial.blocks() * 512)).sum()
    }

    /// The program with these arguments, in this home's folder and environment.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nekopeer"));
        command.args(&self.flags).args(words);
        self.settle(&mut command);
        self.host.iter().fold(command, |command, host| host.command(&command))
    }

    /// Sets this home's folder and environment for any command.
    pub(crate) fn settle(&self, command: &mut Command) {
        let told = std::env::vars_os().map(|(name, _)| name);
        for name in told.filter(|name| name.to_string_lossy().starts_with("NEKO")) {
            command.env_remove(name);
        }
        command
            .env_remove("RUST_LOG")
            .env("XDG_CONFIG_HOME", self.path(".config"))
            .env("TERM", "xterm")
            .env("NEKO_NO_DISCOVERY", "1")
            .current_dir(self.folder.path());
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, words: &[&str]) -> Ended {
        Running::start(self.command(words)).wait()
    }

    /// Runs a command to its end, which must be successful.
    pub(crate) fn done(&self, words: &[&str]) -> Ended {
        let ended = self.run(words);
        assert_eq!(ended.code, Some(0), "{words:?}: {ended:?}");
        ended
    }

    pub(crate) fn start(&self, words: &[&str]) -> Running {
        Running::start(self.command(words))
    }

    /// Starts a command; returns once it prints a line that contains `text` on stdout.
    pub(crate) fn start_out(&self, words: &[&str], text: &str) -> Running {
        let mut running = self.start(words);
        running.out_line(text);
        running
    }

    /// The same, on stderr.
    pub(crate) fn start_err(&self, words: &[&str], text: &str) -> Running {
        let mut running = self.start(words);
        running.err_line(text);
        running
    }

    /// Starts to serve; returns once it does.
    pub(crate) fn serve(&self, flags: &[&str]) -> Running {
        self.start_err(&[&["serve"], flags].concat(), "serving on ")
    }

    /// Publishes these paths and ends.
    pub(crate) fn publish(&self, paths: &[&str]) -> Ended {
        self.share(paths).interrupt()
    }

    /// Starts to share these paths; returns once they are served and registered.
    pub(crate) fn share(&self, paths: &[&str]) -> Running {
        self.start_err(&[&["share"], paths].concat(), "serving on ")
    }

    /// Writes a file and starts to share it.
    pub(crate) fn share_file(&self, name: &str, bytes: impl AsRef<[u8]>) -> Running {
        self.write(name, bytes);
        self.share(&[name])
    }

    /// Writes a file and shares it through the running peer.
    pub(crate) fn share_anew(&self, name: &str, bytes: impl AsRef<[u8]>) -> Ended {
        self.write(name, bytes);
        self.done(&["share", name])
    }

    /// Gets a file, which must have these bytes.
    #[track_caller]
    pub(crate) fn gets(&self, name: &str, bytes: impl AsRef<[u8]>) {
        self.done(&["get", name]);
        assert!(self.read(name) == bytes.as_ref(), "other bytes of {name}");
    }
}

/// An indexer, and a home that gives it.
pub(crate) fn one_home() -> (Indexers, Home) {
    let indexers = Indexers::one();
    let home = Home::at(&indexers, 0);
    (indexers, home)
}

/// An indexer, and two homes that give it.
pub(crate) fn two_homes() -> (Indexers, Home, Home) {
    let (indexers, home) = one_home();
    let other = Home::at(&indexers, 0);
    (indexers, home, other)
}

/// Waits until `is_so`, while `running` runs.
pub(crate) fn until(running: &mut Running, what: &str, is_so: impl FnMut() -> bool) {
    until_within(LIMIT, running, what, is_so);
}

/// Waits until `running` has taken over SIGINT: until then that ends it without a word.
#[track_caller]
pub(crate) fn until_interruptible(running: &mut Running) {
    let status = format!("/proc/{}/status", running.id());
    until(running, "a handler of SIGINT", || {
        let status = fs::read_to_string(&status).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        caught.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).is_some_and(|bits| bits & 2 != 0)
    });
}

/// Waits until `is_so`, while `running` runs, for at most this long.
#[track_caller]
pub(crate) fn until_within(
    limit: Duration,
    running: &mut Running,
    what: &str,
    mut is_so: impl FnMut() -> bool,
) {
    let began = Instant::now();
    while !is_so() {
        assert!(running.is_running(), "it ended before {what}: {:?}", running.said());
        assert!(began.elapsed() < limit, "{what} did not come within {limit:?}: {}", running.said());
        std::thread::yield_now();
    }
}

/// A running program; dropping it kills it.
pub(crate) struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    out: Lines,
    err: Lines,
}

/// The exit code and output of a program.
#[derive(Debug)]
pub(crate) struct Ended {
    /// `None`: it was ended by a signal.
    pub(crate) code: Option<i32>,
    pub(crate) out: Vec<String>,
    pub(crate) err: Vec<String>,
}

struct Lines {
    coming: Receiver<String>,
    seen: Vec<String>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self::start_with(command)
    }

    /// Starts it with the stdin, stdout and stderr of the command.
    pub(crate) fn start_with(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        drop(command); // it holds our ends of the pipes
        let stdin = child.stdin.take();
        let out = Lines::of(child.stdout.take());
        let err = Lines::of(child.stderr.take());
        Self { child, stdin, out, err }
    }

    /// Waits for a line on stdout that contains `text`.
    pub(crate) fn out_line(&mut self, text: &str) -> String {
        self.out.wait_for(text).unwrap_or_else(|| panic!("no {text:?} on stdout: {}", self.said()))
    }

    /// Waits for a line on stderr that contains `text`.
    pub(crate) fn err_line(&mut self, text: &str) -> String {
        self.err.wait_for(text).unwrap_or_else(|| panic!("no {text:?} on stderr: {}", self.said()))
    }

    /// Whether a line so far on stderr contains `text`.
    pub(crate) fn err_was(&mut self, text: &str) -> bool {
        self.err.seen.extend(self.err.coming.try_iter());
        self.err.seen.iter().any(|line| line.contains(text))
    }

    /// Writes a line to its stdin.
    pub(crate) fn type_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        writeln!(stdin, "{line}").unwrap();
        stdin.flush().unwrap();
    }

    /// Writes a line to its stdin, and waits for a line on stdout that contains `text`.
    pub(crate) fn answers(&mut self, line: &str, text: &str) -> String {
        self.type_line(line);
        self.out_line(text)
    }

    pub(crate) fn id(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Sends it this signal; returns once all of its threads have stopped if that is STOP.
    pub(crate) fn signal(&self, name: &str) {
        let line = format!("kill -s {name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success());
        let tasks = format!("/proc/{}/task", self.child.id());
        let has_stopped = |task: fs::DirEntry| {
            let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
        };
        while name == "STOP" && !fs::read_dir(&tasks).unwrap().flatten().all(has_stopped) {
            std::thread::yield_now();
        }
    }

    /// Interrupts it, and waits for its end.
    pub(crate) fn interrupt(self) -> Ended {
        self.signal("INT");
        self.wait()
    }

    /// Where it serves, once it does.
    pub(crate) fn serves_at(&mut self) -> SocketAddr {
        let line = self.err_line("serving on ");
        let addr = line.split_whitespace().find_map(|word| word.trim_end_matches(',').parse().ok());
        addr.unwrap_or_else(|| panic!("{line}"))
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Ends its input.
    pub(crate) fn close_input(&mut self) {
        drop(self.stdin.take());
    }

    /// Closes its stdin and waits for its end.
    pub(crate) fn wait(mut self) -> Ended {
        self.close_input();
        self.wait_with_input_open()
    }

    /// Waits for its end; `None` if that takes longer than `limit`, and it is killed.
    pub(crate) fn wait_within(mut self, limit: Duration) -> Option<Ended> {
        let until = Instant::now() + limit;
        while self.is_running() {
            if Instant::now() > until {
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(self.wait())
    }

    /// Waits for its end with stdin open.
    pub(crate) fn wait_with_input_open(mut self) -> Ended {
        let ended = self.out.wait_for_end() && self.err.wait_for_end();
        assert!(ended, "hangs: {}", self.said());
        let code = self.child.wait().unwrap().code();
        Ended { code, out: std::mem::take(&mut self.out.seen), err: std::mem::take(&mut self.err.seen) }
    }

    /// All that it printed so far.
    pub(crate) fn said(&mut self) -> String {
        self.err_was("");
        self.out.seen.extend(self.out.coming.try_iter());
        format!("stdout {:#?}, stderr {:#?}", self.out.seen, self.err.seen)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended
        let _ = self.child.wait();
    }
}

impl Ended {
    /// The only line on stdout, as JSON.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.out.len(), 1, "one object: {self:?}");
        serde_json::from_str(&self.out[0]).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Asserts this exit code, and that stderr contains `text`.
    pub(crate) fn ended_with(&self, code: i32, text: &str) {
        assert!(self.code == Some(code) && self.err.join("\n").contains(text), "{code} {text:?}: {self:?}");
    }

    /// Asserts this exit code, and one line on stderr that contains these texts.
    pub(crate) fn failed_with(&self, code: i32, texts: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(self.err.len(), 1, "one line: {self:?}");
        assert!(texts.iter().all(|text| self.err[0].contains(text)), "{texts:?} in {self:?}");
    }
}

impl Lines {
    fn of(stream: Option<impl Read + Send + 'static>) -> Self {
        let (sender, coming) = channel();
        if let Some(stream) = stream {
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        Self { coming, seen: Vec::new() }
    }

    /// The first line that contains `text`, past or future.
    fn wait_for(&mut self, text: &str) -> Option<String> {
        if let Some(line) = self.seen.iter().find(|line| line.contains(text)) {
            return Some(line.clone());
        }
        let until = Instant::now() + LIMIT;
        while let Ok(line) = self.coming.recv_timeout(until.saturating_duration_since(Instant::now())) {
            self.seen.push(line.clone());
            if line.contains(text) {
                return Some(line);
            }
        }
        None
    }

    /// Whether the end comes within the time limit.
    fn wait_for_end(&mut self) -> bool {
        let until = Instant::now() + LIMIT;
        loop {
            match self.coming.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => self.seen.push(line),
                Err(RecvTimeoutError::Disconnected) => return true,
                Err(RecvTimeoutError::Timeout) => return false,
            }
        }
    }
}

/// Whether both files have equal bytes.
pub(crate) fn same(one: &Path, other: &Path) -> bool {
    fs::read(one).unwrap() == fs::read(other).unwrap()
}

/// What `value` has under these keys, in their order.
pub(crate) fn fields(value: &Value, keys: &[&str]) -> Value {
    keys.iter().map(|key| value[key].clone()).collect()
}

/// Whether `value` has all these keys.
pub(crate) fn has_keys(value: &Value, keys: &[&str]) -> bool {
    keys.iter().all(|key| value.get(key).is_some())
}
