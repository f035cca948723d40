//! What the tests of the indexer share.

pub(crate) use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

pub(crate) use futures::{StreamExt, future::join_all, stream};
pub(crate) use nekoindexer::{Config, Indexer, IndexerHandle, state::summary::CURRENT_FOR};
pub(crate) use nekoproto::{
    limits::*,
    probe::{ProbeEnd, ProbeReply, ProbeRequest},
    summary::{Change, NameKey, SummaryNews, SummaryReply},
    transport::Security,
    *,
};
pub(crate) use rand::{RngExt, SeedableRng, rngs::StdRng, seq::SliceRandom};
pub(crate) use serde_json::{Value, json};
pub(crate) use tarpc::client::RpcError;
pub(crate) use testkit::{
    PATIENCE, eventually,
    fake::{Dialed, Fake, Habit, advertise, deaf_neighbor, dial, summary_of},
    frames::discard,
    http,
    network::*,
    peer::{self, Peer, endpoint},
    values::*,
};
pub(crate) use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

pub(crate) const ORIGIN: u16 = 1000;
/// The security of tests that it makes no difference for.
pub(crate) const CLEAR: Security = Security::Insecure;

pub(crate) async fn holder(seed: u16, indexer: &IndexerHandle, security: Security) -> Peer {
    let peer = Peer::join(seed, indexer.local_addr(), security).await;
    peer.register([record(ORIGIN, "a", 1)]).await;
    peer
}

pub(crate) async fn holders_everywhere(indexers: &[IndexerHandle], security: Security) -> Vec<Peer> {
    join_all((0..).zip(indexers).map(|(seed, indexer)| holder(seed, indexer, security))).await
}

pub(crate) async fn connected(security: Security, neighbors: &[SocketAddr]) -> IndexerHandle {
    let indexer = indexer(security, neighbors).await;
    indexer.neighbors_reach(neighbors.len()).await;
    indexer
}

pub(crate) async fn asked(peer: &Peer, ttl_hops: u8) -> (Vec<(u64, Vec<NodeId>)>, bool) {
    let reply = peer.query("a", ttl_hops).await;
    (hits(&reply), reply.complete)
}

/// What a call with a deadline comes to; again where this machine was too busy for its answer to come in time.
pub(crate) async fn in_time<T>(call: impl AsyncFn() -> Result<T, RpcError>) -> T {
    eventually(async || match call().await {
        Err(RpcError::DeadlineExceeded) => None,
        answered => Some(answered.unwrap()),
    })
    .await
}

pub(crate) fn invalidation(
    records: impl IntoIterator<Item = SignedRecord>,
    ttl_hops: u8,
) -> InvalidateRequest {
    let records = Records::first_of(records);
    InvalidateRequest {
        msg_id: MsgId::random(),
        records,
        ttl_hops,
        covered: Covered::new(),
        from_guest: false,
    }
}

/// A query for the names `a-0`, `a-1`.., as many as fit, if `text` is `a`.
pub(crate) fn query_all(text: &str, ttl_hops: u8) -> QueryAllRequest {
    let names = Names::first_of((0..BATCH_MAX).map(|n| name(&format!("{text}-{n}"))));
    QueryAllRequest::new(names, ttl_hops)
}
