//! Carries out the plan of a query: asks the neighbors at once, within the deadline. `merging` takes what comes of it.

use std::{
    cell::LazyCell,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream::FuturesUnordered};
use nekoproto::{
    Covered, IndexerServiceClient, NoAnswer, NodeTag, QueryReply, QueryRequest, Refusal, clock,
    limits::TTL_MAX, summary::NameKey, transport::call_until,
};
use tarpc::{client::RpcError, context::Context};
use tokio::{sync::SemaphorePermit, time::timeout_at};
use tracing::debug;

use crate::{
    config::Routing,
    counters::Drop,
    merging::Merging,
    neighbors::{
        channel::Wanted,
        neighbor::{Neighbor, Neighbors},
    },
    shared::Shared,
    state::{
        caller::{Caller, Forwarding},
        route::route,
    },
};

/// The share of the remaining deadline that each hop keeps for itself, so that its answer still
/// arrives when a neighbor's does not: an eighth, between these bounds.
const MARGIN_MIN: Duration = Duration::from_millis(2);
const MARGIN_MAX: Duration = Duration::from_millis(100);

/// Takes the query `request` of `from`, who waits from `now` until `deadline`, and passes it on.
/// Returns how many neighbors were asked.
///
/// # Cancel safety
/// Safe: dropping the future cancels the calls to the neighbors.
pub(crate) async fn walk(
    shared: &Shared,
    merging: &mut Merging<'_>,
    from: &Caller,
    (now, deadline): (Instant, Instant),
    mut request: QueryRequest,
) -> Result<usize, Refusal> {
    let left = deadline.saturating_duration_since(now);
    if matches!(request.ttl_hops, 1..=TTL_MAX) && ends_here(shared, from, &request.covered) {
        request.ttl_hops = 0;
    }
    let counters = &shared.counters;
    let plan = shared.state.on_query(&request, from, left, now);
    let (share, local) = plan.inspect_err(|_| counters.drop(Drop::Ttl))?;
    if let Some(trace) = &mut merging.trace {
        trace.plan(share, &local);
    }
    local.into_iter().for_each(|found| merging.merge.absorb(found));
    if !share.is_remembered {
        counters.drop(Drop::SeenFull);
        merging.merge.lacks_something();
    }
    let Some(ttl_hops) = share.ttl_hops else {
        if !share.answers {
            counters.drop(Drop::Duplicate);
        }
        return Ok(0);
    };
    let neighbors = shared.neighbors.links.current();
    let route = route(shared.tag, &neighbors.tags, &neighbors.away, &request.covered);
    if route.gap {
        merging.merge.lacks_something();
    }
    if route.ask.is_empty() {
        return Ok(0);
    }
    let budget = budget_of(left);
    let Some(_places) = forwarding(shared, from, request.trace, now + budget).await else {
        counters.drop(Drop::Busy);
        return Err(Refusal::Busy);
    };
    // At its last hop only where it began matters: in a mesh the others are most of the message.
    let covered_max = if ttl_hops == 0 { 1 } else { usize::MAX };
    let covered = Covered::first_of(route.covered.into_iter().take(covered_max));
    let forwarded = QueryRequest { ttl_hops, covered, ..request };
    Ok(pass_on(shared, merging, &neighbors, route.ask, forwarded, now + budget).await)
}

/// Whether a query came from where it began, and nobody is left to be asked, as in a mesh. It need not be remembered then:
/// whoever else was sent it knows that this node was, and sends it no copy.
fn ends_here(shared: &Shared, from: &Caller, covered: &Covered) -> bool {
    if covered.is_empty() || covered.first() != from.neighbor.as_ref() {
        return false;
    }
    let neighbors = shared.neighbors.links.current();
    let is_covered = |tag: &NodeTag| *tag == shared.tag || covered.contains(tag);
    neighbors.tags.iter().all(is_covered)
        && neighbors.away.iter().all(|tag| tag.as_ref().is_some_and(is_covered))
}

/// Places for one query of `from` that is forwarded, with more room if it `has_trace`. A peer waits `until` then for what it
/// forwards itself; a neighbor does not, as indexers that forward to each other would wait in a circle.
pub(crate) async fn forwarding<'a>(
    shared: &'a Shared,
    from: &'a Caller,
    has_trace: bool,
    until: Instant,
) -> Option<(Forwarding<'a>, SemaphorePermit<'a>)> {
    let place = match from.forwards.try_acquire() {
        Ok(place) => place,
        Err(_) if from.neighbor.is_some() => return None,
        Err(_) => Box::pin(timeout_at(until.into(), from.forwards.acquire())).await.ok()?.ok()?,
    };
    Some((from.forward(place, has_trace)?, shared.forwards.try_acquire().ok()?))
}

/// Asks neighbors until `deadline` at most. Returns how many.
async fn pass_on(
    shared: &Shared,
    merging: &mut Merging<'_>,
    neighbors: &Neighbors,
    ask: Vec<usize>,
    forwarded: QueryRequest,
    deadline: Instant,
) -> usize {
    let now = Instant::now();
    let (first, later) = match shared.routing {
        Routing::Flood => (ask, Vec::new()),
        Routing::Summary => split(shared, neighbors, ask, &forwarded),
    };
    let mut answers = FuturesUnordered::new();
    let ask = |place: &usize, began: Instant| {
        self::ask(shared, *place, &neighbors.reachable[*place], forwarded.clone(), began, deadline)
    };
    let take = |merging: &mut Merging<'_>, (place, began, mut reply, is_hurried): Answer| {
        if is_hurried {
            merging.merge.lacks_something();
        }
        let neighbor = &neighbors.reachable[place];
        if let Some(trace) = &mut merging.trace {
            let way = reply.as_mut().map(|reply| reply.trace.take()).map_err(|why| *why);
            trace.heard(neighbor, (began, later.contains(&place)), forwarded.ttl_hops, way);
        }
        merging.absorb(neighbor, &forwarded, reply);
    };
    answers.extend(first.iter().map(|place| ask(place, now)));
    let mut asked = first.len();
    if !later.is_empty() {
        // Half of the time is left for the others, in case none of these answers.
        let patience = tokio::time::Instant::from_std(now + deadline.saturating_duration_since(now) / 2);
        while let Ok(Some(answer)) = timeout_at(patience, answers.next()).await {
            take(merging, answer);
        }
        if !merging.has_found() {
            asked += later.len();
            let began = Instant::now();
            answers.extend(later.iter().map(|place| ask(place, began))); // a summary must not lose an answer
        }
    }
    while let Some(answer) = answers.next().await {
        take(merging, answer);
    }
    asked
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
        ask.retain(|place| !neighbors.reachable[*place].rules_out(&wanted));
        return (ask, Vec::new());
    }
    ask.into_iter().partition(|place| !neighbors.reachable[*place].rules_out(&wanted))
}

/// A neighbor's place, when it was asked, and what [`call`] returned.
type Answer = (usize, Instant, Result<QueryReply, NoAnswer>, bool);

/// Asks one neighbor.
async fn ask(
    shared: &Shared,
    place: usize,
    neighbor: &Neighbor,
    request: QueryRequest,
    now: Instant,
    deadline: Instant,
) -> Answer {
    let call = call(shared, neighbor, (now, deadline), |client, context| client.query(context, request));
    let (reply, is_hurried) = call.await;
    (place, now, reply, is_hurried)
}

/// Makes one call to a neighbor, begun at `now`, and notes how it answers. Also returns whether it did not because the asker
/// has no more time, or this node is busy: not even a guest is to blame for that, and the answer is not complete.
pub(crate) async fn call<'a, T, F: Future<Output = Result<Result<T, Refusal>, RpcError>>>(
    shared: &Shared,
    neighbor: &'a Neighbor,
    (now, deadline): (Instant, Instant),
    call: impl FnOnce(&'a IndexerServiceClient, Context) -> F,
) -> (Result<T, NoAnswer>, bool) {
    let Some(asking) = neighbor.load.ask(now) else {
        return (Err(NoAnswer::Busy), false); // many wait for it already, and it says nothing
    };
    let until = neighbor.waited_for(now, deadline, &shared.neighbors.stalls);
    let answer = call(&neighbor.connected.client, call_until(until)).await;
    let judged = neighbor.judged_by(&answer, (now, until, until == deadline)).await;
    if judged.is_judged {
        shared.neighbors.links.judged();
    }
    if until < deadline && matches!(answer, Err(RpcError::DeadlineExceeded)) {
        shared.neighbors.stalls.note(now, Instant::now());
    }
    if !matches!(answer, Err(RpcError::DeadlineExceeded)) {
        asking.answered(Instant::now);
    }
    let answer = match answer {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(refusal)) => Err(NoAnswer::Refused(refusal)),
        Err(RpcError::DeadlineExceeded) => Err(NoAnswer::Late),
        Err(error) => {
            debug!(neighbor = %neighbor.node.short(), %error, "a call to a neighbor failed");
            Err(NoAnswer::Failed)
        }
    };
    let is_hurried = judged.is_ours || (until == deadline && matches!(answer, Err(NoAnswer::Late)));
    (answer, is_hurried)
}
