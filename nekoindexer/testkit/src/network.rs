//! Real indexers on free ports.

use std::net::{Ipv4Addr, SocketAddr};

use nekoindexer::{Config, Indexer, IndexerHandle};
use nekoproto::transport::Security;
use tokio::net::TcpSocket;

/// Loopback, a free port.
pub const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A configuration on a free port.
pub fn config(security: Security, neighbors: &[SocketAddr]) -> Config {
    Config { listen: ANY_PORT, neighbors: neighbors.to_vec(), security, ..Config::default() }
}

/// A running indexer on a free port.
pub async fn indexer(security: Security, neighbors: &[SocketAddr]) -> IndexerHandle {
    Indexer::spawn(config(security, neighbors)).await.unwrap()
}

/// `count` indexers, all connected: the n-th connects to those of the earlier that `links(n)` names.
pub async fn network(
    security: Security,
    count: usize,
    links: impl Fn(usize) -> Vec<usize>,
) -> Vec<IndexerHandle> {
    let mut indexers: Vec<IndexerHandle> = Vec::new();
    let mut degrees = vec![0; count];
    for n in 0..count {
        let links = links(n);
        let neighbors: Vec<_> = links.iter().map(|m| indexers[*m].local_addr()).collect();
        indexers.push(indexer(security, &neighbors).await);
        degrees[n] += links.len();
        links.iter().for_each(|m| degrees[*m] += 1);
    }
    for (indexer, degree) in indexers.iter().zip(degrees) {
        indexer.neighbors_reach(degree).await;
    }
    indexers
}

/// Indexers in a row.
pub async fn line(security: Security, count: usize) -> Vec<IndexerHandle> {
    network(security, count, |n| n.checked_sub(1).into_iter().collect()).await
}

/// Indexers that are all neighbors of each other.
pub async fn mesh(security: Security, count: usize) -> Vec<IndexerHandle> {
    network(security, count, |n| (0..n).collect()).await
}

/// A port that nobody else gets as long as the socket lives, and where nobody answers; an indexer
/// of this test may listen there meanwhile.
pub fn kept_port() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(ANY_PORT).unwrap();
    let addr = socket.local_addr().unwrap();
    (socket, addr)
}
