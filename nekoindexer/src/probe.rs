//! Passes route probes on, and says how long that took.

use std::time::{Duration, Instant};

use nekoproto::{
    Refusal,
    probe::{ProbeEnd, ProbeReply, ProbeRequest, ProbeStop},
};
use serde::{Deserialize, Serialize};
use tracing::trace;

use crate::{
    counters::{Counters, Drop},
    shared::Shared,
    state::{
        caller::Caller,
        probe::{budget, plan},
    },
    walk::call,
};

/// Parts of what is passed on at once that one probe takes: 4 of a peer at once, 128 that come by one neighbor, which may
/// have one go to and fro, and 16 and 256 in all. Where they may carry bytes, one for each KiB begun.
const PARTS_OF_PEER: u32 = 1024;
const PARTS_BY_NEIGHBOR: u32 = 64;

/// What an indexer counted of route probes since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeCounts {
    /// Those that came.
    pub received: u64,
    /// Those that were passed on.
    pub forwarded: u64,
    /// Those that had been here before.
    pub circles: u64,
    /// Those that ended here as they should: no hops were left.
    pub out_of_hops: u64,
    /// Those that ended here for want of a neighbor.
    pub nowhere: u64,
    /// Those that the next did not answer.
    pub lost: u64,
    /// Those that were refused: too large, or too many at once.
    pub refused: u64,
}

impl ProbeCounts {
    /// What was counted since `before`, an earlier moment of the same indexer.
    #[must_use]
    pub const fn since(self, before: Self) -> Self {
        Self {
            received: self.received.saturating_sub(before.received),
            forwarded: self.forwarded.saturating_sub(before.forwarded),
            circles: self.circles.saturating_sub(before.circles),
            out_of_hops: self.out_of_hops.saturating_sub(before.out_of_hops),
            nowhere: self.nowhere.saturating_sub(before.nowhere),
            lost: self.lost.saturating_sub(before.lost),
            refused: self.refused.saturating_sub(before.refused),
        }
    }

    pub(crate) fn of(counters: &Counters) -> Self {
        Self {
            received: counters.probes.get(),
            forwarded: counters.probe_forwards.get(),
            circles: counters.circles.get(),
            out_of_hops: counters.drops(Drop::ProbeHops).get(),
            nowhere: counters.drops(Drop::ProbeNowhere).get(),
            lost: counters.drops(Drop::ProbeLost).get(),
            refused: counters.drops(Drop::ProbeLimits).get() + counters.drops(Drop::ProbeBusy).get(),
        }
    }
}

/// Takes a probe of `from`, who waits until `deadline`, and passes it on.
///
/// # Cancel safety
/// Safe: dropping the future cancels the call to the neighbor.
pub(crate) async fn answer(
    shared: &Shared,
    from: &Caller,
    deadline: Instant,
    request: ProbeRequest,
) -> Result<ProbeReply, Refusal> {
    let began = Instant::now();
    let counters = &shared.counters;
    counters.probes.inc();
    if !request.is_allowed() || !(shared.carries_probes || request.payload.is_empty()) {
        counters.drop(Drop::ProbeLimits);
        return Err(Refusal::ProbeTooLarge);
    }
    let neighbors = shared.neighbors.links.current();
    let plan = plan(shared.tag, &neighbors.tags, request);
    if plan.again {
        counters.circles.inc();
    }
    let stop = |waited: Duration, next| ProbeStop {
        node: shared.tag,
        again: plan.again,
        own_ns: u32::try_from(began.elapsed().saturating_sub(waited).as_nanos()).unwrap_or(u32::MAX),
        waited_us: u32::try_from(waited.as_micros()).unwrap_or(u32::MAX),
        next,
    };
    let (place, forwarded) = match plan.next {
        Ok(next) => next,
        Err(end) => {
            counters.drop(if end == ProbeEnd::Hops { Drop::ProbeHops } else { Drop::ProbeNowhere });
            return Ok(ProbeReply::ended(stop(Duration::ZERO, None), end));
        }
    };
    let hops_left = forwarded.hops_left;
    let parts = match from.neighbor {
        _ if shared.carries_probes => {
            1 + u32::try_from(forwarded.payload.len() / 1024).unwrap_or(u32::MAX - 1)
        }
        Some(_) => PARTS_BY_NEIGHBOR,
        None => PARTS_OF_PEER,
    };
    let busy = |_| {
        counters.drop(Drop::ProbeBusy);
        Refusal::Busy
    };
    let _room = (
        from.probes.try_acquire_many(parts).map_err(busy)?,
        shared.probes.try_acquire_many(parts).map_err(busy)?,
    );
    counters.probe_forwards.inc();
    trace!(msg_id = ?forwarded.msg_id, hops_left, place, "route probe passed on");
    let neighbor = &neighbors.trusted[place];
    let passed = Instant::now();
    let until = began + budget(deadline.saturating_duration_since(began), hops_left);
    let answer = call(neighbor, until, |client, context| client.probe(context, forwarded)).await;
    let stop = stop(passed.elapsed(), Some(neighbor.connected.addr));
    let next = ProbeReply::checked(answer, neighbor.node, hops_left);
    if next.is_err() {
        counters.drop(Drop::ProbeLost);
    }
    Ok(ProbeReply::after(stop, next))
}
