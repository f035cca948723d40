//! The indexers: `nekoindexer`'s state, called as its `service` and `invalidate` call it.

use nekoindexer::{
    config::LEASE_DEFAULT,
    state::{
        Announcement, State,
        caller::{Caller, CallerRole},
        route::route,
    },
};
use nekoproto::{
    Covered, InvalidateRequest, ListedRecord, NodeTag,
    limits::{SEEN_FOR, TTL_DEFAULT},
};

use super::{
    peers::{holder, own_link},
    *,
};

/// The deadline of one hop.
const ACKNOWLEDGE_WITHIN: Duration = Duration::from_secs(2);

pub(super) struct Indexer {
    pub(super) state: State,
    tag: NodeTag,
    neighbors: Vec<usize>,
    /// Those that a query here gets to.
    pub(super) near: Vec<usize>,
    /// Its summary, as if all others were told at once: whether the file is listed.
    lists: bool,
    /// Whoever sends it something: nothing bounds that.
    caller: Caller,
}

impl Indexer {
    pub(super) fn new(graph: &Graph, n: usize, base: Instant) -> Self {
        let node = NODES[NODES.len() - 1 - n].id();
        let reach = graph.reach(n, TTL_DEFAULT).into_iter().zip(0..);
        Self {
            state: State::new(base),
            tag: node.tag(),
            neighbors: graph.neighbors(n).to_vec(),
            near: reach.filter_map(|(is_reached, n)| is_reached.then_some(n)).collect(),
            lists: false,
            caller: Caller::new((node, CallerRole::Peer), None),
        }
    }
}

impl World {
    pub(super) fn connect(&self, n: usize) -> Arc<Session> {
        let (index, Holder { node, addr, .. }) = (&self.indexers[self.peers[n].home].state.index, holder(n));
        index.open_session(NodeAddrs::new(node, [addr]), LEASE_DEFAULT, self.now())
    }

    /// A peer registers `record`; returns a newer version.
    pub(super) fn register(
        &mut self,
        n: usize,
        record: &VerifiedRecord,
        announce: bool,
    ) -> Option<VerifiedRecord> {
        let (now, at, session) = (self.now(), self.peers[n].home, self.peers[n].session.clone()?);
        let request = self.invalidation(record.to_signed(), TTL_MAX);
        let Indexer { state, caller, .. } = &self.indexers[at];
        state.index.renew(&session, LEASE_DEFAULT, now);
        let plan = state.on_register(&session, vec![record.clone().into()], announce);
        if !plan.announcement.is_empty() {
            state.seen.sight(caller, request.msg_id.into(), TTL_MAX, SEEN_FOR, now);
        }
        self.advertise(at);
        self.pass_on(at, &plan.announcement, &request);
        let newer = plan.newer.into_iter().next()?;
        self.verifier.verify(newer.to_signed()).ok()
    }

    /// A peer renews its lease; whether all that it registered is still listed. Also ends what has expired.
    pub(super) fn renew(&mut self, n: usize) -> bool {
        let (now, at) = (self.now(), self.peers[n].home);
        let (Some(session), index) = (&self.peers[n].session, &self.indexers[at].state.index) else {
            return false;
        };
        for ended in index.ended(now) {
            index.end(&ended, now);
        }
        index.renew(session, LEASE_DEFAULT, now);
        let is_kept = session.count() > 0;
        self.advertise(at);
        is_kept
    }

    fn advertise(&mut self, at: usize) {
        let (name, now) = (&self.history[0].1.name, self.now());
        let lists = !self.indexers[at].state.index.lookup(name, now).is_empty();
        self.indexers[at].lists = lists;
    }

    /// The newest listed version that somebody holds.
    pub(super) fn newest_at(&self, at: usize) -> Option<ListedRecord> {
        let found = self.indexers[at].state.index.lookup(&self.history[0].1.name, self.now());
        let held = found.into_iter().filter(|found| !found.holders.is_empty());
        held.map(|found| found.record).max_by_key(|record| record.version)
    }

    pub(super) fn invalidation(&mut self, record: SignedRecord, ttl_hops: u8) -> InvalidateRequest {
        let (msg_id, records) = (MsgId::from_u128(self.number().into()), Records::first_of([record]));
        InvalidateRequest { msg_id, records, ttl_hops, covered: Covered::new(), from_guest: false }
    }

    pub(super) fn invalidate(&mut self, link: Link, at: usize, request: InvalidateRequest) {
        self.note(Message::Invalidation, &request);
        self.send_news(link, move |world| world.invalidated(at, &request));
    }

    pub(super) fn invalidated(&mut self, at: usize, request: &InvalidateRequest) {
        let record = request.records.iter().next().cloned();
        let Some(Ok(record)) = record.map(|record| self.verifier.verify(record)) else { return };
        let (now, Indexer { state, caller, .. }) = (self.now(), &self.indexers[at]);
        let plan = state.on_invalidate(request, caller, vec![record.into()], ACKNOWLEDGE_WITHIN, now);
        if let Ok(plan) = plan {
            self.pass_on(at, &plan, request);
        }
    }

    /// An indexer that was told so tells its peers and neighbors.
    fn pass_on(&mut self, at: usize, news: &Announcement, request: &InvalidateRequest) {
        for n in 0..self.peers.len() {
            let session = self.peers[n].session.as_ref().filter(|_| self.peers[n].home == at);
            let records = session.and_then(|session| news.holders.get(&session.id()));
            if let Some(record) = records.and_then(|records| records.first()) {
                self.tell_peer(n, own_link(n), Message::Invalidation, record.to_signed());
            }
        }
        let Some(ttl_hops) = request.ttl_hops.checked_sub(1).filter(|_| !news.neighbors.is_empty()) else {
            return;
        };
        let (covered, Indexer { tag, neighbors, .. }) = (&request.covered, &self.indexers[at]);
        let tags: Vec<NodeTag> = neighbors.iter().map(|n| self.indexers[*n].tag).collect();
        let all = route(*tag, &tags, &[], covered);
        let told = all.covered.to_vec();
        let is_told = |n: &usize| *n == at || told.contains(&self.indexers[*n].tag);
        // As `TheirSummary::rules_out` has it.
        let may_list = |place: usize| {
            let Indexer { lists, neighbors: further, .. } = &self.indexers[neighbors[place]];
            *lists || ttl_hops > 0 && !further.iter().all(is_told)
        };
        let route = all.narrowed(*tag, &tags, covered, may_list);
        let told: Vec<usize> = route.ask.iter().map(|place| neighbors[*place]).collect();
        let request = InvalidateRequest { ttl_hops, covered: route.covered, ..request.clone() };
        told.into_iter().for_each(|n| self.invalidate(Link::Indexers, n, request.clone()));
    }
}
