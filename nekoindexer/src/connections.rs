//! Serves the connections that others open, and keeps up those to the configured neighbors.

use std::{
    net::SocketAddr,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::abortable;
use nekoproto::{
    IndexerService, IndexerServiceClient, PeerServiceClient, Refusal, Role,
    budget::site_of,
    transport::{Connection, Endpoint, HostAddr, Link, LinkState, control},
};
use scopeguard::{defer, guard};
use tokio::{
    task::spawn_blocking,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    call_back,
    neighbors::{channel::Channel, neighbor::Connected},
    one_node,
    service::Service,
    shared::{Running, Shared},
    state::{caller::CallerRole, trust_level::TrustLevel},
};

/// How often an indexer that is no neighbor, for want of a place, looks for one.
const NO_PLACE_PAUSE: Duration = Duration::from_secs(1);

/// Keeps a link to the configured neighbor at `at`, until `stop`.
pub(crate) fn connect_neighbor(
    shared: &Arc<Shared>,
    endpoint: &Arc<Endpoint>,
    at: HostAddr,
    stop: CancellationToken,
) {
    let serving = Arc::clone(shared);
    let open = move |connection: Connection| {
        let (connected, driver) = open_neighbor(&serving, connection, true);
        (connected, Box::pin(driver) as control::Driver)
    };
    let addr = at.addr;
    let link = Link::spawn(Arc::clone(endpoint), (at, None), None, stop, &shared.tasks, open);
    shared.spawn_until_stop(move |shared| async move { follow_link(&shared, addr, &link).await });
}

/// Runs a connection to another indexer, which this end opened if it `leads`.
fn open_neighbor(
    shared: &Arc<Shared>,
    Connection { io, remote, account, .. }: Connection,
    leads: bool,
) -> (Connected, impl Future<Output = ()> + use<>) {
    let is_trusted = leads || shared.is_closed || shared.neighbors.links.is_configured(&remote.node);
    let role = if is_trusted { CallerRole::Trusted } else { CallerRole::Guest };
    let caller = shared.state.seen.caller(remote.node, role, account.clone());
    let reserved = shared.neighbors.reservation(account.clone());
    let channel = Arc::new(Channel::new(leads, account, reserved));
    channel.set_trusted(is_trusted);
    let (shared, known) = (Arc::clone(shared), Some(Arc::clone(&channel)));
    let addr = remote.listens_at.unwrap_or(remote.addr);
    let service = Service { shared, remote, caller, session: Err(Refusal::WrongRole), channel: known };
    let (client, driver) = control::open(io, service.serve(), IndexerServiceClient::from);
    (Connected { addr, is_local: remote.is_local(), client, channel }, driver)
}

/// Tells the neighborhood of every change of the link that is configured to `addr`, and advertises over it while it is up.
async fn follow_link(shared: &Shared, addr: SocketAddr, link: &Link<Connected>) {
    let (state, neighbors) = (&shared.state, &shared.neighbors);
    let mut link = link.watch();
    loop {
        let now = link.borrow_and_update().clone();
        neighbors.links.configured_changed(addr, &now);
        let goes_on = match &now {
            LinkState::Up { client: Connected { client, channel, .. }, .. } => {
                tokio::select! {
                    changed = link.changed() => changed.is_ok(),
                    () = neighbors.advertise(state, channel, client) => true, // it never ends
                }
            }
            _ => link.changed().await.is_ok(),
        };
        if !goes_on {
            return;
        }
    }
}

/// Serves one connection until it ends. In boxes, as what serves another indexer takes more room than what serves a peer.
pub(crate) fn serve(shared: Arc<Shared>, connection: Connection) -> control::Driver {
    match connection.remote.role {
        Role::Indexer => Box::pin(serve_indexer(shared, connection)),
        Role::Peer => Box::pin(serve_peer(shared, connection)),
    }
}

async fn serve_indexer(shared: Arc<Shared>, connection: Connection) {
    let node = connection.remote.node;
    let (connected, driver) = open_neighbor(&shared, connection, false);
    let channel = Arc::clone(&connected.channel);
    let (driver, end) = abortable(driver);
    let mut driver = pin!(driver);
    let trust = TrustLevel::of_arrival(shared.is_closed);
    let arrive = || shared.neighbors.links.arrived(node, connected.clone(), (trust, end.clone()));
    while !arrive() {
        tokio::select! {
            _ = &mut driver => return,
            () = sleep(NO_PLACE_PAUSE) => {} // it gets a place that became free
        }
    }
    defer! {
        shared.neighbors.links.left(node, &channel, Instant::now());
    }
    // In a task of its own, so that it is not polled for every message of the connection.
    let advertising = {
        let shared = Arc::clone(&shared);
        async move {
            shared.neighbors.advertise(&shared.state, &connected.channel, &connected.client).await;
        }
    };
    let _advertising = AbortOnDropHandle::new(shared.tasks.spawn(advertising)); // it never ends
    let _ = driver.await; // ended by the other end, or by ours
}

async fn serve_peer(shared: Arc<Shared>, connection: Connection) {
    let Connection { io, remote, listens_at, instance, account, .. } = connection;
    let at = listens_at.map(|at| at.named_by(remote.is_local())).filter(|at| !at.addrs().is_empty());
    let session = match at {
        None => Err(Refusal::NotListening),
        Some(at) => one_node::check(&shared, remote.node, instance).await.map(|()| {
            let at = (at, site_of(remote.addr.ip()));
            shared.state.index.open_session_on(Some(account.clone()), at, shared.lease, Instant::now())
        }),
    };
    let caller = shared.state.seen.caller(remote.node, CallerRole::Peer, account.clone());
    let service =
        Service { shared: Arc::clone(&shared), remote, caller, session: session.clone(), channel: None };
    let (client, driver) = control::open(io, service.serve(), PeerServiceClient::from);
    let driver = Box::pin(driver); // moved several times, it would take its room several times
    let session = match session {
        Ok(session) => session,
        Err(Refusal::KeyInUse { .. }) => {
            return timeout(one_node::REFUSED_FOR, driver).await.unwrap_or_default();
        }
        Err(_) => return driver.await,
    };
    let ended = CancellationToken::new();
    let running = Running {
        session: session.id(),
        client: client.clone(),
        instance,
        at: remote.addr,
        since: Instant::now(),
        ended: ended.clone(),
    };
    shared.peers.insert(session.id(), client.clone());
    // The registrations stay until the lease expires: the holder may only have lost the connection.
    let leaving = guard(session, |session| {
        shared.peers.remove(&session.id());
        shared.running.remove_if(&remote.node, |_, one| one.session == session.id());
        shared.state.index.disconnected(&session, Instant::now());
    });
    if !one_node::take(&shared, remote.node, running) {
        return; // it connects again
    }
    call_back::check(&shared, &leaving, remote, client);
    let is_taken_over = ended.run_until_cancelled(driver).await.is_none();
    if is_taken_over || account.evicted().is_cancelled() {
        // Not only when its lease ends: an eviction ends the connection because the room is needed now.
        let session = Arc::clone(&leaving);
        drop(leaving);
        let ending = move || shared.state.index.end(&session, Instant::now());
        let _ = spawn_blocking(ending).await; // a part that is left is ended by the sweep
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that a task takes for as long as a peer is connected, in which it is idle mostly.
    const PEER_BYTES_MAX: usize = 896;

    fn bytes<A, B, F: Future>(_: impl FnOnce(A, B) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_peer_that_is_connected_takes_little_room() {
        let taken = bytes(serve_peer);
        assert!(taken <= PEER_BYTES_MAX, "{taken}");
    }
}
