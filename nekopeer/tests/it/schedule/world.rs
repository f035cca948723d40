//! The processes of a schedule, and what is done with them.

use super::{
    faults::{Fault, Harm, Target},
    judge::Event,
    node::{Node, copy_folder},
    record::Record,
    seen::{content_of, note_copy, publish_at, who},
};

use testkit::lan::{Host, Wan, Wire};

use crate::program::*;

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
pub(super) const HOSTS: usize = 9;
/// 50 ms there and back between two hosts.
pub(super) const WIRE: Wire = Wire::of(Duration::from_micros(12_500));

/// Time for everybody to follow the last version once all is well.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(60);

/// All processes. They end before the network.
pub(super) struct World {
    indexer_addrs: Vec<SocketAddr>,
    indexers: Vec<Node>,
    origin: Node,
    readers: Vec<Node>,
    /// A copy of the origin's data folder, and when it was made.
    backup: Mutex<Option<(tempfile::TempDir, Instant)>>,
    /// Held while the origin or a copy of its folder publishes: two that publish at the very same moment, out of
    /// touch with each other, cannot but use the same number.
    publishing: Mutex<()>,
    /// The file that was last in the place of a reader's copy.
    opened: Mutex<HashMap<(usize, &'static str), File>>,
    network: Option<Wan>,
}

pub(super) fn pause(ms: u64) {
    thread::sleep(Duration::from_millis(ms));
}

impl Target {
    fn host(self) -> usize {
        match self {
            Self::Indexer(number) => number,
            Self::Origin => INDEXERS,
            Self::Reader(number) => INDEXERS + 1 + number,
        }
    }
}

impl World {
    pub(super) fn start(network: Option<Wan>) -> Self {
        let host = |target: Target| network.as_ref().map(|network| network.host(target.host()).clone());
        let reserved: Vec<_> = (0..HOSTS).map(|_| kept_port()).collect();
        let addr = |target: Target| host(target).map_or(reserved[target.host()].1, |host: Host| host.addr);
        let origin = addr(Target::Origin);
        let readers: Vec<_> = (0..READERS.len()).map(|number| addr(Target::Reader(number))).collect();
        let indexer_addrs: Vec<_> = (0..INDEXERS).map(|number| addr(Target::Indexer(number))).collect();
        let indexer = |number: usize| {
            let mut others = indexer_addrs.clone();
            let own = others.remove(number);
            Node::indexer(own, &others, host(Target::Indexer(number)))
        };
        let indexers = (0..INDEXERS).map(indexer).collect();
        let reader = |(number, (on_stale, ttr)): (usize, &(&str, Option<u64>))| {
            let mut flags = vec!["--on-stale".to_owned(), (*on_stale).to_owned()];
            flags.extend(ttr.iter().flat_map(|secs| ["--ttr".to_owned(), secs.to_string()]));
            let two = [indexer_addrs[number % INDEXERS], indexer_addrs[(number + 1) % INDEXERS]];
            Node::peer(readers[number], &two, &flags, host(Target::Reader(number)))
        };
        let origin = Node::peer(origin, &indexer_addrs, &[], host(Target::Origin));
        let readers = READERS.iter().enumerate().map(reader).collect();
        let (backup, publishing, opened) = Default::default();
        Self { indexer_addrs, indexers, origin, readers, backup, publishing, opened, network }
    }

    fn node(&self, target: Target) -> &Node {
        match target {
            Target::Origin => &self.origin,
            Target::Reader(number) => &self.readers[number],
            Target::Indexer(number) => &self.indexers[number],
        }
    }

    pub(super) fn publish(&self, file: usize, seed: u64, record: &Record) {
        let _publishing = self.publishing.lock().unwrap();
        publish_at(&self.origin, "origin", file, seed, record);
    }

    /// One random command of a reader, and a look at the bytes of its copies.
    pub(super) fn read(&self, reader: usize, rng: &mut StdRng, record: &Record) {
        pause(rng.random_range(0..150));
        let (node, asked_at) = (&self.readers[reader], Instant::now());
        let (name, ..) = FILES[rng.random_range(0..FILES.len())];
        self.look(reader, name, record);
        if rng.random_range(0..6) > 0 {
            let command = if rng.random() { "ls" } else { "status" };
            let Some(ended) = node.ask(&[command]).filter(|ended| ended.code == Some(0)) else { return };
            for row in ended.json()["files"].as_array().unwrap() {
                note_copy(record, row, reader, asked_at);
            }
            return;
        }
        let Some(ended) = node.ask(&["get", name]) else { return };
        if ended.code == Some(0) {
            note_copy(record, &ended.json(), reader, asked_at);
        } else {
            record.note(format!("reader {reader}: get {name}: {:?}", ended.err.last().or(ended.out.last())));
        }
    }

    /// Looks at the bytes of a copy, and at those of the file that was in its place before: a version replaces a
    /// file and does not write into it.
    fn look(&self, reader: usize, name: &'static str, record: &Record) {
        let Ok(file) = File::open(self.readers[reader].home.path(name)) else { return };
        record.add(name, Event::InPlace { by: who(reader), content: content_of(&file) });
        let before = self.opened.lock().unwrap().insert((reader, name), file);
        if let Some(before) = before {
            record.add(name, Event::WasInPlace { by: who(reader), content: content_of(&before) });
        }
    }

    pub(super) fn disturb(&self, fault: Fault, record: &Record) {
        record.fault(format!("{fault:?}"));
        match fault {
            Fault::Harm(target, Harm::Kill, down) => self.node(target).kill_for(down),
            Fault::Harm(target, Harm::Pause, down) => self.node(target).pause_for(down),
            Fault::Harm(target, harm, down) => {
                let network = self.network.as_ref().unwrap();
                network.set(target.host(), harm.to(WIRE));
                thread::sleep(down);
                network.set(target.host(), WIRE);
            }
            Fault::BackUp => self.back_up_origin(),
            Fault::Restore => self.restore_origin(record),
            Fault::LoseCatalogue => self.lose_catalogue(record),
            Fault::Clone => self.run_clone(record),
        }
        record.note("it is over".to_owned());
    }

    fn back_up_origin(&self) {
        let _publishing = self.publishing.lock().unwrap();
        self.origin.kill();
        let folder = tempfile::tempdir().unwrap();
        copy_folder(&self.origin.home.path(".neko"), folder.path());
        *self.backup.lock().unwrap() = Some((folder, Instant::now()));
        self.origin.start();
    }

    fn restore_origin(&self, record: &Record) {
        let Some((folder, taken_at)) = self.backup.lock().unwrap().take() else { return };
        let _publishing = self.publishing.lock().unwrap();
        self.origin.kill();
        let data = self.origin.home.path(".neko");
        fs::remove_dir_all(&data).unwrap();
        copy_folder(folder.path(), &data);
        record.set_back_to(taken_at);
        self.origin.start();
    }

    /// Its user publishes the files again.
    fn lose_catalogue(&self, record: &Record) {
        let _publishing = self.publishing.lock().unwrap();
        self.origin.kill();
        fs::remove_file(self.origin.home.path(".neko/catalogue.redb")).unwrap();
        FILES.iter().for_each(|(name, ..)| record.add(name, Event::Lost));
        self.origin.start();
        (0..FILES.len()).for_each(|file| publish_at(&self.origin, "origin", file, rand::random(), record));
    }

    /// Starts a copy of the origin's folder beside the origin: it is refused and ends, and the origin goes on.
    fn run_clone(&self, record: &Record) {
        let _publishing = self.publishing.lock().unwrap();
        self.origin.kill();
        let (_port, addr) = kept_port();
        let clone = Node::peer_of(addr, &self.indexer_addrs, &self.origin);
        self.origin.start();
        let ended = clone.ends_by_itself();
        let is_refused = ended.as_ref().is_some_and(|ended| {
            ended.code == Some(3) && ended.err.iter().any(|line| line.contains("this key has been running"))
        });
        if !is_refused {
            record.left_behind("a clone", format!("a copy of the origin's folder is not refused: {ended:?}"));
        }
    }

    /// Waits until each reader follows the newest version of each file, as its policy says.
    pub(super) fn wait_until_all_follow(&self, seed: u64, record: &Record) {
        for (reader, (on_stale, _)) in READERS.iter().enumerate() {
            for (name, ..) in FILES {
                let until = Instant::now() + FOLLOWED_WITHIN;
                while let Err(why) = self.follows(reader, on_stale, name, record) {
                    if Instant::now() > until {
                        record.note(self.circumstances(reader, name));
                        record
                            .left_behind(name, format!("reader {reader} ({on_stale}) is left behind: {why}"));
                    }
                    record.check(seed);
                    pause(200);
                }
            }
        }
        for reader in 0..READERS.len() {
            for (name, ..) in FILES {
                let until = Instant::now() + FOLLOWED_WITHIN;
                while let Err(why) = self.gets_newest(reader, name, record) {
                    assert!(Instant::now() < until, "seed {seed}: reader {reader}: get {name}: {why}");
                    pause(200);
                }
            }
        }
    }

    /// Whether `get` brings the newest version. A host that was cut off is found again after a while.
    fn gets_newest(&self, reader: usize, name: &str, record: &Record) -> Result<(), String> {
        let (node, asked_at) = (&self.readers[reader], Instant::now());
        let ended = node.ask(&["get", name]).ok_or("hangs")?;
        if ended.code != Some(0) {
            return Err(format!("{ended:?}"));
        }
        let json = ended.json();
        note_copy(record, &json, reader, asked_at);
        let is_newest = json["version"] == record.newest(name);
        let is_same = node.home.read(name) == self.origin.home.read(name);
        if is_newest && is_same { Ok(()) } else { Err(format!("same bytes: {is_same}, {json}")) }
    }

    /// What a reader that is left behind, the origin and the indexers say.
    fn circumstances(&self, reader: usize, name: &str) -> String {
        let node = &self.readers[reader];
        let (said, found) = (node.output(), node.ask(&["query", name]));
        let listed = self.origin.ask(&["ls"]);
        format!("it said {said:?}; a query finds {found:?}; the origin has {listed:?}")
    }

    fn follows(&self, reader: usize, on_stale: &str, name: &str, record: &Record) -> Result<(), String> {
        let (node, asked_at) = (&self.readers[reader], Instant::now());
        let ended = node.ask(&["status"]).ok_or("status hangs")?;
        let newest = record.newest(name);
        let files = ended.json();
        let row = files["files"].as_array().unwrap().iter().find(|row| row["name"] == name);
        let Some(row) = row else { return Ok(()) }; // it never had it, or dropped it
        note_copy(record, row, reader, asked_at);
        let has = row["version"] == newest && row["freshness"] == "fresh";
        match on_stale {
            "keep" if row["newest"] == newest || has => Ok(()),
            _ if has => Ok(()),
            _ => Err(format!("version {newest} is out: {row}")),
        }
    }
}
