//! The decision alone, and in a simulation: folders with one key that are lost, restored and cloned, publishing
//! through indexers that hear of each other or do not.

use std::collections::BTreeMap;

use nekoproto::{ContentHash, FileName, Identity, ManifestHash, Policy, VerifiedRecord, Version};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::*;
use crate::storage::catalogue::numbering::{Known, Numbered, Substance};

fn record(version: Version, content: u8) -> VerifiedRecord {
    let origin = Identity::from_seed(&[1; 32]);
    let record = Record {
        origin: origin.id(),
        name: FileName::new("a").unwrap(),
        version,
        size: 1,
        content: ContentHash::from_bytes([content; 32]),
        manifest: ManifestHash::from_bytes([content; 32]),
        policy: Policy::default(),
        published_ms: 1_795_000_000_000,
    };
    record.sign(&origin).unwrap()
}

fn version(number: u64) -> Version {
    Version::new(number).unwrap()
}

#[test]
fn heard_record_is_judged_by_its_number_its_bytes_and_who_relies_on_ours() {
    let mine = record(version(5), 5);
    let judge = |is_pending, heard: (u64, u8), turn| {
        Mine { record: &mine, newest: None, is_pending }.judge(&record(version(heard.0), heard.1), turn)
    };
    for turn in [Turn::First, Turn::Later, Turn::Now] {
        for is_pending in [false, true] {
            assert_eq!(judge(is_pending, (4, 4), turn), Judgment::Stands);
            assert_eq!(judge(is_pending, (5, 5), turn), Judgment::Stands);
            assert_eq!(judge(is_pending, (7, 5), turn), Judgment::Adopt, "the same bytes");
        }
        assert_eq!(judge(true, (7, 7), turn), Judgment::Renumber);
        assert_eq!(judge(true, (5, 7), turn), Judgment::Renumber);
        assert_eq!(judge(false, (7, 7), turn), Judgment::Superseded);
    }
    assert_eq!(judge(false, (5, 4), Turn::First), Judgment::Renumber, "one of the two goes first");
    assert_eq!(judge(false, (5, 7), Turn::First), Judgment::Wait, "the other one waits");
    assert_eq!(judge(false, (5, 4), Turn::Later), Judgment::Wait, "as does who went before");
    assert_eq!(judge(false, (5, 7), Turn::Now), Judgment::Renumber, "but not for ever");
    let newest = record(version(8), 8);
    let superseded = Mine { record: &mine, newest: Some(&newest), is_pending: false };
    assert_eq!(superseded.judge(&record(version(8), 8), Turn::First), Judgment::Stands, "it is known");
    assert_eq!(superseded.judge(&record(version(9), 9), Turn::First), Judgment::Superseded);
}

/// A data folder with the key; there may be several.
#[derive(Clone, Default)]
struct Clone_ {
    catalogue: Catalogue,
    /// What the folder was, for when it is restored.
    copies: Vec<Catalogue>,
    own_indexers: Vec<usize>,
    /// It published above another version of one number.
    has_gone: bool,
    waiting: Option<VerifiedRecord>,
}

#[derive(Clone, Default)]
struct Catalogue {
    counter: Option<Version>,
    entry: Option<VerifiedRecord>,
    newest: Option<VerifiedRecord>,
    is_told: bool,
}

#[derive(Default)]
struct Indexer {
    known: Option<VerifiedRecord>,
    accepted: BTreeMap<Version, Substance>,
}

struct Sim {
    random: StdRng,
    clones: Vec<Clone_>,
    indexers: Vec<Indexer>,
    /// Records on their way to indexers and to clones.
    to_indexers: Vec<(usize, VerifiedRecord)>,
    to_clones: Vec<(usize, VerifiedRecord)>,
    /// Whether the network answers and messages arrive.
    is_reliable: bool,
    registrations: usize,
}

impl Sim {
    fn new(seed: u64, is_reliable: bool) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let indexers: usize = random.random_range(1..=3);
        let clone = |random: &mut StdRng| {
            let mut own_indexers: Vec<usize> = (0..indexers).filter(|_| random.random_bool(0.6)).collect();
            if own_indexers.is_empty() {
                own_indexers.push(random.random_range(0..indexers));
            }
            Clone_ { own_indexers, ..Clone_::default() }
        };
        let clones = (0..random.random_range(1..=3)).map(|_| clone(&mut random)).collect();
        Self {
            random,
            clones,
            indexers: (0..indexers).map(|_| Indexer::default()).collect(),
            to_indexers: Vec::new(),
            to_clones: Vec::new(),
            is_reliable,
            registrations: 0,
        }
    }

    /// What the network knows.
    fn newest(&self) -> Option<VerifiedRecord> {
        self.indexers.iter().filter_map(|one| one.known.clone()).max_by_key(|record| record.version)
    }

    /// Sends `record` to the other indexers, and to the clones at this one.
    fn spread(&mut self, from: usize, record: &VerifiedRecord) {
        let others = (0..self.indexers.len()).filter(|to| *to != from);
        self.to_indexers.extend(others.map(|to| (to, record.clone())));
        let at = self.clones.iter().enumerate().filter(|(_, clone)| clone.own_indexers.contains(&from));
        self.to_clones.extend(at.map(|(n, _)| (n, record.clone())));
    }

    /// An indexer lists `record`, or answers with the one that it knows.
    fn register(&mut self, at: usize, record: &VerifiedRecord) -> Result<(), VerifiedRecord> {
        self.registrations += 1;
        let indexer = &mut self.indexers[at];
        let is_news = match &indexer.known {
            Some(known) if known.replaces(record) || known.contradicts(record) => return Err(known.clone()),
            Some(known) => record.replaces(known),
            None => true,
        };
        let substance = *indexer.accepted.entry(record.version).or_insert(Substance::of(record));
        assert_eq!(substance, Substance::of(record), "two contents for version {}", record.version);
        indexer.known = Some(record.clone());
        if is_news {
            self.spread(at, record);
        }
        Ok(())
    }

    /// Registers what clone `n` offers; returns what its indexers know better.
    fn offer(&mut self, n: usize) -> Vec<VerifiedRecord> {
        let Clone_ { catalogue, own_indexers, .. } = self.clones[n].clone();
        let Some(entry) = catalogue.entry.filter(|_| catalogue.newest.is_none()) else { return Vec::new() };
        let mut heard = Vec::new();
        for at in own_indexers {
            match self.register(at, &entry) {
                Ok(()) => self.clones[n].catalogue.is_told = true,
                Err(known) => heard.push(known),
            }
        }
        heard
    }

    /// The user publishes `content`, as `Publisher` does.
    fn publish(&mut self, n: usize, content: u8) {
        let network = if self.is_reliable || self.random.random_bool(0.5) { self.newest() } else { None };
        let Catalogue { counter, entry, newest, .. } = self.clones[n].catalogue.clone();
        let draft = Substance::of(&record(Version::FIRST, content));
        let known = Known {
            counter,
            floor: None,
            entry: entry.as_ref(),
            newest: newest.as_ref(),
            network: network.as_ref(),
        };
        match known.number(draft) {
            Numbered::Old(same) => {
                self.take(n, same.clone(), false);
                self.offer(n).into_iter().for_each(|heard| self.hear(n, &heard, Turn::First));
                return;
            }
            Numbered::New(version) => self.take(n, record(version, content), true),
            Numbered::UsedUp => panic!("no number is left"),
        }
        self.clones[n].has_gone = false;
        for round in 0.. {
            assert!(round < 4, "a publish alone settles its number at once");
            let mut heard = self.offer(n);
            heard.sort_by_key(|heard| heard.version);
            let Some(heard) = heard.pop() else { break };
            let mine = self.clones[n].catalogue.entry.clone().unwrap();
            match self.mine(n, &mine).judge(&heard, Turn::Now) {
                Judgment::Stands => break,
                Judgment::Adopt => self.take(n, heard, false),
                Judgment::Renumber | Judgment::Wait | Judgment::Superseded => self.renumber(n, &heard),
            }
        }
    }

    fn mine<'a>(&'a self, n: usize, mine: &'a VerifiedRecord) -> Mine<'a> {
        let catalogue = &self.clones[n].catalogue;
        let newest = catalogue.newest.as_deref();
        Mine { record: mine, newest, is_pending: !catalogue.is_told }
    }

    /// A version becomes that of clone `n`.
    fn take(&mut self, n: usize, record: VerifiedRecord, is_new: bool) {
        let clone = &mut self.clones[n];
        clone.copies.push(clone.catalogue.clone());
        let counter = clone.catalogue.counter.max(Some(record.version));
        clone.catalogue = Catalogue { counter, entry: Some(record), newest: None, is_told: !is_new };
    }

    fn renumber(&mut self, n: usize, above: &VerifiedRecord) {
        let catalogue = &self.clones[n].catalogue;
        let newest = catalogue.newest.as_ref().map(|newest| newest.version);
        let last = catalogue.counter.max(newest).max(Some(above.version)).unwrap();
        let content = catalogue.entry.as_ref().unwrap().content.as_bytes()[0];
        self.take(n, record(last.next().unwrap(), content), true);
    }

    /// Clone `n` hears of a record in the background.
    fn hear(&mut self, n: usize, heard: &VerifiedRecord, turn: Turn) {
        let Some(mine) = self.clones[n].catalogue.entry.clone() else { return };
        let turn = if turn == Turn::First && self.clones[n].has_gone { Turn::Later } else { turn };
        match self.mine(n, &mine).judge(heard, turn) {
            Judgment::Stands => return,
            Judgment::Adopt => self.take(n, heard.clone(), false),
            Judgment::Renumber => {
                self.renumber(n, heard);
                self.clones[n].has_gone = true;
            }
            Judgment::Wait => {
                self.clones[n].waiting = Some(heard.clone());
                return;
            }
            Judgment::Superseded => {
                self.clones[n].catalogue.newest = Some(heard.clone());
                return;
            }
        }
        let answers = self.offer(n).into_iter().map(|heard| (n, heard));
        self.to_clones.extend(answers.collect::<Vec<_>>());
    }

    /// Clone `n` has waited for the other.
    fn go_on(&mut self, n: usize) {
        let Some(heard) = self.clones[n].waiting.take() else { return };
        let heard = self.newest().filter(|newest| newest.replaces(&heard)).unwrap_or(heard);
        self.hear(n, &heard, Turn::Now);
    }

    /// One message arrives, or is lost.
    fn deliver(&mut self) -> bool {
        let is_lost = !self.is_reliable && self.random.random_bool(0.3);
        if !self.to_indexers.is_empty() {
            let (to, record) =
                self.to_indexers.swap_remove(self.random.random_range(0..self.to_indexers.len()));
            let known = &self.indexers[to].known;
            if !is_lost && known.as_ref().is_some_and(|known| record.replaces(known)) {
                self.indexers[to].known = Some(record.clone());
                self.spread(to, &record);
            }
        } else if !self.to_clones.is_empty() {
            let (to, record) = self.to_clones.swap_remove(self.random.random_range(0..self.to_clones.len()));
            if !is_lost {
                self.hear(to, &record, Turn::First);
            }
        } else {
            return false;
        }
        true
    }

    fn step(&mut self) {
        let n = self.random.random_range(0..self.clones.len());
        match self.random.random_range(0..10) {
            0 | 1 => {
                let content = self.random.random_range(0..5);
                self.publish(n, content);
            }
            2 if self.random.random_bool(0.3) => self.clones[n].catalogue = Catalogue::default(),
            3 if !self.clones[n].copies.is_empty() => {
                let copies = &self.clones[n].copies;
                let back = self.random.random_range(0..copies.len());
                self.clones[n].catalogue = copies[back].clone();
            }
            4 => self.search(n),
            5 => self.offer(n).into_iter().for_each(|heard| self.hear(n, &heard, Turn::First)),
            6 => self.go_on(n),
            _ => _ = self.deliver(),
        }
    }

    /// Clone `n` asks every indexer.
    fn search(&mut self, n: usize) {
        for at in 0..self.indexers.len() {
            if let Some(known) = self.indexers[at].known.clone() {
                self.hear(n, &known, Turn::First);
            }
        }
    }

    /// Everything is alive, and nobody publishes any more. Returns the number of numbers taken.
    fn come_to_rest(&mut self) -> usize {
        self.is_reliable = true;
        let versions = |sim: &Self| -> Vec<_> {
            sim.clones
                .iter()
                .map(|clone| (clone.catalogue.entry.clone(), clone.catalogue.newest.clone()))
                .collect()
        };
        let mut rounds = 0;
        loop {
            let before = versions(self);
            for n in 0..self.clones.len() {
                while self.deliver() {}
                self.offer(n).into_iter().for_each(|heard| self.hear(n, &heard, Turn::First));
                self.search(n);
            }
            while self.deliver() {}
            (0..self.clones.len()).for_each(|n| self.go_on(n));
            if versions(self) == before && self.to_clones.is_empty() {
                return rounds;
            }
            rounds += 1;
            assert!(rounds < 20, "it never comes to rest");
        }
    }

    fn check(&self) {
        let newest = self.newest();
        let mut is_offered = false;
        for Clone_ { catalogue, .. } in &self.clones {
            let Catalogue { entry: Some(entry), newest: None, .. } = catalogue else { continue };
            assert_eq!(Some(entry), newest.as_ref(), "what is offered is the newest");
            is_offered = true;
        }
        if !is_offered {
            return; // nobody is left who could publish above two contents of one number
        }
        let last = newest.map(|newest| newest.version);
        let newest = self.indexers.iter().filter_map(|one| one.known.as_ref());
        let mut newest = newest.filter(|known| Some(known.version) == last).map(|known| known.content);
        let first = newest.next();
        assert!(newest.all(|content| Some(content) == first), "the newest version is one content");
    }

    /// The contents that the indexers together have listed under each number.
    fn listed(&self) -> BTreeMap<Version, Vec<Substance>> {
        let mut listed: BTreeMap<Version, Vec<Substance>> = BTreeMap::new();
        for (version, substance) in self.indexers.iter().flat_map(|indexer| &indexer.accepted) {
            let known = listed.entry(*version).or_default();
            if !known.contains(substance) {
                known.push(*substance);
            }
        }
        listed
    }
}

/// Goal: no indexer lists two contents under one number; in the end all folders that offer the file offer the
/// same version, which is the newest anywhere; and that takes few registrations. Where the network answers, no
/// two indexers list different contents under one number either.
/// Method: random publishes, losses, restored and cloned folders, lost messages; then all is well.
#[test]
fn no_number_has_two_contents_and_all_folders_agree_in_the_end() {
    for seed in 0..500 {
        for is_reliable in [true, false] {
            println!("seed {seed}, reliable {is_reliable}");
            let mut sim = Sim::new(seed, is_reliable);
            (0..60).for_each(|_| sim.step());
            if is_reliable {
                assert!(sim.listed().values().all(|contents| contents.len() == 1), "{:?}", sim.listed());
            }
            sim.registrations = 0;
            let rounds = sim.come_to_rest();
            sim.check();
            let most = (rounds + 2) * sim.clones.len() * sim.indexers.len() * 4;
            assert!(sim.registrations <= most, "{} registrations", sim.registrations);
        }
    }
}
