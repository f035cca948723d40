//! The processes of a schedule: how they are started, asked, killed, paused, restored and multiplied.

use std::{
    env, fs,
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use nekoindexer::{Config, Indexer};
use nekoproto::transport::Security;
use rand::{RngExt, rngs::StdRng};
use serde_json::Value;

use super::history::History;
use crate::program::{Ended, FreeAddr, Home, Running, bytes};

/// Number of indexers, all neighbors of each other.
pub(super) const INDEXERS: usize = 3;
/// What is published: name, policy flags, and the bound of the policy in seconds.
pub(super) const FILES: [(&str, &[&str], u64); 4] = [
    ("push", &["--policy", "push", "--lease", "2"], 2),
    ("pull", &["--policy", "pull", "--ttr", "2"], 2),
    ("hybrid", &["--policy", "hybrid", "--lease", "3", "--ttr", "2"], 2),
    ("strict", &["--policy", "hybrid", "--lease", "2", "--ttr", "3", "--no-serve-stale"], 2),
];
/// The readers: what each does with outdated copies, and its own bound in seconds.
pub(super) const READERS: [(&str, Option<u64>); 5] =
    [("keep", None), ("refetch", None), ("drop", None), ("keep", Some(1)), ("refetch", Some(1))];

/// Time limit of one command; a slower one counts as failed.
const COMMAND_WITHIN: Duration = Duration::from_secs(15);
/// Time for everybody to follow the last version once all is well.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(60);
/// Set for a process that is to be an indexer: its address and its neighbors.
const BE_INDEXER: &str = "NEKO_TEST_INDEXER";

/// All processes.
pub(super) struct World {
    indexers: Vec<Mutex<Indexing>>,
    origin: Node,
    readers: Vec<Node>,
    /// A copy of the origin's data folder, and when it was made.
    backup: Mutex<Option<(tempfile::TempDir, Instant)>>,
    /// Held while the origin or a copy of its folder publishes: two that publish at the very same moment, out of
    /// touch with each other, cannot but use the same number.
    publishing: Mutex<()>,
}

struct Indexing {
    addrs: Vec<SocketAddr>,
    place: usize,
    process: Option<Running>,
}

/// A folder and the peer that serves it.
struct Node {
    home: Home,
    serve: Vec<String>,
    process: Mutex<Option<Running>>,
    /// Held while a command runs, and while the peer starts: a command that finds no running peer would be one.
    asking: Mutex<()>,
}

pub(super) fn pause(ms: u64) {
    thread::sleep(Duration::from_millis(ms));
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

impl Indexing {
    fn start(&mut self) {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "schedule::be_an_indexer", "--nocapture"]);
        let others = self.addrs.iter().enumerate().filter(|(place, _)| *place != self.place);
        let mut addrs = vec![self.addrs[self.place].to_string()];
        addrs.extend(others.map(|(_, addr)| addr.to_string()));
        command.env(BE_INDEXER, addrs.join(",")).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Running::start_with(command);
        process.out_line("listening");
        self.process = Some(process);
    }
}

impl Node {
    fn new(indexers: &[SocketAddr], flags: &[String]) -> Self {
        let listen = FreeAddr::reserve().addr.to_string();
        let indexers: Vec<String> = indexers.iter().map(ToString::to_string).collect();
        let home = Home::with(&["--indexer", &indexers.join(",")]);
        let mut serve = vec!["serve".to_owned(), "--listen".to_owned(), listen];
        serve.extend_from_slice(flags);
        Self { home, serve, process: Mutex::default(), asking: Mutex::default() }
    }

    fn start(&self) {
        let _asking = self.asking.lock().unwrap();
        let words: Vec<&str> = self.serve.iter().map(String::as_str).collect();
        let mut process = self.home.start(&words);
        process.err_line("serving on ");
        *self.process.lock().unwrap() = Some(process);
    }

    fn kill(&self) {
        *self.process.lock().unwrap() = None; // dropping it kills it
    }

    fn kill_for(&self, down: Duration) {
        self.kill();
        thread::sleep(down);
        self.start();
    }

    fn pause_for(&self, down: Duration) {
        let process = self.process.lock().unwrap();
        process.as_ref().unwrap().signal("STOP");
        thread::sleep(down);
        process.as_ref().unwrap().signal("CONT");
    }

    /// Has the running peer carry out a command; `None` if there is none, or it took too long.
    fn ask(&self, words: &[&str]) -> Option<Ended> {
        let _asking = self.asking.lock().unwrap();
        if self.process.try_lock().is_ok_and(|process| process.is_none()) {
            return None;
        }
        let mut line = vec!["--json"];
        line.extend(words);
        self.home.start(&line).wait_within(COMMAND_WITHIN)
    }
}

impl World {
    /// Starts everything.
    pub(super) fn start() -> Self {
        let reserved: Vec<FreeAddr> = (0..INDEXERS).map(|_| FreeAddr::reserve()).collect();
        let addrs: Vec<SocketAddr> = reserved.iter().map(|free| free.addr).collect();
        drop(reserved);
        let indexing = |place| {
            let mut indexing = Indexing { addrs: addrs.clone(), place, process: None };
            indexing.start();
            Mutex::new(indexing)
        };
        let indexers = (0..INDEXERS).map(indexing).collect();
        let node = |indexers: &[SocketAddr], flags: &[String]| {
            let node = Node::new(indexers, flags);
            node.start();
            node
        };
        let origin = node(&addrs, &[]);
        let reader = |(number, (on_stale, ttr)): (usize, &(&str, Option<u64>))| {
            let mut flags = vec!["--on-stale".to_owned(), (*on_stale).to_owned()];
            flags.extend(ttr.iter().flat_map(|secs| ["--ttr".to_owned(), secs.to_string()]));
            node(&[addrs[number % INDEXERS], addrs[(number + 1) % INDEXERS]], &flags)
        };
        let readers = READERS.iter().enumerate().map(reader).collect();
        Self { indexers, origin, readers, backup: Mutex::default(), publishing: Mutex::default() }
    }

    /// Publishes new bytes of a file at the origin.
    pub(super) fn publish(&self, file: usize, seed: u64, history: &History) {
        let _publishing = self.publishing.lock().unwrap();
        publish_at(&self.origin, "origin", file, seed, history);
    }

    /// One random command of a reader.
    pub(super) fn read(&self, reader: usize, rng: &mut StdRng, history: &History) {
        pause(rng.random_range(0..150));
        let node = &self.readers[reader];
        let (who, asked_at) = (format!("reader {reader}"), Instant::now());
        if rng.random_range(0..3) > 0 {
            let command = if rng.random() { "ls" } else { "status" };
            let Some(ended) = node.ask(&[command]).filter(|ended| ended.code == Some(0)) else { return };
            for row in ended.json()["files"].as_array().unwrap() {
                note_copy(history, &who, row, reader, asked_at);
            }
            return;
        }
        let (name, ..) = FILES[rng.random_range(0..FILES.len())];
        let Some(ended) = node.ask(&["get", name]) else { return };
        if ended.code == Some(0) {
            note_copy(history, &who, &ended.json(), reader, asked_at);
        } else {
            history.note(format!("{who}: get {name}: {:?}", ended.err.last().or(ended.out.last())));
        }
    }

    /// Kills a reader, and starts it after `down`.
    pub(super) fn kill_reader(&self, reader: usize, down: Duration, history: &History) {
        history.fault(format!("reader {reader} is killed for {down:?}"));
        self.readers[reader].kill_for(down);
    }

    /// Stops a reader for `down`.
    pub(super) fn pause_reader(&self, reader: usize, down: Duration, history: &History) {
        history.fault(format!("reader {reader} is paused for {down:?}"));
        self.readers[reader].pause_for(down);
    }

    /// Kills an indexer, and starts it after `down`.
    pub(super) fn kill_indexer(&self, place: usize, down: Duration, history: &History) {
        history.fault(format!("indexer {place} is killed for {down:?}"));
        let mut indexer = self.indexers[place].lock().unwrap();
        indexer.process = None;
        thread::sleep(down);
        indexer.start();
    }

    /// Stops an indexer for `down`.
    pub(super) fn pause_indexer(&self, place: usize, down: Duration, history: &History) {
        history.fault(format!("indexer {place} is paused for {down:?}"));
        let indexer = self.indexers[place].lock().unwrap();
        indexer.process.as_ref().unwrap().signal("STOP");
        thread::sleep(down);
        indexer.process.as_ref().unwrap().signal("CONT");
    }

    /// Kills the origin, and starts it after `down`.
    pub(super) fn kill_origin(&self, down: Duration, history: &History) {
        history.fault(format!("the origin is killed for {down:?}"));
        self.origin.kill_for(down);
    }

    /// Stops the origin for `down`.
    pub(super) fn pause_origin(&self, down: Duration, history: &History) {
        history.fault(format!("the origin is paused for {down:?}"));
        self.origin.pause_for(down);
    }

    /// Keeps a copy of the origin's data folder.
    pub(super) fn back_up_origin(&self, history: &History) {
        let _publishing = self.publishing.lock().unwrap();
        history.fault("the origin's data folder is copied".to_owned());
        self.origin.kill();
        let folder = tempfile::tempdir().unwrap();
        copy_folder(&self.origin.home.path(".neko"), folder.path());
        *self.backup.lock().unwrap() = Some((folder, Instant::now()));
        self.origin.start();
    }

    /// Puts the copy of the origin's data folder back in place.
    pub(super) fn restore_origin(&self, history: &History) {
        let Some((folder, taken_at)) = self.backup.lock().unwrap().take() else { return };
        let _publishing = self.publishing.lock().unwrap();
        history.fault("the origin's data folder is restored".to_owned());
        self.origin.kill();
        let data = self.origin.home.path(".neko");
        fs::remove_dir_all(&data).unwrap();
        copy_folder(folder.path(), &data);
        history.set_back_to(taken_at);
        self.origin.start();
    }

    /// The origin loses its catalogue and keeps its key; its user publishes the files again.
    pub(super) fn lose_catalogue(&self, history: &History) {
        let _publishing = self.publishing.lock().unwrap();
        history.fault("the origin loses its catalogue".to_owned());
        self.origin.kill();
        fs::remove_file(self.origin.home.path(".neko/catalogue.redb")).unwrap();
        self.origin.start();
        (0..FILES.len()).for_each(|file| publish_at(&self.origin, "origin", file, file as u64, history));
    }

    /// Runs a copy of the origin's folder beside the origin, publishes at both in turns, and ends the copy.
    pub(super) fn run_clone(&self, file: usize, seed: u64, history: &History) {
        let _publishing = self.publishing.lock().unwrap();
        history.fault("a copy of the origin's folder is run".to_owned());
        self.origin.kill();
        let clone = Node::new(&self.indexers[0].lock().unwrap().addrs, &[]);
        copy_folder(&self.origin.home.path("."), &clone.home.path("."));
        self.origin.start();
        clone.start();
        publish_at(&clone, "clone", file, seed, history);
        publish_at(&self.origin, "origin", file, seed ^ 1, history);
        publish_at(&clone, "clone", (file + 1) % FILES.len(), seed, history);
    }

    /// Starts whatever is down.
    pub(super) fn heal(&self, history: &History) {
        history.note("all is well".to_owned());
        for indexer in &self.indexers {
            let mut indexer = indexer.lock().unwrap();
            if indexer.process.is_none() {
                indexer.start();
            }
        }
        for node in self.readers.iter().chain([&self.origin]) {
            if node.process.lock().unwrap().is_none() {
                node.start();
            }
        }
    }

    /// Waits until each reader follows the newest version of each file, as its policy says.
    pub(super) fn wait_until_all_follow(&self, seed: u64, history: &History) {
        for (reader, (on_stale, _)) in READERS.iter().enumerate() {
            for (name, ..) in FILES {
                let until = Instant::now() + FOLLOWED_WITHIN;
                while let Err(why) = self.follows(reader, on_stale, name, history) {
                    if Instant::now() > until {
                        let text = format!("reader {reader} ({on_stale}) is left behind: {why}");
                        history.note(self.circumstances(reader, name));
                        history.broken(name, text);
                    }
                    history.check(seed);
                    pause(200);
                }
            }
        }
        for reader in 0..READERS.len() {
            for (name, ..) in FILES {
                let node = &self.readers[reader];
                let ended =
                    node.ask(&["get", name]).unwrap_or_else(|| panic!("reader {reader}: get {name} hangs"));
                assert_eq!(ended.code, Some(0), "reader {reader}: {ended:?}");
                let json = ended.json();
                note_copy(history, &format!("reader {reader}"), &json, reader, Instant::now());
                assert_eq!(json["version"], history.newest(name), "reader {reader}: {name}");
                assert_eq!(node.home.read(name), self.origin.home.read(name));
            }
        }
    }

    /// What a reader that is left behind, the origin and the indexers say.
    fn circumstances(&self, reader: usize, name: &str) -> String {
        let node = &self.readers[reader];
        let said = node.process.lock().unwrap().as_mut().map(Running::said);
        let found = node.ask(&["query", name]);
        let listed = self.origin.ask(&["ls"]);
        format!("it said {said:?}; a query finds {found:?}; the origin has {listed:?}")
    }

    fn follows(&self, reader: usize, on_stale: &str, name: &str, history: &History) -> Result<(), String> {
        let node = &self.readers[reader];
        let ended = node.ask(&["status"]).ok_or("status hangs")?;
        let (asked_at, newest) = (Instant::now(), history.newest(name));
        let files = ended.json();
        let row = files["files"].as_array().unwrap().iter().find(|row| row["name"] == name);
        let Some(row) = row else { return Ok(()) }; // it never had it, or dropped it
        note_copy(history, &format!("reader {reader}"), row, reader, asked_at);
        let has = row["version"] == newest && row["freshness"] == "fresh";
        match on_stale {
            "keep" if row["newest"] == newest || has => Ok(()),
            _ if has => Ok(()),
            _ => Err(format!("version {newest} is out: {row}")),
        }
    }
}

/// Publishes new bytes of a file; what the command says is recorded.
fn publish_at(node: &Node, who: &str, file: usize, seed: u64, history: &History) {
    let (name, policy, _) = FILES[file];
    let size = usize::try_from(seed % 200_000).unwrap() + 1;
    node.home.write(name, bytes(seed, size));
    let mut words = vec!["share", name];
    words.extend(policy);
    let ended = node.ask(&words);
    let Some(ended) = ended.filter(|ended| ended.code == Some(0)) else {
        return history.note(format!("{who}: {name} was not published"));
    };
    let row = ended.json()["files"][0].clone();
    let version = row["version"].as_u64().unwrap();
    history.saw(who, name, version, row["content"].as_str().unwrap());
    history.published(who, name, version);
    history.note(format!("{who}: {name} is version {version}"));
}

/// Records what a reader says of its copy.
fn note_copy(history: &History, who: &str, row: &Value, reader: usize, asked_at: Instant) {
    let (name, version) = (row["name"].as_str().unwrap(), row["version"].as_u64().unwrap());
    let freshness = row["freshness"].as_str().unwrap();
    history.saw(who, name, version, row["content"].as_str().unwrap());
    if freshness == "fresh" {
        let (.., bound) = FILES.iter().find(|(file, ..)| *file == name).unwrap();
        let bound = READERS[reader].1.map_or(*bound, |own| own.min(*bound));
        history.said_fresh(who, name, version, asked_at, Duration::from_secs(bound));
    }
    history.note_said(who, name, format!("version {version}, {freshness}"));
}

/// Copies a folder and all in it; sockets are left out.
fn copy_folder(from: &Path, to: &Path) {
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
