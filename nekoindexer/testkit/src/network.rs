//! Real indexers on free ports.

use crate::prelude::*;

use nekoindexer::{Config, Indexer, IndexerHandle};
use tokio::net::TcpSocket;

pub const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// The peers of this test kit do not renew: what they registered lasts as long as a test does on a busy machine.
const LEASE: Duration = Duration::from_secs(3600);

pub fn config(security: Security, neighbors: &[SocketAddr]) -> Config {
    Config {
        listen: ANY_PORT,
        neighbors: neighbors.iter().copied().map(Into::into).collect(),
        security,
        lease: LEASE,
        ..Config::default()
    }
}

pub async fn indexer(security: Security, neighbors: &[SocketAddr]) -> IndexerHandle {
    Indexer::spawn(config(security, neighbors)).await.unwrap()
}

/// Indexers that name each other: the n-th is linked to those of the earlier that `links(n)` names.
pub async fn network(
    security: Security,
    count: usize,
    links: impl Fn(usize) -> Vec<usize>,
) -> Vec<IndexerHandle> {
    let mut indexers: Vec<IndexerHandle> = Vec::new();
    for _ in 0..count {
        indexers.push(indexer(security, &[]).await);
    }
    let mut neighbors = vec![Vec::new(); count];
    for (n, m) in (0..count).flat_map(|n| links(n).into_iter().map(move |m| (n, m))) {
        neighbors[n].push(indexers[m].local_addr());
        neighbors[m].push(indexers[n].local_addr());
    }
    for (indexer, neighbors) in indexers.iter().zip(&neighbors) {
        indexer.reload(neighbors, None).unwrap();
    }
    for (indexer, neighbors) in indexers.iter().zip(&neighbors) {
        indexer.neighbors_reach(neighbors.len()).await;
    }
    indexers
}

pub async fn line(security: Security, count: usize) -> Vec<IndexerHandle> {
    network(security, count, |n| n.checked_sub(1).into_iter().collect()).await
}

pub async fn mesh(security: Security, count: usize) -> Vec<IndexerHandle> {
    network(security, count, |n| (0..n).collect()).await
}

/// A port that nobody else gets as long as the socket lives, and where nobody answers; an indexer
/// of this test may listen there meanwhile.
pub fn kept_port() -> (TcpSocket, SocketAddr) {
    kept_port_at(ANY_PORT).unwrap()
}

/// The port of `addr`, kept in the same way; an error if somebody listens there.
pub fn kept_port_at(addr: SocketAddr) -> std::io::Result<(TcpSocket, SocketAddr)> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    let addr = socket.local_addr()?;
    Ok((socket, addr))
}
