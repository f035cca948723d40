//! [`Links`]: keeps track of who is connected and who is away, and publishes it. Queries read a snapshot and take no lock.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use futures::future::AbortHandle;
use nekoproto::{
    HelloRefusal, NodeId, Role,
    transport::{ConnectError, LinkState},
};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tracing::{debug, warn};

use super::{
    channel::Channel,
    known::{Configured, Inbound, KnownLinks},
    load::Load,
    neighbor::{Connected, Neighbors},
};
use crate::state::standing::Standing;

/// How long a member counts as away after its last connection ended.
pub(crate) const MISSED_FOR: Duration = Duration::from_secs(120);
/// Connections that one neighbor keeps: the one that is used, and one before it that it may not know to be over.
const INBOUND_OF_ONE_MAX: usize = 2;

/// Keeps track of configured links and of indexers that connected to us.
#[derive(Debug)]
pub(crate) struct Links {
    current: ArcSwap<Neighbors>,
    known: Mutex<KnownLinks>,
    reachable: watch::Sender<usize>,
    /// There is something for [`judging`](super::judging) to do.
    pub(super) to_judge: Notify,
}

/// What is known of a neighbor, to be shown.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    /// Where it listens, or where it connected from last.
    pub(crate) addr: SocketAddr,
    /// Who it is, once it was connected.
    pub(crate) node: Option<NodeId>,
    pub(crate) connected: Option<Connected>,
    /// Why it is a neighbor.
    pub(crate) standing: Standing,
    /// How it answered so far.
    pub(crate) load: Option<Arc<Load>>,
    /// Why it is not connected.
    pub(crate) why: Option<String>,
}

/// A neighbor that is not asked until it answers.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) connected: Connected,
    pub(super) load: Arc<Load>,
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
            to_judge: Notify::new(),
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
        known.unconfigure(addr);
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
                client.channel.is_placed.store(true, Relaxed);
                let connected = Some(client.clone());
                let (addr, node) = (link.addr, Some(remote.node));
                *link = Configured { addr, connected, why: None, node, ourselves: false };
                known.load(remote.node, Standing::Configured).record.trust();
            }
            LinkState::Down(why) => {
                link.connected = None;
                let ourselves = matches!(**why, ConnectError::Refused(HelloRefusal::Yourself));
                if ourselves && !link.ourselves {
                    warn!("a configured neighbor is this indexer itself; it is left out");
                }
                link.ourselves = ourselves;
                let text = Some(why.to_string());
                if why.is_of_access() && link.why != text {
                    warn!(addr = %link.addr, "a configured neighbor is not connected: {why}");
                }
                link.why = text;
            }
            LinkState::Connecting => {}
        }
        self.publish(&mut known);
    }

    /// An indexer connected to us. False if there is no place for it: it is no neighbor.
    pub(crate) fn arrived(
        &self,
        node: NodeId,
        connected: Connected,
        (standing, end): (Standing, AbortHandle),
        now: Instant,
    ) -> bool {
        let mut known = self.known.lock();
        if !known.make_room(node, connected.addr, standing, now) {
            debug!(node = %node.short(), "too many neighbors: this one is served but not asked");
            return false;
        }
        connected.channel.is_placed.store(true, Relaxed);
        let addr = connected.addr;
        let inbound = known.inbound.entry(node);
        let since = now;
        let inbound =
            inbound.or_insert_with(|| Inbound { clients: Vec::new(), lost_at: None, addr, standing, since });
        if inbound.clients.len() >= INBOUND_OF_ONE_MAX {
            inbound.clients.remove(0).1.abort();
        }
        inbound.clients.push((connected, end));
        (inbound.lost_at, inbound.addr) = (None, addr);
        let is_asked = known.load(node, standing).record.is_asked();
        self.came_or_went(&mut known, standing, is_asked);
        true
    }

    /// That connection ended. The place of a guest is free again with its last one.
    pub(crate) fn left(&self, node: NodeId, channel: &Arc<Channel>, now: Instant) {
        let mut known = self.known.lock();
        let Some(inbound) = known.inbound.get_mut(&node) else { return };
        let standing = inbound.standing;
        let before = inbound.clients.len();
        inbound.clients.retain(|(open, _)| !Arc::ptr_eq(&open.channel, channel));
        let is_last = inbound.clients.is_empty();
        if inbound.clients.len() == before {
            return; // its place was taken by another
        }
        if is_last {
            inbound.lost_at = Some(now);
        }
        let is_asked = known.loads.get(&node).is_some_and(|load| load.record.is_asked());
        if is_last && standing.is_guest() {
            known.forget_guest(node);
        }
        self.came_or_went(&mut known, standing, is_asked);
    }

    /// Publishes that a neighbor came or went: of a guest later, and only if it is asked.
    fn came_or_went(&self, known: &mut KnownLinks, standing: Standing, is_asked: bool) {
        match standing {
            Standing::Guest if !is_asked => {}
            Standing::Guest => {
                known.is_changed = true;
                self.to_judge.notify_one();
            }
            Standing::Configured | Standing::Member => self.publish(known),
        }
    }

    /// A neighbor is asked from now on, or is not any more: this is published soon.
    pub(crate) fn judged(&self) {
        self.known.lock().is_changed = true;
        self.to_judge.notify_one();
    }

    /// Publishes what is known, if it changed.
    pub(super) fn publish_changed(&self) {
        let mut known = self.known.lock();
        if known.is_changed {
            self.publish(&mut known);
        }
    }

    /// Judges at `now` each connected neighbor that has not been heard for long until `heard`, which is by the clock that
    /// runs on in suspend, and each that is doubted for too long.
    pub(super) fn judge_silent(&self, heard: Instant, now: Instant) {
        let mut known = self.known.lock();
        for (node, connected, _) in known.connected() {
            let Some(record) = known.loads.get(&node).map(|load| &load.record) else { continue };
            let is_silent = connected.channel.is_silent(heard);
            let is_judged = if is_silent { record.judge(now) } else { record.ends_doubt(now) };
            known.is_changed |= is_judged;
        }
    }

    /// The neighbors that are not asked or are doubted, and can be probed: a guest only once it has told its names.
    pub(super) fn candidates(&self) -> Vec<Candidate> {
        let known = self.known.lock();
        let mut candidates = Vec::new();
        for (node, connected, _) in known.connected() {
            let Some(load) = known.loads.get(&node).filter(|load| load.record.is_to_be_probed()) else {
                continue;
            };
            if !load.record.is_guest() || connected.channel.theirs.read().names().is_some() {
                candidates.push(Candidate { connected, load: Arc::clone(load) });
            }
        }
        candidates
    }

    /// Forgets members whose last connection ended [`MISSED_FOR`] ago.
    pub(crate) fn forget_missed(&self, now: Instant) {
        let mut known = self.known.lock();
        let before = known.inbound.len();
        known.inbound.retain(|_, inbound| {
            inbound.lost_at.is_none_or(|lost| now.saturating_duration_since(lost) < MISSED_FOR)
        });
        if known.inbound.len() != before {
            let KnownLinks { configured, inbound, loads, .. } = &mut *known;
            loads.retain(|node, _| {
                inbound.contains_key(node) || configured.iter().any(|link| link.node == Some(*node))
            });
            self.publish(&mut known);
        }
    }

    /// All that are or were connected, and those that should be.
    pub(crate) fn reports(&self) -> Vec<Report> {
        let known = self.known.lock();
        let load = |node: Option<NodeId>| known.loads.get(&node?).cloned();
        let configured = known.configured.iter().map(|link| Report {
            addr: link.addr,
            node: link.node,
            connected: link.connected.clone(),
            standing: Standing::Configured,
            load: load(link.node),
            why: link.why.clone(),
        });
        let inbound = known.inbound.iter().map(|(node, inbound)| {
            let connected = inbound.clients.last().map(|(open, _)| open.clone());
            let (addr, standing, node) = (inbound.addr, inbound.standing, Some(*node));
            Report { addr, node, connected, standing, load: load(node), why: None }
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
        known.is_changed = false;
        let mut neighbors = known.neighbors();
        for neighbor in &neighbors.reachable {
            neighbor
                .connected
                .channel
                .is_asked
                .send_if_modified(|is_asked| !std::mem::replace(is_asked, true));
        }
        neighbors.version = self.current.load().version + 1;
        let reachable = neighbors.reachable.len();
        self.current.store(Arc::new(neighbors));
        self.reachable.send_if_modified(|count| std::mem::replace(count, reachable) != reachable);
    }
}
