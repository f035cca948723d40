//! Carries out a query plan: asks the neighbors at once, within the deadline. What comes of it is for a [`Visitor`]:
//! `query` merges the hits, `trace` notes the way.

use std::{
    cell::LazyCell,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream::FuturesUnordered};
use nekoproto::{
    Covered, IndexerServiceClient, NoAnswer, NodeTag, QueryRequest, Refusal, WhyUnasked, clock,
    limits::TTL_MAX, summary::NameKey, transport::call_until,
};
use tarpc::{client::RpcError, context::Context};
use tokio::{sync::SemaphorePermit, time::timeout_at};
use tracing::debug;

use crate::{
    config::Routing,
    counters::Drop,
    neighbors::{
        channel::Wanted,
        load::Asking,
        neighbor::{Neighbor, Neighbors},
    },
    shared::Shared,
    state::{
        QueryPlan,
        caller::{Caller, Forwarding},
        merge::Found,
        route::{Place, route_and_tell},
    },
};

/// The share of the remaining deadline that each hop keeps for itself, so that its answer still
/// arrives when a neighbor's does not: an eighth, between these bounds.
const MARGIN_MIN: Duration = Duration::from_millis(2);
const MARGIN_MAX: Duration = Duration::from_millis(100);

/// Sees what a query comes across at one indexer.
pub(crate) trait Visitor: Send {
    /// What a neighbor answers.
    type Reply: Send;
    /// Whether it wants to know who is not asked if nobody is asked at all: that costs a look at all neighbors.
    const SEES_ENDS: bool;

    /// Passes the query on.
    fn call(
        client: &IndexerServiceClient,
        context: Context,
        request: QueryRequest,
    ) -> impl Future<Output = Result<Result<Self::Reply, Refusal>, RpcError>> + Send;

    /// This is listed here. Called at most once, before anybody is asked.
    fn found(&mut self, local: Vec<Found>);

    /// This copy of the query was answered before.
    fn again(&mut self) {}

    /// The answer is not complete.
    fn lacks_something(&mut self) {}

    /// These neighbors are asked now; if `despite_summary`, because nobody else has anything.
    fn asks(&mut self, places: &[usize], despite_summary: bool);

    /// A neighbor is not asked.
    fn unasked(&mut self, _neighbors: &Neighbors, _place: Place, _why: WhyUnasked) {}

    /// A neighbor, `asked` this, answered or did not. Whatever it says is not to be trusted.
    fn absorb(
        &mut self,
        place: usize,
        neighbor: &Neighbor,
        asked: &QueryRequest,
        reply: Result<Self::Reply, NoAnswer>,
    );

    /// Whether somebody has something.
    fn has_found(&self) -> bool;
}

/// Takes the query `request` of `from`, who waits from `now` until `deadline`, and passes it on.
/// Returns how many neighbors were asked.
///
/// # Cancel safety
/// Safe: dropping the future cancels the calls to the neighbors.
pub(crate) async fn walk<V: Visitor>(
    shared: &Shared,
    visitor: &mut V,
    from: &Caller,
    (now, deadline): (Instant, Instant),
    mut request: QueryRequest,
) -> Result<usize, Refusal> {
    let left = deadline.saturating_duration_since(now);
    if !V::SEES_ENDS && matches!(request.ttl_hops, 1..=TTL_MAX) && ends_here(shared, from, &request.covered) {
        request.ttl_hops = 0;
    }
    let counters = &shared.counters;
    let plan = shared.state.on_query(&request, from, left, now).inspect_err(|_| counters.drop(Drop::Ttl))?;
    let ttl_hops = match plan {
        QueryPlan::Answer(local) => {
            visitor.found(local);
            ends(shared, visitor, &request.covered, WhyUnasked::NoHopsLeft);
            return Ok(0);
        }
        QueryPlan::Duplicate => {
            counters.drop(Drop::Duplicate);
            visitor.again();
            return Ok(0);
        }
        QueryPlan::Alone(local) => {
            counters.drop(Drop::SeenFull);
            visitor.found(local);
            visitor.lacks_something();
            ends(shared, visitor, &request.covered, WhyUnasked::NoRoom);
            return Ok(0);
        }
        QueryPlan::Forward { local, ttl_hops, again } => {
            visitor.found(local);
            if again {
                visitor.again();
            }
            ttl_hops
        }
    };
    let neighbors = shared.neighbors.links.current();
    let tell = |place, why| visitor.unasked(&neighbors, place, why);
    let route = route_and_tell(shared.tag, &neighbors.tags, &neighbors.away, &request.covered, tell);
    if route.gap {
        visitor.lacks_something();
    }
    if route.ask.is_empty() {
        return Ok(0);
    }
    let budget = budget_of(left);
    let Some(_places) = forwarding(shared, from, now + budget).await else {
        counters.drop(Drop::Busy);
        return Err(Refusal::Busy);
    };
    // At its last hop only where it began matters: in a mesh the others are most of the message.
    let covered_max = if ttl_hops == 0 { 1 } else { usize::MAX };
    let covered = Covered::first_of(route.covered.into_iter().take(covered_max));
    let forwarded = QueryRequest { ttl_hops, covered, ..request };
    Ok(pass_on(shared, visitor, &neighbors, route.ask, forwarded, now + budget).await)
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

/// Places for one query of `from` that is forwarded. A peer waits `until` then for what it forwards itself; a neighbor does
/// not, as indexers that forward to each other would wait in a circle.
pub(crate) async fn forwarding<'a>(
    shared: &'a Shared,
    from: &'a Caller,
    until: Instant,
) -> Option<(Forwarding<'a>, SemaphorePermit<'a>)> {
    let place = match from.forwards.try_acquire() {
        Ok(place) => place,
        Err(_) if from.neighbor.is_some() => return None,
        Err(_) => Box::pin(timeout_at(until.into(), from.forwards.acquire())).await.ok()?.ok()?,
    };
    Some((from.forward(place)?, shared.forwards.try_acquire().ok()?))
}

/// Asks neighbors until `deadline` at most. Returns how many.
async fn pass_on<V: Visitor>(
    shared: &Shared,
    visitor: &mut V,
    neighbors: &Neighbors,
    ask: Vec<usize>,
    forwarded: QueryRequest,
    deadline: Instant,
) -> usize {
    let now = Instant::now();
    let (first, later) = match shared.routing {
        Routing::Flood => (ask, Vec::new()),
        Routing::Summary => split(shared, visitor, neighbors, ask, &forwarded),
    };
    let mut answers = FuturesUnordered::new();
    let ask = |place: &usize, began: Instant| {
        self::ask::<V>(shared, *place, &neighbors.reachable[*place], forwarded.clone(), began, deadline)
    };
    let take = |visitor: &mut V, place: usize, reply, is_hurried| {
        if is_hurried {
            visitor.lacks_something();
        }
        visitor.absorb(place, &neighbors.reachable[place], &forwarded, reply);
    };
    answers.extend(first.iter().map(|place| ask(place, now)));
    visitor.asks(&first, false);
    let mut asked = first.len();
    if !later.is_empty() {
        // Half of the time is left for the others, in case none of these answers.
        let patience = tokio::time::Instant::from_std(now + deadline.saturating_duration_since(now) / 2);
        while let Ok(Some((place, reply, is_hurried))) = timeout_at(patience, answers.next()).await {
            take(visitor, place, reply, is_hurried);
        }
        if visitor.has_found() {
            later.iter().for_each(|place| {
                visitor.unasked(neighbors, Place::Reachable(*place), WhyUnasked::RuledOut);
            });
        } else {
            asked += later.len();
            let began = Instant::now();
            answers.extend(later.iter().map(|place| ask(place, began))); // a summary must not lose an answer
            visitor.asks(&later, true);
        }
    }
    while let Some((place, reply, is_hurried)) = answers.next().await {
        take(visitor, place, reply, is_hurried);
    }
    asked
}

/// The part of the time `left` that the neighbors have.
pub(crate) fn budget_of(left: Duration) -> Duration {
    left.saturating_sub((left / 8).clamp(MARGIN_MIN, MARGIN_MAX))
}

/// Nobody is asked, because of `why`.
fn ends<V: Visitor>(shared: &Shared, visitor: &mut V, covered: &Covered, why: WhyUnasked) {
    if V::SEES_ENDS {
        let neighbors = shared.neighbors.links.current();
        let mut tell = |place, why| visitor.unasked(&neighbors, place, why);
        let route = route_and_tell(shared.tag, &neighbors.tags, &neighbors.away, covered, &mut tell);
        route.ask.into_iter().for_each(|place| tell(Place::Reachable(place), why));
    }
}

/// Of the neighbors to `ask`, those that are asked at once, and those that are if nobody has anything.
fn split<V: Visitor>(
    shared: &Shared,
    visitor: &mut V,
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
        ask.retain(|place| {
            let is_ruled_out = neighbors.reachable[*place].rules_out(&wanted);
            if is_ruled_out {
                visitor.unasked(neighbors, Place::Reachable(*place), WhyUnasked::RuledOut);
            }
            !is_ruled_out
        });
        return (ask, Vec::new());
    }
    ask.into_iter().partition(|place| !neighbors.reachable[*place].rules_out(&wanted))
}

/// Asks one neighbor. Also returns whether it did not answer because the asker has no more time, or this node is busy: not
/// even a guest is to blame for that, and the answer is not complete.
async fn ask<V: Visitor>(
    shared: &Shared,
    place: usize,
    neighbor: &Neighbor,
    request: QueryRequest,
    now: Instant,
    deadline: Instant,
) -> (usize, Result<V::Reply, NoAnswer>, bool) {
    let Some(asking) = neighbor.load.ask(now) else {
        return (place, Err(NoAnswer::Busy), false); // many wait for it already, and it says nothing
    };
    let until = neighbor.waited_for(now, deadline, &shared.neighbors.stalls);
    let answer = V::call(&neighbor.connected.client, call_until(until), request).await;
    let (answer, is_hurried) = answered(shared, neighbor, asking, (now, until, deadline), answer).await;
    (place, answer, is_hurried)
}

/// Makes one call to a neighbor, begun at `now`; returns what [`Visitor::absorb`] gets.
pub(crate) async fn call<T, F: Future<Output = Result<Result<T, Refusal>, RpcError>>>(
    shared: &Shared,
    neighbor: &Neighbor,
    (now, deadline): (Instant, Instant),
    call: impl FnOnce(IndexerServiceClient, Context) -> F,
) -> Result<T, NoAnswer> {
    let Some(asking) = neighbor.load.ask(now) else { return Err(NoAnswer::Busy) };
    let until = neighbor.waited_for(now, deadline, &shared.neighbors.stalls);
    let answer = call(neighbor.connected.client.clone(), call_until(until)).await;
    answered(shared, neighbor, asking, (now, until, deadline), answer).await.0
}

/// Notes how a neighbor answered a call that was made at `now` and waited for `until` at most.
async fn answered<T>(
    shared: &Shared,
    neighbor: &Neighbor,
    asking: Asking<'_>,
    (now, until, deadline): (Instant, Instant, Instant),
    answer: Result<Result<T, Refusal>, RpcError>,
) -> (Result<T, NoAnswer>, bool) {
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
