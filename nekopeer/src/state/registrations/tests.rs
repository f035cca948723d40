//! The table alone, and in a simulation with indexers that fail, restart and are full.

use nekoproto::{ContentHash, Identity, ManifestHash, Policy, Record, Version};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::*;

fn name(n: u8) -> FileName {
    FileName::new(&format!("file-{n}")).unwrap()
}

fn record(n: u8, version: u64) -> VerifiedRecord {
    let origin = Identity::from_seed(&[1; 32]);
    let record = Record {
        origin: origin.id(),
        name: name(n),
        version: Version::new(version).unwrap(),
        size: 1,
        content: ContentHash::from_bytes([u8::try_from(version).unwrap(); 32]),
        manifest: ManifestHash::from_bytes([1; 32]),
        policy: Policy::default(),
        published_ms: 1_795_000_000_000,
    };
    record.sign(&origin).unwrap()
}

/// A catalogue with version `version` of each file.
fn held(version: u64) -> impl Fn(&FileName) -> Option<VerifiedRecord> {
    move |name| (0..20).map(|n| record(n, version)).find(|record| record.name == *name)
}

/// Sends the first indexer everything, and acknowledges it; returns what was sent. `news` is not told yet.
fn tell(registrations: &mut Registrations, news: &[VerifiedRecord]) -> Vec<(Kind, VerifiedRecord)> {
    tell_held(registrations, held(1), news)
}

fn tell_held(
    registrations: &mut Registrations,
    held: impl Fn(&FileName) -> Option<VerifiedRecord>,
    news: &[VerifiedRecord],
) -> Vec<(Kind, VerifiedRecord)> {
    let mut told = Vec::new();
    while let Some(batch) = registrations.next(0, 3, &held, |record| news.contains(record)) {
        registrations.withdrawn(0, &batch.withdraw);
        for (kind, records) in
            [(Kind::Held, &batch.held), (Kind::News, &batch.news), (Kind::Partial, &batch.partial)]
        {
            registrations.registered(0, kind, records, &[], &[]);
            told.extend(records.iter().map(|record| (kind, record.clone())));
        }
        registrations.done(0);
    }
    told
}

fn tell_all(registrations: &mut Registrations) -> Vec<(Kind, VerifiedRecord)> {
    tell(registrations, &[])
}

fn no_news(_: &VerifiedRecord) -> bool {
    false
}

fn connected() -> Registrations {
    let mut registrations = Registrations::new(1);
    registrations.connected(0);
    registrations
}

#[test]
fn news_is_announced_once_and_held_when_told_again() {
    let mut registrations = connected();
    registrations.offer(&[record(1, 1)]);
    assert_eq!(tell(&mut registrations, &[record(1, 1)]), [(Kind::News, record(1, 1))]);
    assert_eq!(tell_all(&mut registrations), []);
    registrations.connected(0);
    assert_eq!(tell_all(&mut registrations), [(Kind::Held, record(1, 1))]);
}

#[test]
fn news_that_an_indexer_missed_is_announced_when_it_is_back() {
    let mut registrations = connected();
    let generation = registrations.offer(&[record(1, 1)]);
    assert_eq!(registrations.is_told(0, generation), None);
    let batch = registrations.next(0, 9, held(1), |_| true).unwrap();
    registrations.failed(0, batch);
    assert_eq!(registrations.is_told(0, generation), Some(false));
    registrations.disconnected(0);
    registrations.connected(0);
    assert_eq!(tell(&mut registrations, &[record(1, 1)]), [(Kind::News, record(1, 1))]);
    assert_eq!(registrations.is_told(0, generation), Some(true));
}

#[test]
fn part_stands_in_place_of_an_older_version_until_it_ends() {
    let mut registrations = connected();
    registrations.offer(&[record(1, 1)]);
    registrations.offer_part(&record(1, 2));
    assert_eq!(tell_all(&mut registrations), [(Kind::Partial, record(1, 2))]);
    registrations.offer(&[record(1, 1)]);
    assert_eq!(tell_all(&mut registrations), [], "the download goes on");
    registrations.end_part(&name(1), Some(&record(1, 1)));
    let batch = registrations.next(0, 9, held(1), no_news).unwrap();
    assert_eq!((batch.withdraw.as_slice(), batch.held.as_slice()), (&[name(1)][..], &[record(1, 1)][..]));
}

#[test]
fn what_changes_comes_before_the_rest_of_everything() {
    let mut registrations = Registrations::new(1);
    let all: Vec<_> = (0..9).map(|n| record(n, 1)).collect();
    let first = registrations.offer(&all);
    registrations.connected(0);
    let change = registrations.offer(&[record(9, 1)]);
    let batch = registrations.next(0, 2, held(1), no_news).unwrap();
    assert!(batch.held.contains(&record(9, 1)));
    registrations.registered(0, Kind::Held, &batch.held, &[], &[]);
    assert_eq!(registrations.is_told(0, change), None, "it is on its way");
    registrations.done(0);
    assert_eq!((registrations.is_told(0, change), registrations.is_told(0, first)), (Some(true), None));
}

#[test]
fn look_at_the_disk_does_not_undo_what_changed_since() {
    let mut registrations = connected();
    registrations.offer(&[record(1, 2), record(2, 1)]);
    registrations.withdraw(&[name(3)]);
    let found = [(1, Offers::Bytes), (2, Offers::Nothing), (3, Offers::Bytes)];
    let found = found.map(|(n, offers)| (record(n, 1), offers)).to_vec();
    registrations.refresh(found, |found| *found == record(2, 1));
    assert_eq!(tell_held(&mut registrations, held(2), &[]), [(Kind::Held, record(1, 2))]);
}

#[test]
fn withdrawal_that_waits_survives_that_the_indexer_loses_track() {
    let mut registrations = connected();
    registrations.offer(&[record(1, 1), record(2, 1), record(3, 1)]);
    assert_eq!(tell_all(&mut registrations).len(), 3);
    registrations.withdraw(&[name(1)]);
    let batch = registrations.next(0, 9, held(1), no_news).unwrap();
    registrations.failed(0, batch);
    registrations.withdraw(&[name(2)]);
    registrations.lost_track(0);
    let batch = registrations.next(0, 9, held(1), no_news).unwrap();
    let mut withdrawn = batch.withdraw.clone();
    withdrawn.sort();
    assert_eq!((withdrawn.as_slice(), batch.held.as_slice()), (&[name(1), name(2)][..], &[record(3, 1)][..]));
}

#[test]
fn full_indexer_is_not_asked_again_and_again() {
    let mut registrations = connected();
    registrations.offer(&[record(1, 1), record(2, 1)]);
    let batch = registrations.next(0, 9, held(1), no_news).unwrap();
    let listed = registrations.registered(0, Kind::Held, &batch.held, &[], &[name(2)]);
    assert_eq!(listed, [record(1, 1)]);
    registrations.done(0);
    assert_eq!(registrations.next(0, 9, held(1), no_news), None);
    assert!(registrations.is_all(0, 1) && !registrations.is_all(0, 0));
}

#[test]
fn offers_to_a_full_indexer_do_not_hide_that_it_lost_others() {
    let mut registrations = connected();
    registrations.offer(&[record(1, 1)]);
    assert_eq!(tell_all(&mut registrations).len(), 1);
    for version in 1..5 {
        registrations.offer(&[record(2, version)]);
        let batch = registrations.next(0, 9, held(version), no_news).unwrap();
        registrations.registered(0, Kind::Held, &batch.held, &[], &[name(2)]);
        registrations.done(0);
    }
    assert!(registrations.is_all(0, 1) && !registrations.is_all(0, 0));
}

#[test]
fn version_that_an_indexer_knows_better_is_not_registered_again_and_again() {
    let mut registrations = connected();
    registrations.offer(&[record(1, 1)]);
    let batch = registrations.next(0, 9, held(1), |_| true).unwrap();
    let listed = registrations.registered(0, Kind::News, &batch.news, &[record(1, 2)], &[]);
    registrations.done(0);
    assert_eq!((listed, registrations.next(0, 9, held(1), |_| true)), (Vec::new(), None));
}

#[test]
fn older_version_that_is_offered_late_does_not_replace_a_newer_one() {
    let mut registrations = connected();
    registrations.offer(&[record(1, 2)]);
    registrations.offer(&[record(1, 1)]);
    assert_eq!(tell_held(&mut registrations, held(2), &[]), [(Kind::Held, record(1, 2))]);
}

#[test]
fn closed_table_tells_nobody_anything() {
    let mut registrations = connected();
    registrations.offer(&[record(1, 1)]);
    registrations.close();
    registrations.offer(&[record(2, 1)]);
    registrations.connected(0);
    assert_eq!(registrations.next(0, 9, held(1), no_news), None);
}

#[test]
fn what_the_catalogue_has_is_registered_and_its_offer_then_changes_nothing() {
    let mut registrations = connected();
    registrations.offer(&[record(1, 1)]);
    assert_eq!(tell_held(&mut registrations, held(2), &[]), [(Kind::Held, record(1, 2))]);
    registrations.offer(&[record(1, 2)]);
    assert_eq!(tell_held(&mut registrations, held(2), &[]), []);
    registrations.lost_track(0);
    let batch = registrations.next(0, 9, |_| None, no_news).unwrap();
    assert_eq!((batch.withdraw.as_slice(), batch.held.as_slice()), (&[name(1)][..], &[][..]), "it is gone");
}

/// A model of an indexer, which keeps what is registered.
#[derive(Default)]
struct Model {
    listed: HashMap<FileName, (VerifiedRecord, bool)>,
    announced: HashSet<VerifiedRecord>,
    /// What this peer knows it was told.
    told: HashSet<VerifiedRecord>,
}

impl Model {
    /// Processes a batch, or a part of it if a call fails; returns whether all calls succeeded.
    fn take(
        &mut self,
        registrations: &mut Registrations,
        index: IndexerIndex,
        batch: &Batch,
        random: &mut StdRng,
    ) -> bool {
        if random.random_bool(0.1) {
            return false;
        }
        batch.withdraw.iter().for_each(|name| drop(self.listed.remove(name)));
        registrations.withdrawn(index, &batch.withdraw);
        for (kind, records) in
            [(Kind::Held, &batch.held), (Kind::News, &batch.news), (Kind::Partial, &batch.partial)]
        {
            if random.random_bool(0.1) {
                return false;
            }
            for record in records {
                let known = self.listed.get(&record.name);
                assert!(known.is_none_or(|(known, _)| !known.replaces(record)), "older over newer");
                self.listed.insert(record.name.clone(), (record.clone(), kind == Kind::Partial));
                if kind == Kind::News {
                    self.announced.insert(record.clone());
                }
            }
            if random.random_bool(0.1) {
                return false; // processed, but not acknowledged
            }
            let listed = registrations.registered(index, kind, records, &[], &[]);
            if kind != Kind::Partial {
                self.told.extend(listed);
            }
        }
        true
    }
}

const INDEXERS: usize = 3;

/// The table, the catalogue, the indexers, and the last version published under each name.
struct Sim {
    registrations: Registrations,
    held: HashMap<FileName, VerifiedRecord>,
    /// In the catalogue, and not offered yet.
    pending: Option<VerifiedRecord>,
    models: Vec<Model>,
    news: HashMap<FileName, VerifiedRecord>,
    random: StdRng,
}

impl Sim {
    fn new(seed: u64) -> Self {
        let models = (0..INDEXERS).map(|_| Model::default()).collect();
        let random = StdRng::seed_from_u64(seed);
        let (registrations, held, news) = (Registrations::new(INDEXERS), HashMap::new(), HashMap::new());
        Self { registrations, held, pending: None, models, news, random }
    }

    /// One random event; versions grow with `time`.
    fn step(&mut self, time: u64) {
        let n = self.random.random_range(0..5);
        let index = self.random.random_range(0..INDEXERS);
        let whole = self.held.get(&name(n)).cloned();
        if self.random.random_bool(0.5) {
            self.offer_pending();
        }
        match self.random.random_range(0..9) {
            0 | 1 => {
                let record = record(n, 1 + time / 8);
                if whole.is_none_or(|whole| record.replaces(&whole)) {
                    self.offer_pending();
                    self.held.insert(name(n), record.clone());
                    self.news.insert(name(n), record.clone());
                    self.pending = Some(record);
                }
            }
            2 => _ = self.registrations.offer_part(&record(n, 2 + time / 8)),
            3 => _ = self.registrations.end_part(&name(n), whole.as_ref()),
            4 => {
                self.pending.take_if(|pending| pending.name == name(n));
                self.held.remove(&name(n));
                self.registrations.withdraw(&[name(n)]);
                self.news.remove(&name(n));
            }
            5 => self.reconnect(index),
            6 => self.lose_some(index),
            _ => _ = self.tell(index),
        }
    }

    fn offer_pending(&mut self) {
        self.registrations.offer(self.pending.take().as_slice());
    }

    fn reconnect(&mut self, index: IndexerIndex) {
        self.registrations.disconnected(index);
        self.models[index].listed.clear();
        self.registrations.connected(index);
    }

    /// An indexer loses some of what it lists, and the next renewal shows it.
    fn lose_some(&mut self, index: IndexerIndex) {
        if self.registrations.indexers[index].is_connected {
            self.models[index].listed.retain(|_, _| self.random.random_bool(0.5));
            self.registrations.lost_track(index);
        }
    }

    /// Sends an indexer the next batch, which may fail; false if there is none.
    fn tell(&mut self, index: IndexerIndex) -> bool {
        let (news, told) = (&self.news, &self.models[index].told);
        let is_news =
            |record: &VerifiedRecord| news.get(&record.name) == Some(record) && !told.contains(record);
        let held = |name: &FileName| self.held.get(name).cloned();
        let Some(batch) = self.registrations.next(index, 3, held, is_news) else { return false };
        if self.models[index].take(&mut self.registrations, index, &batch, &mut self.random) {
            self.registrations.done(index);
        } else {
            self.registrations.failed(index, batch);
        }
        true
    }

    /// Asserts that the indexer lists the offers and has received the news.
    fn check(&self, index: IndexerIndex) {
        let (registrations, model) = (&self.registrations, &self.models[index]);
        let held = |name: &FileName| self.held.get(name).cloned();
        let offered = registrations.offers.iter().map(|(name, offer)| {
            assert_eq!(offer.whole, held(name).as_ref().map(Mark::of), "{name}");
            (name.clone(), offer.now(name, held).unwrap())
        });
        assert_eq!(model.listed, offered.collect::<HashMap<_, _>>());
        assert_eq!(registrations.counted(index), model.listed.len());
        assert_eq!(registrations.is_told(index, registrations.generation), Some(true));
        for (name, record) in &self.news {
            let is_offered = model.listed.get(name).is_some_and(|(listed, part)| listed == record && !part);
            assert!(!is_offered || model.announced.contains(record), "{name} is not announced");
        }
    }
}

/// Goal: each indexer ends up with exactly the offers, and has received the last news under each name.
/// Method: random offers, partial offers, withdrawals, failures and reconnections; then no more events.
#[test]
fn every_indexer_ends_up_with_what_is_offered() {
    for seed in 0..300 {
        println!("seed {seed}");
        let mut sim = Sim::new(seed);
        (0..200).for_each(|time| sim.step(time));
        sim.offer_pending();
        for index in 0..INDEXERS {
            if !sim.registrations.indexers[index].is_connected {
                sim.reconnect(index);
            }
            while sim.tell(index) {}
            sim.check(index);
        }
    }
}

#[test]
fn changes_of_one_name_that_nobody_takes_are_one_change() {
    let mut registrations = connected();
    registrations.offer(&[record(1, 1)]);
    let batch = registrations.next(0, 3, held(1), no_news).unwrap();
    for version in 2..100 {
        registrations.offer(&[record(1, version)]);
    }
    assert_eq!(registrations.indexers[0].changes.len(), 1);
    registrations.failed(0, batch); // the oldest change stays the first
    assert_eq!(registrations.indexers[0].changes.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [1]);
    assert_eq!(tell_held(&mut registrations, held(99), &[]), [(Kind::Held, record(1, 99))]);
    registrations.offer(&[record(1, 100)]);
    assert_eq!(tell_held(&mut registrations, held(100), &[]), [(Kind::Held, record(1, 100))]);
}
