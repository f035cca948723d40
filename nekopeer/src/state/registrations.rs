//! What this peer offers under each name, diffed against what each of its indexers was told.
//!
//! Whoever changes an offer changes this table alone. Whoever serves an indexer takes the next
//! [`Batch`] of what it has not heard, tells it, and notes the outcome.

use std::collections::{HashMap, HashSet, VecDeque};

use nekoproto::{FileName, VerifiedRecord};

/// Counts changes of the table: what was changed earlier has a smaller number.
pub(crate) type Generation = u64;
/// Which of the indexers, by its place among them.
pub(crate) type IndexerIndex = usize;

/// How a version is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Held, and to be announced to the holders of older versions.
    News,
    /// Held.
    Held,
    /// Held in part: it is being downloaded.
    Partial,
}

/// What this peer offers, and what each indexer was told of it.
///
/// Invariants, for each indexer that is connected:
/// - a name whose offer differs from what is listed there is in `changes`, in `rest` or in the batch that
///   was taken last;
/// - the generations of its `changes` ascend;
/// - `counted` is the number of its `listed` names that count for the lease.
#[derive(Debug)]
pub(crate) struct Registrations {
    offers: HashMap<FileName, Offer>,
    indexers: Vec<Indexer>,
    generation: Generation,
    is_closed: bool,
}

/// What is offered under one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Offer {
    /// All of this version is here.
    whole: Option<VerifiedRecord>,
    /// This version is being downloaded, and served as far as it is here.
    part: Option<VerifiedRecord>,
}

/// One indexer.
#[derive(Debug, Default)]
struct Indexer {
    is_connected: bool,
    /// What it was told over the current connection.
    listed: HashMap<FileName, Listing>,
    /// Names of calls that failed: whether it took them is not known.
    unsure: HashSet<FileName>,
    counted: usize,
    /// Registrations that it did not take because it is full.
    unlisted: usize,
    /// Names of which it has not heard the newest version, which is news.
    unannounced: HashSet<FileName>,
    /// Changes that it has not heard of, the oldest first.
    changes: VecDeque<(Generation, FileName)>,
    /// What is left of a registration of everything, which began at that generation.
    rest: Vec<FileName>,
    began: Generation,
    /// The oldest generation in the batch that was taken last.
    in_flight: Option<Generation>,
    /// Changes up to this one could not be told when they were to be.
    failed: Generation,
}

#[derive(Debug)]
struct Listing {
    record: VerifiedRecord,
    is_partial: bool,
    /// Whether the indexer counts it among the names of the lease, as far as is known.
    counts: bool,
}

/// What an indexer is to be told next: first the withdrawals, then the registrations.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) withdraw: Vec<FileName>,
    pub(crate) held: Vec<VerifiedRecord>,
    pub(crate) news: Vec<VerifiedRecord>,
    pub(crate) partial: Vec<VerifiedRecord>,
    names: Vec<(Generation, FileName)>,
}

impl Offer {
    /// What is offered now.
    fn now(&self) -> Option<(&VerifiedRecord, bool)> {
        let part = self.part.as_ref().map(|part| (part, true));
        part.or(self.whole.as_ref().map(|whole| (whole, false)))
    }
}

impl Registrations {
    /// Nothing is offered yet to this number of indexers.
    pub(crate) fn new(indexers: usize) -> Self {
        let indexers = (0..indexers).map(|_| Indexer::default()).collect();
        Self { offers: HashMap::new(), indexers, generation: 0, is_closed: false }
    }

    /// Whatever is registered next under these names is to be announced.
    pub(crate) fn expect_news<'a>(&mut self, names: impl Iterator<Item = &'a FileName> + Clone) {
        for indexer in &mut self.indexers {
            indexer.unannounced.extend(names.clone().cloned());
        }
    }

    /// All of these versions are here now. The version being downloaded under a name stays offered in its
    /// place if it is newer.
    pub(crate) fn offer(&mut self, records: &[VerifiedRecord]) -> Generation {
        self.generation += 1;
        for record in records {
            self.change(&record.name, |offer| {
                offer.part.take_if(|part| !part.replaces(record));
                offer.whole = Some(record.clone());
            });
        }
        self.generation
    }

    /// This version is being downloaded, and offered in part in place of an older one.
    pub(crate) fn offer_part(&mut self, record: &VerifiedRecord) -> Generation {
        self.generation += 1;
        self.change(&record.name, |offer| offer.part = Some(record.clone()));
        self.generation
    }

    /// Whether a part of a version is offered under `name`.
    pub(crate) fn has_part(&self, name: &FileName) -> bool {
        self.offers.get(name).is_some_and(|offer| offer.part.is_some())
    }

    /// The download under `name` has ended; what is here now is `whole`. No change if it had become a whole
    /// version before.
    pub(crate) fn end_part(&mut self, name: &FileName, whole: Option<VerifiedRecord>) -> Generation {
        if self.has_part(name) {
            self.generation += 1;
            self.change(name, |offer| *offer = Offer { whole, part: None });
        }
        self.generation
    }

    /// These names are no longer offered.
    pub(crate) fn withdraw(&mut self, names: &[FileName]) -> Generation {
        self.generation += 1;
        for name in names {
            self.indexers.iter_mut().for_each(|indexer| {
                indexer.unannounced.remove(name);
            });
            self.change(name, |offer| *offer = Offer::default());
        }
        self.generation
    }

    /// Nothing is offered any more, now and later, and nobody is told: the peer is ending.
    pub(crate) fn close(&mut self) {
        *self = Self { is_closed: true, generation: self.generation + 1, ..Self::new(self.indexers.len()) };
    }

    /// What a look at the disk found: each record of the catalogue, and whether it can be served. Offers may
    /// have changed since that look, so a finding counts only if `is_current` still says so of its record.
    pub(crate) fn refresh(
        &mut self,
        found: Vec<(VerifiedRecord, bool)>,
        is_current: impl Fn(&VerifiedRecord) -> bool,
    ) {
        self.generation += 1;
        for (record, is_served) in found.into_iter().filter(|(record, _)| is_current(record)) {
            self.change(&record.name, |offer| {
                offer.part.take_if(|part| is_served && *part == record);
                offer.whole = is_served.then(|| record.clone());
            });
        }
    }

    fn change(&mut self, name: &FileName, change: impl FnOnce(&mut Offer)) {
        let before = self.offers.get(name).cloned().unwrap_or_default();
        let mut offer = before.clone();
        change(&mut offer);
        if offer == before || self.is_closed {
            return;
        }
        match offer.now() {
            Some(_) => drop(self.offers.insert(name.clone(), offer)),
            None => drop(self.offers.remove(name)),
        }
        for indexer in self.indexers.iter_mut().filter(|indexer| indexer.is_connected) {
            indexer.changes.push_back((self.generation, name.clone()));
        }
    }

    /// The indexer has a new connection, or lost track: it lists nothing, and is to be told everything.
    pub(crate) fn connected(&mut self, index: IndexerIndex) {
        let rest = self.offers.keys().cloned().collect();
        let indexer = &mut self.indexers[index];
        let unannounced = std::mem::take(&mut indexer.unannounced);
        let (began, failed) = (self.generation, indexer.failed);
        *indexer = Indexer { is_connected: true, unannounced, rest, began, failed, ..Indexer::default() };
    }

    /// The indexer is away, and is told everything when it is back.
    pub(crate) fn disconnected(&mut self, index: IndexerIndex) {
        let indexer = &mut self.indexers[index];
        let unannounced = std::mem::take(&mut indexer.unannounced);
        *indexer = Indexer { unannounced, failed: self.generation, ..Indexer::default() };
    }

    /// Takes what the indexer is to be told next, of at most `names_max` names; what changed comes before the
    /// rest of a registration of everything. The outcome is noted with [`registered`](Self::registered) and
    /// [`withdrawn`](Self::withdrawn), the end with [`done`](Self::done) or [`failed`](Self::failed).
    pub(crate) fn next(&mut self, index: IndexerIndex, names_max: usize) -> Option<Batch> {
        let indexer = &mut self.indexers[index];
        let mut batch = Batch::default();
        while batch.names.len() < names_max {
            let next = indexer.changes.pop_front();
            let Some((generation, name)) = next.or_else(|| Some((indexer.began, indexer.rest.pop()?))) else {
                break;
            };
            let is_planned = batch.names.iter().any(|(_, planned)| *planned == name); // changed twice
            let offered = self.offers.get(&name).and_then(Offer::now);
            if !is_planned && indexer.plan(&name, offered, &mut batch) {
                batch.names.push((generation, name));
            }
        }
        indexer.in_flight = batch.names.iter().map(|(generation, _)| *generation).min();
        indexer.in_flight.is_some().then_some(batch)
    }

    /// The indexer was told of `records`; it knows `newer` versions of some, and had no room for
    /// `unlisted` of them.
    pub(crate) fn registered(
        &mut self,
        index: IndexerIndex,
        kind: Kind,
        records: &[VerifiedRecord],
        newer: &[VerifiedRecord],
        unlisted: usize,
    ) {
        let indexer = &mut self.indexers[index];
        let is_partial = kind == Kind::Partial;
        // Of a full indexer it is not known which parts it took: they count when they are whole.
        let counts_none = is_partial && unlisted > 0;
        if !is_partial {
            indexer.unlisted += unlisted;
        }
        for record in records {
            if !is_partial {
                indexer.unannounced.remove(&record.name);
            }
            let counts = !counts_none && !newer.iter().any(|newer| newer.same_file(record));
            indexer.unsure.remove(&record.name);
            let listing = Listing { record: record.clone(), is_partial, counts };
            indexer.counted += usize::from(counts);
            if indexer.listed.insert(record.name.clone(), listing).is_some_and(|before| before.counts) {
                indexer.counted -= 1;
            }
        }
    }

    /// The indexer was told that these names are withdrawn.
    pub(crate) fn withdrawn(&mut self, index: IndexerIndex, names: &[FileName]) {
        let indexer = &mut self.indexers[index];
        for name in names {
            indexer.unsure.remove(name);
            if indexer.listed.remove(name).is_some_and(|listing| listing.counts) {
                indexer.counted -= 1;
            }
        }
    }

    /// The batch taken last was told.
    pub(crate) fn done(&mut self, index: IndexerIndex) {
        self.indexers[index].in_flight = None;
    }

    /// `batch`, the one taken last, could not be told, or not all of it; it is tried again with the next
    /// change, or when everything is told again.
    pub(crate) fn failed(&mut self, index: IndexerIndex, mut batch: Batch) {
        let indexer = &mut self.indexers[index];
        indexer.in_flight = None;
        indexer.failed = self.generation;
        if indexer.is_connected {
            batch.names.sort_unstable_by_key(|(generation, _)| std::cmp::Reverse(*generation));
            for change in batch.names {
                indexer.unsure.insert(change.1.clone());
                indexer.changes.push_front(change);
            }
        }
    }

    /// How the changes up to `generation` stand with the indexer: told, or not to be told now; `None` while
    /// they are on their way.
    pub(crate) fn is_told(&self, index: IndexerIndex, generation: Generation) -> Option<bool> {
        let indexer = &self.indexers[index];
        let waits = |oldest: Option<Generation>| oldest.is_some_and(|oldest| oldest <= generation);
        let waiting = !indexer.is_connected
            || waits(indexer.changes.front().map(|(generation, _)| *generation))
            || waits(indexer.in_flight)
            || (generation <= indexer.began && !indexer.rest.is_empty());
        match waiting {
            false => Some(true),
            true if indexer.failed >= generation => Some(false),
            true => None,
        }
    }

    /// How many names of this peer the indexer lists, as far as this peer knows.
    pub(crate) fn counted(&self, index: IndexerIndex) -> usize {
        self.indexers[index].counted
    }

    /// Whether a lease over `names` names is all that the indexer was told.
    pub(crate) fn is_all(&self, index: IndexerIndex, names: usize) -> bool {
        let indexer = &self.indexers[index];
        names + indexer.unlisted >= indexer.counted
    }
}

impl Indexer {
    /// Adds to `batch` what this indexer must be told of `name`, which is `offered` now; whether that is
    /// anything.
    fn plan(&self, name: &FileName, offered: Option<(&VerifiedRecord, bool)>, batch: &mut Batch) -> bool {
        let (listed, is_unsure) = (self.listed.get(name), self.unsure.contains(name));
        let Some((record, is_partial)) = offered else {
            let is_listed = listed.is_some() || is_unsure;
            if is_listed {
                batch.withdraw.push(name.clone());
            }
            return is_listed;
        };
        let is_news = !is_partial && self.unannounced.contains(name);
        let is_same = |listed: &Listing| listed.record == *record && listed.is_partial == is_partial;
        if !is_unsure && !is_news && listed.is_some_and(is_same) {
            return false;
        }
        let is_older = |listed: &Listing| listed.record != *record && !record.replaces(&listed.record);
        if is_unsure || listed.is_some_and(is_older) {
            // An indexer does not list an older version in place of a newer one.
            batch.withdraw.push(name.clone());
        }
        let kind = match (is_partial, is_news) {
            (true, _) => &mut batch.partial,
            (false, true) => &mut batch.news,
            (false, false) => &mut batch.held,
        };
        kind.push(record.clone());
        true
    }
}

#[cfg(test)]
mod tests;
