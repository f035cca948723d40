//! Which chunk comes from whom.
//!
//! A stream is one connection to a source. It takes short runs of chunks, as many bytes as it moves
//! in a moment, so that fast sources get more and a slow one holds little. What fewest others have
//! is taken first. At the end, when nothing is missing but much is leased, a stream without work takes
//! over what the latest of the others would deliver last; the first to deliver it wins.

mod ledger;
mod picker;

use std::{ops::Range, time::Duration};

use nekoproto::Manifest;
use rand::{SeedableRng, rngs::SmallRng};

pub(crate) use self::ledger::{Availability, SourceId, StreamId};
use self::ledger::{Ledger, STRIKES_MAX};
use crate::content::bitfield::Bitfield;

/// Where the choice of chunks begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The rarest first.
    RarestFirst {
        /// Among equals, from this chunk on.
        from: usize,
    },
    /// By their place in the file.
    InOrder,
}

/// What a stream is to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Fetch these chunks, which follow each other in the file.
    Fetch(Range<usize>),
    /// Nothing at the moment: others fetch the rest, or this source does not have it. That may change.
    Wait,
    /// Every chunk is there.
    Done,
    /// This source struck out.
    StruckOut,
}

/// The chunks of one download, and who is to deliver them.
#[derive(Debug)]
pub(crate) struct Schedule {
    ledger: Ledger,
    order: Order,
    random: SmallRng,
}

impl Schedule {
    /// All chunks of `manifest` but those that `had` has; those in `claimed` are not leased before
    /// [`unclaim`](Self::unclaim) says that they must be.
    pub(crate) fn new(manifest: &Manifest, had: Bitfield, claimed: &Bitfield, order: Order) -> Self {
        let seed = match order {
            Order::InOrder => 0,
            Order::RarestFirst { from } => from as u64,
        };
        let random = SmallRng::seed_from_u64(seed);
        Self { ledger: Ledger::new(manifest, had, claimed), order, random }
    }

    /// A source may be asked; or what it has is known anew.
    pub(crate) fn offers(&mut self, source: SourceId, available: Availability) {
        self.ledger.offers(source, available);
    }

    /// A stream to `source` is open.
    pub(crate) fn opened(&mut self, stream: StreamId, source: SourceId, now: Duration) {
        self.ledger.opened(stream, source, now);
    }

    /// Leases to `stream` what it is to fetch next.
    pub(crate) fn next(&mut self, stream: StreamId, now: Duration) -> Next {
        let next = picker::pick(&self.ledger, stream, self.order, &mut self.random, now);
        if let Next::Fetch(run) = &next {
            self.ledger.lease(stream, run.clone(), now);
            if let Order::RarestFirst { from } = &mut self.order {
                *from = run.end % self.ledger.lens.len();
            }
        }
        next
    }

    /// Whether chunk `index` is still of use.
    pub(crate) fn wants(&self, index: usize) -> bool {
        !self.ledger.had.contains(index)
    }

    /// Chunk `index` is verified and written; `from` that stream, or from the disk.
    pub(crate) fn had(&mut self, index: usize, from: Option<StreamId>, now: Duration) {
        self.ledger.had(index, from, now);
    }

    /// Chunk `index`, which was claimed, is not on disk after all. It may have come since.
    pub(crate) fn unclaim(&mut self, index: usize) {
        self.ledger.unclaim(index);
    }

    /// `stream` delivered `bytes` within `seconds`.
    pub(crate) fn measured(&mut self, stream: StreamId, bytes: u64, seconds: f64) {
        self.ledger.measured(stream, bytes, seconds);
    }

    /// `stream` was refused what it asked for last or before: these chunks are for others, or for later.
    pub(crate) fn refused(&mut self, stream: StreamId, run: Range<usize>) {
        self.ledger.refused(stream, run);
    }

    /// `stream` is closed: what only it was to deliver is missing again.
    pub(crate) fn closed(&mut self, stream: StreamId) {
        self.ledger.closed(stream);
    }

    /// `source` failed in a way that may pass; true if that was once too often.
    pub(crate) fn strike(&mut self, source: SourceId) -> bool {
        let Some(known) = self.ledger.sources.get_mut(&source) else { return true };
        known.strikes += 1;
        known.strikes >= STRIKES_MAX
    }

    /// `source` sent what is not the file, or cannot serve this: it is asked no more.
    pub(crate) fn ban(&mut self, source: SourceId) {
        if let Some(known) = self.ledger.sources.get_mut(&source) {
            known.strikes = STRIKES_MAX;
        }
    }

    /// Sources that struck out may be asked again, if `may` says so.
    pub(crate) fn forgive(&mut self, may: impl Fn(SourceId) -> bool) {
        for (_, known) in self.ledger.sources.iter_mut().filter(|(source, _)| may(**source)) {
            known.strikes = 0;
        }
    }

    /// Chunks still to come.
    pub(crate) const fn left(&self) -> usize {
        self.ledger.left
    }
}

#[cfg(test)]
mod tests;
