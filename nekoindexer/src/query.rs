//! Carries out a query plan: asks the neighbors at once, within the deadline, and merges.

use std::{
    cell::LazyCell,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream::FuturesUnordered};
use nekoproto::{
    Covered, FileName, Hit, NodeTag, QueryReply, QueryRequest, Refusal, Verifier, clock, summary::NameKey,
    transport::call_until,
};
use tarpc::client::RpcError;
use tokio::time::timeout_at;
use tracing::debug;

use crate::{
    config::Routing,
    neighbors::{
        channel::Wanted,
        links::{Neighbor, Neighbors},
    },
    shared::Shared,
    state::{
        QueryPlan,
        merge::{Found, Merge},
        route::route,
    },
};

/// The share of the remaining deadline that each hop keeps for itself, so that its answer still
/// arrives when a neighbor's does not: an eighth, between these bounds.
const MARGIN_MIN: Duration = Duration::from_millis(2);
const MARGIN_MAX: Duration = Duration::from_millis(100);

/// Answers `request` of a peer or of the neighbor `from`, who waits until `deadline`.
///
/// # Errors
/// The request is refused as a whole. A neighbor's failure is no error: it makes the answer
/// incomplete.
///
/// # Cancel safety
/// Safe: dropping the future cancels the calls to the neighbors.
pub(crate) async fn answer(
    shared: &Shared,
    from: Option<NodeTag>,
    deadline: Instant,
    request: QueryRequest,
) -> Result<QueryReply, Refusal> {
    let now = Instant::now();
    let left = deadline.saturating_duration_since(now);
    let (local, ttl_hops) = match shared.state.on_query(&request, from, left, now)? {
        QueryPlan::Answer(local) => return Ok(Merge::new(local).finish()),
        QueryPlan::Alone(local) => {
            let mut merge = Merge::new(local);
            merge.lacks_something();
            return Ok(merge.finish());
        }
        QueryPlan::Forward { local, ttl_hops } => (local, ttl_hops),
    };
    let neighbors = shared.neighbors.links.current();
    let route = route(shared.tag, &neighbors.tags, &neighbors.away, &request.covered);
    let mut merge = Merge::new(local);
    if route.gap {
        merge.lacks_something();
    }
    if route.ask.is_empty() {
        return Ok(merge.finish());
    }
    let _permit = shared.forwards.try_acquire().map_err(|_| Refusal::Busy)?;
    let budget = budget_of(left);
    // At its last hop only where it began matters: in a mesh the others are most of the message.
    let covered_max = if ttl_hops == 0 { 1 } else { usize::MAX };
    let covered = Covered::first_of(route.covered.into_iter().take(covered_max));
    let forwarded = QueryRequest { ttl_hops, covered, ..request };
    let (first, later) = match shared.routing {
        Routing::Flood => (route.ask, Vec::new()),
        Routing::Summary => split(shared, &neighbors, route.ask, &forwarded),
    };
    let mut answers = FuturesUnordered::new();
    let ask = |index: &usize| ask(&neighbors.reachable[*index], forwarded.clone(), now, now + budget);
    answers.extend(first.iter().map(ask));
    merge.count_messages(count(&first));
    if !later.is_empty() {
        // Half of the time is left for the others, in case none of these answers.
        let patience = tokio::time::Instant::from_std(now + budget / 2);
        while let Ok(Some((neighbor, answer))) = timeout_at(patience, answers.next()).await {
            absorb(&mut merge, neighbor, answer, &forwarded.name, &shared.verifier);
        }
        if merge.is_empty() {
            answers.extend(later.iter().map(ask)); // a summary must not lose an answer
            merge.count_messages(count(&later));
        }
    }
    while let Some((neighbor, answer)) = answers.next().await {
        absorb(&mut merge, neighbor, answer, &forwarded.name, &shared.verifier);
    }
    Ok(merge.finish())
}

/// The part of the time `left` that the neighbors have.
pub(crate) fn budget_of(left: Duration) -> Duration {
    left.saturating_sub((left / 8).clamp(MARGIN_MIN, MARGIN_MAX))
}

/// Of the neighbors to `ask`, those that are asked at once, and those that are if nobody has anything.
fn split(
    shared: &Shared,
    neighbors: &Neighbors,
    mut ask: Vec<usize>,
    forwarded: &QueryRequest,
) -> (Vec<usize>, Vec<usize>) {
    let covered = LazyCell::new(|| {
        let mut covered = forwarded.covered.to_vec();
        covered.sort_unstable();
        covered
    });
    let now = clock::now();
    let wanted = Wanted {
        key: NameKey::of(&forwarded.name),
        ttl_hops: forwarded.ttl_hops,
        covers: &|tag| *tag == shared.tag || covered.binary_search(tag).is_ok(),
        now,
        clock_ms: shared.neighbors.clock_ms(now),
    };
    if forwarded.ttl_hops == 0 {
        // Asked for itself alone, a neighbor whose summary is trusted is known to list nothing: see the rule.
        ask.retain(|index| !neighbors.reachable[*index].rules_out(&wanted));
        return (ask, Vec::new());
    }
    ask.into_iter().partition(|index| !neighbors.reachable[*index].rules_out(&wanted))
}

type NeighborReply = Result<Result<QueryReply, Refusal>, RpcError>;

async fn ask(
    neighbor: &Neighbor,
    request: QueryRequest,
    now: Instant,
    deadline: Instant,
) -> (&Neighbor, NeighborReply) {
    let Some(asking) = neighbor.load.ask(now) else {
        return (neighbor, Ok(Err(Refusal::Busy))); // many wait for it already, and it says nothing
    };
    let answer = neighbor.connected.client.query(call_until(deadline), request).await;
    if !matches!(answer, Err(RpcError::DeadlineExceeded)) {
        asking.answered(Instant::now);
    }
    (neighbor, answer)
}

fn count(neighbors: &[usize]) -> u32 {
    u32::try_from(neighbors.len()).unwrap_or(u32::MAX)
}

/// Takes in what a neighbor says, none of it on trust. A record that its origin did not sign is left out: it
/// says nothing of any file, and an origin that signs wrongly harms its own file alone. A record of another
/// name is left out too, and then the answer is not complete, as the neighbor answered something else.
fn absorb(
    merge: &mut Merge,
    neighbor: &Neighbor,
    reply: NeighborReply,
    name: &FileName,
    verifier: &Verifier,
) {
    let reply = match reply {
        Ok(Ok(reply)) => reply,
        Ok(Err(refusal)) => {
            debug!(neighbor = %neighbor.node.short(), %refusal, "neighbor refused a query");
            return merge.lacks_something();
        }
        Err(error) => {
            debug!(neighbor = %neighbor.node.short(), %error, "neighbor did not answer a query");
            return merge.lacks_something();
        }
    };
    merge.count_messages(reply.messages);
    if !reply.complete {
        merge.lacks_something();
    }
    for Hit { record, holders } in reply.hits {
        if record.unverified().name != *name {
            merge.lacks_something();
            continue;
        }
        match verifier.verify(record) {
            Ok(record) => merge.absorb(Found { record: record.into(), holders: holders.into_vec() }),
            Err(error) => debug!(neighbor = %neighbor.node.short(), %error, "a hit is left out"),
        }
    }
}
