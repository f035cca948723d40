//! Random steps of two users: one publishes, edits, and publishes twice at once; the other follows with a command that
//! fails, rolls back, touches copies and saves files in the folder of a set. Commands are killed and interrupted.

use std::time::SystemTime;

use super::seconds;
use crate::program::*;

const CUT_MS_MAX: u64 = 400;
/// The command of the follower fails while this file is there.
const BAD: &str = "bad";

struct Users {
    _indexers: Indexers,
    origin: Home,
    reader: Home,
    serving: Option<Running>,
    following: Option<Running>,
    rng: StdRng,
    /// All bytes that were ever in the file of the origin, by their hash.
    written: BTreeSet<String>,
    published: BTreeMap<u64, String>,
    saved: BTreeMap<String, String>,
    log: Vec<String>,
}

#[test]
fn random_steps_of_users_lose_nothing_and_leave_nothing_stuck() {
    for seed in testkit::seeds(1) {
        let until = Instant::now() + seconds();
        let mut users = Users::begin(seed);
        while Instant::now() < until {
            users.step();
            users.nothing_is_lost();
        }
        users.all_is_well();
        println!("seed {seed}: {} steps, {} versions", users.log.len(), users.published.len());
    }
}

impl Users {
    fn begin(seed: u64) -> Self {
        let (_indexers, origin, reader) = two_homes();
        let (following, written, published, saved, log) = Default::default();
        let serving = Some(origin.serve(&[]));
        let rng = StdRng::seed_from_u64(seed);
        let mut users =
            Self { _indexers, origin, reader, serving, following, rng, written, published, saved, log };
        users.edit();
        users.share();
        users.edit_set();
        users.origin.done(&["share", "--set", "d"]);
        users
    }

    fn step(&mut self) {
        let step = self.rng.random_range(0..16);
        self.log.push(format!("step {step}"));
        match step {
            0 | 1 => {
                self.edit();
                self.share();
            }
            2 => self.edit(),
            3 => self.share_twice(),
            4 => {
                self.edit_set();
                self.cut(Self::origin, &["share", "--set", "d"]);
            }
            5 => self.restart_origin(),
            6 | 7 => self.follow(),
            8 => drop(fs::write(self.reader.path(BAD), "")),
            9 => drop(fs::remove_file(self.reader.path(BAD))),
            10 => self.touch(),
            11 => self.cut(Self::reader, &["rollback", "f"]),
            12 => {
                let version = self.rng.random_range(1..=self.published.len() as u64 + 1).to_string();
                self.cut(Self::reader, &["get", "f", "--version", &version]);
            }
            13 => self.cut(Self::reader, &["get", "f"]),
            _ => self.get_set_and_save(),
        }
    }

    const fn origin(&self) -> &Home {
        &self.origin
    }

    const fn reader(&self) -> &Home {
        &self.reader
    }

    /// New bytes in the file of the origin, saved at once; some of them are as before.
    fn edit(&mut self) {
        let mut new = bytes(1, 300_000);
        let part = self.rng.random_range(0..30) * 10_000;
        new[part..part + 10_000].copy_from_slice(&bytes(self.rng.random(), 10_000));
        self.written.insert(blake3::hash(&new).to_string());
        let saved = self.origin.write("f.new", new);
        fs::rename(saved, self.origin.path("f")).unwrap();
    }

    fn edit_set(&mut self) {
        for file in ["d/a", "d/b/c"] {
            self.origin.write(file, bytes(self.rng.random(), 100_000));
        }
    }

    fn share(&mut self) {
        let shared = self.origin.done(&["--json", "share", "f"]).json();
        let row = &shared["files"][0];
        let (version, content) = (row["version"].as_u64().unwrap(), row["content"].as_str().unwrap());
        assert!(self.written.contains(content), "{shared}: {:?}", self.log);
        let before = self.published.insert(version, content.to_owned());
        assert!(before.is_none_or(|before| before == content), "two contents of {version}: {:?}", self.log);
    }

    /// Two shells publish the file, which changes in between. The last bytes are the newest version.
    fn share_twice(&mut self) {
        self.edit();
        let first = self.origin.start(&["share", "f"]);
        thread::sleep(Duration::from_millis(self.rng.random_range(0..50)));
        self.edit();
        let second = self.origin.start(&["share", "f"]);
        drop((first.wait(), second.wait()));
        self.share();
        let newest = self.published.last_key_value().unwrap().1;
        assert_eq!(*newest, blake3::hash(&self.origin.read("f")).to_string(), "{:?}", self.log);
    }

    fn restart_origin(&mut self) {
        self.serving = None; // dropping it kills it
        self.serving = Some(self.origin.serve(&[]));
    }

    fn follow(&mut self) {
        let Some(mut following) = self.following.take() else {
            let command = format!("sleep 0.05; test ! -e {BAD}");
            self.following = Some(self.reader.start(&["follow", "f", "--keep", "3", "--exec", &command]));
            return;
        };
        match self.rng.random_range(0..3) {
            0 => drop(following),
            signal => {
                until_interruptible(&mut following);
                following.signal(["INT", "TERM"][signal - 1]);
                assert!(following.wait_within(LIMIT).is_some(), "it does not end: {:?}", self.log);
            }
        }
    }

    /// Other times, and other permissions, of the same bytes.
    fn touch(&mut self) {
        let Ok(file) = File::open(self.reader.path("f")) else { return };
        let then = SystemTime::now() - Duration::from_secs(self.rng.random_range(1..100_000));
        file.set_modified(then).unwrap();
        let mode = [0o600, 0o644, 0o664][self.rng.random_range(0..3)];
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
        file.set_permissions(permissions).unwrap();
    }

    /// Runs a command that is killed or interrupted after a while, if it has not ended by then.
    fn cut(&mut self, who: fn(&Self) -> &Home, words: &[&str]) {
        let running = who(self).start(words);
        self.cut_running(running);
    }

    fn cut_running(&mut self, mut running: Running) {
        let until = Instant::now() + Duration::from_millis(self.rng.random_range(0..CUT_MS_MAX));
        while running.is_running() && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        if running.is_running() && self.rng.random() {
            running.signal("INT");
        } else if running.is_running() {
            running.signal("KILL");
        }
        let ended = running.wait_within(LIMIT);
        let ended = ended.unwrap_or_else(|| panic!("it does not end: {:?}", self.log));
        self.log.push(format!("{:?} {:?}", ended.code, ended.err.last()));
    }

    /// A file is saved in the folder of the set while its newest version comes.
    fn get_set_and_save(&mut self) {
        let getting = self.reader.start(&["get", "d"]);
        thread::sleep(Duration::from_millis(self.rng.random_range(0..300)));
        if self.reader.path("d").is_dir() {
            let (name, text) = (format!("mine-{}", self.saved.len()), format!("saved {}", self.saved.len()));
            let is_saved = fs::write(self.reader.path("new"), &text).is_ok()
                && fs::rename(self.reader.path("new"), self.reader.path("d").join(&name)).is_ok();
            if is_saved {
                self.saved.insert(name, text);
            }
        }
        self.cut_running(getting);
    }

    /// Each file that was saved is in the folder of the set, or beside it.
    fn nothing_is_lost(&self) {
        let mut found = BTreeSet::new();
        let mut folders = vec![self.reader.path("")];
        while let Some(at) = folders.pop() {
            for entry in fs::read_dir(at).into_iter().flatten().flatten() {
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                    _ => found.extend(fs::read_to_string(entry.path()).ok()),
                }
            }
        }
        let lost = self.saved.iter().find(|(_, text)| !found.contains(*text));
        assert!(lost.is_none(), "{lost:?} is lost: {:#?}", self.log);
    }

    /// Nobody disturbs any more: the newest version comes, each version that is kept can be had, and nothing is in the way.
    fn all_is_well(&mut self) {
        self.following = None;
        drop(fs::remove_file(self.reader.path(BAD)));
        self.restart_origin();
        self.edit();
        self.share();
        self.edit_set();
        self.origin.done(&["share", "--set", "d"]);
        let (version, content) = self.published.last_key_value().unwrap();
        let mut following = self.reader.start(&["follow", "f", "--keep", "3"]);
        following.out_line(&format!("f is at version {version}"));
        assert_eq!(blake3::hash(&self.reader.read("f")).to_string(), *content, "{:#?}", self.log);
        let said = self.reader.done(&["--json", "status", "f"]).json();
        let row = &said["files"][0];
        assert_eq!((&row["version"], &row["freshness"]), (&(*version).into(), &"fresh".into()), "{said}");
        for kept in row["kept"].as_array().unwrap() {
            let kept = kept.as_u64().unwrap();
            let output =
                self.reader.command(["get", "f", "--version", &kept.to_string(), "-o", "-"]).output();
            let output = output.unwrap();
            assert!(output.status.success(), "version {kept}: {output:?}: {:#?}", self.log);
            let content = blake3::hash(&output.stdout).to_string();
            assert!(self.written.contains(&content), "version {kept}: {:#?}", self.log);
            let is_known = self.published.get(&kept).is_none_or(|known| *known == content);
            assert!(is_known, "{kept}: {:#?}", self.log);
        }
        drop(following);
        for name in self.saved.keys() {
            drop(fs::remove_file(self.reader.path("d").join(name))); // its user tidies up
        }
        self.reader.done(&["get", "d"]);
        for file in ["d/a", "d/b/c"] {
            assert_eq!(self.reader.read(file), self.origin.read(file), "{file}: {:#?}", self.log);
        }
        let left = |folder: &Path| fs::read_dir(folder).map_or(0, Iterator::count);
        assert_eq!(left(&self.reader.path(".neko/replaced")), 0, "{:#?}", self.log);
    }
}
