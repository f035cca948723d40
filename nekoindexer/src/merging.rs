//! Merges what is found here with what neighbors answer.

use std::{cell::LazyCell, time::Instant};

use nekoproto::{
    Hit, IdDigits, NoAnswer, QueryReply, QueryRequest, Record,
    limits::{HITS_MAX, HOLDERS_OF_NEIGHBOR_MAX},
};
use tracing::debug;

use crate::{
    counters::Drop,
    neighbors::neighbor::Neighbor,
    shared::Shared,
    state::{
        holders::heard,
        merge::{Found, GUEST_HITS_MAX, Merge},
    },
    trace::Trace,
};

/// Merges the answers.
pub(crate) struct Merging<'a> {
    pub(crate) merge: Merge,
    /// What each guest found, until all others have answered.
    guests: Vec<Vec<Found>>,
    /// The way of the query, if that is asked for.
    pub(crate) trace: Option<Box<Trace>>,
    shared: &'a Shared,
}

impl<'a> Merging<'a> {
    /// Nothing is found yet.
    pub(crate) fn new(shared: &'a Shared, trace: Option<Box<Trace>>) -> Self {
        Self { merge: Merge::new(Vec::new()), guests: Vec::new(), trace, shared }
    }

    /// The answer.
    pub(crate) fn finish(mut self) -> QueryReply {
        self.merge.absorb_guests(&self.guests);
        let trace = self.trace.map(|trace| Box::new(trace.finish(Instant::now())));
        QueryReply { trace, ..self.merge.finish() }
    }

    /// Takes in what a neighbor says, none of it on trust. A record that its origin did not sign is left out: it
    /// says nothing of any file, and an origin that signs wrongly harms its own file alone. A record of another
    /// name is left out too, and then the answer is not complete, as the neighbor answered something else. Nothing that
    /// a guest does makes it incomplete, and what it found comes behind what others did.
    pub(crate) fn absorb(
        &mut self,
        neighbor: &Neighbor,
        asked: &QueryRequest,
        reply: Result<QueryReply, NoAnswer>,
    ) {
        let is_guest = neighbor.standing.is_guest();
        let reply = match reply {
            Ok(reply) => reply,
            Err(why) => {
                self.shared.counters.drop(match why {
                    NoAnswer::Busy => Drop::NeighborStuck,
                    NoAnswer::Refused(_) => Drop::NeighborRefused,
                    NoAnswer::Late | NoAnswer::Failed | NoAnswer::Away | NoAnswer::Nonsense => {
                        Drop::NeighborFailed
                    }
                });
                debug!(neighbor = %neighbor.node.short(), %why, "neighbor did not answer a query");
                if !is_guest {
                    self.merge.lacks_something();
                }
                return;
            }
        };
        self.merge.count_messages(reply.messages);
        if !reply.complete && !is_guest {
            self.merge.lacks_something();
        }
        let (now, how) = (LazyCell::new(Instant::now), &neighbor.load.record);
        let hits_max = if is_guest { GUEST_HITS_MAX } else { HITS_MAX };
        let mut guests = Vec::new();
        for Hit { record, holders } in reply.hits.into_iter().take(hits_max) {
            if record.unverified().name != asked.name {
                self.shared.counters.drop(Drop::HitLeftOut);
                if !is_guest {
                    self.merge.lacks_something();
                }
                continue;
            }
            if is_guest && !how.is_checked(*now) && !self.shared.verifier.knows(&record) {
                self.shared.counters.drop(Drop::HitLeftOut);
                continue;
            }
            match self.shared.verifier.verify(record) {
                Ok(record) if !is_of(&asked.origin, &record) => {} // what was not asked for does no harm
                Ok(record) => {
                    let holders = heard(holders, HOLDERS_OF_NEIGHBOR_MAX, &asked.without, neighbor.sender());
                    let found = Found { record: record.into(), holders };
                    if is_guest { guests.push(found) } else { self.merge.absorb(found) }
                }
                Err(error) => {
                    if is_guest {
                        how.forged(*now);
                    }
                    self.shared.counters.drop(Drop::HitLeftOut);
                    debug!(neighbor = %neighbor.node.short(), %error, "a hit is left out");
                }
            }
        }
        if !guests.is_empty() {
            neighbor.load.record.found();
            self.guests.push(guests);
        }
    }

    /// Whether somebody has something.
    pub(crate) fn has_found(&self) -> bool {
        !self.merge.is_empty() || !self.guests.is_empty()
    }
}

/// Whether `record` is of an origin that is asked for.
fn is_of(origin: &Option<IdDigits>, record: &Record) -> bool {
    origin.as_ref().is_none_or(|digits| digits.begin(&record.origin))
}
