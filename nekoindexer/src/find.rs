//! Carries out a search by pattern: looks through all names on a blocking thread while the neighbors do the same, and
//! merges their pages.

use std::{
    mem::take,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, future::join_all, stream::FuturesUnordered};
use nekoproto::{
    Covered, FindReply, FindRequest, ListedRecord, NodeTag, Position, Refusal, SignedRecord, clock,
    limits::HOLDERS_OF_NEIGHBOR_MAX,
};
use tokio::{task::spawn_blocking, time::timeout_at};
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
    walk::{GUEST_WAIT, budget_of, call, forwarding},
};

/// Matches of each further scan of one search, where so many listed records turned out not to be signed by their origins
/// that its page is not full.
const REFILL: usize = 1024;

/// A page, and whether nothing before its last hit is missing.
#[derive(Default)]
struct Part {
    page: Page,
    complete: bool,
    guests_unheard: bool,
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
    let (mut part, (mut replies, theirs)) = tokio::try_join!(listed, asked)?;
    part.complete &= theirs.complete && share.is_remembered;
    (part.messages, part.reached, part.guests_unheard) =
        (theirs.messages, theirs.reached, theirs.guests_unheard);
    if replies.is_empty() {
        return Ok(part.reply());
    }
    let shared = Arc::clone(shared);
    replies.sort_by_key(|reply| reply.is_guest); // their signatures are checked last
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
        Ok(scan(&shared, &request, &matcher, || turn.spent()))
    };
    spawn_blocking(scan).await.map_err(|_| Refusal::Busy)? // the node is stopping
}

/// Scans the index as long as not all time is `spent`. A record that its origin did not sign, though it registered it, is
/// shown to nobody, and not listed any more. Blocking.
fn scan(shared: &Shared, request: &FindRequest, matcher: &Matcher, spent: impl Fn() -> u32) -> Part {
    let FindRequest { search, after: began, .. } = request;
    let (limit, now, index) = (request.limit(), Instant::now(), &shared.state.index);
    let (mut after, mut good, mut enough) = (began.clone(), Vec::new(), limit);
    let is_signed = |found: &Found| {
        let is_signed = verified(shared, found.record.to_signed()).is_some();
        if !is_signed {
            index.unlist_forged(&found.record);
            shared.counters.drop(Drop::Forged);
        }
        is_signed
    };
    loop {
        let scanned = index.find(search, matcher, after.as_ref(), enough, now, &spent);
        let (complete, page) = (scanned.is_ok(), scanned.unwrap_or_else(|page| page));
        if !complete && after != *began {
            return Part { page: Page { found: good, next: after }, ..Part::nothing() };
        }
        let is_full = page.found.len() == enough;
        let mut found = page.found.into_iter();
        good.extend(found.by_ref().filter(is_signed).take(limit - good.len()));
        after = page.next;
        if good.len() == limit && (after.is_some() || found.len() > 0) {
            after = good.last().map(|found| Position::of(&found.record)); // even if none of the others is signed
        } else if is_full && complete && after.is_some() {
            enough = REFILL;
            continue;
        }
        return Part { page: Page { found: good, next: after }, complete, ..Part::default() };
    }
}

fn verified(shared: &Shared, record: SignedRecord) -> Option<ListedRecord> {
    shared.checks.verifier().verify(record).map(ListedRecord::from).ok()
}

struct Reply {
    neighbor: String,
    /// Only its hits count.
    is_guest: bool,
    sender: Sender,
    /// Until when it is looked at.
    counts_until: Instant,
    reply: FindReply,
}

/// What the neighbors say with `ttl_hops` left, and whether all that are trusted said something.
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
    let clock_ms = shared.neighbors.clock_ms(clock::now());
    let is_asked =
        |guest: &&Neighbor| guest.is_current_at(clock_ms) && !request.covered.contains(&guest.node.tag());
    let guests: Vec<&Neighbor> = neighbors.guests.iter().filter(is_asked).collect();
    if route.ask.is_empty() && guests.is_empty() {
        return Ok((Vec::new(), part));
    }
    let Some(_places) = forwarding(shared, from, false, now + budget).await else {
        shared.counters.drop(Drop::Busy);
        part.complete = false;
        return Ok((Vec::new(), part));
    };
    // At its last hop only where it began matters: in a mesh the others are most of the message.
    let covered_max = if ttl_hops == 0 { 1 } else { usize::MAX };
    let covered = Covered::first_of(route.covered.into_iter().take(covered_max));
    let onward = FindRequest { ttl_hops, covered, ..request.clone() };
    let ask = |neighbor| ask(neighbor, onward.clone(), now + budget);
    let mut unheard: FuturesUnordered<_> = guests.iter().copied().map(ask).collect();
    let mut heard = Vec::new();
    let asked: Vec<&Neighbor> = route.ask.iter().map(|index| &neighbors.trusted[*index]).collect();
    let mut all = join_all(asked.iter().copied().map(ask));
    let answers = loop {
        tokio::select! {
            answers = &mut all => break answers,
            Some(answer) = unheard.next() => heard.extend(answer),
        }
    };
    let until = Instant::now() + GUEST_WAIT;
    while let Ok(Some(answer)) = timeout_at(until.into(), unheard.next()).await {
        heard.extend(answer);
    }
    heard.iter_mut().for_each(|reply| reply.counts_until = until);
    part.guests_unheard = !unheard.is_empty();
    part.messages = u32::try_from(answers.len() + guests.len()).unwrap_or(u32::MAX);
    for (neighbor, answer) in asked.iter().zip(answers) {
        match answer {
            Some(reply) => heard.push(reply),
            None => {
                part.complete = false;
                part.reached.silent(neighbor.node.tag());
            }
        }
    }
    Ok((heard, part))
}

async fn ask(neighbor: &Neighbor, request: FindRequest, deadline: Instant) -> Option<Reply> {
    match call(neighbor, deadline, |client, context| client.find(context, request)).await {
        Ok(reply) => {
            let (is_guest, sender) = (neighbor.trust.is_guest(), neighbor.sender());
            let neighbor = neighbor.node.short();
            Some(Reply { neighbor, is_guest, sender, counts_until: deadline, reply })
        }
        Err(why) => {
            debug!(neighbor = %neighbor.node.short(), %why, "neighbor did not answer a search");
            None
        }
    }
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
        for Reply { neighbor, is_guest, sender, counts_until, mut reply } in replies {
            if !is_guest {
                self.messages = self.messages.saturating_add(reply.messages);
                self.complete &= reply.complete;
                self.guests_unheard |= reply.guests_unheard;
            }
            let is_late = Instant::now() >= counts_until.min(deadline);
            // None where it had no hops left; what a guest says of others does not count.
            let behind = (request.ttl_hops > 1 && !is_guest)
                .then(|| (take(&mut reply.answered), take(&mut reply.silent)));
            let believed = |holders| heard(holders, HOLDERS_OF_NEIGHBOR_MAX, &[], sender);
            let verify = |record| verified(shared, record);
            let page = (!is_late).then(|| checked(reply, request, &matcher, verify, believed));
            if let Some(Ok(mut page)) = page {
                if is_guest && page.found.len() < request.limit() {
                    page.next = None; // it shortens no page of others
                }
                pages.push(page);
                self.reached.answered(sender.at.node.tag(), behind);
                continue;
            }
            debug!(%neighbor, is_late, "a page is left out");
            if !is_guest {
                self.complete = false;
                self.reached.silent(sender.at.node.tag());
            }
        }
        self.page = merged(pages, request.limit());
    }

    fn reply(self) -> FindReply {
        let hits = self.page.found.into_iter().map(Found::into_hit).collect();
        self.reached.told(FindReply {
            complete: self.complete,
            guests_unheard: self.guests_unheard,
            messages: self.messages,
            ..FindReply::of(hits, self.page.next)
        })
    }
}

#[cfg(test)]
mod tests;
