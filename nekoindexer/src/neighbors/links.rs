//! The neighbors: who is connected and who is away. Queries read a snapshot and take no lock.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use nekoproto::{
    HelloRefusal, IndexerServiceClient, NodeId, NodeTag, Role,
    transport::{ConnectError, LinkState},
};
use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::warn;

use super::load::Load;

/// How long a neighbor that connected to us counts as away after its last connection ended.
pub const MISSED_FOR: Duration = Duration::from_secs(120);
/// Neighbors that may connect to us; further ones are served but not asked.
pub const INBOUND_MAX: usize = 256;

/// A connected neighbor.
#[derive(Clone, Debug)]
pub struct Neighbor {
    /// Who it is.
    pub node: NodeId,
    /// Calls it.
    pub client: IndexerServiceClient,
    /// How many of our queries it is busy with.
    pub load: Arc<Load>,
}

/// The neighbors at one moment.
#[derive(Clone, Debug, Default)]
pub struct Neighbors {
    /// Connected ones, each node once.
    pub reachable: Vec<Neighbor>,
    /// Their tags, in the same order.
    pub tags: Vec<NodeTag>,
    /// Those out of reach; `None` where it was never known who they are.
    pub away: Vec<Option<NodeTag>>,
}

/// Keeps track of configured links and of indexers that connected to us.
#[derive(Debug)]
pub struct Links {
    current: ArcSwap<Neighbors>,
    known: Mutex<KnownLinks>,
    reachable: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct KnownLinks {
    /// Links that the configuration asks for, by their place in it.
    configured: Vec<Configured>,
    /// Indexers that connected to us.
    inbound: HashMap<NodeId, Inbound>,
    /// The load of each connected neighbor; kept while its connections change.
    loads: HashMap<NodeId, Arc<Load>>,
}

#[derive(Clone, Debug, Default)]
struct Configured {
    client: Option<IndexerServiceClient>,
    /// Who answered there last.
    node: Option<NodeId>,
    /// It is this indexer itself.
    ourselves: bool,
}

#[derive(Debug)]
struct Inbound {
    /// One for each open connection, by the connection's number.
    clients: Vec<(u64, IndexerServiceClient)>,
    lost_at: Option<Instant>,
}

impl Links {
    /// `configured` links, none of them up yet.
    #[must_use]
    pub fn new(configured: usize) -> Self {
        let links = Self {
            current: ArcSwap::default(),
            known: Mutex::new(KnownLinks {
                configured: vec![Configured::default(); configured],
                ..KnownLinks::default()
            }),
            reachable: watch::Sender::new(0),
        };
        links.publish(&mut links.known.lock());
        links
    }

    /// The neighbors now.
    #[must_use]
    pub fn current(&self) -> Arc<Neighbors> {
        self.current.load_full()
    }

    /// How many neighbors are connected; changes wake the receiver.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<usize> {
        self.reachable.subscribe()
    }

    /// The configured link at `place` changed.
    pub fn configured_changed(&self, place: usize, state: &LinkState<IndexerServiceClient>) {
        let mut known = self.known.lock();
        let link = &mut known.configured[place];
        match state {
            LinkState::Up { remote, .. } if remote.role != Role::Indexer => {
                link.client = None; // away: there is no indexer at that address
                warn!(addr = %remote.addr, "a configured neighbor is no indexer but a peer");
            }
            LinkState::Up { client, remote } => {
                *link =
                    Configured { client: Some(client.clone()), node: Some(remote.node), ourselves: false };
            }
            LinkState::Down(why) => {
                link.client = None;
                let ourselves = matches!(**why, ConnectError::Refused(HelloRefusal::Yourself));
                if ourselves && !link.ourselves {
                    warn!("a configured neighbor is this indexer itself; it is left out");
                }
                link.ourselves = ourselves;
            }
            LinkState::Connecting => {}
        }
        self.publish(&mut known);
    }

    /// An indexer connected to us; `connection` tells its connections apart.
    pub fn arrived(&self, node: NodeId, connection: u64, client: IndexerServiceClient) {
        let mut known = self.known.lock();
        if known.inbound.len() >= INBOUND_MAX && !known.inbound.contains_key(&node) {
            warn!(node = %node.short(), "too many neighbors: this one is served but not asked");
            return;
        }
        let inbound =
            known.inbound.entry(node).or_insert_with(|| Inbound { clients: Vec::new(), lost_at: None });
        inbound.clients.push((connection, client));
        inbound.lost_at = None;
        self.publish(&mut known);
    }

    /// That connection ended.
    pub fn left(&self, node: NodeId, connection: u64, now: Instant) {
        let mut known = self.known.lock();
        if let Some(inbound) = known.inbound.get_mut(&node) {
            inbound.clients.retain(|(number, _)| *number != connection);
            if inbound.clients.is_empty() {
                inbound.lost_at = Some(now);
            }
        }
        self.publish(&mut known);
    }

    /// Forgets neighbors whose last connection ended [`MISSED_FOR`] ago.
    pub fn forget_missed(&self, now: Instant) {
        let mut known = self.known.lock();
        let before = known.inbound.len();
        known.inbound.retain(|_, inbound| {
            inbound.lost_at.is_none_or(|lost| now.saturating_duration_since(lost) < MISSED_FOR)
        });
        if known.inbound.len() != before {
            self.publish(&mut known);
        }
    }

    fn publish(&self, known: &mut KnownLinks) {
        let neighbors = known.neighbors();
        let reachable = neighbors.reachable.len();
        self.current.store(Arc::new(neighbors));
        self.reachable.send_if_modified(|count| std::mem::replace(count, reachable) != reachable);
    }
}

impl KnownLinks {
    fn neighbors(&mut self) -> Neighbors {
        let mut neighbors = Neighbors::default();
        let outbound = self.configured.iter().filter_map(|link| Some((link.node?, link.client.clone()?)));
        let inbound = self
            .inbound
            .iter()
            .filter_map(|(node, inbound)| inbound.clients.last().map(|(_, client)| (*node, client.clone())));
        for (node, client) in outbound.chain(inbound) {
            let tag = node.tag();
            if !neighbors.tags.contains(&tag) {
                neighbors.tags.push(tag);
                let load = self.loads.entry(node).or_insert_with(|| Arc::new(Load::new(Instant::now())));
                neighbors.reachable.push(Neighbor { node, client, load: Arc::clone(load) });
            }
        }
        self.loads.retain(|node, _| neighbors.tags.contains(&node.tag()));
        let configured = self.configured.iter().filter(|link| link.client.is_none() && !link.ourselves);
        let lost = self.inbound.iter().filter(|(_, inbound)| inbound.clients.is_empty());
        for tag in
            configured.map(|link| link.node.map(|node| node.tag())).chain(lost.map(|(n, _)| Some(n.tag())))
        {
            if tag.is_none_or(|tag| !neighbors.tags.contains(&tag)) {
                neighbors.away.push(tag);
            }
        }
        neighbors
    }
}
