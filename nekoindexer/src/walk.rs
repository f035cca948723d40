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
use tokio::{
    sync::SemaphorePermit,
    time::{sleep_until, timeout_at},
};
use tracing::debug;

use crate::{
    config::Routing,
    counters::Drop,
    merging::{Merging, checked},
    neighbors::neighbor::{Neighbor, Neighbors, Wanted},
    shared::Shared,
    state::{
        caller::{Caller, Forwarding},
        merge::Found,
        route::route,
    },
};

/// How much longer than for trusted neighbors a query that found nothing, or a search, waits for guests. In that time an
/// answer goes half round the earth and back.
pub(crate) const GUEST_WAIT: Duration = Duration::from_millis(250);

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
    if route.ask.is_empty() && (neighbors.guests.is_empty() || merging.has_found()) {
        if !neighbors.guests.is_empty() {
            merging.merge.guests_are_unheard();
        }
        return Ok(0);
    }
    let budget = budget_of(left);
    let Some(_places) = forwarding(shared, from, request.trace, now + budget).await else {
        counters.drop(Drop::Busy);
        if !merging.has_found() {
            return Err(Refusal::Busy);
        }
        merging.merge.lacks_something();
        return Ok(0);
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
        && neighbors.guests.iter().all(|guest| is_covered(&guest.node.tag()))
        && neighbors.away.iter().all(|tag| tag.as_ref().is_some_and(is_covered))
}

/// Places for one query of `from` that is forwarded, with more room if it `has_trace`. A peer waits `until` then for what it
/// forwards itself, unless that takes many places, behind which others would wait. A neighbor does not, as indexers that
/// forward to each other would wait in a circle.
pub(crate) async fn forwarding<'a>(
    shared: &'a Shared,
    from: &'a Caller,
    has_trace: bool,
    until: Instant,
) -> Option<(Forwarding<'a>, SemaphorePermit<'a>)> {
    let places = Caller::places_of(has_trace);
    let place = match from.forwards.try_acquire_many(places) {
        Ok(place) => place,
        Err(_) if from.neighbor.is_some() || has_trace => return None,
        Err(_) => Box::pin(timeout_at(until.into(), from.forwards.acquire_many(places))).await.ok()?.ok()?,
    };
    Some((from.forward(place, has_trace)?, shared.forwards.try_acquire().ok()?))
}

/// Asks neighbors until `deadline` at most: those that are trusted, and if they find nothing all that were ruled out, and
/// guests. Returns how many.
async fn pass_on(
    shared: &Shared,
    merging: &mut Merging<'_>,
    neighbors: &Neighbors,
    ask: Vec<usize>,
    forwarded: QueryRequest,
    deadline: Instant,
) -> usize {
    let now = Instant::now();
    let all = Asking { shared, forwarded: &forwarded, deadline };
    let (first, later, guests) = all.split(neighbors, ask);
    let mut trusted: FuturesUnordered<_> =
        first.iter().map(|place| all.trusted(&neighbors.trusted[*place], now, false)).collect();
    let mut asked = first.len();
    if !later.is_empty() || !guests.is_empty() {
        // Half of the time is left for the others, in case none of these answers.
        let patience = tokio::time::Instant::from_std(now + deadline.saturating_duration_since(now) / 2);
        while let Ok(Some(answer)) = timeout_at(patience, trusted.next()).await {
            answer.absorb(merging, &forwarded);
        }
    }
    let mut heard = FuturesUnordered::new();
    if merging.has_found() {
        if !guests.is_empty() {
            merging.merge.guests_are_unheard();
        }
    } else {
        asked += later.len() + guests.len();
        let began = Instant::now();
        // A summary must not lose an answer.
        trusted.extend(later.iter().map(|place| all.trusted(&neighbors.trusted[*place], began, true)));
        heard.extend(guests.iter().map(|guest| all.guest(guest, began)));
    }
    let mut until = None; // guests are waited for
    loop {
        if trusted.is_empty() {
            if heard.is_empty() || merging.has_found() {
                break;
            }
            until.get_or_insert_with(|| deadline.min(Instant::now() + GUEST_WAIT));
        }
        tokio::select! {
            Some(answer) = trusted.next() => answer.absorb(merging, &forwarded),
            Some((mut answer, found)) = heard.next() => {
                answer.note(merging, &forwarded);
                merging.add(found);
            }
            () = sleep_until(until.unwrap_or(deadline).into()), if until.is_some() => break,
        }
    }
    if !heard.is_empty() {
        merging.merge.guests_are_unheard();
    }
    asked
}

/// A query that neighbors are asked, and until when.
struct Asking<'a> {
    shared: &'a Shared,
    forwarded: &'a QueryRequest,
    deadline: Instant,
}

/// What a neighbor says, or why it says nothing.
struct Answer<'a> {
    neighbor: &'a Neighbor,
    /// When it was asked, and whether that was although its summary rules the name out.
    asked: (Instant, bool),
    reply: Result<QueryReply, NoAnswer>,
}

impl Answer<'_> {
    /// Takes in what a trusted neighbor says.
    fn absorb(mut self, merging: &mut Merging<'_>, forwarded: &QueryRequest) {
        self.note(merging, forwarded);
        merging.absorb(self.neighbor, forwarded, self.reply);
    }

    /// Takes in the way of the query.
    fn note(&mut self, merging: &mut Merging<'_>, forwarded: &QueryRequest) {
        if let Some(trace) = &mut merging.trace {
            let way = self.reply.as_mut().map(|reply| reply.trace.take()).map_err(|why| *why);
            trace.heard(self.neighbor, self.asked, forwarded.ttl_hops, way);
        }
    }
}

impl<'a> Asking<'a> {
    /// Of the places of trusted neighbors to `ask`, those that are asked at once and those that are if nobody has anything;
    /// and the guests that are asked then.
    fn split<'n>(
        &self,
        neighbors: &'n Neighbors,
        mut ask: Vec<usize>,
    ) -> (Vec<usize>, Vec<usize>, Vec<&'n Neighbor>) {
        let Self { shared, forwarded, .. } = self;
        let covered = LazyCell::new(|| {
            let mut covered = forwarded.covered.to_vec();
            covered.sort_unstable();
            covered
        });
        let covers = |tag: &NodeTag| *tag == shared.tag || covered.binary_search(tag).is_ok();
        let wanted = Wanted {
            key: NameKey::of(&forwarded.name),
            ttl_hops: forwarded.ttl_hops,
            covers: &covers,
            clock_ms: shared.neighbors.clock_ms(clock::now()),
        };
        let is_flood = shared.routing == Routing::Flood;
        let is_ruled_out = |neighbor: &Neighbor| !is_flood && neighbor.rules_out(&wanted);
        let guests = neighbors.guests.iter();
        let guests = guests
            .filter(|guest| guest.is_current_at(wanted.clock_ms) && !covers(&guest.node.tag()))
            .filter(|guest| !is_ruled_out(guest))
            .collect();
        if forwarded.ttl_hops == 0 {
            // Asked for itself alone, a neighbor whose summary is current is known to list nothing: see the rule.
            ask.retain(|place| !is_ruled_out(&neighbors.trusted[*place]));
            return (ask, Vec::new(), guests);
        }
        let (later, first) = ask.into_iter().partition(|place| is_ruled_out(&neighbors.trusted[*place]));
        (first, later, guests)
    }

    async fn trusted<'n>(&self, neighbor: &'n Neighbor, began: Instant, despite_summary: bool) -> Answer<'n> {
        Answer { neighbor, asked: (began, despite_summary), reply: self.ask(neighbor).await }
    }

    /// Asks a guest, of which only hits that hold count.
    async fn guest<'n>(&self, guest: &'n Neighbor, began: Instant) -> (Answer<'n>, Vec<Found>) {
        let mut answer = Answer { neighbor: guest, asked: (began, false), reply: self.ask(guest).await };
        let hits = answer.reply.as_mut().map(|reply| std::mem::take(&mut reply.hits)).map_err(|why| *why);
        (answer, checked(self.shared, guest, self.forwarded, hits).await)
    }

    async fn ask(&self, neighbor: &Neighbor) -> Result<QueryReply, NoAnswer> {
        let request = self.forwarded.clone();
        call(neighbor, self.deadline, |client, context| client.query(context, request)).await
    }
}

/// The part of the time `left` that the neighbors have.
pub(crate) fn budget_of(left: Duration) -> Duration {
    left.saturating_sub((left / 8).clamp(MARGIN_MIN, MARGIN_MAX))
}

/// Makes one call to a neighbor, which answers until `deadline` at most.
pub(crate) async fn call<'a, T, F: Future<Output = Result<Result<T, Refusal>, RpcError>>>(
    neighbor: &'a Neighbor,
    deadline: Instant,
    call: impl FnOnce(&'a IndexerServiceClient, Context) -> F,
) -> Result<T, NoAnswer> {
    // Many wait for it already, and it says nothing.
    let asking = neighbor.load.ask(Instant::now()).ok_or(NoAnswer::Busy)?;
    let answer = call(&neighbor.connected.client, call_until(deadline)).await;
    match answer {
        Err(RpcError::DeadlineExceeded) => return Err(NoAnswer::Late),
        _ => asking.answered(Instant::now),
    }
    match answer {
        Ok(answer) => answer.map_err(NoAnswer::Refused),
        Err(error) => {
            debug!(neighbor = %neighbor.node.short(), %error, "a call to a neighbor failed");
            Err(NoAnswer::Failed)
        }
    }
}
