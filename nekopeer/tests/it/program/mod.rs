//! Helpers for the tests of the program: the real binary with its own folders, its output line by line, and
//! indexers.
#![allow(clippy::expect_used, reason = "a helper of tests fails by panicking")]

pub(crate) mod hosts;
pub(crate) mod indexer;

pub(crate) use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs::{self, File},
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use std::{ffi::OsStr, os::unix::fs::MetadataExt};

use nekoindexer::{Config, Indexer, IndexerHandle};
pub(crate) use nekoproto::transport::Security;
pub(crate) use rand::{RngExt, SeedableRng, rngs::StdRng};
use rexpect::{
    reader::Options,
    session::{PtySession, spawn_with_options},
};
pub(crate) use serde_json::{Value, json};
pub(crate) use tempfile::TempDir;
use testkit::lan::Namespace;
pub(crate) use testkit::program::*;
pub(crate) use tokio::runtime::Runtime;

pub(crate) use crate::common::{MIB, bytes, http::Http, kept_port};

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

pub(crate) struct Home {
    folder: TempDir,
    flags: Vec<String>,
    host: Option<Namespace>,
}

impl Home {
    pub(crate) fn at(indexers: &Indexers, place: usize) -> Self {
        Self::with(&["--indexer", &indexers.addr(place)])
    }

    pub(crate) fn with(flags: &[&str]) -> Self {
        let flags = flags.iter().map(ToString::to_string).collect();
        Self { folder: TempDir::new().unwrap(), flags, host: None }
    }

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

    /// Writes files whose bytes are their names.
    pub(crate) fn write_each(&self, names: &[&str]) {
        names.iter().for_each(|name| drop(self.write(name, name)));
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn partials(&self) -> Vec<fs::Metadata> {
        let entries = fs::read_dir(self.path(".neko/parts")).into_iter().flatten().map(Result::unwrap);
        let partials = entries.filter(|entry| entry.path().extension().is_none()); // the others are checkpoints
        partials.filter_map(|entry| entry.metadata().ok()).collect()
    }

    /// Bytes of partial files on disk: they have holes.
    pub(crate) fn partial_len(&self) -> u64 {
        self.partials().iter().map(|partial| partial.len().min(partial.blocks() * 512)).sum()
    }

    pub(crate) fn command<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nekopeer"));
        command.args(&self.flags).args(words);
        self.settle(&mut command);
        self.host.iter().fold(command, |command, host| host.command(&command))
    }

    /// The same, started by another program with these words before it.
    pub(crate) fn command_by(&self, program: &str, before: &[&str], words: &[&str]) -> Command {
        let ours = self.command(words);
        let mut command = Command::new(program);
        command.args(before).arg(ours.get_program()).args(ours.get_args());
        self.settle(&mut command);
        command
    }

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

    pub(crate) fn run(&self, words: &[&str]) -> Ended {
        Running::start(self.command(words)).wait()
    }

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

    /// A file with the secret of a network, and its path.
    pub(crate) fn secret(&self, name: &str, text: &str) -> String {
        let path = self.write(name, text.repeat(64) + "\n");
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
        self.text(name)
    }

    pub(crate) fn listed(&self) -> Vec<Value> {
        self.done(&["ls", "--json"]).json()["files"].as_array().unwrap().clone()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.listed().iter().map(|file| file["name"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn status(&self, name: &str) -> Value {
        self.done(&["status", name, "--json"]).json()["files"][0].clone()
    }

    pub(crate) fn serve(&self, flags: &[&str]) -> Running {
        self.start_err(&[&["serve"], flags].concat(), "serving on ")
    }

    pub(crate) fn publish(&self, paths: &[&str]) -> Ended {
        self.share(paths).interrupt()
    }

    /// Starts to share these paths; returns once they are served and registered.
    pub(crate) fn share(&self, paths: &[&str]) -> Running {
        self.start_err(&[&["share"], paths].concat(), "serving on ")
    }

    pub(crate) fn share_file(&self, name: &str, bytes: impl AsRef<[u8]>) -> Running {
        self.share_files([(name, bytes)], &[name])
    }

    /// Writes these files, and starts to share with these words.
    pub(crate) fn share_files<const N: usize>(
        &self,
        files: [(&str, impl AsRef<[u8]>); N],
        words: &[&str],
    ) -> Running {
        files.into_iter().for_each(|(name, bytes)| drop(self.write(name, bytes)));
        self.share(words)
    }

    /// Writes a file and shares it through the running peer.
    pub(crate) fn share_anew(&self, name: &str, bytes: impl AsRef<[u8]>) -> Ended {
        self.write(name, bytes);
        self.done(&["share", name])
    }

    #[track_caller]
    pub(crate) fn gets(&self, name: &str, bytes: impl AsRef<[u8]>) {
        self.done(&["get", name]);
        assert!(self.read(name) == bytes.as_ref(), "other bytes of {name}");
    }
}

pub(crate) fn one_home() -> (Indexers, Home) {
    let indexers = Indexers::one();
    let home = Home::at(&indexers, 0);
    (indexers, home)
}

pub(crate) fn two_homes() -> (Indexers, Home, Home) {
    let (indexers, home) = one_home();
    let other = Home::at(&indexers, 0);
    (indexers, home, other)
}

/// Two homes, of which the first shares a file with these bytes.
pub(crate) fn sharing(name: &str, bytes: impl AsRef<[u8]>) -> (Indexers, Home, Home, Running) {
    let (indexers, origin, reader) = two_homes();
    let sharing = origin.share_file(name, bytes);
    (indexers, origin, reader, sharing)
}

/// Runs a command at a terminal; escape codes are taken out of what it says if it `strips` them.
pub(crate) fn at_terminal(command: Command, strips: bool) -> PtySession {
    let options = Options::new().timeout_ms(u64::try_from(LIMIT.as_millis()).ok());
    spawn_with_options(command, options.strip_ansi_escape_codes(strips)).unwrap()
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

pub(crate) fn same(one: &Path, other: &Path) -> bool {
    fs::read(one).unwrap() == fs::read(other).unwrap()
}

pub(crate) fn fields(value: &Value, keys: &[&str]) -> Value {
    keys.iter().map(|key| value[key].clone()).collect()
}

pub(crate) fn has_keys(value: &Value, keys: &[&str]) -> bool {
    keys.iter().all(|key| value.get(key).is_some())
}
