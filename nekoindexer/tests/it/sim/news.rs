//! Updates of one file through a simulated network, as `invalidate` carries them out: in any
//! order, some twice, and with older ones that somebody sends again.

use nekoindexer::state::{Announcement, index::Noted};

use super::{
    graph::Graph,
    world::{Node, Post, nodes},
};

use crate::common::*;

const ACKNOWLEDGE_WITHIN: Duration = Duration::from_secs(2);

struct Message {
    to: usize,
    request: InvalidateRequest,
    record: ListedRecord,
}

pub(crate) struct News {
    nodes: Vec<Node>,
    post: Post<Message>,
    /// All versions there will be; the first is what everybody begins with.
    versions: Vec<ListedRecord>,
    holders: BTreeSet<usize>,
    /// The versions that the peer of each node was told of, in that order.
    pub(crate) told: Vec<Vec<u64>>,
    noted: Vec<u64>,
    pub(crate) delivered: u64,
    pub(crate) some_twice: bool,
}

impl News {
    /// The peers of `holders` hold the first of `versions`.
    pub(crate) fn new(
        graph: &Graph,
        versions: Vec<ListedRecord>,
        holders: BTreeSet<usize>,
        rng: StdRng,
    ) -> Self {
        let start = Instant::now();
        let nodes = nodes(graph, graph, start);
        for n in &holders {
            drop(nodes[*n].state.on_register(&nodes[*n].session, vec![versions[0].clone()], false));
        }
        let (told, noted) = (vec![Vec::new(); nodes.len()], vec![1; nodes.len()]);
        Self {
            nodes,
            post: Post::new(start, rng),
            versions,
            holders,
            told,
            noted,
            delivered: 0,
            some_twice: true,
        }
    }

    /// The origin, a peer of `origin`, publishes the version with this index there; the
    /// announcement may travel `ttl_hops`.
    pub(crate) fn publish(&mut self, origin: usize, version: usize, ttl_hops: u8) {
        let node = &self.nodes[origin];
        let record = self.versions[version].clone();
        let plan = node.state.on_register(&node.session, vec![record], true);
        let msg_id = MsgId::random();
        node.state.seen.sight(&node.caller, msg_id.into(), TTL_MAX, SEEN_FOR, self.post.now());
        self.holders.insert(origin);
        self.spread(origin, plan.announcement, msg_id, ttl_hops.checked_sub(1), &Covered::new());
    }

    /// Somebody sends an older or current version again, to anyone, with any covered set.
    pub(crate) fn replay(&mut self, version: usize) {
        let rng = &mut self.post.rng;
        let (to, ttl_hops) = (rng.random_range(0..self.nodes.len()), rng.random_range(0..=TTL_MAX));
        let (route, _) = self.nodes[rng.random_range(0..self.nodes.len())].route(&Covered::new());
        let record = self.versions[version].clone();
        self.send(to, MsgId::random(), record, ttl_hops, route.covered);
    }

    /// Delivers messages until nothing is under way, at most `limit`.
    pub(crate) fn deliver(&mut self, limit: usize) {
        for _ in 0..limit {
            let Some(Message { to, request, record }) = self.post.receive() else { return };
            self.delivered += 1;
            let now = self.post.now();
            let Node { state, caller, .. } = &self.nodes[to];
            let plan = state.on_invalidate(&request, caller, vec![record], ACKNOWLEDGE_WITHIN, now);
            let announcement = plan.expect("the invalidation is taken");
            let (ttl_hops, covered) = (request.ttl_hops.checked_sub(1), request.covered);
            self.spread(to, announcement, request.msg_id, ttl_hops, &covered);
        }
    }

    /// The newest version that node `n`, where the file is held, has taken note of.
    pub(crate) fn noted(&self, n: usize) -> u64 {
        // The first version is no news to anyone, so asking so changes nothing.
        match self.nodes[n].state.index.invalidate(&self.versions[0]) {
            Noted::Outdated(newer) => newer.version.get(),
            Noted::Known => 1,
            Noted::News { .. } | Noted::Full => panic!("the first version is news"),
        }
    }

    pub(crate) fn holders(&self) -> &BTreeSet<usize> {
        &self.holders
    }

    fn spread(
        &mut self,
        at: usize,
        news: Announcement,
        msg_id: MsgId,
        ttl_hops: Option<u8>,
        covered: &Covered,
    ) {
        let noted = self.noted(at);
        assert!(noted >= self.noted[at], "node {at} went back from {} to {noted}", self.noted[at]);
        self.noted[at] = noted;
        for (session, records) in news.holders {
            assert_eq!(session, self.nodes[at].session.id());
            records.into_iter().for_each(|record| self.tell(at, record));
        }
        let Some(ttl_hops) = ttl_hops else { return };
        let (route, ask) = self.nodes[at].route(covered);
        for record in news.neighbors {
            for to in &ask {
                self.send(*to, msg_id, record.clone(), ttl_hops, route.covered.clone());
            }
        }
    }

    /// The peer of node `at` hears of a version; every other peer fetches and registers it, some while they
    /// fetch.
    fn tell(&mut self, at: usize, record: ListedRecord) {
        self.told[at].push(record.version.get());
        if self.post.rng.random_bool(0.5) {
            let node = &self.nodes[at];
            if self.post.rng.random_bool(0.5) {
                let plan = node.state.on_register_partial(&node.session, vec![record.clone()]);
                assert!(plan.announcement.is_empty(), "what is being fetched is announced as news");
            }
            let plan = node.state.on_register(&node.session, vec![record], true);
            assert!(plan.announcement.is_empty(), "a fetched copy is announced as news");
        }
    }

    fn send(&mut self, to: usize, msg_id: MsgId, record: ListedRecord, ttl_hops: u8, covered: Covered) {
        let records = Records::first_of([record.to_signed()]);
        let request = InvalidateRequest { msg_id, records, ttl_hops, covered, from_guest: false };
        let copies = if self.some_twice && self.post.rng.random_bool(0.1) { 2 } else { 1 };
        for _ in 0..copies {
            self.post.send(Message { to, request: request.clone(), record: record.clone() });
        }
    }
}
