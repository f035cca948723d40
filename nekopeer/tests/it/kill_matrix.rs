//! The program killed at its durable steps: while it publishes, registers, downloads, replaces and withdraws. Nothing
//! is lost, no version stands for two contents, no file is torn, and the next command works.
//!
//! `strace` kills a process when one of its threads enters a system call for the n-th time. Each kind of call kills one
//! command; with `NEKO_SEEDS=N` each command, N times. Where `strace` is missing or may not trace, the test is left out, unless
//! `NEKO_STRACE=required`.

use std::{env, os::unix::process::CommandExt};

use rand::seq::SliceRandom;

use testkit::machine::{STRACE, strace};

use crate::program::*;

/// System calls that make something durable or visible on disk, and how many of them one thread makes in one command.
const STEPS: [(&str, u32); 10] = [
    ("fsync", 3),
    ("fdatasync", 12),
    ("rename", 1),
    ("renameat2", 2),
    ("unlink", 1),
    ("unlinkat", 1),
    ("ftruncate", 5),
    ("pwrite64", 30),
    ("openat", 15),
    ("mkdir", 2),
];
const SIZE: usize = 300_000;
/// A command that neither ends nor is killed within this time is stuck.
const STUCK: Duration = Duration::from_secs(45);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Doing {
    Publish,
    Download,
    Replace,
    Withdraw,
}

#[derive(Clone, Copy, Debug)]
struct Kill {
    call: &'static str,
    nth: u32,
}

impl Kill {
    /// The program with these arguments, which does not survive this step. Whether it was killed before it served or
    /// ended.
    fn run(self, home: &Home, words: &[&str]) -> bool {
        let inject = format!("inject={}:signal=KILL:when={}", self.call, self.nth);
        // With `--seccomp-bpf` it would count only the first call.
        let trace = ["-f", "-o", "/dev/null", "-e", &inject, "-e", &format!("trace={}", self.call)];
        let mut command = home.command_by("strace", &trace, words);
        command.process_group(0); // a tracer that is killed alone sets its process free
        let (mut running, until) = (Running::start(command), Instant::now() + STUCK);
        while running.is_running() && !running.err_was("serving on ") {
            assert!(Instant::now() < until, "stuck at {self:?}: {}", running.said());
            std::thread::sleep(Duration::from_millis(5));
        }
        let serves = running.err_was("serving on ");
        let group = format!("-{}", running.id());
        drop(Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status()); // it may have ended
        running.wait_with_input_open().code.is_none() && !serves
    }
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

struct World {
    origin: Home,
    reader: Home,
    history: History,
    random: StdRng,
    /// The system calls that are still to kill a command, and the commands that each has been tried in.
    left: Vec<((&'static str, u32), Vec<Doing>)>,
    /// Whether each is to kill each command, and not only one.
    in_all: bool,
    /// Commands that were to be killed, and those of them that were.
    kills: BTreeMap<Doing, (u32, u32)>,
}

impl World {
    /// Has this command killed, if it is to be; returns at which step.
    fn kill(&mut self, doing: Doing) -> Option<Kill> {
        let at = self.left.iter().position(|(_, tried)| !tried.contains(&doing))?;
        let ((call, most), mut tried) = self.left.remove(at);
        let kill = Kill { call, nth: self.random.random_range(1..=most) };
        let is_killed = match doing {
            Doing::Publish => kill.run(&self.origin, &["share", "a"]),
            Doing::Withdraw => kill.run(&self.origin, &["deregister", "a"]),
            Doing::Download | Doing::Replace => kill.run(&self.reader, &["get", "a"]),
        };
        let (all, killed) = self.kills.entry(doing).or_default();
        (*all, *killed) = (*all + 1, *killed + u32::from(is_killed));
        tried.push(doing);
        if tried.len() < 4 && (self.in_all || !is_killed) {
            self.left.push(((call, most), tried));
        }
        Some(kill)
    }

    fn write(&mut self) -> Vec<u8> {
        let content = bytes(self.random.random(), SIZE);
        self.origin.write("a", &content);
        content
    }

    /// Publishes new bytes in a process that is killed, and publishes again, perhaps other bytes. The last ones count.
    fn publish(&mut self) -> (Running, Vec<u8>) {
        let mut content = self.write();
        if self.kill(Doing::Publish).is_some() {
            self.history.note(&self.reader);
            self.origin.done(&["ls"]);
            if self.random.random() {
                content = self.write();
            }
        }
        let before = self.history.newest();
        let sharing = self.origin.share(&["a"]);
        self.history.note(&self.reader);
        let newest = &self.history.0[&self.history.newest()];
        assert!(self.history.newest() >= before);
        let expected = blake3::hash(&content).to_hex();
        assert_eq!(*newest, expected.as_str(), "what was published last is the newest");
        (sharing, content)
    }

    /// Downloads it in a process that is killed, and again.
    fn download(&mut self, before: Option<&[u8]>, content: &[u8]) {
        let doing = if before.is_some() { Doing::Replace } else { Doing::Download };
        let kill = self.kill(doing);
        if kill.is_some() {
            let found = fs::read(self.reader.path("a")).ok();
            let is_whole = found.as_deref() == before || found.as_deref() == Some(content);
            assert!(is_whole, "torn after {kill:?}: {:?} bytes", found.map(|found| found.len()));
            let listed = self.reader.done(&["ls"]);
            let is_damaged = |line: &String| line.contains("changed") || line.contains("missing");
            assert!(!listed.out.iter().any(is_damaged), "{kill:?}: {listed:?}");
        }
        self.reader.done(&["get", "a"]);
        assert_eq!(self.reader.read("a"), content, "{kill:?}");
        assert!(self.reader.partials().is_empty(), "{kill:?}");
    }

    /// Withdraws it in a process that is killed, and again.
    fn withdraw(&mut self) {
        let Some(kill) = self.kill(Doing::Withdraw) else { return };
        let again = self.origin.run(&["deregister", "a"]);
        assert!(matches!(again.code, Some(0 | 1)), "{kill:?}: {again:?}"); // it was withdrawn already
        assert!(self.origin.done(&["--json", "ls"]).json()["files"].as_array().unwrap().is_empty());
    }
}

#[test]
fn whoever_is_killed_at_a_durable_step_loses_nothing() {
    let Some(()) = STRACE.or_left_out(strace()) else { return };
    let (_indexers, origin, reader) = two_homes();
    let (random, in_all) = (StdRng::seed_from_u64(0), env::var_os("NEKO_SEEDS").is_some());
    let (history, left, kills) = Default::default();
    let mut world = World { origin, reader, history, random, left, in_all, kills };
    let mut before: Option<Vec<u8>> = None;
    for seed in testkit::seeds(1) {
        world.random = StdRng::seed_from_u64(seed);
        world.left = STEPS.map(|step| (step, Vec::new())).to_vec();
        world.left.shuffle(&mut world.random);
        while !world.left.is_empty() {
            let (sharing, content) = world.publish();
            world.download(before.as_deref(), &content);
            drop(sharing);
            before = Some(content);
            world.withdraw();
            if world.random.random() {
                world.reader.done(&["deregister", "a"]);
                fs::remove_file(world.reader.path("a")).unwrap();
                before = None;
            }
        }
    }
    println!("commands, and those killed: {:?}; versions: {}", world.kills, world.history.0.len());
    let killed: u32 = world.kills.values().map(|(_, killed)| killed).sum();
    assert!(killed >= 6, "{:?}", world.kills);
}
