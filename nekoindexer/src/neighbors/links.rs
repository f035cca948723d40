//! [`Links`]: keeps track of who is connected and who is away, and publishes it. Queries read a snapshot and take no lock.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use futures::future::AbortHandle;
use nekoproto::{
    HelloRefusal, NodeId, NodeTag, Role,
    transport::{ConnectError, LinkState},
};
use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::{debug, warn};

use super::{
    channel::Channel,
    known::{Configured, KnownLinks},
    load::Load,
    neighbor::{Connected, Neighbor, Neighbors},
};
use crate::state::trust_level::TrustLevel;

/// How long a member counts as away after its last connection ended.
pub(crate) const MISSED_FOR: Duration = Duration::from_secs(120);
/// Connections that one neighbor keeps: the one that is used, and one before it that it may not know to be over.
const INBOUND_OF_ONE_MAX: usize = 2;

/// Keeps track of configured links and of indexers that connected to us.
#[derive(Debug)]
pub(crate) struct Links {
    current: ArcSwap<Neighbors>,
    known: Mutex<KnownLinks>,
    /// How many trusted ones are connected.
    trusted: watch::Sender<usize>,
    /// The version of the trusted ones.
    versions: watch::Sender<u64>,
}

/// What is known of a neighbor, to be shown.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    /// Where it listens, or where it connected from last.
    pub(crate) addr: SocketAddr,
    /// Who it is, once it was connected.
    pub(crate) node: Option<NodeId>,
    pub(crate) connected: Option<Connected>,
    pub(crate) trust: TrustLevel,
    pub(crate) load: Option<Arc<Load>>,
    /// Whether it is connected, and not heard any more.
    pub(crate) is_silent: bool,
    /// Why it is not connected.
    pub(crate) why: Option<String>,
}

impl Links {
    #[must_use]
    pub(crate) fn new(me: NodeTag, configured: &[SocketAddr]) -> Self {
        let links = Self {
            current: ArcSwap::default(),
            known: Mutex::new(KnownLinks::new(me, configured)),
            trusted: watch::Sender::new(0),
            versions: watch::Sender::new(0),
        };
        links.publish(&mut links.known.lock());
        links
    }

    #[must_use]
    pub(crate) fn current(&self) -> Arc<Neighbors> {
        self.current.load_full()
    }

    pub(crate) fn is_configured(&self, node: &NodeId) -> bool {
        self.known.lock().is_configured(node)
    }

    /// How many trusted neighbors are connected; changes wake the receiver.
    #[must_use]
    pub(crate) fn watch(&self) -> watch::Receiver<usize> {
        self.trusted.subscribe()
    }

    /// The version of the trusted neighbors; changes wake the receiver.
    #[must_use]
    pub(super) fn versions(&self) -> watch::Receiver<u64> {
        self.versions.subscribe()
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
                if link.why.is_some() {
                    warn!(addr = %link.addr, "a configured neighbor is connected again");
                }
                let connected = Some(client.clone());
                let (addr, node) = (link.addr, Some(remote.node));
                *link = Configured { connected, node, ..Configured::new(addr) };
            }
            LinkState::Down(why) => {
                link.connected = None;
                let ourselves = matches!(**why, ConnectError::Refused(HelloRefusal::Yourself));
                if ourselves && !link.ourselves {
                    warn!("a configured neighbor is this indexer itself; it is left out");
                }
                link.ourselves = ourselves;
                let text = Some(why.to_string());
                // Once, until it is back.
                if !ourselves && (link.why.is_none() || why.is_of_access() && link.why != text) {
                    warn!(addr = %link.addr, "a configured neighbor is not connected, which is tried again: {why}");
                }
                link.why = text;
            }
            LinkState::Connecting | LinkState::Greeting { .. } => {}
        }
        self.publish(&mut known);
    }

    /// An indexer connected to us. False if there is no place for it: it is no neighbor.
    pub(crate) fn arrived(
        &self,
        node: NodeId,
        connected: Connected,
        (trust, end): (TrustLevel, AbortHandle),
    ) -> bool {
        let mut known = self.known.lock();
        let addr = connected.addr;
        let Some(inbound) = known.admit(node, addr, trust) else {
            debug!(node = %node.short(), "too many neighbors: this one is served but not asked");
            return false;
        };
        connected.channel.is_placed.store(true, Relaxed);
        if inbound.clients.len() >= INBOUND_OF_ONE_MAX {
            inbound.clients.remove(0).1.abort();
        }
        inbound.clients.push((connected, end));
        (inbound.lost_at, inbound.addr) = (None, addr);
        self.publish(&mut known);
        true
    }

    /// That connection ended. The place of a guest is free again with its last one.
    pub(crate) fn left(&self, node: NodeId, channel: &Arc<Channel>, now: Instant) {
        let mut known = self.known.lock();
        let Some(inbound) = known.inbound.get_mut(&node) else { return };
        let before = inbound.clients.len();
        inbound.clients.retain(|(open, _)| !Arc::ptr_eq(&open.channel, channel));
        if inbound.clients.len() == before {
            return; // its place was taken by another
        }
        if inbound.clients.is_empty() {
            inbound.lost_at = Some(now);
            if inbound.trust.is_guest() {
                known.inbound.remove(&node);
                known.forget_loads();
            }
        }
        self.publish(&mut known);
    }

    /// The other end of that connection said goodbye.
    pub(super) fn leave(&self, node: NodeId, channel: &Arc<Channel>) {
        let mut known = self.known.lock();
        known.leave(node, channel);
        self.publish(&mut known);
    }

    pub(super) fn open(&self) -> Vec<Connected> {
        self.known.lock().open()
    }

    /// Looks which trusted neighbors have not been heard for long, by the clock that runs on in suspend.
    pub(super) fn note_silent(&self, now: Instant) {
        let mut known = self.known.lock();
        let all = known.connected().into_iter().filter(|(.., trust)| !trust.is_guest());
        let silent = all.filter(|(_, open, _)| open.channel.is_silent(now)).map(|(node, ..)| node).collect();
        if known.silent != silent {
            known.silent = silent;
            self.publish(&mut known);
        }
    }

    /// Forgets members whose last connection ended [`MISSED_FOR`] ago.
    pub(crate) fn forget_missed(&self, now: Instant) {
        let mut known = self.known.lock();
        let before = known.inbound.len();
        known.inbound.retain(|_, inbound| {
            inbound.lost_at.is_none_or(|lost| now.saturating_duration_since(lost) < MISSED_FOR)
        });
        if known.inbound.len() != before {
            known.forget_loads();
            self.publish(&mut known);
        }
    }

    /// All that are or were connected, and those that should be.
    pub(crate) fn reports(&self) -> Vec<Report> {
        let known = self.known.lock();
        let report = |node: Option<NodeId>, addr, connected, trust, why| {
            let load = node.and_then(|node| known.loads.get(&node).cloned());
            let is_silent = node.is_some_and(|node| known.silent.contains(&node));
            Report { addr, node, connected, trust, load, is_silent, why }
        };
        let configured = known.configured.iter().map(|link| {
            let addr = link.connected.as_ref().map_or(link.addr, |connected| connected.addr);
            report(link.node, addr, link.connected.clone(), TrustLevel::Configured, link.why.clone())
        });
        let inbound = known.inbound.iter().map(|(node, inbound)| {
            let connected = inbound.clients.last().map(|(open, _)| open.clone());
            report(Some(*node), inbound.addr, connected, known.trust_level_of(node, inbound), None)
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

    /// The neighbor at the other end of `channel` advertises another filter, or other neighbors.
    pub(super) fn renew(&self, channel: &Channel) {
        let known = self.known.lock();
        let mut neighbors = Neighbors::clone(&self.current.load());
        let Neighbors { trusted, guests, sorted, .. } = &mut neighbors;
        let is_it = |one: &&mut Neighbor| std::ptr::eq(&raw const *one.connected.channel, channel);
        if let Some(neighbor) = trusted.iter_mut().chain(guests).find(is_it) {
            neighbor.read(known.me(), sorted);
            self.current.store(Arc::new(neighbors));
        }
    }

    /// Queries see what is known now. The version stays if those that are trusted do.
    fn publish(&self, known: &mut KnownLinks) {
        known.note_trust();
        let mut neighbors = known.neighbors();
        let before = self.current.load();
        let is_changed =
            before.sorted != neighbors.sorted || before.away.is_empty() != neighbors.away.is_empty();
        neighbors.version = before.version + u64::from(is_changed);
        let (version, trusted) = (neighbors.version, neighbors.trusted.len());
        self.current.store(Arc::new(neighbors));
        self.trusted.send_if_modified(|count| std::mem::replace(count, trusted) != trusted);
        self.versions.send_if_modified(|before| std::mem::replace(before, version) != version);
    }
}
