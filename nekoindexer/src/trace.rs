//! Answers a trace: the way that a query takes, with the time of each hop and the reasons of whoever is not asked.

use std::time::{Duration, Instant};

use nekoproto::{
    IndexerServiceClient, List, NoAnswer, NodeTag, QueryRequest, Refusal, TraceAnswer, TraceFound, TraceHop,
    TraceReply, Unasked, WhyUnasked,
    limits::{TRACE_HOPS_MAX, TRACE_UNASKED_MAX},
};
use tarpc::{client::RpcError, context::Context};

use crate::{
    neighbors::neighbor::{Neighbor, Neighbors},
    shared::Shared,
    state::{caller::Caller, merge::Found, route::Place},
    walk::{Visitor, walk},
};

/// Follows `request` of `from`, who waits until `deadline`.
///
/// # Cancel safety
/// Safe: dropping the future cancels the calls to the neighbors.
pub(crate) async fn answer(
    shared: &Shared,
    from: &Caller,
    deadline: Instant,
    request: QueryRequest,
) -> Result<TraceReply, Refusal> {
    let busy = |_| Refusal::Busy;
    let _permits = (from.traces.try_acquire().map_err(busy)?, shared.traces.try_acquire().map_err(busy)?);
    let now = Instant::now();
    let mut noting = Noting { from: from.neighbor, ..Noting::new(now) };
    walk(shared, &mut noting, from, (now, deadline), request).await?;
    for guest in shared.neighbors.links.reports().into_iter().filter(|one| one.standing.is_guest()) {
        let is_asked = guest.load.is_some_and(|load| load.record.is_asked());
        let node = guest.node.map(|node| node.tag()).filter(|node| !is_asked && Some(*node) != from.neighbor);
        noting.unasked.extend(node.map(|node| {
            let (node, addr) = (Some(node), Some(guest.addr));
            Unasked { node, addr, why: WhyUnasked::Guest }
        }));
    }
    Ok(noting.finish(Instant::now()))
}

/// Notes the way.
struct Noting {
    began: Instant,
    /// Who asks: it is not told that it was not asked.
    from: Option<NodeTag>,
    answer: TraceAnswer,
    unasked: Vec<Unasked>,
    /// When neighbors were asked, for the first time and again.
    asked_at: [Option<Instant>; 2],
    /// Places that were asked despite their summaries.
    despite_summary: Vec<usize>,
    heard_at: Option<Instant>,
    /// Those behind us, each before those that it asked.
    hops: Vec<TraceHop>,
    whole: bool,
}

impl Noting {
    fn new(began: Instant) -> Self {
        let (answer, unasked, asked_at, despite_summary, heard_at, hops) = <_>::default();
        let (from, whole) = (None, true);
        Self { began, from, answer, unasked, asked_at, despite_summary, heard_at, hops, whole }
    }

    fn finish(mut self, now: Instant) -> TraceReply {
        // What says most comes first, in case there is no room for all.
        self.unasked.sort_by_key(|unasked| unasked.why);
        let more = self.unasked.len().saturating_sub(TRACE_UNASKED_MAX);
        let waited = self.asked_at[0].zip(self.heard_at).map(|(asked, heard)| heard - asked);
        let took = now - self.began;
        let answer = TraceAnswer {
            took_us: micros(took),
            own_us: micros(took.saturating_sub(waited.unwrap_or_default())),
            unasked: List::first_of(self.unasked),
            unasked_more: u32::try_from(more).unwrap_or(u32::MAX),
            ..self.answer
        };
        self.whole &= self.hops.len() < TRACE_HOPS_MAX;
        let hops = List::first_of(std::iter::once(TraceHop::of(Ok(answer))).chain(self.hops));
        TraceReply { hops, whole: self.whole }
    }

    /// Takes the hops of a neighbor, who was given `ttl_hops`.
    fn take(&mut self, reply: Result<TraceReply, NoAnswer>, ttl_hops: u8, asked: TraceHop) {
        let reply = TraceReply::checked(reply, ttl_hops, asked);
        self.whole &= reply.whole;
        self.hops.extend(reply.hops.into_iter().map(|hop| TraceHop { depth: hop.depth + 1, ..hop }));
    }
}

impl Visitor for Noting {
    type Reply = TraceReply;
    const SEES_ENDS: bool = true;

    async fn call(
        client: &IndexerServiceClient,
        context: Context,
        request: QueryRequest,
    ) -> Result<Result<TraceReply, Refusal>, RpcError> {
        client.trace(context, request).await
    }

    fn found(&mut self, local: Vec<Found>) {
        self.answer.found = List::first_of(local.into_iter().map(|found| TraceFound {
            origin: found.record.origin.tag(),
            version: found.record.version,
            holders: u32::try_from(found.holders.len()).unwrap_or(u32::MAX),
        }));
    }

    fn again(&mut self) {
        self.answer.again = true;
    }

    fn asks(&mut self, places: &[usize], despite_summary: bool) {
        self.asked_at[usize::from(despite_summary)] = Some(Instant::now());
        if despite_summary {
            self.despite_summary.extend_from_slice(places);
        }
    }

    fn unasked(&mut self, neighbors: &Neighbors, place: Place, why: WhyUnasked) {
        let (node, addr, why) = match place {
            Place::Reachable(place) => {
                (Some(neighbors.tags[place]), neighbors.reachable[place].connected.addr, why)
            }
            Place::Away(place) => {
                let why = if why == WhyUnasked::Away { neighbors.away_why[place] } else { why };
                (neighbors.away[place], neighbors.away_at[place], why)
            }
        };
        if node.is_none() || node != self.from {
            self.unasked.push(Unasked { node, addr: Some(addr), why });
        }
    }

    fn absorb(
        &mut self,
        place: usize,
        neighbor: &Neighbor,
        forwarded: &QueryRequest,
        reply: Result<TraceReply, NoAnswer>,
    ) {
        let now = Instant::now();
        let despite_summary = self.despite_summary.contains(&place);
        let asked_at = self.asked_at[usize::from(despite_summary)].unwrap_or(now);
        self.heard_at = Some(now);
        let asked = TraceHop {
            node: Some(neighbor.node),
            addr: Some(neighbor.connected.addr),
            waited_us: micros(now - asked_at),
            despite_summary,
            ..TraceHop::of(Err(NoAnswer::Nonsense))
        };
        self.take(reply, forwarded.ttl_hops, asked);
    }

    fn has_found(&self) -> bool {
        !self.answer.found.is_empty() || self.hops.iter().any(TraceHop::has_found)
    }
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(depths: &[u8]) -> TraceReply {
        let answer = TraceAnswer { took_us: 900, own_us: 800, ..TraceAnswer::default() };
        let hop = |depth: &u8| TraceHop { depth: *depth, ..TraceHop::of(Ok(answer.clone())) };
        TraceReply { hops: List::first_of(depths.iter().map(hop)), whole: true }
    }

    fn noted(ttl_hops: u8, replies: impl IntoIterator<Item = Result<TraceReply, NoAnswer>>) -> TraceReply {
        let mut noting = Noting::new(Instant::now());
        let asked = TraceHop { waited_us: 500, ..TraceHop::of(Err(NoAnswer::Nonsense)) };
        replies.into_iter().for_each(|reply| noting.take(reply, ttl_hops - 1, asked.clone()));
        noting.finish(Instant::now())
    }

    #[test]
    fn answers_become_one_sound_tree() {
        let noted = noted(3, [Ok(reply(&[0, 1, 2, 1])), Err(NoAnswer::Late), Ok(reply(&[0]))]);
        let depths: Vec<u8> = noted.hops.iter().map(|hop| hop.depth).collect();
        assert_eq!(depths, [0, 1, 2, 3, 2, 1, 1]);
        assert!(noted.whole && noted.is_sound(3));
        assert_eq!(noted.hops[5].answer, Err(NoAnswer::Late));
        let first = noted.hops[1].answer.as_ref().unwrap();
        assert_eq!((first.took_us, first.own_us), (500, 500), "nobody took longer than was waited for it");
    }

    #[test]
    fn what_is_no_tree_or_too_deep_is_nonsense_of_that_neighbor_alone() {
        for wrong in [&[][..], &[1], &[0, 0], &[0, 2], &[0, 1, 2, 3]] {
            let noted = noted(3, [Ok(reply(wrong)), Ok(reply(&[0, 1]))]);
            let answers: Vec<bool> = noted.hops.iter().map(|hop| hop.answer.is_ok()).collect();
            assert_eq!(answers, [true, false, true, true], "{wrong:?}");
            assert_eq!(noted.hops[1].answer, Err(NoAnswer::Nonsense));
        }
    }

    #[test]
    fn more_hops_than_have_room_are_cut_and_the_answer_says_so() {
        let wide: Vec<u8> = std::iter::once(0).chain([1; 200]).collect();
        let noted = noted(3, [Ok(reply(&wide)), Ok(reply(&wide))]);
        assert_eq!((noted.hops.len(), noted.whole), (TRACE_HOPS_MAX, false));
        assert!(noted.is_sound(3));
    }

    #[test]
    fn neighbors_not_asked_are_listed_by_what_says_most_and_the_others_counted() {
        let mut noting = Noting::new(Instant::now());
        let unasked = |why| Unasked { node: None, addr: None, why };
        noting.unasked.extend([unasked(WhyUnasked::Covered); TRACE_UNASKED_MAX]);
        noting.unasked.extend([WhyUnasked::RuledOut, WhyUnasked::Away].map(unasked));
        let reply = noting.finish(Instant::now());
        let answer = reply.hops[0].answer.as_ref().unwrap();
        assert_eq!((answer.unasked.len(), answer.unasked_more), (TRACE_UNASKED_MAX, 2));
        assert_eq!([0, 1].map(|n| answer.unasked[n].why), [WhyUnasked::Away, WhyUnasked::RuledOut]);
    }
}
