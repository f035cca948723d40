//! What the tests of the indexer share: signed records, time limits, indexers and peers on free ports.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use nekoindexer::{Config, Indexer, IndexerHandle};
use nekoproto::{
    ContentHash, FileName, Identity, ListedRecord, ManifestHash, MsgId, NodeId, Policy, QueryReply,
    QueryRequest, Record, Records, RegisterRequest, SignedRecord, Version, codec, transport::Security,
};
use tarpc::context::{self, Context};
use tokio::{net::TcpSocket, time::timeout};

pub(crate) mod fake;
pub(crate) mod http;
pub(crate) mod peer;

pub(crate) use fake::Fake;
pub(crate) use peer::Peer;

/// Longer than any test needs: past it the test hangs, and hanging is failing.
pub(crate) const TEST_LIMIT: Duration = Duration::from_secs(60);
/// A deadline for calls that no test waits for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// How often a state that announces itself to nobody is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Loopback, a free port.
pub(crate) const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Runs `case` within the limit.
pub(crate) async fn in_time<T>(case: impl Future<Output = T>) -> T {
    timeout(TEST_LIMIT, case).await.unwrap_or_else(|_| panic!("hangs"))
}

/// Runs `case` once over TLS and once in the clear, each within the limit.
pub(crate) async fn over_both(case: impl AsyncFn(Security)) {
    for security in [Security::Tls, Security::Insecure] {
        in_time(case(security)).await;
    }
}

/// Looks at `sight` now and again until it is `Some`: for what announces itself to nobody. The
/// limit of the test bounds it.
pub(crate) async fn eventually<T>(sight: impl AsyncFn() -> Option<T>) -> T {
    let mut looks = tokio::time::interval(LOOK_EVERY);
    loop {
        looks.tick().await;
        if let Some(seen) = sight().await {
            return seen;
        }
    }
}

/// A context that gives up after `time`.
pub(crate) fn within(time: Duration) -> Context {
    let mut context = context::current();
    context.deadline = Instant::now() + time;
    context
}

/// A context with a deadline that no test waits for.
pub(crate) fn patient() -> Context {
    within(PATIENCE)
}

/// The node with this seed.
pub(crate) fn identity(seed: u16) -> Identity {
    let mut bytes = [7; 32];
    bytes[..2].copy_from_slice(&seed.to_le_bytes());
    Identity::from_seed(&bytes)
}

/// A name.
pub(crate) fn name(text: &str) -> FileName {
    FileName::new(text).unwrap()
}

/// The n-th name of the greatest length.
pub(crate) fn long_name(n: usize) -> FileName {
    let name = name(
        &[format!("{n:0>204}"), "n".repeat(204), "n".repeat(204), "n".repeat(204), "n".repeat(204)].join("/"),
    );
    assert_eq!(name.as_str().len(), nekoproto::limits::NAME_BYTES_MAX);
    name
}

/// A version of a file of the node with the seed `origin`.
pub(crate) fn verified(origin: u16, name: FileName, version: u64) -> ListedRecord {
    let origin = identity(origin);
    let record = Record {
        origin: origin.id(),
        name,
        version: Version::new(version).unwrap(),
        size: 1 << 40,
        content: ContentHash::from_bytes([1; 32]),
        manifest: ManifestHash::from_bytes([2; 32]),
        policy: Policy::default(),
        published_ms: 1_795_000_000_000,
    };
    record.sign(&origin).unwrap().into()
}

/// A version of a file of the node with the seed `origin`, as it travels.
pub(crate) fn record(origin: u16, text: &str, version: u64) -> SignedRecord {
    verified(origin, name(text), version).to_signed()
}

/// What `attacker` makes up about a file of `victim`: all is right but the signature.
pub(crate) fn forged(attacker: u16, victim: u16, text: &str, version: u64) -> SignedRecord {
    let mut bytes = codec::encode(&record(attacker, text, version)).unwrap();
    bytes[1..33].copy_from_slice(identity(victim).id().as_bytes()); // the origin comes first, after its length
    let forged: SignedRecord = codec::decode(&bytes).unwrap();
    assert_eq!(forged.unverified(), record(victim, text, version).unverified());
    forged
}

/// A registration that is announced.
pub(crate) fn registration(records: impl IntoIterator<Item = SignedRecord>) -> RegisterRequest {
    RegisterRequest { records: Records::first_of(records), announce: true, partial: false }
}

/// A new query.
pub(crate) fn query(text: &str, ttl_hops: u8) -> QueryRequest {
    QueryRequest::new(MsgId::random(), name(text), ttl_hops)
}

/// The version of each hit and its holders, sorted: the newest version first.
pub(crate) fn hits(reply: &QueryReply) -> Vec<(u64, Vec<NodeId>)> {
    let mut hits: Vec<_> = reply
        .hits
        .iter()
        .map(|hit| {
            let holders = hit.at().into_iter().map(|holder| holder.node);
            (hit.record.unverified().version.get(), sorted(holders))
        })
        .collect();
    hits.sort_by(|a, b| b.cmp(a));
    hits
}

/// In the order of the ids.
pub(crate) fn sorted(nodes: impl IntoIterator<Item = NodeId>) -> Vec<NodeId> {
    let mut nodes: Vec<_> = nodes.into_iter().collect();
    nodes.sort();
    nodes
}

/// The ids of the nodes with these seeds, sorted.
pub(crate) fn nodes(seeds: impl IntoIterator<Item = u16>) -> Vec<NodeId> {
    sorted(seeds.into_iter().map(|seed| identity(seed).id()))
}

/// A configuration on a free port.
pub(crate) fn config(security: Security, neighbors: &[SocketAddr]) -> Config {
    Config { listen: ANY_PORT, neighbors: neighbors.to_vec(), security, ..Config::default() }
}

/// A running indexer on a free port.
pub(crate) async fn indexer(security: Security, neighbors: &[SocketAddr]) -> IndexerHandle {
    Indexer::spawn(config(security, neighbors)).await.unwrap()
}

/// `count` indexers, all connected: the n-th connects to those of the earlier that `links(n)` names.
pub(crate) async fn network(
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
pub(crate) async fn line(security: Security, count: usize) -> Vec<IndexerHandle> {
    network(security, count, |n| n.checked_sub(1).into_iter().collect()).await
}

/// Indexers that are all neighbors of each other.
pub(crate) async fn mesh(security: Security, count: usize) -> Vec<IndexerHandle> {
    network(security, count, |n| (0..n).collect()).await
}

/// A port that nobody else gets as long as the socket lives, and where nobody answers; an indexer
/// of this test may listen there meanwhile.
pub(crate) fn kept_port() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(ANY_PORT).unwrap();
    let addr = socket.local_addr().unwrap();
    (socket, addr)
}
