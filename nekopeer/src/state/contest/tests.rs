//! The decision alone, and in a simulation: a folder that is lost and restored, publishing through indexers that hear of
//! each other or do not.

use std::collections::BTreeMap;

use nekoproto::{ContentHash, ManifestHash, VerifiedRecord, Version};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use testkit::goods;

use super::*;
use crate::storage::catalogue::numbering::{Known, Numbered, Substance};

fn record(version: Version, content: u8) -> VerifiedRecord {
    goods::record(1, "a", version.get(), |record| {
        record.content = ContentHash::from_bytes([content; 32]);
        record.manifest = ManifestHash::from_bytes([content; 32]);
    })
}

fn version(number: u64) -> Version {
    Version::new(number).unwrap()
}

#[test]
fn heard_record_is_judged_by_its_number_its_bytes_and_who_relies_on_ours() {
    let mine = record(version(5), 5);
    let judge = |is_pending, heard: (u64, u8)| {
        Mine { record: &mine, newest: None, is_pending }.judge(&record(version(heard.0), heard.1))
    };
    for is_pending in [false, true] {
        assert_eq!(judge(is_pending, (4, 4)), Judgment::Stands);
        assert_eq!(judge(is_pending, (5, 5)), Judgment::Stands);
        assert_eq!(judge(is_pending, (7, 5)), Judgment::Adopt, "the same bytes");
    }
    assert_eq!(judge(true, (7, 7)), Judgment::Renumber);
    assert_eq!(judge(true, (5, 7)), Judgment::Renumber);
    assert_eq!(judge(false, (7, 7)), Judgment::Superseded);
    assert_eq!(judge(false, (5, 4)), Judgment::Renumber, "the one that ranks higher");
    assert_eq!(judge(false, (5, 7)), Judgment::Superseded, "the other one");
    let newest = record(version(8), 8);
    let superseded = Mine { record: &mine, newest: Some(&newest), is_pending: false };
    assert_eq!(superseded.judge(&record(version(8), 8)), Judgment::Stands, "it is known");
    assert_eq!(superseded.judge(&record(version(9), 9)), Judgment::Superseded);
}

/// The data folder with the key.
#[derive(Clone, Default)]
struct Folder {
    catalogue: Catalogue,
    /// What it was, for when it is restored.
    copies: Vec<Catalogue>,
    own_indexers: Vec<usize>,
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
    folder: Folder,
    indexers: Vec<Indexer>,
    /// Records on their way to indexers and to the folder.
    to_indexers: Vec<(usize, VerifiedRecord)>,
    to_folder: Vec<VerifiedRecord>,
    /// Whether the network answers and messages arrive.
    is_reliable: bool,
    registrations: usize,
}

impl Sim {
    fn new(seed: u64, is_reliable: bool) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let indexers: usize = random.random_range(1..=3);
        let mut own_indexers: Vec<usize> = (0..indexers).filter(|_| random.random_bool(0.6)).collect();
        if own_indexers.is_empty() {
            own_indexers.push(random.random_range(0..indexers));
        }
        Self {
            random,
            folder: Folder { own_indexers, ..Folder::default() },
            indexers: (0..indexers).map(|_| Indexer::default()).collect(),
            to_indexers: Vec::new(),
            to_folder: Vec::new(),
            is_reliable,
            registrations: 0,
        }
    }

    /// What the network knows.
    fn newest(&self) -> Option<VerifiedRecord> {
        self.indexers.iter().filter_map(|one| one.known.clone()).max_by_key(|record| record.version)
    }

    /// Sends `record` to the other indexers, and to the folder, if it is at this one.
    fn spread(&mut self, from: usize, record: &VerifiedRecord) {
        let others = (0..self.indexers.len()).filter(|to| *to != from);
        self.to_indexers.extend(others.map(|to| (to, record.clone())));
        if self.folder.own_indexers.contains(&from) {
            self.to_folder.push(record.clone());
        }
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

    /// Registers what the folder offers; returns what its indexers know better.
    fn offer(&mut self) -> Vec<VerifiedRecord> {
        let Folder { catalogue, own_indexers, .. } = self.folder.clone();
        let Some(entry) = catalogue.entry.filter(|_| catalogue.newest.is_none()) else { return Vec::new() };
        let mut heard = Vec::new();
        for at in own_indexers {
            match self.register(at, &entry) {
                Ok(()) => self.folder.catalogue.is_told = true,
                Err(known) => heard.push(known),
            }
        }
        heard
    }

    /// The user publishes `content`, as `Publisher` does.
    fn publish(&mut self, content: u8) {
        let network = if self.is_reliable || self.random.random_bool(0.5) { self.newest() } else { None };
        let Catalogue { counter, entry, newest, .. } = self.folder.catalogue.clone();
        let draft = Substance::of(&record(Version::FIRST, content));
        let (entry, newest, network) = (entry.as_ref(), newest.as_ref(), network.as_ref());
        match (Known { counter, floor: None, entry, newest, network }).number(draft) {
            Numbered::Old(same) => {
                self.take(same.clone(), false);
                return self.register_all();
            }
            Numbered::New(version) => self.take(record(version, content), true),
            Numbered::UsedUp => panic!("no number is left"),
        }
        for round in 0.. {
            assert!(round < 4, "a publish settles its number at once");
            let mut heard = self.offer();
            heard.sort_by_key(|heard| heard.version);
            let Some(heard) = heard.pop() else { break };
            match self.judge(&heard) {
                None | Some(Judgment::Stands) => break,
                Some(Judgment::Adopt) => self.take(heard, false),
                Some(Judgment::Renumber | Judgment::Superseded) => self.renumber(&heard),
            }
        }
    }

    fn judge(&self, heard: &VerifiedRecord) -> Option<Judgment> {
        let Catalogue { entry, newest, is_told, .. } = &self.folder.catalogue;
        let (record, newest) = (entry.as_deref()?, newest.as_deref());
        Some(Mine { record, newest, is_pending: !is_told }.judge(heard))
    }

    /// A version becomes that of the folder.
    fn take(&mut self, record: VerifiedRecord, is_new: bool) {
        let folder = &mut self.folder;
        folder.copies.push(folder.catalogue.clone());
        let counter = folder.catalogue.counter.max(Some(record.version));
        folder.catalogue = Catalogue { counter, entry: Some(record), newest: None, is_told: !is_new };
    }

    fn renumber(&mut self, above: &VerifiedRecord) {
        let catalogue = &self.folder.catalogue;
        let newest = catalogue.newest.as_ref().map(|newest| newest.version);
        let last = catalogue.counter.max(newest).max(Some(above.version)).unwrap();
        let content = catalogue.entry.as_ref().unwrap().content.as_bytes()[0];
        self.take(record(last.next().unwrap(), content), true);
    }

    /// The folder hears of a record in the background.
    fn hear(&mut self, heard: &VerifiedRecord) {
        match self.judge(heard) {
            None | Some(Judgment::Stands) => return,
            Some(Judgment::Adopt) => self.take(heard.clone(), false),
            Some(Judgment::Renumber) => self.renumber(heard),
            Some(Judgment::Superseded) => {
                self.folder.catalogue.newest = Some(heard.clone());
                return;
            }
        }
        let heard = self.offer();
        self.to_folder.extend(heard);
    }

    fn register_all(&mut self) {
        self.offer().iter().for_each(|heard| self.hear(heard));
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
        } else if !self.to_folder.is_empty() {
            let record = self.to_folder.swap_remove(self.random.random_range(0..self.to_folder.len()));
            if !is_lost {
                self.hear(&record);
            }
        } else {
            return false;
        }
        true
    }

    fn step(&mut self) {
        match self.random.random_range(0..10) {
            0 | 1 => {
                let content = self.random.random_range(0..5);
                self.publish(content);
            }
            2 if self.random.random_bool(0.3) => self.folder.catalogue = Catalogue::default(),
            3 if !self.folder.copies.is_empty() => {
                let back = self.random.random_range(0..self.folder.copies.len());
                self.folder.catalogue = self.folder.copies[back].clone();
            }
            4 => self.search(),
            5 => self.register_all(),
            _ => _ = self.deliver(),
        }
    }

    /// The folder asks every indexer.
    fn search(&mut self) {
        for at in 0..self.indexers.len() {
            if let Some(known) = self.indexers[at].known.clone() {
                self.hear(&known);
            }
        }
    }

    /// Everything is alive, and nobody publishes any more. Returns the number of rounds that it takes.
    fn come_to_rest(&mut self) -> usize {
        self.is_reliable = true;
        for rounds in 0.. {
            assert!(rounds < 20, "it never comes to rest");
            let Catalogue { entry, newest, .. } = self.folder.catalogue.clone();
            while self.deliver() {}
            self.register_all();
            self.search();
            while self.deliver() {}
            let now = &self.folder.catalogue;
            if (&entry, &newest) == (&now.entry, &now.newest) {
                return rounds;
            }
        }
        unreachable!()
    }

    fn check(&self) {
        let Catalogue { entry: Some(entry), newest: None, .. } = &self.folder.catalogue else { return };
        assert_eq!(Some(entry), self.newest().as_ref(), "what is offered is the newest");
        let newest = self.indexers.iter().filter_map(|one| one.known.as_ref());
        let mut newest = newest.filter(|known| known.version == entry.version);
        assert!(newest.all(|known| known.content == entry.content), "the newest version is one content");
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

/// Goal: no indexer lists two contents under one number; in the end the folder offers the newest version anywhere, if it
/// offers any; and that takes few registrations. Where the network answers, no two indexers list different contents under
/// one number either.
/// Method: random publishes, losses, restored folders, lost messages; then all is well.
#[test]
fn no_number_has_two_contents_and_the_folder_offers_the_newest_in_the_end() {
    for seed in 0..1000 {
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
            let most = (rounds + 2) * sim.indexers.len() * 4;
            assert!(sim.registrations <= most, "{} registrations", sim.registrations);
        }
    }
}
