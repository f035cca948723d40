//! What all tasks of one indexer share.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use dashmap::DashMap;
use nekoproto::{
    MsgId, NodeId, NodeTag, PeerServiceClient,
    budget::{Budget, Reservation},
    clock,
    limits::{SEEN_FOR, TTL_MAX},
    tasks::spawn_until,
    transport::{Endpoint, work_permits::WorkPermits},
};
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    checks::SignatureChecks,
    config::{Config, Routing},
    counters::Counters,
    neighbors::Neighborhood,
    scans::Scans,
    state::{
        State,
        caller::{Caller, CallerRole},
        index::SessionId,
        summary::CURRENT_FOR,
    },
};

/// Forwarded queries in flight at once in one indexer; further ones are refused as `Busy`.
pub(crate) const FORWARDS_MAX: usize = 64 * 1024;
/// Parts of route probes that are passed on at the moment; further ones are refused as `Busy`. See `probe`.
const PROBE_PARTS_MAX: usize = 16 * 1024;

/// One of this many parts of the budget is for what is kept on nobody's account: versions of files without a holder,
/// signatures that were checked, and what the allocator needs beside all that comes and goes.
const COMMON_PARTS: usize = 8;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) node: NodeId,
    pub(crate) tag: NodeTag,
    pub(crate) lease: Duration,
    /// Whether all nodes of the network prove a secret, or are on a list: then all are trusted.
    pub(crate) is_closed: bool,
    pub(crate) routing: Routing,
    pub(crate) carries_probes: bool,
    pub(crate) state: State,
    /// The bytes that are kept for other nodes.
    pub(crate) budget: Arc<Budget>,
    /// Those of [`COMMON_PARTS`].
    _common: Option<Reservation>,
    /// This node, as one that asks.
    pub(crate) own: Arc<Caller>,
    pub(crate) neighbors: Neighborhood,
    pub(crate) checks: SignatureChecks,
    /// Registrations that are carried out between two looks at what has arrived.
    pub(crate) registering: WorkPermits,
    /// Connected peers, to tell them of newer versions.
    pub(crate) peers: DashMap<SessionId, PeerServiceClient>,
    /// The one running node of each key that listens.
    pub(crate) running: DashMap<NodeId, Running>,
    pub(crate) endpoint: Arc<Endpoint>,
    /// A permit for each query that is forwarded at the moment.
    pub(crate) forwards: Semaphore,
    /// Permits for parts of route probes that are passed on at the moment.
    pub(crate) probes: Semaphore,
    pub(crate) counters: Counters,
    pub(crate) scans: Scans,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

/// The running node of one key, over its last connection.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) session: SessionId,
    pub(crate) client: PeerServiceClient,
    /// The random number of its process.
    pub(crate) instance: u64,
    pub(crate) at: SocketAddr,
    pub(crate) since: Instant,
    /// Cancelled when another process takes over its key.
    pub(crate) ended: CancellationToken,
}

impl Shared {
    /// `was_here`: the node may have run until just now.
    pub(crate) fn new(config: &Config, was_here: bool, endpoint: &Arc<Endpoint>) -> Self {
        let (node, budget) = (endpoint.node(), endpoint.budget());
        let relied_on_until = was_here.then(|| clock::now() + CURRENT_FOR);
        let state = State::new(Instant::now());
        let account = budget.account(IpAddr::V4(Ipv4Addr::LOCALHOST), node);
        account.trust(); // nobody would open it again
        let common = account.take(budget.max() / COMMON_PARTS).ok();
        let own = state.seen.caller(node, CallerRole::Peer, account);
        let configured: Vec<_> = config.neighbors.iter().map(|at| at.addr).collect();
        Self {
            node,
            tag: node.tag(),
            lease: config.lease,
            is_closed: config.access.is_closed(),
            routing: config.routing,
            carries_probes: config.carries_probes,
            state,
            budget: Arc::clone(budget),
            _common: common,
            own,
            neighbors: Neighborhood::new(node.tag(), &configured, relied_on_until, budget),
            checks: SignatureChecks::default(),
            registering: WorkPermits::default(),
            peers: DashMap::new(),
            running: DashMap::new(),
            endpoint: Arc::clone(endpoint),
            forwards: Semaphore::new(FORWARDS_MAX),
            probes: Semaphore::new(PROBE_PARTS_MAX),
            counters: Counters::default(),
            scans: Scans::default(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// Runs `work` in a task of its own until it is done or the indexer stops.
    pub(crate) fn spawn_until_stop<F: Future<Output = ()> + Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(Arc<Self>) -> F,
    ) {
        spawn_until(&self.tasks, &self.stop, work(Arc::clone(self)));
    }

    /// Remembers a message that begins here because of `from`, so that a copy that returns is ignored.
    pub(crate) fn note_own_message(&self, from: &Caller, id: MsgId) {
        self.state.seen.sight(from, id.into(), TTL_MAX, SEEN_FOR, Instant::now());
    }
}
