//! One file of one origin in the index, and who holds which version of it.

use std::{net::IpAddr, sync::Arc};

use nekoproto::{FileName, ListedRecord, NodeTag, PackedRecord, Record, Version, limits::HOLDERS_MAX};
use rand::random_range;

use super::{Noted, Session};
use crate::state::{
    holders::{Listed, order},
    merge::Found,
};

/// One origin's file.
///
/// Invariant: of the holdings, those of whole versions come first.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) record: PackedRecord,
    pub(super) holdings: Vec<Holding>,
    /// Whether somebody held all of this version, or announced it. If not, it may be had from nobody, and it is
    /// not remembered when its last holder of a part leaves.
    pub(super) is_complete: bool,
    /// How many others of the same site come before it, where the name is crowded.
    pub(super) rank: u16,
}

#[derive(Debug)]
pub(super) struct Holding {
    pub(super) session: Arc<Session>,
    pub(super) version: Version,
    pub(super) partial: bool,
}

impl Listing {
    pub(super) fn new(record: PackedRecord, holding: Holding) -> Self {
        Self { record, is_complete: !holding.partial, holdings: vec![holding], rank: 0 }
    }

    pub(super) fn has_name(&self, name: &FileName) -> bool {
        has_name(&self.record, name)
    }

    pub(super) fn is_of(&self, record: &Record) -> bool {
        *self.record.origin() == record.origin && self.has_name(&record.name)
    }

    /// Takes note of `record`, which is not older than the one known.
    pub(super) fn note(&mut self, record: &ListedRecord) -> Noted {
        if record.version <= self.record.version() {
            return Noted::Known;
        }
        (self.record, self.is_complete) = (PackedRecord::new(record), false);
        let older = self.holdings.iter().filter(|held| held.version < record.version);
        Noted::News { outdated: older.map(|held| held.session.id()).collect() }
    }

    /// Adds a holding. The order among those of whole versions, and among the others, means nothing.
    pub(super) fn add(&mut self, holding: Holding) {
        let first_partial = self.first_partial();
        let (last, partial) = (self.holdings.len(), holding.partial);
        self.is_complete |= !partial;
        self.holdings.push(holding);
        if !partial {
            self.holdings.swap(first_partial, last);
        }
    }

    fn first_partial(&self) -> usize {
        self.holdings.partition_point(|held| !held.partial)
    }

    /// At most [`HOLDERS_MAX`] of the current holders, those of the whole version first (see
    /// [`order`]); each lookup begins elsewhere among them, so that the load spreads.
    pub(super) fn found(&self, without: &[NodeTag], now_ms: u64) -> Option<Found> {
        let newest = self.record.version();
        let rotate = self.holdings.len() > HOLDERS_MAX;
        let current = |holdings: &[Holding]| -> Vec<Listed> {
            let start = if rotate && !holdings.is_empty() { random_range(0..holdings.len()) } else { 0 };
            let (late, early) = holdings.split_at(start);
            let holdings = early.iter().chain(late);
            holdings
                .filter(|held| held.version == newest && is_wanted(&held.session, without, now_ms))
                .map(|held| held.session.listed(held.partial))
                .take(HOLDERS_MAX)
                .collect()
        };
        let (whole, partial) = self.holdings.split_at(self.first_partial());
        let mut holders = current(whole);
        if !partial.is_empty() {
            holders.extend(current(partial));
            order(&mut holders);
        }
        (!holders.is_empty()).then(|| Found { record: self.record.unpack(), holders })
    }

    pub(super) fn site(&self) -> Option<IpAddr> {
        self.holdings.first().map(|held| held.session.site())
    }

    /// Whether one of its holders has a connection, or had one just now.
    pub(super) fn is_here(&self, now_ms: u64) -> bool {
        self.holdings.iter().any(|held| held.session.is_here(now_ms))
    }

    pub(super) fn is_connected(&self) -> bool {
        self.holdings.iter().any(|held| held.session.is_connected())
    }
}

/// Whether the lease of `session` runs, and its node is none of `without`.
pub(super) fn is_wanted(session: &Session, without: &[NodeTag], now_ms: u64) -> bool {
    session.is_listed_at(now_ms) && (without.is_empty() || !without.contains(&session.node().tag()))
}

pub(super) fn has_name(record: &PackedRecord, name: &FileName) -> bool {
    record.name_bytes() == name.as_str().as_bytes()
}
