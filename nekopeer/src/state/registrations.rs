//! What this peer offers under each name, compared with what each of its indexers acknowledged.
//!
//! Code that changes an offer only changes this table. The session of an indexer takes the next [`Batch`]
//! of changes, sends it, and records the outcome here.

mod indexer;
mod offer;

use std::collections::{HashMap, HashSet};

use nekoproto::{FileName, VerifiedRecord};

pub(crate) use self::indexer::{Batch, Generation};
use self::{
    indexer::{Indexer, Listing},
    offer::{Mark, Offer},
};

/// Index of an indexer.
pub(crate) type IndexerIndex = usize;

/// What this peer has of a version for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offers {
    /// All its bytes.
    Bytes,
    /// None of them, and its word, as its origin, that it is the newest: whoever holds it can ask. It is listed as one that
    /// is being downloaded.
    Word,
    Nothing,
}

/// How a version is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Complete, and to be announced to the holders of older versions.
    News,
    /// Complete.
    Held,
    /// Partial: being downloaded.
    Partial,
}

/// What this peer offers, and what each indexer lists of it. It keeps marks of records, since there may be very
/// many: the records of complete files are in the catalogue.
///
/// Invariants, for each indexer that is connected:
/// - a name whose offer differs from what is listed there is in `changes`, in `rest`, or in the batch taken
///   last;
/// - the generations in its `changes` ascend, and no name is there twice: `waiting` has these names;
/// - `counted` is the number of its `listed` names that count for the lease.
#[derive(Debug)]
pub(crate) struct Registrations {
    offers: HashMap<FileName, Offer>,
    indexers: Vec<Indexer>,
    generation: Generation,
    is_closed: bool,
}

impl Registrations {
    /// An empty table for `indexers` indexers.
    pub(crate) fn new(indexers: usize) -> Self {
        let indexers = (0..indexers).map(|_| Indexer::default()).collect();
        Self { offers: HashMap::new(), indexers, generation: 0, is_closed: false }
    }

    /// Makes room for the offers under `names` names in all, at once: room that grows bit by bit leaves holes.
    pub(crate) fn reserve(&mut self, names: usize) {
        self.offers.reserve(names.saturating_sub(self.offers.len()));
        for indexer in self.indexers.iter_mut().filter(|indexer| indexer.is_connected) {
            indexer.listed.reserve(names.saturating_sub(indexer.listed.len()));
        }
    }

    /// These versions are complete. A newer version, complete or being downloaded, stays the offer of its name.
    pub(crate) fn offer<'a>(&mut self, records: impl IntoIterator<Item = &'a VerifiedRecord>) -> Generation {
        self.generation += 1;
        for record in records {
            self.change(&record.name, |offer| {
                offer.part.take_if(|part| !part.replaces(record));
                let mark = Mark::of(record);
                if !offer.whole.is_some_and(|whole| whole.replaces(&mark)) {
                    offer.whole = Some(mark);
                }
            });
        }
        self.generation
    }

    /// This version is being downloaded; it is offered instead of an older one.
    pub(crate) fn offer_part(&mut self, record: &VerifiedRecord) -> Generation {
        self.generation += 1;
        self.change(&record.name, |offer| offer.part = Some(record.clone()));
        self.generation
    }

    /// Whether a partial version is offered under `name`.
    pub(crate) fn has_part(&self, name: &FileName) -> bool {
        self.offers.get(name).is_some_and(|offer| offer.part.is_some())
    }

    /// The download under `name` has ended, and `whole` is the version held now. No change if the partial
    /// version was offered as complete before.
    pub(crate) fn end_part(&mut self, name: &FileName, whole: Option<&VerifiedRecord>) -> Generation {
        if self.has_part(name) {
            self.generation += 1;
            self.change(name, |offer| *offer = Offer { whole: whole.map(Mark::of), part: None });
        }
        self.generation
    }

    /// These names are withdrawn.
    pub(crate) fn withdraw(&mut self, names: &[FileName]) -> Generation {
        self.generation += 1;
        for name in names {
            self.change(name, |offer| *offer = Offer::default());
        }
        self.generation
    }

    /// The peer stops: no offers, now or later, and no withdrawals.
    pub(crate) fn close(&mut self) {
        *self = Self { is_closed: true, generation: self.generation + 1, ..Self::new(self.indexers.len()) };
    }

    /// Applies a check of the files on disk: each record of the catalogue, and what there is of it for others.
    /// Offers may have changed since, so a result counts only if `is_current` confirms its record. Returns
    /// whether an offer changed.
    pub(crate) fn refresh(
        &mut self,
        found: Vec<(VerifiedRecord, Offers)>,
        is_current: impl Fn(&VerifiedRecord) -> bool,
    ) -> bool {
        self.generation += 1;
        let mut is_changed = false;
        for (record, offers) in found.into_iter().filter(|(record, _)| is_current(record)) {
            is_changed |= self.change(&record.name, |offer| {
                offer.whole = (offers == Offers::Bytes).then(|| Mark::of(&record));
                match offers {
                    Offers::Bytes => drop(offer.part.take_if(|part| *part == record)),
                    Offers::Word => offer.part = Some(record.clone()),
                    Offers::Nothing => {}
                }
            });
        }
        is_changed
    }

    /// Changes the offer under `name`; returns whether it differs now.
    fn change(&mut self, name: &FileName, change: impl FnOnce(&mut Offer)) -> bool {
        let before = self.offers.get(name).cloned().unwrap_or_default();
        let mut offer = before.clone();
        change(&mut offer);
        if offer == before || self.is_closed {
            return false;
        }
        if offer.is_some() {
            self.offers.insert(name.clone(), offer);
        } else {
            self.offers.remove(name);
        }
        for indexer in self.indexers.iter_mut().filter(|indexer| indexer.is_connected) {
            if indexer.waiting.insert(name.clone()) {
                indexer.changes.push_back((self.generation, name.clone()));
            }
        }
        true
    }

    /// The indexer has a new connection, over which it lists nothing: everything is to be registered.
    pub(crate) fn connected(&mut self, index: IndexerIndex) {
        let rest = self.offers.keys().cloned().collect();
        let indexer = &mut self.indexers[index];
        let (began, failed) = (self.generation, indexer.failed);
        *indexer = Indexer { is_connected: true, rest, began, failed, ..Indexer::default() };
    }

    /// The indexer lists fewer names than it was told, over the same connection: everything is to be registered
    /// again, and what is no longer offered is still to be withdrawn, as it may be listed.
    pub(crate) fn lost_track(&mut self, index: IndexerIndex) {
        let indexer = &mut self.indexers[index];
        for listing in indexer.listed.values_mut() {
            (listing.may_be_lost, listing.counts) = (true, false);
        }
        (indexer.counted, indexer.began) = (0, self.generation);
        indexer.changes.clear();
        indexer.waiting.clear();
        let all: HashSet<&FileName> =
            self.offers.keys().chain(indexer.listed.keys()).chain(&indexer.unsure).collect();
        indexer.rest = all.into_iter().cloned().collect();
    }

    /// The indexer is disconnected; everything is registered when it is connected again.
    pub(crate) fn disconnected(&mut self, index: IndexerIndex) {
        self.indexers[index] = Indexer { failed: self.generation, ..Indexer::default() };
    }

    /// Takes the next batch for the indexer, at most `names_max` names: changes first, then the rest of a full
    /// registration. `held` has the complete versions; one for which `is_news` holds is announced. Record the
    /// outcome with [`registered`](Self::registered) and [`withdrawn`](Self::withdrawn), the end with
    /// [`done`](Self::done) or [`failed`](Self::failed).
    pub(crate) fn next(
        &mut self,
        index: IndexerIndex,
        names_max: usize,
        held: impl Fn(&FileName) -> Option<VerifiedRecord>,
        is_news: impl Fn(&VerifiedRecord) -> bool,
    ) -> Option<Batch> {
        let indexer = &mut self.indexers[index];
        let mut batch = Batch::default();
        while batch.names.len() < names_max {
            let next = indexer.changes.pop_front();
            let Some((generation, name)) = next.or_else(|| Some((indexer.began, indexer.rest.pop()?))) else {
                break;
            };
            indexer.waiting.remove(&name);
            let is_planned = batch.names.iter().any(|(_, planned)| *planned == name); // changed twice
            if is_planned {
                continue;
            }
            let offered = self.offers.get(&name).and_then(|offer| offer.now(&name, &held));
            if indexer.plan(&name, offered, &is_news, &mut batch) {
                batch.names.push((generation, name));
            }
        }
        if indexer.rest.is_empty() && indexer.changes.is_empty() {
            // They may have been long.
            (indexer.rest, indexer.changes, indexer.waiting) = Default::default();
        }
        indexer.in_flight = batch.names.iter().map(|(generation, _)| *generation).min();
        indexer.in_flight.is_some().then_some(batch)
    }

    /// The indexer acknowledged `records`. It knows `newer` versions of some, or other content under the same
    /// number, and had no room for those named in `unlisted`. Returns the records that it lists now.
    pub(crate) fn registered(
        &mut self,
        index: IndexerIndex,
        kind: Kind,
        records: &[VerifiedRecord],
        newer: &[VerifiedRecord],
        unlisted: &[FileName],
    ) -> Vec<VerifiedRecord> {
        let indexer = &mut self.indexers[index];
        let is_partial = kind == Kind::Partial;
        let is_listed = |record: &VerifiedRecord| {
            !newer.iter().any(|newer| newer.same_file(record)) && !unlisted.contains(&record.name)
        };
        let mut listed = Vec::with_capacity(records.len());
        for record in records {
            let counts = is_listed(record);
            if counts {
                listed.push(record.clone());
            }
            indexer.unsure.remove(&record.name);
            let listing = Listing { mark: Mark::of(record), is_partial, counts, may_be_lost: false };
            indexer.counted += usize::from(counts);
            // The same text as in `offers`, not one more.
            let offered = self.offers.get_key_value(&record.name);
            let name = offered.map_or(&record.name, |(name, _)| name).clone();
            if indexer.listed.insert(name, listing).is_some_and(|before| before.counts) {
                indexer.counted -= 1;
            }
        }
        listed
    }

    /// The indexer acknowledged the withdrawal of these names.
    pub(crate) fn withdrawn(&mut self, index: IndexerIndex, names: &[FileName]) {
        let indexer = &mut self.indexers[index];
        for name in names {
            indexer.unsure.remove(name);
            if indexer.listed.remove(name).is_some_and(|listing| listing.counts) {
                indexer.counted -= 1;
            }
        }
    }

    /// The batch taken last was acknowledged.
    pub(crate) fn done(&mut self, index: IndexerIndex) {
        self.indexers[index].in_flight = None;
    }

    /// `batch`, the one taken last, failed or was only acknowledged in part. It is retried with the next
    /// change, or with the next full registration.
    pub(crate) fn failed(&mut self, index: IndexerIndex, mut batch: Batch) {
        let indexer = &mut self.indexers[index];
        indexer.in_flight = None;
        indexer.failed = self.generation;
        if indexer.is_connected {
            // What changed again meanwhile waits as the earlier change does.
            let is_again: HashSet<&FileName> = batch
                .names
                .iter()
                .map(|(_, name)| name)
                .filter(|name| indexer.waiting.contains(*name))
                .collect();
            if !is_again.is_empty() {
                indexer.changes.retain(|(_, name)| !is_again.contains(name));
            }
            batch.names.sort_unstable_by_key(|(generation, _)| std::cmp::Reverse(*generation));
            for change in batch.names {
                indexer.unsure.insert(change.1.clone());
                indexer.waiting.insert(change.1.clone());
                indexer.changes.push_front(change);
            }
        }
    }

    /// Whether the changes up to `generation` were acknowledged by the indexer (true) or cannot be sent now
    /// (false); `None` while they are outstanding.
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

    /// Number of this peer's names that count for the indexer's lease, as far as this peer knows.
    pub(crate) fn counted(&self, index: IndexerIndex) -> usize {
        self.indexers[index].counted
    }

    /// Whether a lease over `names` names covers everything registered with the indexer.
    pub(crate) fn is_all(&self, index: IndexerIndex, names: usize) -> bool {
        names >= self.indexers[index].counted
    }
}

#[cfg(test)]
mod tests;
