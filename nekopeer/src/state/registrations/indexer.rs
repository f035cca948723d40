//! What one indexer lists, and what it is to be told of.

use std::collections::{BTreeSet, HashMap, HashSet};

use nekoproto::{FileName, NodeTag, Record, VerifiedRecord, Version};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Complete, and to be announced to the holders of older versions.
    News,
    Held,
    /// Partial: being downloaded. Also the word of an origin, which has no bytes of it, that it is the newest: whoever holds
    /// it can ask.
    Partial,
    /// An own file that is being compared with what was published: listed as [`Partial`](Self::Partial), and only where this
    /// process had it listed before. One of a restored folder has to look at its files first.
    Compared,
}

pub(crate) type Offered = (FileName, Option<(VerifiedRecord, Kind)>);

#[derive(Debug, Default)]
pub(super) struct Indexer {
    pub(super) is_connected: bool,
    /// It is to list all that is held here, not only what is being downloaded.
    pub(super) is_whole: bool,
    pub(super) listed: HashMap<FileName, Listing>,
    pub(super) counted: usize,
    /// Names whose offers may differ from what is listed.
    pub(super) dirty: BTreeSet<FileName>,
    /// Those of them that it is being told of, and that did not change since.
    pub(super) in_flight: HashSet<FileName>,
    /// The name after which those are that are left of a full registration.
    pub(super) rest: Option<String>,
    pub(super) failures: u64,
}

/// What is listed under one name; by default it is not known what, if anything.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// What it acknowledged last; `None`: there is a call without an answer.
    pub(super) mark: Option<Mark>,
    pub(super) is_partial: bool,
    /// Whether the indexer counts it for the lease, as far as this peer knows.
    pub(super) counts: bool,
    /// Whether the indexer cannot have lost it since.
    pub(super) is_sure: bool,
}

/// Stands for a record under a known name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    origin: NodeTag,
    version: Version,
    signature: [u8; 8],
}

/// The next calls to an indexer: first the withdrawals, then the registrations.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) withdraw: Vec<FileName>,
    pub(crate) held: Vec<VerifiedRecord>,
    pub(crate) news: Vec<VerifiedRecord>,
    pub(crate) partial: Vec<VerifiedRecord>,
    pub(super) names: Vec<FileName>,
}

impl Mark {
    pub(super) fn of(record: &VerifiedRecord) -> Self {
        let Record { origin, version, .. } = **record;
        Self { origin: origin.tag(), version, signature: record.signed().signature().mark() }
    }
}

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

impl Indexer {
    /// What is offered under `name` may be something else now. Returns whether that was not known before.
    pub(super) fn change(&mut self, name: &FileName) -> bool {
        self.in_flight.remove(name) | self.dirty.insert(name.clone())
    }

    /// It was told of `name`, unless that changed meanwhile.
    pub(super) fn is_told(&mut self, name: &FileName) {
        if self.in_flight.remove(name) {
            self.dirty.remove(name);
        }
    }

    pub(super) fn has_left(&self, name: &FileName) -> bool {
        self.dirty.contains(name) || self.rest.as_deref().is_some_and(|last| last < name.as_str())
    }

    pub(super) fn note(&mut self, name: &FileName, listing: Option<Listing>) {
        self.counted += usize::from(listing.as_ref().is_some_and(|listing| listing.counts));
        let before = match listing {
            Some(listing) => self.listed.insert(name.clone(), listing),
            None => self.listed.remove(name),
        };
        self.counted -= usize::from(before.is_some_and(|before| before.counts));
    }

    /// How it is told of `record`, which is offered under `name` like that.
    fn told(&self, name: &FileName, record: &VerifiedRecord, kind: Kind) -> Option<Kind> {
        let mark = self.listed.get(name).and_then(|listing| listing.mark);
        match kind {
            Kind::Compared => (mark == Some(Mark::of(record))).then_some(Kind::Partial),
            kind => Some(kind),
        }
    }

    /// Whether it lists for sure what is `offered` under `name`.
    pub(super) fn lists(&self, name: &FileName, offered: Option<(&VerifiedRecord, Kind)>) -> bool {
        let offered = offered.and_then(|(record, kind)| Some((record, self.told(name, record, kind)?)));
        match (self.listed.get(name), offered) {
            (None, None) => true,
            (Some(listing), Some((record, kind))) => {
                listing.is_sure
                    && listing.mark == Some(Mark::of(record))
                    && listing.is_partial == (kind == Kind::Partial)
            }
            _ => false,
        }
    }

    /// Adds to `batch` what this indexer needs for `name`, now `offered`; returns whether it needed anything.
    pub(super) fn plan(
        &self,
        name: &FileName,
        offered: Option<(VerifiedRecord, Kind)>,
        batch: &mut Batch,
    ) -> bool {
        let offered = offered.and_then(|(record, kind)| {
            let kind = self.told(name, &record, kind)?;
            Some((record, kind))
        });
        let is_listed = self.lists(name, offered.as_ref().map(|(record, kind)| (record, *kind)));
        if is_listed && !matches!(offered, Some((_, Kind::News))) {
            return false;
        }
        let Some((record, kind)) = offered else {
            batch.withdraw.push(name.clone());
            return true;
        };
        // An indexer does not replace a listing by an older version: withdraw it first.
        let new = Mark::of(&record);
        let replaces = |mark: Mark| mark == new || (mark.origin == new.origin && mark.version < new.version);
        if self.listed.get(name).is_some_and(|listing| !listing.mark.is_some_and(replaces)) {
            batch.withdraw.push(name.clone());
        }
        match kind {
            Kind::News => &mut batch.news,
            Kind::Held => &mut batch.held,
            Kind::Partial | Kind::Compared => &mut batch.partial,
        }
        .push(record);
        true
    }
}
