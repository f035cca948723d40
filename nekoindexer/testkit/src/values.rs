//! Identities, names, records and requests: equal for equal seeds.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use nekoproto::{
    ContentHash, FileName, Identity, ListedHolder, ListedRecord, ManifestHash, MsgId, NodeAddrs, NodeId,
    Policy, QueryReply, QueryRequest, Record, Records, RegisterRequest, SignedRecord, Version, codec,
};
use tarpc::context::{self, Context};

use crate::PATIENCE;

/// A context that gives up after `time`.
pub fn within(time: Duration) -> Context {
    let mut context = context::current();
    context.deadline = Instant::now() + time;
    context
}

/// A context with a deadline that no test waits for.
pub fn patient() -> Context {
    within(PATIENCE)
}

/// The node with this seed.
pub fn identity(seed: u16) -> Identity {
    Identity::from_seed(&key(seed))
}

/// The node with this seed as a holder at this address.
pub fn listed(seed: u16, addr: SocketAddr) -> ListedHolder {
    ListedHolder::new(NodeAddrs::new(identity(seed).id(), [addr]))
}

/// The Ed25519 key of the node with this seed.
pub fn key(seed: u16) -> [u8; 32] {
    let mut bytes = [7; 32];
    bytes[..2].copy_from_slice(&seed.to_le_bytes());
    bytes
}

/// A name.
pub fn name(text: &str) -> FileName {
    FileName::new(text).unwrap()
}

/// The n-th name of the greatest length.
pub fn long_name(n: usize) -> FileName {
    let name = name(
        &[format!("{n:0>204}"), "n".repeat(204), "n".repeat(204), "n".repeat(204), "n".repeat(204)].join("/"),
    );
    assert_eq!(name.as_str().len(), nekoproto::limits::NAME_BYTES_MAX);
    name
}

/// What the node with the seed `origin` says of a version of a file, before it signs.
pub fn file(origin: u16, name: FileName, version: u64) -> Record {
    Record {
        origin: identity(origin).id(),
        name,
        version: Version::new(version).unwrap(),
        size: 1 << 40,
        content: ContentHash::from_bytes([1; 32]),
        manifest: ManifestHash::from_bytes([2; 32]),
        policy: Policy::default(),
        published_ms: 1_795_000_000_000,
    }
}

/// A record that the node with the seed `origin` signed.
pub fn signed(origin: u16, record: Record) -> ListedRecord {
    record.sign(&identity(origin)).unwrap().into()
}

/// A version of a file of the node with the seed `origin`.
pub fn verified(origin: u16, name: FileName, version: u64) -> ListedRecord {
    signed(origin, file(origin, name, version))
}

/// A version of a file of the node with the seed `origin`, as it travels.
pub fn record(origin: u16, text: &str, version: u64) -> SignedRecord {
    verified(origin, name(text), version).to_signed()
}

/// What `attacker` makes up about a file of `victim`: all is right but the signature.
pub fn forged(attacker: u16, victim: u16, text: &str, version: u64) -> SignedRecord {
    let mut bytes = codec::encode(&record(attacker, text, version)).unwrap();
    bytes[1..33].copy_from_slice(identity(victim).id().as_bytes()); // the origin comes first, after its length
    let forged: SignedRecord = codec::decode(&bytes).unwrap();
    assert_eq!(forged.unverified(), record(victim, text, version).unverified());
    forged
}

/// A registration that is announced.
pub fn registration(records: impl IntoIterator<Item = SignedRecord>) -> RegisterRequest {
    RegisterRequest { records: Records::first_of(records), announce: true, partial: false }
}

/// A new query.
pub fn query(text: &str, ttl_hops: u8) -> QueryRequest {
    QueryRequest::new(MsgId::random(), name(text), ttl_hops)
}

/// A query whose reply has its way.
pub fn traced(text: &str, ttl_hops: u8) -> QueryRequest {
    QueryRequest { trace: true, ..query(text, ttl_hops) }
}

/// The version of each hit and its holders, sorted: the newest version first.
pub fn hits(reply: &QueryReply) -> Vec<(u64, Vec<NodeId>)> {
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
pub fn sorted(nodes: impl IntoIterator<Item = NodeId>) -> Vec<NodeId> {
    let mut nodes: Vec<_> = nodes.into_iter().collect();
    nodes.sort();
    nodes
}

/// The ids of the nodes with these seeds, sorted.
pub fn nodes(seeds: impl IntoIterator<Item = u16>) -> Vec<NodeId> {
    sorted(seeds.into_iter().map(|seed| identity(seed).id()))
}
