//! What each indexer lists of this peer, and what it is to be told of.
//!
//! What is offered under a name is not kept here. A name whose offer may have changed is *dirty* at each indexer; what
//! is offered under it is read when the session of that indexer sends its next [`Batch`].

mod indexer;

use std::collections::HashMap;

use nekoproto::{FileName, VerifiedRecord};

pub(crate) use self::indexer::{Batch, Kind, Offered};
use self::indexer::{Indexer, Listing, Mark};

pub(crate) type IndexerIndex = usize;

/// What each indexer lists of this peer. It keeps marks of records, since there may be very many: the records are in
/// the catalogue.
///
/// Invariants, for each indexer that is connected:
/// - a name whose offer differs from what is listed there is dirty, or is among the `rest`;
/// - what is in flight is dirty;
/// - `counted` is the number of its `listed` names that count for the lease.
#[derive(Debug)]
pub(crate) struct Registrations {
    /// The versions that are being downloaded: their chunks on disk are served.
    parts: HashMap<FileName, VerifiedRecord>,
    indexers: Vec<Indexer>,
    is_closed: bool,
}

impl Registrations {
    pub(crate) fn new(indexers: usize) -> Self {
        let indexers = (0..indexers).map(|_| Indexer::default()).collect();
        Self { parts: HashMap::new(), indexers, is_closed: false }
    }

    /// These versions are complete. A newer version that is being downloaded stays the offer of its name.
    pub(crate) fn offer<'a>(&mut self, records: impl IntoIterator<Item = &'a VerifiedRecord>) {
        for record in records {
            if self.parts.get(&record.name).is_some_and(|part| !part.replaces(record)) {
                self.parts.remove(&record.name);
            }
            self.change(&record.name);
        }
    }

    /// This version is being downloaded; it is offered instead of an older one.
    pub(crate) fn offer_part(&mut self, record: &VerifiedRecord) {
        self.parts.insert(record.name.clone(), record.clone());
        self.change(&record.name);
    }

    /// The download under `name` has ended. Returns whether a partial version was offered until now.
    pub(crate) fn end_part(&mut self, name: &FileName) -> bool {
        let had_part = self.parts.remove(name).is_some();
        if had_part {
            self.change(name);
        }
        had_part
    }

    pub(crate) fn withdraw(&mut self, names: &[FileName]) {
        for name in names {
            self.parts.remove(name);
            self.change(name);
        }
    }

    /// The peer stops: no offers, now or later, and no withdrawals.
    pub(crate) fn close(&mut self) {
        *self = Self { is_closed: true, ..Self::new(self.indexers.len()) };
    }

    /// The files of `found` were looked at. Returns whether an indexer is to be told of one.
    pub(crate) fn refresh(&mut self, found: &[(VerifiedRecord, Option<Kind>)]) -> bool {
        let mut is_changed = false;
        for (record, kind) in found {
            let part = self.parts.get(&record.name);
            let offered = part.map(|part| (part, Kind::Partial)).or(kind.map(|kind| (record, kind)));
            for indexer in self.indexers.iter_mut().filter(|indexer| indexer.is_connected) {
                is_changed |= !indexer.lists(&record.name, offered) && indexer.change(&record.name);
            }
        }
        is_changed
    }

    fn change(&mut self, name: &FileName) {
        for indexer in self.indexers.iter_mut().filter(|indexer| indexer.is_connected) {
            indexer.change(name);
        }
    }

    /// The indexer has a new connection, over which it lists nothing: everything is to be registered, some `names` names; or,
    /// without that, what is being downloaded and no more.
    pub(crate) fn connected(&mut self, index: IndexerIndex, names: Option<usize>) {
        let Indexer { failures, .. } = self.indexers[index];
        let (is_connected, is_whole) = (!self.is_closed, names.is_some());
        self.indexers[index] = Indexer { is_connected, is_whole, failures, ..Indexer::default() };
        self.indexers[index].listed.reserve(names.unwrap_or_default()); // room that grows bit by bit leaves holes
        self.begin_all(index);
    }

    /// The indexer lists fewer names than it was told, over the same connection: everything is to be registered
    /// again, and what is no longer offered is still to be withdrawn, as it may be listed.
    pub(crate) fn lost_track(&mut self, index: IndexerIndex) {
        let indexer = &mut self.indexers[index];
        for listing in indexer.listed.values_mut() {
            (listing.is_sure, listing.counts) = (false, false);
        }
        indexer.counted = 0;
        self.begin_all(index);
    }

    fn begin_all(&mut self, index: IndexerIndex) {
        let indexer = &mut self.indexers[index];
        if indexer.is_connected {
            indexer.rest = indexer.is_whole.then(String::new);
            indexer.dirty.extend(self.parts.keys().cloned());
        }
    }

    /// The indexer is disconnected; everything is registered when it is connected again.
    pub(crate) fn disconnected(&mut self, index: IndexerIndex) {
        let failures = self.indexers[index].failures + 1;
        self.indexers[index] = Indexer { failures, ..Indexer::default() };
    }

    /// The name after which those are that are left of a full registration, if the indexer is to be told of nothing else:
    /// look at some of them, [`refresh`](Self::refresh), and note [how far](Self::note_rest) that is.
    pub(crate) fn rest(&self, index: IndexerIndex) -> Option<String> {
        let indexer = &self.indexers[index];
        indexer.rest.clone().filter(|_| indexer.dirty.is_empty())
    }

    /// The names left of a full registration are those after this one; `None`: there are none.
    pub(crate) fn note_rest(&mut self, index: IndexerIndex, last: Option<&FileName>) {
        self.indexers[index].rest = last.map(FileName::to_string);
    }

    /// Takes at most `names_max` names of which the indexer is to be told. Read what is offered under each, and
    /// [`plan`](Self::plan) the calls.
    pub(crate) fn take(&mut self, index: IndexerIndex, names_max: usize) -> Vec<FileName> {
        let indexer = &mut self.indexers[index];
        let names: Vec<FileName> = indexer.dirty.iter().take(names_max).cloned().collect();
        indexer.in_flight = names.iter().cloned().collect();
        names
    }

    /// The calls that tell the indexer of the names taken last, under which this was `found`. It may be none. Record the
    /// outcome with [`registered`](Self::registered) and [`withdrawn`](Self::withdrawn), the end with
    /// [`done`](Self::done) or [`failed`](Self::failed).
    pub(crate) fn plan(&mut self, index: IndexerIndex, found: Vec<Offered>) -> Batch {
        let (indexer, mut batch) = (&mut self.indexers[index], Batch::default());
        for (name, offered) in found {
            let part = self.parts.get(&name).map(|part| (part.clone(), Kind::Partial));
            if indexer.plan(&name, part.or(offered), &mut batch) {
                batch.names.push(name);
            } else {
                indexer.is_told(&name);
            }
        }
        batch
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
        let is_listed = |record: &VerifiedRecord| {
            !newer.iter().any(|newer| newer.same_file(record)) && !unlisted.contains(&record.name)
        };
        let mut listed = Vec::with_capacity(records.len());
        for record in records {
            let counts = is_listed(record);
            if counts {
                listed.push(record.clone());
            }
            let mark = Some(Mark::of(record));
            let listing = Listing { mark, is_partial: kind == Kind::Partial, counts, is_sure: true };
            // The same text as for another indexer, not one more.
            let known = self.indexers.iter().find_map(|known| known.listed.get_key_value(&record.name));
            let name = known.map_or(&record.name, |(name, _)| name).clone();
            self.indexers[index].note(&name, Some(listing));
        }
        listed
    }

    pub(crate) fn withdrawn(&mut self, index: IndexerIndex, names: &[FileName]) {
        names.iter().for_each(|name| self.indexers[index].note(name, None));
    }

    pub(crate) fn done(&mut self, index: IndexerIndex, batch: &Batch) {
        batch.names.iter().for_each(|name| self.indexers[index].is_told(name));
    }

    /// `batch` failed or was only acknowledged in part: the indexer may or may not have processed it. It is retried with
    /// the next change, or with the next full registration.
    pub(crate) fn failed(&mut self, index: IndexerIndex, batch: &Batch) {
        let indexer = &mut self.indexers[index];
        indexer.failures += 1;
        batch.names.iter().for_each(|name| indexer.note(name, Some(Listing::default())));
    }

    pub(crate) fn failures(&self, index: IndexerIndex) -> u64 {
        self.indexers[index].failures
    }

    pub(crate) fn dirty(&self, index: IndexerIndex) -> Vec<FileName> {
        self.indexers[index].dirty.iter().cloned().collect()
    }

    /// `names` from the first on of which the indexer is still to be told; `None` if it was told of all.
    pub(crate) fn left<'a>(&self, index: IndexerIndex, names: &'a [FileName]) -> Option<&'a [FileName]> {
        let indexer = &self.indexers[index];
        if !indexer.is_connected {
            return Some(names);
        }
        Some(&names[names.iter().position(|name| indexer.has_left(name))?..])
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
