//! What an indexer is asked: the tarpc service [`IndexerService`] and its messages.
//! Wire types: a changed message means another protocol version.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::{
    ContentHash, FileName, List, MsgId, NodeId, NodeTag, Refusal, SignedRecord, Version,
    limits::{
        ANSWERS_BYTES_MAX, BATCH_MAX, COVERED_MAX, FRAME_BYTES_MAX, HITS_MAX, HOLDER_BYTES_MAX, HOLDERS_MAX,
        NAME_BYTES_MAX, RECORD_BYTES_MAX,
    },
    summary::SummaryUpdate,
};

/// Signed records of one call.
pub type Records = List<SignedRecord, BATCH_MAX>;
/// Names of one call.
pub type Names = List<FileName, BATCH_MAX>;
/// Answers to the names of one call, in their order. `None`: the answer has no room in this reply, and
/// the name is to be asked for again.
pub type Answers = List<Option<QueryReply>, BATCH_MAX>;
/// Indexers that have been, or are being, asked already.
pub type Covered = List<NodeTag, COVERED_MAX>;

/// The calls of an indexer. Who calls is known from the connection, never from a message.
#[tarpc::service]
pub trait IndexerService {
    /// The caller holds these versions, wholly or in part, and may be listed until its lease ends. One
    /// forged record refuses the whole call. Calling again with the same request changes nothing.
    async fn register(request: RegisterRequest) -> Result<RegisterReply, Refusal>;
    /// The caller no longer offers these names, of any origin.
    async fn deregister(names: Names) -> Result<(), Refusal>;
    /// Begins the caller's lease anew, for all that it registered on this connection.
    async fn renew() -> Result<LeaseReply, Refusal>;
    /// What this indexer itself knows of a name.
    async fn search(name: FileName) -> Result<QueryReply, Refusal>;
    /// What the indexers within reach know of a name.
    async fn query(request: QueryRequest) -> Result<QueryReply, Refusal>;
    /// A newer version is out; the record itself is the proof, whoever carries it.
    async fn invalidate(request: InvalidateRequest) -> Result<(), Refusal>;
    /// Between neighbors: which names the caller has. False: a step is missing, and the whole summary
    /// is needed.
    async fn summarize(update: SummaryUpdate) -> Result<bool, Refusal>;
    /// What this indexer itself knows of many names.
    async fn search_all(names: Names) -> Result<Answers, Refusal>;
    /// What the indexers within reach know of many names.
    async fn query_all(request: QueryAllRequest) -> Result<Answers, Refusal>;
    /// The caller no longer offers anything that it registered on this connection.
    async fn deregister_all() -> Result<(), Refusal>;
}

/// "I hold these versions."
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterRequest {
    /// What the caller holds, each version signed by its origin.
    pub records: Records,
    /// Whether versions that are new to the indexer are announced to its neighbors and to the
    /// holders of older ones. False when a session only repeats what it said before.
    pub announce: bool,
    /// Whether the caller is still downloading all of these, and serves what it has of them. The
    /// newest word on a version counts. What is held in part is never announced to neighbors.
    pub partial: bool,
}

/// What the indexer made of a registration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterReply {
    /// How long the caller stays listed without a renewal.
    pub lease: LeaseReply,
    /// Newer versions that the indexer knows of what the caller registered (or other bytes under the
    /// same number): those copies are not listed.
    pub newer: Records,
    /// How many were not listed because a limit of the indexer is reached.
    pub unlisted: u32,
}

/// The caller's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseReply {
    /// Milliseconds from now.
    pub lease_ms: u32,
    /// How many names the caller has registered on this connection. A caller that remembers
    /// another number registers anew.
    pub names: u32,
}

/// A query on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryRequest {
    /// The same for every copy of one query.
    pub msg_id: MsgId,
    /// What is looked for.
    pub name: FileName,
    /// Hops it may still travel; 0 asks the receiver alone.
    pub ttl_hops: u8,
    /// Indexers that need not be asked: a copy with at least as many hops is on its way to them.
    #[serde(with = "crate::fixed_list")]
    pub covered: Covered,
}

/// Many queries that begin at once. They travel on as one query for each name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryAllRequest {
    /// Id of the query for the first name; the others follow it, [`MsgId::nth`].
    pub msg_id: MsgId,
    /// What is looked for.
    pub names: Names,
    /// Hops each query may travel; 0 asks the receiver alone.
    pub ttl_hops: u8,
}

impl QueryAllRequest {
    /// The query for each name.
    pub fn queries(self) -> impl Iterator<Item = QueryRequest> {
        let Self { msg_id, names, ttl_hops } = self;
        let query =
            move |(n, name)| QueryRequest { msg_id: msg_id.nth(n), name, ttl_hops, covered: Covered::new() };
        (0..).zip(names).map(query)
    }
}

/// Puts as many of `replies` into one reply as a frame has room for.
#[must_use]
pub fn answers(replies: impl IntoIterator<Item = QueryReply>) -> Answers {
    let mut room = FRAME_BYTES_MAX - ANSWERS_BYTES_MAX;
    Answers::first_of(replies.into_iter().map(|reply| {
        room = room.checked_sub(reply.bytes_max())?;
        Some(reply)
    }))
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryReply {
    /// One entry for each origin, with its newest version known.
    pub hits: List<Hit, HITS_MAX>,
    /// Whether every indexer in reach answered in time and no origin was cut off. Of very many
    /// holders only some are listed all the same.
    pub complete: bool,
    /// Query messages that indexers sent to each other for this answer, as far as they are known.
    pub messages: u32,
}

impl QueryReply {
    /// Upper bound of its bytes on the wire.
    fn bytes_max(&self) -> usize {
        let hit = |hit: &Hit| {
            let name = hit.record.unverified().name.as_str().len();
            RECORD_BYTES_MAX - NAME_BYTES_MAX + name + hit.holders.len() * HOLDER_BYTES_MAX
        };
        self.hits.iter().map(hit).sum()
    }
}

/// A version of a file and who holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hit {
    /// The origin's statement.
    pub record: SignedRecord,
    /// Nodes that can serve exactly this version; first those that hold all of it.
    pub holders: List<Holder, HOLDERS_MAX>,
}

/// A node that can serve a version, or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Holder {
    /// Its id; a connection to it must prove this key.
    pub node: NodeId,
    /// Where it listens, as its indexer sees it.
    pub addr: SocketAddr,
    /// It is still downloading the version, and serves what it has of it.
    pub partial: bool,
}

impl Holder {
    /// A holder of all of a version.
    #[must_use]
    pub const fn new(node: NodeId, addr: SocketAddr) -> Self {
        Self { node, addr, partial: false }
    }

    /// Whether both are one node at one address, however much of the version each is said to hold.
    #[must_use]
    pub fn is_same_source(&self, other: &Self) -> bool {
        self.node == other.node && self.addr == other.addr
    }
}

/// An invalidation on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvalidateRequest {
    /// The same for every copy of one invalidation.
    pub msg_id: MsgId,
    /// The newer versions.
    pub records: Records,
    /// Hops it may still travel.
    pub ttl_hops: u8,
    /// Indexers that need not be told.
    #[serde(with = "crate::fixed_list")]
    pub covered: Covered,
}

/// A name and the version of it that the asker has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The name.
    pub name: FileName,
    /// The version held.
    pub version: Version,
    /// Its content: a counter that was lost can give one number to two contents.
    pub content: ContentHash,
}
