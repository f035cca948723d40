//! Carries out a search by pattern: looks through all names on a blocking thread while the neighbors do the same, and
//! merges their pages.

use std::{
    mem::take,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::join_all;
use nekoproto::{
    Covered, FindReply, FindRequest, List, ListedRecord, NodeTag, Position, Refusal, SignedRecord,
    limits::HOLDERS_OF_NEIGHBOR_MAX, transport::call_until,
};
use tarpc::client::RpcError;
use tokio::task::spawn_blocking;
use tracing::debug;

use crate::{
    counters::Drop,
    neighbors::neighbor::Neighbor,
    shared::Shared,
    state::{
        Share,
        caller::Caller,
        find::{Matcher, Page, Reached, checked, merged},
        holders::{Sender, heard},
        merge::Found,
        route::route,
    },
    walk::{budget_of, forwarding},
};

/// Matches of each further scan of one search, where so many listed records turned out not to be signed by their origins
/// that its page is not full.
const REFILL: usize = 1024;

/// Time for a guest: it looks through its names for a second at most.
const GUESTS_WITHIN: Duration = Duration::from_millis(1_200);

/// Indexers behind one guest that count as having answered, as it may claim any.
const BEHIND_GUEST_MAX: usize = 16;

/// A page, and whether nothing before its last hit is missing.
#[derive(Default)]
struct Part {
    page: Page,
    complete: bool,
    messages: u32,
    reached: Reached,
}

/// Answers `request` of `from`, who waits until `deadline`.
///
/// # Cancel safety
/// Safe: dropping the future cancels the calls to the neighbors. A scan that has begun ends by itself, and counts
/// among the running ones until then.
pub(crate) async fn answer(
    shared: &Arc<Shared>,
    from: &Caller,
    deadline: Instant,
    request: FindRequest,
) -> Result<FindReply, Refusal> {
    let now = Instant::now();
    let left = deadline.saturating_duration_since(now);
    let counters = &shared.counters;
    counters.finds.inc();
    let share = match from.neighbor {
        None if request.ttl_hops == 0 => Share { answers: true, is_remembered: true, ttl_hops: None },
        // No copy of the other goes anywhere.
        _ => shared.state.on_find(&request, from, left, now).inspect_err(|_| counters.drop(Drop::Ttl))?,
    };
    let budget = budget_of(left);
    let request = Arc::new(request);
    let listed = async {
        if share.answers { listed(shared, from, &request, now + budget).await } else { Ok(Part::nothing()) }
    };
    let asked = asked(shared, from, &request, (share.ttl_hops, now, budget));
    let (mut part, (replies, theirs)) = tokio::try_join!(listed, asked)?;
    part.complete &= theirs.complete && share.is_remembered;
    (part.messages, part.reached) = (theirs.messages, theirs.reached);
    if replies.is_empty() {
        return Ok(part.reply());
    }
    let shared = Arc::clone(shared);
    let merge = move || {
        part.absorb(replies, &shared, &request, deadline);
        part.reply()
    };
    spawn_blocking(merge).await.map_err(|_| Refusal::Busy) // the node is stopping
}

/// The first matches that are listed here.
async fn listed(
    shared: &Arc<Shared>,
    from: &Caller,
    request: &Arc<FindRequest>,
    until: Instant,
) -> Result<Part, Refusal> {
    let turn = shared.scans.turn(from, until).await.inspect_err(|_| shared.counters.drop(Drop::Busy))?;
    let Some(turn) = turn else { return Ok(Part::default()) };
    let (shared, request) = (Arc::clone(shared), Arc::clone(request));
    let scan = move || {
        let matcher = Matcher::new(&request.search).map_err(|_| Refusal::BadPattern)?;
        Ok(scan(&shared, &request, &matcher, || turn.is_over()))
    };
    spawn_blocking(scan).await.map_err(|_| Refusal::Busy)? // the node is stopping
}

/// Scans the index until `is_over`. A record that its origin did not sign, though it registered it, is shown to nobody.
/// Blocking.
fn scan(shared: &Shared, request: &FindRequest, matcher: &Matcher, is_over: impl Fn() -> bool) -> Part {
    let FindRequest { search, after, .. } = request;
    let (limit, now) = (request.limit(), Instant::now());
    let (mut after, mut good, mut enough) = (after.clone(), Vec::new(), limit);
    loop {
        let page = shared.state.index.find(search, matcher, after.as_ref(), enough, now, &is_over);
        after = page.found.last().map(|found| Position::of(&found.record));
        let mut found = page.found.into_iter();
        let is_signed = |found: &Found| verified(shared, found.record.to_signed()).is_some();
        good.extend(found.by_ref().filter(is_signed).take(limit - good.len()));
        let (is_full, is_over) = (good.len() == limit, is_over());
        if is_full || is_over || !page.more {
            let more = is_full && (page.more || found.len() > 0); // even if none of the others is signed
            return Part { page: Page { found: good, more }, complete: !is_over, ..Part::default() };
        }
        enough = REFILL;
    }
}

fn verified(shared: &Shared, record: SignedRecord) -> Option<ListedRecord> {
    shared.verifier.verify(record).map(ListedRecord::from).ok()
}

/// What one neighbor said.
struct Reply {
    neighbor: String,
    /// Nothing that it says makes the answer incomplete.
    is_guest: bool,
    sender: Sender,
    reply: FindReply,
}

/// What the neighbors say with `ttl_hops` left, and whether all of them said something.
async fn asked(
    shared: &Shared,
    from: &Caller,
    request: &FindRequest,
    (ttl_hops, now, budget): (Option<u8>, Instant, Duration),
) -> Result<(Vec<Reply>, Part), Refusal> {
    let mut part = Part::nothing();
    let Some(ttl_hops) = ttl_hops else { return Ok((Vec::new(), part)) };
    let neighbors = shared.neighbors.links.current();
    let route = route(shared.tag, &neighbors.tags, &neighbors.away, &request.covered);
    for away in
        neighbors.unasked.iter().filter(|away| !away.node.is_some_and(|tag| request.covered.contains(&tag)))
    {
        away.node.or(away.addr.map(NodeTag::of_addr)).into_iter().for_each(|tag| part.reached.silent(tag));
    }
    part.complete = !route.gap;
    if route.ask.is_empty() {
        return Ok((Vec::new(), part));
    }
    let Some(_places) = forwarding(shared, from, false, now + budget).await else {
        shared.counters.drop(Drop::Busy);
        return Err(Refusal::Busy);
    };
    // At its last hop only where it began matters: in a mesh the others are most of the message.
    let covered_max = if ttl_hops == 0 { 1 } else { usize::MAX };
    let covered = Covered::first_of(route.covered.into_iter().take(covered_max));
    let onward = FindRequest { ttl_hops, covered, ..request.clone() };
    let asked: Vec<&Neighbor> = route.ask.iter().map(|index| &neighbors.reachable[*index]).collect();
    let asking = asked.iter().map(|neighbor| ask(shared, neighbor, onward.clone(), now, now + budget));
    let answers = join_all(asking).await;
    part.messages = u32::try_from(answers.len()).unwrap_or(u32::MAX);
    for (neighbor, (_, is_complete)) in asked.iter().zip(&answers) {
        if !is_complete {
            part.complete = false;
            part.reached.silent(neighbor.node.tag());
        }
    }
    Ok((answers.into_iter().filter_map(|(reply, _)| reply).collect(), part))
}

/// What a neighbor says, and whether the answer is complete with that.
async fn ask(
    shared: &Shared,
    neighbor: &Neighbor,
    request: FindRequest,
    now: Instant,
    deadline: Instant,
) -> (Option<Reply>, bool) {
    let is_guest = neighbor.standing.is_guest();
    let Some(asking) = neighbor.load.ask(now) else { return (None, is_guest) }; // it says nothing to many
    let until = if is_guest { deadline.min(now + GUESTS_WITHIN) } else { deadline };
    let answer = neighbor.connected.client.find(call_until(until), request).await;
    let mut is_ours = false;
    // A search takes longer than a query, so that only who leaves one unanswered is judged by it.
    if matches!(answer, Err(RpcError::DeadlineExceeded)) {
        let judged = neighbor.judged_by(&answer, (now, until, until == deadline)).await;
        if judged.is_judged {
            shared.neighbors.links.judged();
        }
        is_ours = judged.is_ours;
    } else {
        asking.answered(Instant::now);
    }
    let node = neighbor.node.short();
    match answer {
        Ok(Ok(reply)) => {
            return (Some(Reply { neighbor: node, is_guest, sender: neighbor.sender(), reply }), true);
        }
        Ok(Err(refusal)) => debug!(neighbor = %node, %refusal, "neighbor refused a search"),
        Err(error) => debug!(neighbor = %node, %error, "neighbor did not answer a search"),
    }
    (None, is_guest && !is_ours)
}

impl Part {
    fn nothing() -> Self {
        Self { complete: true, ..Self::default() }
    }

    /// Takes in what neighbors said, none of it on trust. A page that is wrong anywhere does not count. Blocking: it
    /// checks signatures. What is not checked by `deadline` does not count either.
    fn absorb(&mut self, replies: Vec<Reply>, shared: &Shared, request: &FindRequest, deadline: Instant) {
        let Ok(matcher) = Matcher::new(&request.search) else { return self.complete = false };
        let mut pages = vec![take(&mut self.page)];
        for Reply { neighbor, is_guest, sender, mut reply } in replies {
            self.messages = self.messages.saturating_add(reply.messages);
            self.complete &= reply.complete || is_guest;
            let is_late = Instant::now() >= deadline;
            let behind = match (request.ttl_hops, is_guest) {
                (..=1, _) => None, // it had no hops left
                (_, false) => Some((take(&mut reply.answered), take(&mut reply.silent))),
                (_, true) => {
                    let claimed = take(&mut reply.answered).into_iter().take(BEHIND_GUEST_MAX);
                    Some((Covered::first_of(claimed), Covered::new()))
                }
            };
            let believed = |holders| heard(holders, HOLDERS_OF_NEIGHBOR_MAX, &[], sender);
            let verify = |record| verified(shared, record);
            let page = (!is_late).then(|| checked(reply, request, &matcher, verify, believed));
            if let Some(Ok(page)) = page {
                pages.push(page);
                self.reached.answered(sender.at.node.tag(), behind);
                continue;
            }
            debug!(%neighbor, is_late, "a page is left out");
            self.complete &= is_guest && !is_late;
            if !is_guest {
                self.reached.silent(sender.at.node.tag());
            }
        }
        self.page = merged(pages, request.limit());
    }

    fn reply(self) -> FindReply {
        self.reached.told(FindReply {
            hits: List::first_of(self.page.found.into_iter().map(Found::into_hit)),
            more: self.page.more,
            complete: self.complete,
            messages: self.messages,
            ..FindReply::default()
        })
    }
}

#[cfg(test)]
mod tests;
