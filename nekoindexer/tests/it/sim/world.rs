//! What both simulations are made of: nodes with the real state, links, and messages that arrive
//! in any order at simulated times.

use nekoindexer::state::{
    State,
    caller::{Caller, CallerRole},
    index::Session,
    route::{Route, route},
};

use super::graph::{Graph, NODES_MAX};

use crate::common::*;

const LEASE: Duration = Duration::from_secs(3600);

const UNDER_WAY_MAX: usize = 50_000;

/// The ids of the nodes; making one costs as much as a signature.
pub(crate) static IDS: LazyLock<Vec<NodeId>> =
    LazyLock::new(|| (0..u16::try_from(NODES_MAX).unwrap()).map(|n| identity(n).id()).collect());

pub(crate) fn holder(n: usize) -> Holder {
    let port = u16::try_from(n + 1).unwrap();
    Holder::new(IDS[n], SocketAddr::from(([127, 0, 0, 1], port)))
}

pub(crate) struct Node {
    pub(crate) state: State,
    pub(crate) session: Arc<Session>,
    pub(crate) tag: NodeTag,
    /// Whoever sends it something: nothing bounds that.
    pub(crate) caller: Caller,
    near: Vec<usize>,
    near_tags: Vec<NodeTag>,
    away_tags: Vec<Option<NodeTag>>,
}

pub(crate) fn nodes(whole: &Graph, working: &Graph, start: Instant) -> Vec<Node> {
    let node = |n: usize| {
        let state = State::new(start);
        let at = NodeAddrs::new(IDS[n], [holder(n).addr]);
        let session = state.index.open_session(at, LEASE, start);
        let near: Vec<usize> = working.links[n].iter().copied().collect();
        let near_tags = near.iter().map(|m| IDS[*m].tag()).collect();
        let away_tags = whole.links[n].difference(&working.links[n]).map(|m| Some(IDS[*m].tag())).collect();
        Node {
            state,
            session,
            tag: IDS[n].tag(),
            caller: Caller::new((IDS[n], CallerRole::Peer), None),
            near,
            near_tags,
            away_tags,
        }
    };
    (0..whole.count()).map(node).collect()
}

impl Node {
    /// Where a message with this covered set goes: the route, and the nodes it names.
    pub(crate) fn route(&self, covered: &Covered) -> (Route, Vec<usize>) {
        let route = route(self.tag, &self.near_tags, &self.away_tags, covered);
        let ask = route.ask.iter().map(|index| self.near[*index]).collect();
        (route, ask)
    }
}

pub(crate) struct Post<M> {
    start: Instant,
    time: Duration,
    sent: u64,
    under_way: BTreeMap<(Duration, u64), M>,
    pub(crate) rng: StdRng,
}

impl<M> Post<M> {
    pub(crate) fn new(start: Instant, rng: StdRng) -> Self {
        Self { start, time: Duration::ZERO, sent: 0, under_way: BTreeMap::new(), rng }
    }

    pub(crate) fn now(&self) -> Instant {
        self.start + self.time
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.time
    }

    /// Sends a message that takes 0.1 ms to 1 s: some are overtaken by hundreds of others.
    pub(crate) fn send(&mut self, message: M) {
        assert!(self.under_way.len() < UNDER_WAY_MAX, "messages beget messages without end");
        let micros = self.rng.random_range(1..=10) * 10u64.pow(self.rng.random_range(2..=5));
        self.under_way.insert((self.time + Duration::from_micros(micros), self.sent), message);
        self.sent += 1;
    }

    pub(crate) fn receive(&mut self) -> Option<M> {
        let ((time, _), message) = self.under_way.pop_first()?;
        self.time = time;
        Some(message)
    }
}
