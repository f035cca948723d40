//! The program killed at its durable steps: while it publishes, registers, downloads, replaces and withdraws. Nothing
//! is lost, no version stands for two contents, no file is torn, and the next command works.
//!
//! `strace` kills a process when one of its threads enters a system call for the n-th time. `NEKO_KILL_RUNS` and
//! `NEKO_KILL_SEED` choose how many kills and which; where `strace` is missing or may not trace, the test says so and is
//! left out, unless `NEKO_STRACE=required`.

use std::{
    collections::BTreeMap,
    env,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use crate::program::{Home, Running, bytes, two_homes};

/// System calls that make something durable or visible on disk.
const STEPS: [&str; 12] = [
    "fsync",
    "fdatasync",
    "syncfs",
    "rename",
    "renameat",
    "renameat2",
    "unlinkat",
    "linkat",
    "ftruncate",
    "pwrite64",
    "openat",
    "mkdirat",
];
/// Kills in one run of the test.
const RUNS_DEFAULT: u64 = 24;
/// One thread makes few calls of a kind in one command, but of these.
const OFTEN: [&str; 2] = ["pwrite64", "openat"];
/// Bytes of a version: several chunks.
const SIZE: usize = 300_000;
/// A command that neither ends nor is killed within this time is stuck.
const STUCK: Duration = Duration::from_secs(45);

fn number(variable: &str, default: u64) -> u64 {
    env::var(variable).map_or(default, |text| text.parse().unwrap())
}

/// Whether processes can be traced here.
fn can_trace() -> bool {
    let mut trace = Command::new("strace");
    trace.args(["-f", "-o", "/dev/null", "true"]).stdout(Stdio::null()).stderr(Stdio::null());
    let can = trace.status().is_ok_and(|status| status.success());
    assert!(can || env::var("NEKO_STRACE").is_err(), "strace is required and cannot trace");
    can
}

/// A step at which a process is killed.
#[derive(Clone, Copy, Debug)]
struct Kill {
    call: &'static str,
    nth: u32,
}

impl Kill {
    fn any(random: &mut StdRng) -> Self {
        let call = *STEPS.choose(random).unwrap();
        let most = if OFTEN.contains(&call) { 60 } else { 6 };
        Self { call, nth: random.random_range(1..=most) }
    }

    /// The program with these arguments, which does not survive this step.
    fn command(self, home: &Home, words: &[&str]) -> Command {
        let program = home.command(words);
        let mut command = Command::new("strace");
        let inject = format!("inject={}:signal=KILL:when={}", self.call, self.nth);
        command.args(["-f", "--seccomp-bpf", "-o", "/dev/null", "-e", &inject, "-e"]);
        command.arg(format!("trace={}", self.call)).arg(program.get_program()).args(program.get_args());
        home.settle(&mut command);
        command.process_group(0); // a tracer that is killed alone sets its process free
        command
    }
}

/// Ends a traced program and its tracer.
fn end(running: Running) {
    let group = format!("-{}", running.id());
    drop(Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status()); // it may have ended
    drop(running);
}

/// What was seen of the shared file: the content of each version.
#[derive(Default)]
struct History(BTreeMap<u64, String>);

impl History {
    /// Notes what the indexer lists; one number never stands for two contents.
    fn note(&mut self, at: &Home) {
        let found = at.run(&["--json", "search", "a"]);
        if found.code == Some(1) {
            return; // nobody offers it at the moment
        }
        for hit in found.json()["hits"].as_array().unwrap() {
            let (version, content) = (hit["version"].as_u64().unwrap(), hit["content"].as_str().unwrap());
            let known = self.0.entry(version).or_insert_with(|| content.to_owned());
            assert_eq!(known, content, "version {version} stands for two contents: {hit}");
        }
    }

    fn newest(&self) -> u64 {
        self.0.keys().next_back().copied().unwrap_or(0)
    }
}

/// Waits until the command is killed, or comes to its end before its step. Whether it was killed.
fn wait(mut running: Running, kill: Kill) -> bool {
    let until = Instant::now() + STUCK;
    while running.is_running() {
        assert!(Instant::now() < until, "stuck at {kill:?}: {}", running.said());
        std::thread::sleep(Duration::from_millis(5));
    }
    running.wait_with_input_open().code.is_none()
}

struct World {
    origin: Home,
    reader: Home,
    history: History,
    random: StdRng,
    /// Commands that were to be killed, and those of them that were.
    kills: BTreeMap<&'static str, (u64, u64)>,
}

impl World {
    fn count(&mut self, what: &'static str, is_killed: bool) {
        let (all, killed) = self.kills.entry(what).or_default();
        (*all, *killed) = (*all + 1, *killed + u64::from(is_killed));
    }

    fn killed(&self) -> u64 {
        self.kills.values().map(|(_, killed)| killed).sum()
    }

    /// Publishes new bytes in a process that is killed, and publishes again, perhaps other bytes. The last ones count.
    fn publish(&mut self) -> (Running, Vec<u8>) {
        let mut content = bytes(self.random.random(), SIZE);
        self.origin.write("a", &content);
        let kill = Kill::any(&mut self.random);
        let mut killed = Running::start(kill.command(&self.origin, &["share", "a"]));
        while killed.is_running() && !killed.err_was("serving on ") {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.history.note(&self.reader);
        self.count("publish and register", !killed.err_was("serving on "));
        end(killed);
        self.origin.done(&["ls"]);
        if self.random.random() {
            content = bytes(self.random.random(), SIZE);
            self.origin.write("a", &content);
        }
        let before = self.history.newest();
        let sharing = self.origin.share(&["a"]);
        self.history.note(&self.reader);
        let newest = &self.history.0[&self.history.newest()];
        assert!(self.history.newest() >= before);
        assert_eq!(
            *newest,
            blake3::hash(&content).to_hex().as_str(),
            "what was published last is the newest"
        );
        (sharing, content)
    }

    /// Downloads it in a process that is killed, and again.
    fn download(&mut self, before: Option<&[u8]>, content: &[u8]) {
        let kill = Kill::any(&mut self.random);
        let is_killed = wait(Running::start(kill.command(&self.reader, &["get", "a"])), kill);
        self.count(if before.is_some() { "replace" } else { "download" }, is_killed);
        let found = std::fs::read(self.reader.path("a")).ok();
        let is_whole = found.as_deref() == before || found.as_deref() == Some(content);
        assert!(is_whole, "torn after {kill:?}: {:?} bytes", found.map(|found| found.len()));
        let listed = self.reader.done(&["ls"]);
        let is_damaged = |line: &String| line.contains("changed") || line.contains("missing");
        assert!(!listed.out.iter().any(is_damaged), "{kill:?}: {listed:?}");
        self.reader.done(&["get", "a"]);
        assert_eq!(self.reader.read("a"), content, "{kill:?}");
        assert_eq!(self.reader.partial_len(), 0, "{kill:?}");
    }

    /// Withdraws it in a process that is killed, and again.
    fn withdraw(&mut self) {
        let kill = Kill::any(&mut self.random);
        let is_killed = wait(Running::start(kill.command(&self.origin, &["deregister", "a"])), kill);
        self.count("withdraw", is_killed);
        let again = self.origin.run(&["deregister", "a"]);
        assert!(matches!(again.code, Some(0 | 1)), "{kill:?}: {again:?}"); // it was withdrawn already
        assert!(self.origin.done(&["--json", "ls"]).json()["files"].as_array().unwrap().is_empty());
    }
}

#[test]
fn whoever_is_killed_at_a_durable_step_loses_nothing() {
    if !can_trace() {
        println!("left out: strace cannot trace here");
        return;
    }
    let (runs, seed) = (number("NEKO_KILL_RUNS", RUNS_DEFAULT), number("NEKO_KILL_SEED", rand::random()));
    println!("NEKO_KILL_SEED={seed}");
    let (_indexers, origin, reader) = two_homes();
    let (history, kills) = Default::default();
    let mut world = World { origin, reader, history, random: StdRng::seed_from_u64(seed), kills };
    let mut before: Option<Vec<u8>> = None;
    while world.killed() < runs {
        let (sharing, content) = world.publish();
        world.download(before.as_deref(), &content);
        drop(sharing);
        before = Some(content);
        if world.random.random_ratio(1, 4) {
            world.withdraw();
        }
        if world.random.random_ratio(1, 4) {
            world.reader.done(&["deregister", "a"]);
            std::fs::remove_file(world.reader.path("a")).unwrap();
            before = None;
        }
    }
    println!("commands, and those killed: {:?}; versions: {}", world.kills, world.history.0.len());
}
