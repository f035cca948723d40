//! The table alone, and in a simulation with indexers that fail, restart and are full.

use rand::{RngExt, SeedableRng, rngs::StdRng};
use testkit::goods;

use super::*;
use std::collections::HashSet;

fn name(n: u8) -> FileName {
    FileName::new(&format!("file-{n}")).unwrap()
}

fn record(n: u8, version: u64) -> VerifiedRecord {
    goods::of_content(1, name(n).as_str(), version, u8::try_from(version).unwrap())
}

type Held = HashMap<FileName, VerifiedRecord>;

fn held(files: impl IntoIterator<Item = u8>, version: u64) -> Held {
    files.into_iter().map(|n| (name(n), record(n, version))).collect()
}

/// The next calls to the indexer, as its session finds them. What `is_news` is announced.
fn next(
    registrations: &mut Registrations,
    index: IndexerIndex,
    held: &Held,
    is_news: impl Fn(&VerifiedRecord) -> bool,
) -> Option<Batch> {
    loop {
        let names = registrations.take(index, 3);
        if names.is_empty() {
            let last = registrations.rest(index)?;
            look_on(registrations, index, held, &last);
            continue;
        }
        let batch = plan(registrations, index, names, held, &is_news);
        if !batch.is_empty() {
            return Some(batch);
        }
    }
}

fn look_on(registrations: &mut Registrations, index: IndexerIndex, held: &Held, last: &str) {
    let mut names: Vec<&FileName> = held.keys().filter(|name| name.as_str() > last).collect();
    names.sort_unstable();
    names.truncate(2);
    let found: Vec<_> = names.iter().map(|name| (held[*name].clone(), Some(Kind::Held))).collect();
    registrations.refresh(&found);
    registrations.note_rest(index, names.last().copied());
}

fn plan(
    registrations: &mut Registrations,
    index: IndexerIndex,
    names: Vec<FileName>,
    held: &Held,
    is_news: impl Fn(&VerifiedRecord) -> bool,
) -> Batch {
    let read = |name: FileName| {
        let record = held.get(&name).cloned();
        let kind = |record: &VerifiedRecord| if is_news(record) { Kind::News } else { Kind::Held };
        (name, record.map(|record| (record.clone(), kind(&record))))
    };
    registrations.plan(index, names.into_iter().map(read).collect())
}

/// Sends the first indexer everything, and acknowledges it; returns what was sent.
fn tell(registrations: &mut Registrations, held: &Held) -> Vec<(Kind, VerifiedRecord)> {
    let mut told = Vec::new();
    while let Some(batch) = next(registrations, 0, held, |_| false) {
        registrations.withdrawn(0, &batch.withdraw);
        for (kind, records) in [(Kind::Held, &batch.held), (Kind::Partial, &batch.partial)] {
            registrations.registered(0, kind, records, &[], &[]);
            told.extend(records.iter().map(|record| (kind, record.clone())));
        }
        registrations.done(0, &batch);
    }
    told
}

fn no_news(_: &VerifiedRecord) -> bool {
    false
}

fn connected(held: &Held) -> Registrations {
    let mut registrations = Registrations::new(1);
    registrations.connected(0, Some(0));
    assert_eq!(tell(&mut registrations, held).len(), held.len());
    registrations
}

#[test]
fn batch_that_failed_is_told_again_and_ends_the_wait_for_it() {
    let (mut registrations, held, names) = (connected(&Held::new()), held([1], 1), [name(1)]);
    registrations.offer(held.values());
    let failures = registrations.failures(0);
    let batch = next(&mut registrations, 0, &held, |_| true).unwrap();
    assert_eq!(registrations.left(0, &names), Some(&names[..]), "it is on its way");
    registrations.failed(0, &batch);
    assert!(registrations.failures(0) > failures);
    let again = next(&mut registrations, 0, &held, |_| true).unwrap();
    assert_eq!((again.withdraw.as_slice(), &again.news), (&names[..], &batch.news), "it may be listed");
    registrations.done(0, &again);
    assert_eq!(registrations.left(0, &names), None);
}

#[test]
fn part_stands_in_place_of_an_older_version_until_it_ends() {
    let held = held([1], 1);
    let mut registrations = connected(&held);
    registrations.offer_part(&record(1, 2));
    assert_eq!(tell(&mut registrations, &held), [(Kind::Partial, record(1, 2))]);
    registrations.offer(&[record(1, 1)]);
    assert_eq!(tell(&mut registrations, &held), [], "the download goes on");
    assert!(registrations.end_part(&name(1)));
    let batch = next(&mut registrations, 0, &held, no_news).unwrap();
    assert_eq!((batch.withdraw.as_slice(), batch.held.as_slice()), (&[name(1)][..], &[record(1, 1)][..]));
}

#[test]
fn what_changes_comes_before_the_rest_of_everything() {
    let (mut registrations, held) = (Registrations::new(1), held(0..10, 1));
    registrations.connected(0, Some(0));
    registrations.offer(&[record(9, 1)]);
    let batch = next(&mut registrations, 0, &held, no_news).unwrap();
    assert_eq!(batch.held, [record(9, 1)]);
    registrations.registered(0, Kind::Held, &batch.held, &[], &[]);
    registrations.done(0, &batch);
    let names = [name(0), name(9)];
    assert_eq!(registrations.left(0, &names), Some(&names[..]), "those of the rest are not told");
    assert_eq!(tell(&mut registrations, &held).len(), 9);
    assert_eq!(registrations.left(0, &names), None);
}

#[test]
fn look_at_a_file_tells_what_differs_from_what_is_listed() {
    let mut registrations = connected(&held([1, 2], 1));
    let look = |version, kind| [(record(1, version), kind)];
    assert!(!registrations.refresh(&look(1, Some(Kind::Held))));
    assert!(registrations.refresh(&look(1, None)), "its file is missing");
    assert!(!registrations.refresh(&look(2, None)), "known");
    assert_eq!(tell(&mut registrations, &held([2], 1)), []);
    assert_eq!(registrations.counted(0), 1);
    assert!(!registrations.refresh(&look(1, None)) && registrations.refresh(&look(1, Some(Kind::Partial))));
}

/// A file whose bytes are compared stays listed, without them, where it was listed; a process that has just started, maybe
/// on a restored folder, does not begin to list it.
#[test]
fn what_is_compared_is_listed_where_it_was_before() {
    let (mut was, mut began) = (Registrations::new(1), Registrations::new(1));
    was.connected(0, Some(1));
    tell(&mut was, &held([1], 1));
    began.connected(0, Some(1));
    for (registrations, expected) in [(&mut was, Some((record(1, 1), Kind::Compared))), (&mut began, None)] {
        let is_changed = registrations.refresh(&[(record(1, 1), Some(Kind::Compared))]);
        assert_eq!(is_changed, expected.is_some());
        let names = registrations.take(0, 3);
        let found = names.into_iter().map(|name| (name, Some((record(1, 1), Kind::Compared)))).collect();
        let batch = registrations.plan(0, found);
        assert_eq!(batch.partial, expected.map(|(record, _)| record).as_slice());
        assert!(batch.withdraw.is_empty() && batch.held.is_empty());
    }
}

#[test]
fn full_indexer_is_not_asked_again_and_again_and_hides_not_that_it_lost_others() {
    let mut registrations = connected(&held([1], 1));
    for version in 1..5 {
        registrations.offer(&[record(2, version)]);
        let batch = next(&mut registrations, 0, &held([2], version), no_news).unwrap();
        assert_eq!(registrations.registered(0, Kind::Held, &batch.held, &[], &[name(2)]), []);
        registrations.done(0, &batch);
        assert_eq!(next(&mut registrations, 0, &held([2], version), no_news), None);
    }
    assert!(registrations.is_all(0, 1) && !registrations.is_all(0, 0));
}

#[test]
fn version_that_an_indexer_knows_better_is_not_registered_again_and_again() {
    let mut registrations = connected(&Held::new());
    registrations.offer(&[record(1, 1)]);
    let batch = next(&mut registrations, 0, &held([1], 1), |_| true).unwrap();
    let listed = registrations.registered(0, Kind::News, &batch.news, &[record(1, 2)], &[]);
    registrations.done(0, &batch);
    assert_eq!((listed, next(&mut registrations, 0, &held([1], 1), |_| true)), (Vec::new(), None));
}

#[test]
fn closed_table_tells_nobody_anything() {
    let mut registrations = connected(&held([1], 1));
    registrations.close();
    registrations.offer(&[record(2, 1)]);
    registrations.connected(0, Some(0));
    registrations.offer_part(&record(3, 1));
    registrations.lost_track(0);
    assert_eq!(next(&mut registrations, 0, &held([1, 2], 1), no_news), None);
}

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
        let cases = [(Kind::Held, &batch.held), (Kind::News, &batch.news), (Kind::Partial, &batch.partial)];
        for (kind, records) in cases {
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
    held: Held,
    /// In the catalogue, and not offered yet.
    pending: Option<VerifiedRecord>,
    under_way: Vec<Option<Batch>>,
    models: Vec<Model>,
    news: HashMap<FileName, VerifiedRecord>,
    random: StdRng,
}

impl Sim {
    fn new(seed: u64) -> Self {
        let models = (0..INDEXERS).map(|_| Model::default()).collect();
        let random = StdRng::seed_from_u64(seed);
        let (registrations, held, news) = (Registrations::new(INDEXERS), Held::new(), HashMap::new());
        let under_way = (0..INDEXERS).map(|_| None).collect();
        Self { registrations, held, pending: None, under_way, models, news, random }
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
            2 => self.registrations.offer_part(&record(n, 2 + time / 8)),
            3 => _ = self.registrations.end_part(&name(n)),
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
        self.registrations.connected(index, Some(0));
        self.under_way[index] = None;
    }

    /// An indexer loses some of what it lists, and the next renewal shows it.
    fn lose_some(&mut self, index: IndexerIndex) {
        if self.registrations.indexers[index].is_connected && self.under_way[index].is_none() {
            self.models[index].listed.retain(|_, _| self.random.random_bool(0.5));
            self.registrations.lost_track(index);
        }
    }

    /// Does the next step of telling an indexer: it looks at files, reads the next calls, or makes them, which may fail. What
    /// changes between these steps must not get lost. False if there is nothing to tell.
    fn tell(&mut self, index: IndexerIndex) -> bool {
        if let Some(batch) = self.under_way[index].take() {
            if self.models[index].take(&mut self.registrations, index, &batch, &mut self.random) {
                self.registrations.done(index, &batch);
            } else {
                self.registrations.failed(index, &batch);
            }
            return true;
        }
        let names = self.registrations.take(index, 3);
        if names.is_empty() {
            let Some(last) = self.registrations.rest(index) else { return false };
            look_on(&mut self.registrations, index, &self.held, &last);
            return true;
        }
        self.offer_pending(); // between the names and what is offered under them
        let (news, told) = (&self.news, &self.models[index].told);
        let is_news =
            |record: &VerifiedRecord| news.get(&record.name) == Some(record) && !told.contains(record);
        let batch = plan(&mut self.registrations, index, names, &self.held, is_news);
        self.under_way[index] = Some(batch).filter(|batch| !batch.is_empty());
        true
    }

    fn check(&self, index: IndexerIndex) {
        let (registrations, model) = (&self.registrations, &self.models[index]);
        let mut offered: HashMap<_, _> =
            self.held.iter().map(|(name, record)| (name.clone(), (record.clone(), false))).collect();
        let parts = registrations.parts.iter().map(|(name, part)| (name.clone(), (part.clone(), true)));
        offered.extend(parts);
        assert_eq!(model.listed, offered);
        assert_eq!(registrations.counted(index), model.listed.len());
        let names: Vec<FileName> = (0..5).map(name).collect();
        assert_eq!(registrations.left(index, &names), None);
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
