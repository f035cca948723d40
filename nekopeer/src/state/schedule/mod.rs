//! The schedule: which chunk is fetched from which source.
//!
//! A stream is one connection to a source. It leases short runs of chunks, as many bytes as it moves in a
//! fraction of a second, so that fast sources get more and a slow one holds little. The rarest chunks are
//! leased first. At the end, when no chunk is missing but some are leased, an idle stream takes over what
//! the slowest stream would deliver last; the first delivery counts. How slow a stream is shows after the few round
//! trips that an honest source needs, so that one which sends next to nothing delays the others by that only.

mod ledger;
mod picker;
mod stream;

use std::{ops::Range, time::Duration};

use nekoproto::Manifest;
use rand::{SeedableRng, rngs::SmallRng};

use self::ledger::{Ledger, STRIKES_MAX};
pub(crate) use self::{
    ledger::{Availability, StreamId},
    stream::SourceId,
};
use crate::content::bitfield::Bitfield;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    RarestFirst {
        /// Equally rare chunks are leased in order from this one on.
        from: usize,
    },
    InOrder,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Fetch(Range<usize>),
    /// Nothing now: the missing chunks are leased, or this source lacks them. That may change.
    Wait,
    Done,
    StruckOut,
}

/// The chunks of one download, and their leases.
#[derive(Debug)]
pub(crate) struct Schedule {
    ledger: Ledger,
    order: Order,
    random: SmallRng,
}

impl Schedule {
    /// All chunks of `manifest` are missing except those `had`. Those `claimed` are not leased until
    /// [`unclaim`](Self::unclaim) is called for them.
    pub(crate) fn new(manifest: &Manifest, had: Bitfield, claimed: &Bitfield, order: Order) -> Self {
        let seed = match order {
            Order::InOrder => 0,
            Order::RarestFirst { from, .. } => from as u64,
        };
        let random = SmallRng::seed_from_u64(seed);
        Self { ledger: Ledger::new(manifest, had, claimed), order, random }
    }

    /// Leases the next run to `stream`.
    pub(crate) fn next(&mut self, stream: StreamId, now: Duration) -> Next {
        let next = picker::pick(&self.ledger, stream, self.order, &mut self.random, now);
        if let Next::Fetch(run) = &next {
            self.ledger.lease(stream, run.clone(), now);
            if let Order::RarestFirst { from, .. } = &mut self.order {
                *from = run.end % self.ledger.lens.len();
            }
        }
        next
    }

    /// Leases those of `chunks` to `stream` that are missing.
    pub(crate) fn lease(&mut self, stream: StreamId, chunks: Range<usize>, now: Duration) {
        for index in chunks {
            if self.ledger.missing.contains(index) {
                self.ledger.lease(stream, index..index + 1, now);
            }
        }
    }

    pub(crate) fn is_all_leased(&self) -> bool {
        self.ledger.missing.is_clear()
    }

    pub(crate) fn wants(&self, index: usize) -> bool {
        !self.ledger.had.contains(index)
    }

    /// `source` failed in a way that may pass; true if it struck out.
    pub(crate) fn strike(&mut self, source: SourceId) -> bool {
        let Some(known) = self.ledger.sources.get_mut(&source) else { return true };
        known.strikes += 1;
        known.strikes >= STRIKES_MAX
    }

    /// `source` sent bytes that are not the file's, or cannot serve it: it is asked no more.
    pub(crate) fn ban(&mut self, source: SourceId) {
        if let Some(known) = self.ledger.sources.get_mut(&source) {
            known.strikes = STRIKES_MAX;
        }
    }

    /// Sources that struck out and for which `may` is true may be asked again.
    pub(crate) fn forgive(&mut self, may: impl Fn(SourceId) -> bool) {
        for (_, known) in self.ledger.sources.iter_mut().filter(|(source, _)| may(**source)) {
            known.strikes = 0;
        }
    }

    pub(crate) const fn partial_sources(&self) -> u32 {
        self.ledger.partial_sources
    }

    pub(crate) const fn left(&self) -> usize {
        self.ledger.left
    }
}

#[cfg(test)]
mod crowd;
#[cfg(test)]
mod tests;
