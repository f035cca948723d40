//! The neighbors: who is connected and who is away. Queries read a snapshot and take no lock.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use futures::future::AbortHandle;
use nekoproto::{
    HelloRefusal, IndexerServiceClient, NodeId, NodeTag, Role,
    summary::Filter,
    transport::{ConnectError, LinkState},
};
use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::warn;

use super::{
    channel::{Channel, Wanted},
    load::Load,
};

/// How long a neighbor that connected to us counts as away after its last connection ended.
pub(crate) const MISSED_FOR: Duration = Duration::from_secs(120);
/// Neighbors that may connect to us; further ones are served but neither asked nor told of names.
const INBOUND_MAX: usize = 256;
/// Connections that one of them keeps: the one that is used, and one before it that it may not know to be over.
const INBOUND_OF_ONE_MAX: usize = 2;

/// A connection to a neighbor.
#[derive(Clone, Debug)]
pub(crate) struct Connected {
    /// Where it listens, or else where it connected from.
    pub(crate) addr: SocketAddr,
    /// Calls it.
    pub(crate) client: IndexerServiceClient,
    /// What the two ends told each other of names over this connection.
    pub(crate) channel: Arc<Channel>,
}

/// A connected neighbor.
#[derive(Clone, Debug)]
pub(crate) struct Neighbor {
    /// Who it is.
    pub(crate) node: NodeId,
    pub(crate) connected: Connected,
    /// How many of our queries it is busy with.
    pub(crate) load: Arc<Load>,
    /// The names that it says it has.
    names: Option<Filter>,
}

impl Neighbor {
    /// Whether it need not be asked at first; see [`TheirSummary::rules_out`].
    ///
    /// [`TheirSummary::rules_out`]: crate::state::summary::TheirSummary::rules_out
    pub(crate) fn rules_out(&self, wanted: &Wanted<'_>) -> bool {
        let lacks = self.names.as_ref().is_some_and(|names| !names.may_contain(wanted.key));
        lacks && self.connected.channel.rules_out_others(wanted)
    }
}

/// The neighbors at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Neighbors {
    /// Connected ones, each node once.
    pub(crate) reachable: Vec<Neighbor>,
    /// Their tags, in the same order.
    pub(crate) tags: Vec<NodeTag>,
    /// Their tags in order.
    pub(crate) sorted: Arc<[NodeTag]>,
    /// Those out of reach; `None` where it was never known who they are.
    pub(crate) away: Vec<Option<NodeTag>>,
    /// Where they are, or were, in the same order.
    pub(crate) away_at: Vec<SocketAddr>,
    /// Grows with each change.
    pub(crate) version: u64,
}

/// Keeps track of configured links and of indexers that connected to us.
#[derive(Debug)]
pub(crate) struct Links {
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

#[derive(Clone, Debug)]
struct Configured {
    addr: SocketAddr,
    connected: Option<Connected>,
    /// Why it is not connected; `None` before the first attempt has ended.
    why: Option<String>,
    /// Who answered there last.
    node: Option<NodeId>,
    /// It is this indexer itself.
    ourselves: bool,
}

/// How a neighbor stands with us.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    /// Where it listens, or where it connected from last.
    pub(crate) addr: SocketAddr,
    /// Who it is, once it was connected.
    pub(crate) node: Option<NodeId>,
    pub(crate) connected: Option<Connected>,
    /// It is in the configuration; else it connected to us.
    pub(crate) is_configured: bool,
    /// Why it is not connected.
    pub(crate) why: Option<String>,
}

#[derive(Debug)]
struct Inbound {
    /// One for each open connection, and what ends it.
    clients: Vec<(Connected, AbortHandle)>,
    lost_at: Option<Instant>,
    /// Where the latest one came from.
    addr: SocketAddr,
}

impl Links {
    /// Links to the `configured` addresses, none of them up yet.
    #[must_use]
    pub(crate) fn new(configured: &[SocketAddr]) -> Self {
        let links = Self {
            current: ArcSwap::default(),
            known: Mutex::new(KnownLinks {
                configured: configured.iter().copied().map(Configured::new).collect(),
                ..KnownLinks::default()
            }),
            reachable: watch::Sender::new(0),
        };
        links.publish(&mut links.known.lock());
        links
    }

    /// The neighbors now.
    #[must_use]
    pub(crate) fn current(&self) -> Arc<Neighbors> {
        self.current.load_full()
    }

    /// How many neighbors are connected; changes wake the receiver.
    #[must_use]
    pub(crate) fn watch(&self) -> watch::Receiver<usize> {
        self.reachable.subscribe()
    }

    /// The configuration asks for a link to `addr`, or does not any more.
    pub(crate) fn configure(&self, addr: SocketAddr, is_wanted: bool) {
        let mut known = self.known.lock();
        known.configured.retain(|link| link.addr != addr);
        if is_wanted {
            known.configured.push(Configured::new(addr));
        }
        self.publish(&mut known);
    }

    /// The configured link to `addr` changed.
    pub(crate) fn configured_changed(&self, addr: SocketAddr, state: &LinkState<Connected>) {
        let mut known = self.known.lock();
        let Some(link) = known.configured.iter_mut().find(|link| link.addr == addr) else { return };
        match state {
            LinkState::Up { remote, .. } if remote.role != Role::Indexer => {
                link.connected = None; // away: there is no indexer at that address
                link.why = Some("it is no indexer but a peer".to_owned());
                warn!(addr = %remote.addr, "a configured neighbor is no indexer but a peer");
            }
            LinkState::Up { client, remote } => {
                let connected = Some(client.clone());
                let (addr, node) = (link.addr, Some(remote.node));
                *link = Configured { addr, connected, why: None, node, ourselves: false };
            }
            LinkState::Down(why) => {
                link.connected = None;
                let ourselves = matches!(**why, ConnectError::Refused(HelloRefusal::Yourself));
                if ourselves && !link.ourselves {
                    warn!("a configured neighbor is this indexer itself; it is left out");
                }
                link.ourselves = ourselves;
                link.why = Some(why.to_string());
            }
            LinkState::Connecting => {}
        }
        self.publish(&mut known);
    }

    /// An indexer connected to us. False if too many are: it is no neighbor.
    pub(crate) fn arrived(&self, node: NodeId, connected: Connected, end: AbortHandle) -> bool {
        let mut known = self.known.lock();
        if known.inbound.len() >= INBOUND_MAX && !known.inbound.contains_key(&node) {
            warn!(node = %node.short(), "too many neighbors: this one is served but not asked");
            return false;
        }
        let addr = connected.addr;
        let inbound = known.inbound.entry(node);
        let inbound = inbound.or_insert_with(|| Inbound { clients: Vec::new(), lost_at: None, addr });
        if inbound.clients.len() >= INBOUND_OF_ONE_MAX {
            inbound.clients.remove(0).1.abort();
        }
        inbound.clients.push((connected, end));
        (inbound.lost_at, inbound.addr) = (None, addr);
        self.publish(&mut known);
        true
    }

    /// That connection ended.
    pub(crate) fn left(&self, node: NodeId, channel: &Arc<Channel>, now: Instant) {
        let mut known = self.known.lock();
        if let Some(inbound) = known.inbound.get_mut(&node) {
            inbound.clients.retain(|(open, _)| !Arc::ptr_eq(&open.channel, channel));
            if inbound.clients.is_empty() {
                inbound.lost_at = Some(now);
            }
        }
        self.publish(&mut known);
    }

    /// Forgets neighbors whose last connection ended [`MISSED_FOR`] ago.
    pub(crate) fn forget_missed(&self, now: Instant) {
        let mut known = self.known.lock();
        let before = known.inbound.len();
        known.inbound.retain(|_, inbound| {
            inbound.lost_at.is_none_or(|lost| now.saturating_duration_since(lost) < MISSED_FOR)
        });
        if known.inbound.len() != before {
            self.publish(&mut known);
        }
    }

    /// All that were ever connected, and those that should be.
    pub(crate) fn standing(&self) -> Vec<Standing> {
        let known = self.known.lock();
        let configured = known.configured.iter().map(|link| Standing {
            addr: link.addr,
            node: link.node,
            connected: link.connected.clone(),
            is_configured: true,
            why: link.why.clone(),
        });
        let inbound = known.inbound.iter().map(|(node, inbound)| {
            let connected = inbound.clients.last().map(|(open, _)| open.clone());
            Standing { addr: inbound.addr, node: Some(*node), connected, is_configured: false, why: None }
        });
        let mut all: Vec<_> = configured.collect();
        let others: Vec<_> = inbound
            .filter(|one| !all.iter().any(|other| other.node == one.node && other.connected.is_some()))
            .collect();
        all.extend(others);
        all
    }

    /// Whether the first attempt of each configured link has ended.
    pub(crate) fn are_tried(&self) -> bool {
        self.known.lock().configured.iter().all(|link| link.connected.is_some() || link.why.is_some())
    }

    /// A neighbor advertises its names by another filter.
    pub(super) fn renew(&self) {
        let mut known = self.known.lock();
        let version = self.current.load().version;
        self.current.store(Arc::new(Neighbors { version, ..known.neighbors() }));
    }

    fn publish(&self, known: &mut KnownLinks) {
        let mut neighbors = known.neighbors();
        neighbors.version = self.current.load().version + 1;
        let reachable = neighbors.reachable.len();
        self.current.store(Arc::new(neighbors));
        self.reachable.send_if_modified(|count| std::mem::replace(count, reachable) != reachable);
    }
}

impl Neighbors {
    /// The connections over which the neighbors are asked.
    pub(crate) fn channels(&self) -> impl Iterator<Item = &Arc<Channel>> {
        self.reachable.iter().map(|neighbor| &neighbor.connected.channel)
    }

    /// What the neighbor `node` told us; `None` if it is not connected.
    pub(crate) fn channel(&self, node: &NodeTag) -> Option<&Arc<Channel>> {
        let at = self.tags.iter().position(|tag| tag == node)?;
        Some(&self.reachable[at].connected.channel)
    }

    /// Whether what the neighbor `node` told us counts.
    pub(crate) fn trusts(&self, node: &NodeTag, now: Instant) -> bool {
        self.channel(node).is_some_and(|channel| channel.theirs.read().is_trusted(now))
    }
}

impl Configured {
    const fn new(addr: SocketAddr) -> Self {
        Self { addr, connected: None, why: None, node: None, ourselves: false }
    }
}

impl KnownLinks {
    fn neighbors(&mut self) -> Neighbors {
        let mut neighbors = Neighbors::default();
        let outbound = self.configured.iter().filter_map(|link| Some((link.node?, link.connected.clone()?)));
        let inbound = self
            .inbound
            .iter()
            .filter_map(|(node, inbound)| inbound.clients.last().map(|(open, _)| (*node, open.clone())));
        for (node, connected) in outbound.chain(inbound) {
            let tag = node.tag();
            if !neighbors.tags.contains(&tag) {
                neighbors.tags.push(tag);
                let load = self.loads.entry(node).or_insert_with(|| Arc::new(Load::new(Instant::now())));
                let names = connected.channel.theirs.read().names().cloned();
                neighbors.reachable.push(Neighbor { node, connected, load: Arc::clone(load), names });
            }
        }
        let mut sorted = neighbors.tags.clone();
        sorted.sort_unstable();
        neighbors.sorted = sorted.into();
        self.loads.retain(|node, _| neighbors.tags.contains(&node.tag()));
        let configured = self.configured.iter().filter(|link| link.connected.is_none() && !link.ourselves);
        let configured = configured.map(|link| (link.node.map(|node| node.tag()), link.addr));
        let lost = self.inbound.iter().filter(|(_, inbound)| inbound.clients.is_empty());
        for (tag, addr) in configured.chain(lost.map(|(node, inbound)| (Some(node.tag()), inbound.addr))) {
            if tag.is_none_or(|tag| !neighbors.tags.contains(&tag)) {
                neighbors.away.push(tag);
                neighbors.away_at.push(addr);
            }
        }
        neighbors
    }
}
