//! The indexers of the simulated network: `nekoindexer`'s state, called as its `service` and `invalidate` call it.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use nekoindexer::config::LEASE_DEFAULT;
use nekoindexer::state::{
    Announcement, State,
    caller::{Caller, CallerRole},
    index::{Session, SessionId},
    route::route,
};
use nekoproto::limits::{SEEN_FOR, TTL_MAX};
use nekoproto::{
    Covered, FileName, Holder, Identity, InvalidateRequest, ListedRecord, MsgId, NodeAddrs, NodeTag, Records,
};

use crate::plan::topology::Graph;

/// The deadline of one hop.
const ACKNOWLEDGE_WITHIN: Duration = Duration::from_secs(2);
/// Peers and indexers in one simulation at most.
const NODES_MAX: u16 = 256;
const PORT_FIRST: u16 = 1000;

/// The keys of the nodes, made once.
static NODES: LazyLock<Vec<Identity>> = LazyLock::new(|| {
    let node = |n: u16| {
        let mut seed = [3; 32];
        seed[..2].copy_from_slice(&n.to_le_bytes());
        Identity::from_seed(&seed)
    };
    (0..NODES_MAX).map(node).collect()
});

pub(crate) fn identity(n: usize) -> &'static Identity {
    &NODES[n]
}

/// Where peer `n` with the key of node `key` is reached.
pub(crate) fn holder(key: usize, n: usize) -> Holder {
    let port = PORT_FIRST + u16::try_from(n).unwrap_or(0);
    Holder::new(identity(key).id(), SocketAddr::from(([127, 0, 0, 1], port)))
}

pub(crate) fn peer_at(holder: &Holder) -> usize {
    usize::from(holder.addr.port() - PORT_FIRST)
}

/// What all indexers together know of where the file is listed: summaries, as if each were told at once.
struct Summaries {
    name: FileName,
    tags: Vec<NodeTag>,
    neighbors: Vec<Vec<usize>>,
    /// Which of them list the file.
    lists: Vec<AtomicBool>,
}

impl Summaries {
    /// Whether the indexer `n` may list the file, or tell somebody else with `ttl_hops` left, as `TheirSummary::rules_out` has
    /// it.
    fn may_list(&self, n: usize, ttl_hops: u8, is_told: impl Fn(&NodeTag) -> bool) -> bool {
        let has_further = || self.neighbors[n].iter().any(|n| !is_told(&self.tags[*n]));
        self.lists[n].load(Relaxed) || ttl_hops > 0 && has_further()
    }
}

pub(crate) struct Indexer {
    n: usize,
    summaries: Arc<Summaries>,
    state: State,
    tag: NodeTag,
    neighbors: Vec<usize>,
    tags: Vec<NodeTag>,
    /// Whoever sends it something: nothing bounds that.
    caller: Caller,
    peers: HashMap<SessionId, usize>,
}

/// Whom an indexer tells.
#[derive(Default)]
pub(crate) struct Told {
    /// Peers that hold older versions.
    pub(crate) peers: Vec<(usize, ListedRecord)>,
    /// Neighbors, and what they are sent.
    pub(crate) neighbors: Vec<(usize, InvalidateRequest)>,
}

impl Indexer {
    /// Those of `graph`, the n-th with the key of node `NODES_MAX` - 1 - n.
    pub(crate) fn all(graph: &Graph, count: usize, name: &FileName, base: Instant) -> Vec<Self> {
        let node = |n: usize| identity(usize::from(NODES_MAX) - 1 - n).id();
        let tag = |n: usize| node(n).tag();
        let summaries = Arc::new(Summaries {
            name: name.clone(),
            tags: (0..count).map(tag).collect(),
            neighbors: (0..count).map(|n| graph.neighbors(n).to_vec()).collect(),
            lists: (0..count).map(|_| AtomicBool::new(false)).collect(),
        });
        let indexer = |n: usize| Self {
            n,
            summaries: Arc::clone(&summaries),
            state: State::new(base),
            tag: tag(n),
            neighbors: graph.neighbors(n).to_vec(),
            tags: graph.neighbors(n).iter().map(|n| tag(*n)).collect(),
            caller: Caller::new((node(n), CallerRole::Peer), None),
            peers: HashMap::new(),
        };
        (0..count).map(indexer).collect()
    }

    /// A connection of `peer`, which has the key of node `key`.
    pub(crate) fn connect(&mut self, key: usize, peer: usize, now: Instant) -> Arc<Session> {
        let Holder { node, addr, .. } = holder(key, peer);
        let session = self.state.index.open_session(NodeAddrs::new(node, [addr]), LEASE_DEFAULT, now);
        self.peers.insert(session.id(), peer);
        session
    }

    pub(crate) fn disconnect(&mut self, session: &Session, now: Instant) {
        self.peers.remove(&session.id());
        self.state.index.disconnected(session, now);
    }

    /// A registration: whom to tell, and a newer version.
    pub(crate) fn register(
        &mut self,
        session: &Arc<Session>,
        record: ListedRecord,
        announce: bool,
        id: MsgId,
        now: Instant,
    ) -> (Told, Option<ListedRecord>) {
        self.state.index.renew(session, LEASE_DEFAULT, now);
        let plan = self.state.on_register(session, vec![record], announce);
        if !plan.announcement.is_empty() {
            self.state.seen.sight(&self.caller, id.into(), TTL_MAX, SEEN_FOR, now);
        }
        self.advertise(now);
        let told = self.told(plan.announcement, id, Some(TTL_MAX - 1), &Covered::new());
        (told, plan.newer.into_iter().next())
    }

    /// Renews the lease of `session`; whether all that it registered is still listed. Also ends what has expired.
    pub(crate) fn renew(&mut self, session: &Session, now: Instant) -> bool {
        for ended in self.state.index.ended(now) {
            self.state.index.end(&ended, now);
        }
        self.state.index.renew(session, LEASE_DEFAULT, now);
        self.advertise(now);
        session.count() > 0
    }

    fn advertise(&self, now: Instant) {
        let is_listed = !self.state.index.lookup(&self.summaries.name, now).is_empty();
        self.summaries.lists[self.n].store(is_listed, Relaxed);
    }

    /// An invalidation whose record was verified arrives.
    pub(crate) fn invalidate(&self, request: &InvalidateRequest, record: ListedRecord, now: Instant) -> Told {
        let plan = self.state.on_invalidate(request, &self.caller, vec![record], ACKNOWLEDGE_WITHIN, now);
        let ttl_hops = request.ttl_hops.checked_sub(1);
        plan.map_or_else(
            |_| Told::default(),
            |plan| self.told(plan, request.msg_id, ttl_hops, &request.covered),
        )
    }

    fn told(&self, news: Announcement, msg_id: MsgId, ttl_hops: Option<u8>, covered: &Covered) -> Told {
        let holders = news
            .holders
            .into_iter()
            .filter_map(|(session, records)| Some((*self.peers.get(&session)?, records.into_iter().next()?)));
        let mut peers: Vec<_> = holders.collect();
        peers.sort_unstable_by_key(|(peer, _)| *peer); // the map has no order
        let mut neighbors = Vec::new();
        if let Some((ttl_hops, record)) = ttl_hops.zip(news.neighbors.first()) {
            let all = route(self.tag, &self.tags, &[], covered);
            let told = all.covered.to_vec();
            let is_told = |tag: &NodeTag| *tag == self.tag || told.contains(tag);
            let may_list = |place: usize| self.summaries.may_list(self.neighbors[place], ttl_hops, is_told);
            let route = all.narrowed(self.tag, &self.tags, covered, may_list);
            let (records, covered) = (Records::first_of([record.to_signed()]), route.covered);
            let request = InvalidateRequest { msg_id, records, ttl_hops, covered, from_guest: false };
            neighbors = route.ask.iter().map(|n| (self.neighbors[*n], request.clone())).collect();
        }
        Told { peers, neighbors }
    }

    /// The newest listed version of `name` that somebody holds.
    pub(crate) fn newest(&self, name: &FileName, now: Instant) -> Option<ListedRecord> {
        let found = self.state.index.lookup(name, now).into_iter().filter(|found| !found.holders.is_empty());
        found.map(|found| found.record).max_by_key(|record| record.version)
    }
}
