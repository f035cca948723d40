//! Identities, names, records and requests: equal for equal seeds.

use crate::prelude::*;

use crate::PATIENCE;

pub fn within(time: Duration) -> Context {
    let mut context = context::current();
    context.deadline = Instant::now() + time;
    context
}

/// A context with a deadline that no test waits for.
pub fn patient() -> Context {
    within(PATIENCE)
}

pub fn identity(seed: u16) -> Identity {
    Identity::from_seed(&key(seed))
}

pub fn listed(seed: u16, addr: SocketAddr) -> ListedHolder {
    ListedHolder::new(NodeAddrs::new(identity(seed).id(), [addr]))
}

pub fn key(seed: u16) -> [u8; 32] {
    let mut bytes = [7; 32];
    bytes[..2].copy_from_slice(&seed.to_le_bytes());
    bytes
}

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

pub fn file(origin: u16, name: FileName, version: u64) -> Record {
    file_of(&identity(origin), name, version)
}

pub fn file_of(origin: &Identity, name: FileName, version: u64) -> Record {
    Record {
        origin: origin.id(),
        name,
        version: Version::new(version).unwrap(),
        size: 1 << 40,
        content: ContentHash::from_bytes([1; 32]),
        manifest: ManifestHash::from_bytes([2; 32]),
        policy: Policy::default(),
        published_ms: 1_795_000_000_000,
    }
}

pub fn signed(origin: u16, record: Record) -> ListedRecord {
    record.sign(&identity(origin)).unwrap().into()
}

pub fn verified(origin: u16, name: FileName, version: u64) -> ListedRecord {
    signed(origin, file(origin, name, version))
}

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

pub fn registration(records: impl IntoIterator<Item = SignedRecord>) -> RegisterRequest {
    RegisterRequest { records: Records::first_of(records), announce: true, partial: false }
}

pub fn query(text: &str, ttl_hops: u8) -> QueryRequest {
    QueryRequest::new(MsgId::random(), name(text), ttl_hops)
}

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

pub fn sorted(nodes: impl IntoIterator<Item = NodeId>) -> Vec<NodeId> {
    let mut nodes: Vec<_> = nodes.into_iter().collect();
    nodes.sort();
    nodes
}

pub fn nodes(seeds: impl IntoIterator<Item = u16>) -> Vec<NodeId> {
    sorted(seeds.into_iter().map(|seed| identity(seed).id()))
}
