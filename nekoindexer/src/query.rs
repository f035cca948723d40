//! Answers a query: merges what is found here with what neighbors answer.

use std::{cell::LazyCell, time::Instant};

use nekoproto::{
    Hit, IdDigits, IndexerServiceClient, NoAnswer, QueryReply, QueryRequest, Record, Refusal,
    limits::{HITS_MAX, HOLDERS_OF_NEIGHBOR_MAX},
};
use tarpc::{client::RpcError, context::Context};
use tracing::debug;

use crate::{
    counters::Drop,
    neighbors::neighbor::Neighbor,
    shared::Shared,
    state::{
        caller::Caller,
        holders::heard,
        merge::{Found, GUEST_HITS_MAX, Merge},
    },
    walk::{Visitor, walk},
};

/// Answers `request` of `from`, who waits until `deadline`.
///
/// # Cancel safety
/// Safe: dropping the future cancels the calls to the neighbors.
pub(crate) async fn answer(
    shared: &Shared,
    from: &Caller,
    deadline: Instant,
    request: QueryRequest,
) -> Result<QueryReply, Refusal> {
    let now = Instant::now();
    let mut merging = Merging { merge: Merge::new(Vec::new()), guests: Vec::new(), shared };
    match walk(shared, &mut merging, from, (now, deadline), request).await {
        Ok(0) => shared.counters.answered_alone(&shared.counters.queries, now),
        Ok(asked) => shared.counters.answered_together(asked, now),
        Err(refusal) => {
            shared.counters.queries.inc();
            return Err(refusal);
        }
    }
    merging.merge.absorb_guests(&merging.guests);
    Ok(merging.merge.finish())
}

/// Merges the answers.
struct Merging<'a> {
    merge: Merge,
    /// What each guest found, until all others have answered.
    guests: Vec<Vec<Found>>,
    shared: &'a Shared,
}

impl Visitor for Merging<'_> {
    type Reply = QueryReply;
    const SEES_ENDS: bool = false;

    async fn call(
        client: &IndexerServiceClient,
        context: Context,
        request: QueryRequest,
    ) -> Result<Result<QueryReply, Refusal>, RpcError> {
        client.query(context, request).await
    }

    fn found(&mut self, local: Vec<Found>) {
        local.into_iter().for_each(|found| self.merge.absorb(found));
    }

    fn lacks_something(&mut self) {
        self.merge.lacks_something();
    }

    fn asks(&mut self, places: &[usize], _: bool) {
        self.merge.count_messages(u32::try_from(places.len()).unwrap_or(u32::MAX));
    }

    /// Takes in what a neighbor says, none of it on trust. A record that its origin did not sign is left out: it
    /// says nothing of any file, and an origin that signs wrongly harms its own file alone. A record of another
    /// name is left out too, and then the answer is not complete, as the neighbor answered something else. Nothing that
    /// a guest does makes it incomplete, and what it found comes behind what others did.
    fn absorb(
        &mut self,
        _: usize,
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

    fn has_found(&self) -> bool {
        !self.merge.is_empty() || !self.guests.is_empty()
    }
}

/// Whether `record` is of an origin that is asked for.
fn is_of(origin: &Option<IdDigits>, record: &Record) -> bool {
    origin.as_ref().is_none_or(|digits| digits.begin(&record.origin))
}
