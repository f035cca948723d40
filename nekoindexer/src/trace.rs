//! [`Trace`]: the way of a query that asks for it, with the time of each hop and the reasons of whoever is not asked.

use std::time::{Duration, Instant};

use nekoproto::{
    Covered, List, NoAnswer, NodeId, NodeTag, TraceAnswer, TraceFound, TraceHop, TraceReply, Unasked,
    WhyUnasked,
    limits::{TRACE_HOPS_MAX, TRACE_UNASKED_MAX},
};

use crate::{
    neighbors::neighbor::Neighbor,
    shared::Shared,
    state::{Share, caller::Caller, merge::Found},
};

/// The way of a query from here on.
pub(crate) struct Trace {
    began: Instant,
    answer: TraceAnswer,
    /// Neighbors of which nothing was heard.
    unasked: Vec<Unasked>,
    /// When neighbors were asked first, and when the last of them answered.
    waited: Option<(Instant, Instant)>,
    /// Those behind us, each before those that it asked.
    hops: Vec<TraceHop>,
    whole: bool,
}

impl Trace {
    fn begun(began: Instant) -> Self {
        let (answer, unasked, waited, hops) = <_>::default();
        Self { began, answer, unasked, waited, hops, whole: true }
    }

    /// Of a query that came at `now` from `from`, who is not told that it was not asked.
    pub(crate) fn new(shared: &Shared, from: &Caller, covered: &Covered, now: Instant) -> Self {
        let links = &shared.neighbors.links;
        let neighbors = links.current();
        let unasked = |node: Option<NodeId>, addr, why| Unasked {
            node: node.map(|node| node.tag()),
            addr: Some(addr),
            why,
        };
        let near = neighbors.trusted.iter();
        let near = near.map(|one| unasked(Some(one.node), one.connected.addr, WhyUnasked::RuledOut));
        let is_covered = |tag: NodeTag| tag == shared.tag || covered.contains(&tag);
        let named = near.chain(neighbors.unasked.iter().copied()).map(|one| {
            let why = if one.node.is_some_and(is_covered) { WhyUnasked::Covered } else { one.why };
            Unasked { why, ..one }
        });
        let guests = neighbors.guests.iter();
        let guests = guests.map(|one| unasked(Some(one.node), one.connected.addr, WhyUnasked::Guest));
        let others = named.chain(guests).filter(|one| one.node.is_none() || one.node != from.neighbor);
        Self { unasked: others.collect(), ..Self::begun(now) }
    }

    /// Takes in what this indexer does about the query, and what it lists.
    pub(crate) fn plan(&mut self, share: Share, local: &[Found]) {
        let why = match share.ttl_hops {
            _ if !share.is_remembered => WhyUnasked::NoRoom,
            Some(_) => WhyUnasked::RuledOut,
            None => WhyUnasked::NoHopsLeft,
        };
        self.unasked.iter_mut().filter(|one| one.why == WhyUnasked::RuledOut).for_each(|one| one.why = why);
        if !share.answers && share.ttl_hops.is_none() {
            self.unasked.clear(); // the reply to the first copy has them
        }
        self.answer.again = !share.answers;
        self.answer.found = List::first_of(local.iter().map(|found| TraceFound {
            origin: found.record.origin.tag(),
            version: found.record.version,
            holders: u32::try_from(found.holders.len()).unwrap_or(u32::MAX),
        }));
    }

    /// Takes in what `neighbor`, asked at `asked_at` with `ttl_hops`, says, none of it on trust, or why it says nothing.
    pub(crate) fn heard(
        &mut self,
        neighbor: &Neighbor,
        (asked_at, despite_summary): (Instant, bool),
        ttl_hops: u8,
        reply: Result<Option<Box<TraceReply>>, NoAnswer>,
    ) {
        let now = Instant::now();
        self.unasked.retain(|one| one.node != Some(neighbor.node.tag()));
        self.waited = Some((self.waited.map_or(asked_at, |(first, _)| first.min(asked_at)), now));
        let asked = TraceHop {
            node: Some(neighbor.node),
            addr: Some(neighbor.connected.addr),
            waited_us: micros(now - asked_at),
            despite_summary,
            ..TraceHop::of(Err(NoAnswer::Nonsense))
        };
        self.take(reply, ttl_hops, asked);
    }

    fn take(&mut self, reply: Result<Option<Box<TraceReply>>, NoAnswer>, ttl_hops: u8, asked: TraceHop) {
        let reply = TraceReply::checked(reply, ttl_hops, asked);
        self.whole &= reply.whole;
        self.hops.extend(reply.hops.into_iter().map(|hop| TraceHop { depth: hop.depth + 1, ..hop }));
        self.hops.truncate(TRACE_HOPS_MAX); // one more than have room beside this indexer
    }

    pub(crate) fn finish(mut self, now: Instant) -> TraceReply {
        // What says most comes first, in case there is no room for all.
        self.unasked.sort_by_key(|unasked| unasked.why);
        let more = self.unasked.len().saturating_sub(TRACE_UNASKED_MAX);
        let waited = self.waited.map(|(asked, heard)| heard - asked);
        let took = now - self.began;
        let answer = TraceAnswer {
            took_us: micros(took),
            own_us: micros(took.saturating_sub(waited.unwrap_or_default())),
            unasked: List::first_of(self.unasked),
            unasked_more: u32::try_from(more).unwrap_or(u32::MAX),
            ..self.answer
        };
        let whole = self.whole && self.hops.len() < TRACE_HOPS_MAX;
        let hops = List::first_of(std::iter::once(TraceHop::of(Ok(answer))).chain(self.hops));
        TraceReply { hops, whole }
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
        let mut trace = Trace::begun(Instant::now());
        let asked = TraceHop { waited_us: 500, ..TraceHop::of(Err(NoAnswer::Nonsense)) };
        let replies = replies.into_iter().map(|reply| reply.map(|reply| Some(Box::new(reply))));
        replies.for_each(|reply| trace.take(reply, ttl_hops - 1, asked.clone()));
        trace.finish(Instant::now())
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
        let mut trace = Trace::begun(Instant::now());
        let unasked = |why| Unasked { node: None, addr: None, why };
        trace.unasked.extend([unasked(WhyUnasked::Covered); TRACE_UNASKED_MAX]);
        trace.unasked.extend([WhyUnasked::RuledOut, WhyUnasked::Away].map(unasked));
        let reply = trace.finish(Instant::now());
        let answer = reply.hops[0].answer.as_ref().unwrap();
        assert_eq!((answer.unasked.len(), answer.unasked_more), (TRACE_UNASKED_MAX, 2));
        assert_eq!([0, 1].map(|n| answer.unasked[n].why), [WhyUnasked::Away, WhyUnasked::RuledOut]);
    }
}
