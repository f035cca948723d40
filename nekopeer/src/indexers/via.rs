//! [`Via`]: connections to indexers that one command names, asked besides the peer's own.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, future::join_all, stream::FuturesUnordered};
use nekoindexer::announce;
use nekoproto::{
    Cause, IndexerAddr, IndexerServiceClient, NodeId, PeerService, Purpose, Role,
    limits::HANDSHAKE_TIMEOUT,
    transport::{ConnectError, Connection, Remote, control},
};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;
use tracing::warn;

use super::{
    Indexers,
    session::{Session, sender},
};
use crate::{
    library::Library,
    serve::control::PeerControl,
    storage::remembered::{Home, remember, remembered},
    util::tasks::Tasks,
};

/// Addresses that one command may name.
pub(crate) const VIA_MAX: usize = 16;
/// Time limit for hearing of an indexer by multicast: what was announced within the last second is repeated at the
/// second question, one second after the first.
pub(crate) const HEARD_WITHIN: Duration = Duration::from_millis(1500);

/// Connections to indexers that a ticket names, or that are remembered from one. Dropped, they are closed.
#[derive(Clone, Debug, Default)]
pub struct Via {
    pub(super) connected: Arc<[Connected]>,
    /// Addresses of indexers that could not be used at any, and why.
    pub(crate) failed: Arc<[(SocketAddr, Cause)]>,
    /// Those that answered, the peer's own among them.
    pub(crate) good: Arc<[IndexerAddr]>,
}

#[derive(Debug)]
pub(super) struct Connected {
    pub(super) remote: Remote,
    pub(super) client: IndexerServiceClient,
    _driver: AbortOnDropHandle<Option<()>>,
}

enum Asked {
    Own(IndexerAddr),
    New(Connected),
}

/// The first [`VIA_MAX`] of `wanted`: the addresses of each key.
pub(crate) fn by_key(wanted: &[IndexerAddr]) -> Vec<(NodeId, Vec<SocketAddr>)> {
    let mut keys: Vec<(NodeId, Vec<SocketAddr>)> = Vec::new();
    for IndexerAddr { addr, node } in wanted.iter().take(VIA_MAX) {
        match keys.iter_mut().find(|(key, _)| key == node) {
            Some((_, addrs)) => addrs.push(*addr),
            None => keys.push((*node, vec![*addr])),
        }
    }
    keys
}

/// Why an indexer that a ticket names at a loopback address cannot be used.
fn of_that_machine(why: &Cause) -> Cause {
    let help = "if this is another machine than the one where the ticket was made, the ticket is of no use here: its network \
                has to serve other machines too, or both have to use an indexer that both reach";
    Cause { text: format!("{why}; {help}"), remedy: why.remedy }
}

impl Indexers {
    /// Connects to indexers, each of which has to prove its key. Of several addresses with one key the first that
    /// answers is used; an indexer that this peer is connected to anyway is not connected to again. If none
    /// answers, and this peer listens to announcements, they are looked for at other addresses. Where all of them are of one
    /// machine alone, the reason says that this may be another.
    ///
    /// # Cancel safety
    /// Safe: the connections are closed.
    pub(crate) async fn connect(&self, wanted: &[IndexerAddr]) -> Via {
        let mut via = self.connect_each(wanted).await;
        if wanted.iter().all(|at| at.addr.ip().is_loopback()) {
            via.failed = via.failed.iter().map(|(addr, why)| (*addr, of_that_machine(why))).collect();
        }
        if !via.good.is_empty() || wanted.is_empty() || !self.discovers {
            return via;
        }
        let Home { network, insecure } = &self.home;
        let (until, mut tried) = (Instant::now() + HEARD_WITHIN, wanted.to_vec());
        loop {
            let is_wanted = |at: &IndexerAddr| {
                !tried.contains(at) && wanted.iter().any(|indexer| indexer.node == at.node)
            };
            let left = until.saturating_duration_since(Instant::now());
            let heard = announce::browse(network, *insecure, is_wanted, left).await;
            let found = self.connect_each(&heard).await;
            if !found.good.is_empty() {
                return Via { failed: via.failed, ..found };
            }
            if heard.is_empty() {
                return via;
            }
            tried.extend(heard);
        }
    }

    /// Connects to the remembered indexers that are neither this peer's own nor asked already.
    pub(crate) async fn connect_remembered(&self, asked: &Via) -> Via {
        let home = self.home.clone();
        let remembered = self.library.blocking(move |library| remembered(&library.data_dir, &home)).await;
        let is_known = |node: &NodeId| {
            let own = self.sessions().filter_map(Session::remote);
            own.chain(asked.good.iter().map(|good| good.node)).any(|known| known == *node)
        };
        let others: Vec<_> = remembered.into_iter().filter(|indexer| !is_known(&indexer.node)).collect();
        self.connect_each(&others).await
    }

    /// Keeps the indexers that answered for later commands on this data folder.
    pub(crate) async fn remember(&self, via: &Via) {
        let (home, good) = (self.home.clone(), Arc::clone(&via.good));
        let remember = move |library: &Arc<Library>| remember(&library.data_dir, &home, &good);
        if let Err(error) = self.library.blocking(remember).await {
            warn!(%error, "the indexers of the ticket are not remembered"); // the next ticket names them again
        }
    }

    async fn connect_each(&self, wanted: &[IndexerAddr]) -> Via {
        let (mut connected, mut failed, mut good) = (Vec::new(), Vec::new(), Vec::new());
        let asking = by_key(wanted).into_iter().map(|(node, addrs)| self.connect_one(node, addrs));
        for (asked, why) in join_all(asking).await {
            failed.extend(why);
            match asked {
                Some(Asked::Own(at)) => good.push(at),
                Some(Asked::New(new)) => {
                    good.push(sender(&new.remote).at);
                    connected.push(new);
                }
                None => {}
            }
        }
        Via { connected: connected.into(), failed: failed.into(), good: good.into() }
    }

    /// Connects to `node` at the first of `addrs` that answers; if none does, says why.
    async fn connect_one(
        &self,
        node: NodeId,
        addrs: Vec<SocketAddr>,
    ) -> (Option<Asked>, Vec<(SocketAddr, Cause)>) {
        let mut own = self.sessions().filter(|session| session.remote() == Some(node));
        if let Some(session) = own.next() {
            return (Some(Asked::Own(IndexerAddr { addr: session.addr(), node })), Vec::new());
        }
        let mut dialing: FuturesUnordered<_> =
            addrs.into_iter().map(|addr| self.dial(IndexerAddr { addr, node })).collect();
        let mut failed = Vec::new();
        while let Some((addr, dialed)) = dialing.next().await {
            match dialed {
                Ok(connected) => return (Some(Asked::New(connected)), Vec::new()),
                Err(why) if failed.iter().any(|(_, known)| *known == why) => {} // its other addresses say the same
                Err(why) => failed.push((addr, why)),
            }
        }
        (None, failed)
    }

    /// Connects to an indexer that somebody named in a hit: as few times as to a holder.
    pub(super) async fn connect_to(&self, at: IndexerAddr) -> Option<Connected> {
        // At that address alone: whoever names an indexer may name it as a holder that is behind itself.
        let dialing = self.endpoint.dial_node_at(at.addr, Purpose::Control, at.node);
        self.open(dialing).await.ok()
    }

    async fn dial(&self, at: IndexerAddr) -> (SocketAddr, Result<Connected, Cause>) {
        let dialing = self.endpoint.dial(at.addr, Purpose::Control, Some(at.node));
        (at.addr, self.open(dialing).await)
    }

    async fn open(
        &self,
        dialing: impl Future<Output = Result<Connection, ConnectError>>,
    ) -> Result<Connected, Cause> {
        match timeout(HANDSHAKE_TIMEOUT, dialing).await {
            Ok(Ok(connection)) if connection.remote.role == Role::Indexer => {
                let remote = connection.remote;
                let control = PeerControl::new(&self.library, remote);
                let (client, driver) =
                    control::open(connection.io, control.serve(), IndexerServiceClient::from);
                // Who waits for a name of the ticket keeps it: the peer does not wait for that to end.
                let Tasks { stop, tracker } = &self.library.tasks;
                let driver = tracker.spawn(stop.clone().run_until_cancelled_owned(driver));
                Ok(Connected { remote, client, _driver: AbortOnDropHandle::new(driver) })
            }
            Ok(Ok(_)) => Err("it is no indexer".into()),
            Ok(Err(ConnectError::OtherNode { expected, found })) => {
                let (expected, found) = (expected.short(), found.short());
                Err(format!("another node answers there, with the key {found} instead of {expected}").into())
            }
            Ok(Err(error)) => Err((&error).into()),
            Err(_) => Err("it does not answer".into()),
        }
    }
}
