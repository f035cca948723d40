//! Serves the connections that others open, and keeps up those to the configured neighbors.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use nekoproto::{
    Holder, IndexerService, IndexerServiceClient, PeerServiceClient, Role,
    transport::{Connection, Endpoint, Link, LinkState, control},
};
use scopeguard::{defer, guard};
use tokio_util::task::AbortOnDropHandle;

use crate::{service::Service, shared::Shared};

/// Keeps a link to the neighbor at `addr`, number `place` of the configuration.
pub(crate) fn connect_neighbor(
    shared: &Arc<Shared>,
    endpoint: &Arc<Endpoint>,
    place: usize,
    addr: SocketAddr,
) {
    let serving = Arc::clone(shared);
    let open = move |connection: Connection| {
        let service = Service { shared: Arc::clone(&serving), remote: connection.remote, session: None };
        let (client, driver) = control::open(connection.io, service.serve(), IndexerServiceClient::from);
        (client, Box::pin(driver) as control::Driver)
    };
    let link = Link::spawn(Arc::clone(endpoint), addr, shared.stop.clone(), &shared.tasks, open);
    shared.spawn_until_stop(|shared| async move { follow_link(&shared, &link, place).await });
}

/// Tells the neighborhood of every change of a configured link, and advertises over it while it is up.
async fn follow_link(shared: &Shared, link: &Link<IndexerServiceClient>, place: usize) {
    let (state, neighbors) = (&shared.state, &shared.neighbors);
    let mut link = link.watch();
    loop {
        let now = link.borrow_and_update().clone();
        neighbors.links.configured_changed(place, &now);
        neighbors.changed(state);
        let goes_on = match &now {
            LinkState::Up { client, remote } => {
                let tag = remote.node.tag();
                let goes_on = tokio::select! {
                    changed = link.changed() => changed.is_ok(),
                    () = neighbors.advertise(state, tag, client) => true, // it never ends
                };
                state.their_summaries.remove(&tag);
                goes_on
            }
            _ => link.changed().await.is_ok(),
        };
        if !goes_on {
            return;
        }
    }
}

/// Serves one connection until it ends.
pub(crate) async fn serve(shared: Arc<Shared>, connection: Connection) {
    match connection.remote.role {
        Role::Indexer => serve_indexer(shared, connection).await,
        Role::Peer => serve_peer(shared, connection).await,
    }
}

async fn serve_indexer(shared: Arc<Shared>, Connection { io, remote, .. }: Connection) {
    let (node, tag) = (remote.node, remote.node.tag());
    let number = shared.connections.fetch_add(1, Ordering::Relaxed);
    let service = Service { shared: Arc::clone(&shared), remote, session: None };
    let (client, driver) = control::open(io, service.serve(), IndexerServiceClient::from);
    shared.neighbors.links.arrived(node, number, client.clone());
    shared.neighbors.changed(&shared.state);
    defer! {
        shared.neighbors.links.left(node, number, Instant::now());
        shared.neighbors.changed(&shared.state);
        shared.state.their_summaries.remove(&tag);
    }
    // In a task of its own, so that it is not polled for every message of the connection.
    let advertising = {
        let shared = Arc::clone(&shared);
        async move { shared.neighbors.advertise(&shared.state, tag, &client).await }
    };
    let _advertising = AbortOnDropHandle::new(shared.tasks.spawn(advertising)); // it never ends
    driver.await;
}

async fn serve_peer(shared: Arc<Shared>, Connection { io, remote, .. }: Connection) {
    let session = remote.listens_at.map(|addr| {
        let holder = Holder::new(remote.node, addr);
        shared.state.index.open_session(holder, shared.lease, Instant::now())
    });
    let service = Service { shared: Arc::clone(&shared), remote, session: session.clone() };
    let (client, driver) = control::open(io, service.serve(), PeerServiceClient::from);
    let _leaving = session.map(|session| {
        shared.peers.insert(session.id(), client);
        // The registrations stay until the lease expires: the holder may only have lost the connection.
        guard(session, |session| {
            shared.peers.remove(&session.id());
            shared.state.index.disconnected(&session);
        })
    });
    driver.await;
}
