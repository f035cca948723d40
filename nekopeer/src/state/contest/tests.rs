//! The decision alone, and in a simulation: a folder that is lost and restored, publishing through indexers that hear of
//! each other or do not.

use std::{collections::BTreeMap, time::Instant};

use nekoproto::{Policy, VerifiedRecord, Version};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use testkit::{
    goods,
    values::{identity, name},
};

use super::*;
use crate::{
    simulate::{Disk, Folder, OfferChange},
    storage::catalogue::numbering::Substance,
};

fn record(version: u64, content: u8) -> VerifiedRecord {
    goods::of_content(1, "a", version, content)
}

#[test]
fn heard_record_is_judged_by_its_number_its_bytes_and_who_relies_on_ours() {
    let mine = record(5, 5);
    let judge = |is_pending, heard: (u64, u8)| {
        Mine { record: &mine, newest: None, is_pending }.judge(&record(heard.0, heard.1))
    };
    for is_pending in [false, true] {
        assert_eq!(judge(is_pending, (4, 4)), None);
        assert_eq!(judge(is_pending, (5, 5)), None);
        assert_eq!(judge(is_pending, (7, 5)), Some(Judgment::Adopt), "the same bytes");
    }
    assert_eq!(judge(true, (7, 7)), Some(Judgment::Renumber));
    assert_eq!(judge(true, (5, 7)), Some(Judgment::Renumber));
    assert_eq!(judge(false, (7, 7)), Some(Judgment::Superseded));
    assert_eq!(judge(false, (5, 4)), Some(Judgment::Renumber), "the one that ranks higher");
    assert_eq!(judge(false, (5, 7)), Some(Judgment::Superseded), "the other one");
    let newest = record(8, 8);
    let superseded = Mine { record: &mine, newest: Some(&newest), is_pending: false };
    assert_eq!(superseded.judge(&record(8, 8)), None, "it is known");
    assert_eq!(superseded.judge(&record(9, 9)), Some(Judgment::Superseded));
}

#[derive(Default)]
struct Indexer {
    known: Option<VerifiedRecord>,
    accepted: BTreeMap<Version, Substance>,
}

struct Sim {
    random: StdRng,
    folder: Folder,
    /// What was on its disk, for when it is restored.
    copies: Vec<Disk>,
    own_indexers: Vec<usize>,
    indexers: Vec<Indexer>,
    /// Records on their way to indexers and to the folder.
    to_indexers: Vec<(usize, VerifiedRecord)>,
    to_folder: Vec<VerifiedRecord>,
    /// Whether the network answers and messages arrive.
    is_reliable: bool,
    registrations: usize,
    now: Instant,
}

impl Sim {
    fn new(seed: u64, is_reliable: bool) -> Self {
        let (mut random, now) = (StdRng::seed_from_u64(seed), Instant::now());
        let indexers: usize = random.random_range(1..=3);
        let mut own_indexers: Vec<usize> = (0..indexers).filter(|_| random.random_bool(0.6)).collect();
        if own_indexers.is_empty() {
            own_indexers.push(random.random_range(0..indexers));
        }
        let folder = Folder::new(identity(1), name("a"), Policy::default(), now);
        Self {
            random,
            copies: vec![folder.disk.clone()],
            folder,
            own_indexers,
            indexers: (0..indexers).map(|_| Indexer::default()).collect(),
            to_indexers: Vec::new(),
            to_folder: Vec::new(),
            is_reliable,
            registrations: 0,
            now,
        }
    }

    fn newest(&self) -> Option<VerifiedRecord> {
        self.indexers.iter().filter_map(|one| one.known.clone()).max_by_key(|record| record.version)
    }

    /// Sends `record` to the other indexers, and to the folder, if it is at this one.
    fn spread(&mut self, from: usize, record: &VerifiedRecord) {
        let others = (0..self.indexers.len()).filter(|to| *to != from);
        self.to_indexers.extend(others.map(|to| (to, record.clone())));
        if self.own_indexers.contains(&from) {
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
        let Some(entry) = self.folder.offered().cloned() else { return Vec::new() };
        let mut heard = Vec::new();
        for at in self.own_indexers.clone() {
            match self.register(at, &entry) {
                Ok(()) => _ = self.folder.registered(&entry, None),
                Err(known) => heard.push(known),
            }
        }
        heard
    }

    fn publish(&mut self, content: u8) {
        let network = if self.is_reliable || self.random.random_bool(0.5) { self.newest() } else { None };
        let change = self.folder.publish([content; 32], network.as_ref(), self.now);
        if !matches!(change, Some(OfferChange::Published { .. })) {
            return self.register_all();
        }
        for round in 0.. {
            assert!(round < 4, "a publish settles its number at once");
            let mut heard = self.offer();
            heard.sort_by_key(|heard| heard.version);
            let Some(heard) = heard.pop() else { break };
            if self.folder.settle(heard, true).is_none() {
                break;
            }
        }
    }

    /// The folder hears of a record in the background.
    fn hear(&mut self, heard: &VerifiedRecord) {
        if self.folder.settle(heard.clone(), false).is_some() {
            let heard = self.offer();
            self.to_folder.extend(heard);
        }
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
        self.copies.push(self.folder.disk.clone());
        match self.random.random_range(0..10) {
            0 | 1 => {
                let content = self.random.random_range(0..5);
                self.publish(content);
            }
            2 if self.random.random_bool(0.3) => self.restore(0),
            3 => {
                let back = self.random.random_range(0..self.copies.len());
                self.restore(back);
            }
            4 => self.search(),
            5 => self.register_all(),
            _ => _ = self.deliver(),
        }
    }

    fn restore(&mut self, back: usize) {
        self.folder.disk = self.copies[back].clone();
        self.folder.restart(self.now);
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
            let before = self.folder.disk.clone();
            while self.deliver() {}
            self.register_all();
            self.search();
            while self.deliver() {}
            if self.folder.disk == before {
                return rounds;
            }
        }
        unreachable!()
    }

    fn check(&self) {
        let Some(entry) = self.folder.offered() else { return };
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
