//! Merges what is found here with what neighbors answer.

use std::time::Instant;

use nekoproto::{
    Hit, IdDigits, List, ListedRecord, NoAnswer, QueryReply, QueryRequest, Record,
    limits::{HITS_MAX, HOLDERS_OF_NEIGHBOR_MAX},
    transport::slots::SlotOwner,
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

pub(crate) struct Merging<'a> {
    pub(crate) merge: Merge,
    /// What each guest found, until all others have answered.
    guests: Vec<Vec<Found>>,
    pub(crate) trace: Option<Box<Trace>>,
    shared: &'a Shared,
}

impl<'a> Merging<'a> {
    pub(crate) fn new(shared: &'a Shared, trace: Option<Box<Trace>>) -> Self {
        Self { merge: Merge::new(Vec::new()), guests: Vec::new(), trace, shared }
    }

    pub(crate) fn finish(mut self) -> QueryReply {
        self.merge.absorb_guests(&self.guests);
        let trace = self.trace.map(|trace| Box::new(trace.finish(Instant::now())));
        QueryReply { trace, ..self.merge.finish() }
    }

    /// Takes in what a trusted neighbor says. A record that its origin did not sign is left out: it
    /// says nothing of any file, and an origin that signs wrongly harms its own file alone. A record of another
    /// name is left out too, and then the answer is not complete, as the neighbor answered something else.
    pub(crate) fn absorb(
        &mut self,
        neighbor: &Neighbor,
        asked: &QueryRequest,
        reply: Result<QueryReply, NoAnswer>,
    ) {
        let reply = match reply {
            Ok(reply) => reply,
            Err(why) => {
                note_no_answer(self.shared, neighbor, why);
                return self.merge.lacks_something();
            }
        };
        self.merge.count_messages(reply.messages);
        if !reply.complete {
            self.merge.lacks_something();
        }
        if reply.guests_unheard {
            self.merge.guests_are_unheard();
        }
        for Hit { record, holders } in reply.hits {
            if record.unverified().name != asked.name {
                self.shared.counters.drop(Drop::HitLeftOut);
                self.merge.lacks_something();
                continue;
            }
            match self.shared.checks.verifier().verify(record) {
                Ok(record) if !is_of(&asked.origin, &record) => {} // what was not asked for does no harm
                Ok(record) => {
                    let holders = heard(holders, HOLDERS_OF_NEIGHBOR_MAX, &asked.without, neighbor.sender());
                    self.merge.absorb(Found { record: record.into(), holders });
                }
                Err(error) => {
                    self.shared.counters.drop(Drop::HitLeftOut);
                    debug!(neighbor = %neighbor.node.short(), %error, "a hit is left out");
                }
            }
        }
    }

    /// Adds what a guest found: verified hits, and nothing else of what it says.
    pub(crate) fn add(&mut self, found: Vec<Found>) {
        if !found.is_empty() {
            self.guests.push(found);
        }
    }

    /// Whether this node, or one that is trusted, has something.
    pub(crate) fn has_found(&self) -> bool {
        !self.merge.is_empty()
    }
}

/// The hits of a guest that hold; the first of them are looked at.
pub(crate) async fn checked(
    shared: &Shared,
    guest: &Neighbor,
    asked: &QueryRequest,
    hits: Result<List<Hit, HITS_MAX>, NoAnswer>,
) -> Vec<Found> {
    let hits = match hits {
        Ok(hits) => hits.into_iter().take(GUEST_HITS_MAX),
        Err(why) => {
            note_no_answer(shared, guest, why);
            return Vec::new();
        }
    };
    let asked_for = hits.filter(|hit| {
        let record = hit.record.unverified();
        record.name == asked.name && is_of(&asked.origin, record)
    });
    let (records, holders): (Vec<_>, Vec<_>) = asked_for.map(|hit| (hit.record, hit.holders)).unzip();
    let owner = SlotOwner::at(guest.connected.addr.ip(), Some(guest.node));
    let Ok(checked) = shared.checks.check(owner, records).await else { return Vec::new() };
    let found = |(record, holders)| Found {
        record: ListedRecord::from(record),
        holders: heard(holders, HOLDERS_OF_NEIGHBOR_MAX, &asked.without, guest.sender()),
    };
    let (good, wrong): (Vec<_>, Vec<_>) =
        checked.into_iter().zip(holders).partition(|(record, _)| record.is_ok());
    shared.counters.drop_many(Drop::HitLeftOut, wrong.len());
    good.into_iter().filter_map(|(record, holders)| Some((record.ok()?, holders))).map(found).collect()
}

fn note_no_answer(shared: &Shared, neighbor: &Neighbor, why: NoAnswer) {
    shared.counters.drop(match why {
        NoAnswer::Busy => Drop::NeighborStuck,
        NoAnswer::Refused(_) => Drop::NeighborRefused,
        NoAnswer::Late | NoAnswer::Failed | NoAnswer::Away | NoAnswer::Nonsense => Drop::NeighborFailed,
    });
    debug!(neighbor = %neighbor.node.short(), %why, "neighbor did not answer a query");
}

fn is_of(origin: &Option<IdDigits>, record: &Record) -> bool {
    origin.as_ref().is_none_or(|digits| digits.begin(&record.origin))
}
