//! The calls of an indexer: the tarpc service [`IndexerService`] and its messages.

use serde::{Deserialize, Serialize};

use super::{
    error::Refusal,
    find::{IdDigits, Position, Search},
    hit::Hit,
    probe::{ProbeReply, ProbeRequest},
    summary::{SummaryNews, SummaryReply},
    trace::TraceReply,
};
use crate::{
    limits::{
        ANSWERS_BYTES_MAX, BATCH_MAX, COVERED_MAX, FIND_BYTES_MAX, FOUND_MAX, FRAME_BYTES_MAX, HITS_MAX,
        HOLDER_BYTES_MAX, LISTED_MAX, NAME_BYTES_MAX, RECORD_BYTES_MAX, WITHOUT_MAX,
    },
    transport::rendezvous::Token,
    values::{ContentHash, FileName, List, MsgId, NodeId, NodeTag, SignedRecord, Version},
};

/// Signed records of one call.
pub type Records = List<SignedRecord, BATCH_MAX>;
/// Names of one call.
pub type Names = List<FileName, BATCH_MAX>;
/// Answers to the names of one call, in their order. `None`: the answer did not fit the frame; ask for the
/// name again.
pub type Answers = List<Option<QueryReply>, BATCH_MAX>;
/// Indexers that were asked, or are being asked.
pub type Covered = List<NodeTag, COVERED_MAX>;

/// The calls of an indexer. The caller is known from the connection, never from a message.
#[tarpc::service]
pub trait IndexerService {
    /// The caller holds these versions, completely or partially, and may be listed until its lease expires.
    /// One forged record refuses the whole call. The call is idempotent.
    async fn register(request: RegisterRequest) -> Result<RegisterReply, Refusal>;
    /// The caller no longer offers these names, of any origin.
    async fn deregister(names: Names) -> Result<(), Refusal>;
    /// Renews the caller's lease on everything that it registered on this connection.
    async fn renew() -> Result<LeaseReply, Refusal>;
    /// What the indexers in reach know about a name, and on request which way the query went.
    async fn query(request: QueryRequest) -> Result<QueryReply, Refusal>;
    /// Newer versions exist. The signed records are the proof, whoever sends them.
    async fn invalidate(request: InvalidateRequest) -> Result<(), Refusal>;
    /// Between neighbors: which names the caller has. Without changes it is a heartbeat; the answer is the heartbeat of the
    /// other direction.
    async fn summarize(news: SummaryNews) -> Result<SummaryReply, Refusal>;
    /// What the indexers in reach know about many names.
    async fn query_all(request: QueryAllRequest) -> Result<Answers, Refusal>;
    /// The caller no longer offers anything that it registered on this connection; a neighbor is told to end.
    async fn deregister_all() -> Result<(), Refusal>;
    /// The files whose names match, as the indexers in reach know them, by name and page by page.
    async fn find(request: FindRequest) -> Result<FindReply, Refusal>;
    /// Has a holder that is registered here connect to the caller, who cannot connect to it.
    async fn call_back(request: CallBack) -> Result<(), Refusal>;
    /// A route probe: the indexer passes it on to one neighbor, if it has hops left. The answer is the way that it went.
    async fn probe(request: ProbeRequest) -> Result<ProbeReply, Refusal>;
}

/// Registers the caller as a holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterRequest {
    /// The versions held, each signed by its origin.
    pub records: Records,
    /// Whether the indexer announces versions that are new to it to its neighbors and to the holders of older
    /// versions. `false` when the caller repeats earlier registrations.
    pub announce: bool,
    /// Whether the caller is still downloading all of these and serves the chunks it has. The latest
    /// registration of a version counts. Partial holdings are never announced to neighbors.
    pub partial: bool,
}

/// The result of a registration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterReply {
    /// The caller's lease.
    pub lease: LeaseReply,
    /// Newer versions that the indexer knows of registered files, or other content under the same version
    /// number: the caller's copies of these are not listed.
    pub newer: Records,
    /// The names whose records are not listed because a limit of the indexer is reached.
    pub unlisted: Names,
}

/// A holder is to connect to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallBack {
    /// The holder.
    pub holder: NodeId,
    /// Where the caller listens for it, at the address at which the indexer sees it. `None`: both connect to the indexer,
    /// which joins the two connections.
    pub port: Option<u16>,
    /// Tells the connection apart.
    pub token: Token,
}

/// The caller's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseReply {
    /// Milliseconds until it expires, unless renewed.
    pub lease_ms: u32,
    /// Number of names the caller has registered on this connection. A caller that expects another number
    /// registers again.
    pub names: u32,
}

/// A query as it is forwarded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryRequest {
    /// The same for every copy of one query.
    pub msg_id: MsgId,
    /// The name searched for.
    pub name: FileName,
    /// Hops left; 0 asks the receiver alone.
    pub ttl_hops: u8,
    /// Indexers not to ask: they have been or will be sent a copy with at least as many hops left.
    #[serde(with = "crate::values::fixed_list")]
    pub covered: Covered,
    /// Whether this copy crossed a link from a node that the receiver did not trust. Such copies are told apart from all
    /// others of the query, so that none of them hides one of the others.
    pub from_guest: bool,
    /// Only files of origins whose id begins with this; `None`: of all.
    pub origin: Option<IdDigits>,
    /// Holders that are not wanted: they failed.
    #[serde(with = "crate::values::fixed_list")]
    pub without: List<NodeTag, WITHOUT_MAX>,
    /// Whether the reply has the way of the query.
    pub trace: bool,
}

impl QueryRequest {
    /// The query for all that is known of `name`.
    #[must_use]
    pub const fn new(msg_id: MsgId, name: FileName, ttl_hops: u8) -> Self {
        Self {
            msg_id,
            name,
            ttl_hops,
            covered: Covered::new(),
            from_guest: false,
            origin: None,
            without: List::new(),
            trace: false,
        }
    }
}

/// Many queries that start together. Each name is forwarded as a query of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryAllRequest {
    /// Id of the query for the first name; the others have the ids after it, see [`MsgId::nth`].
    pub msg_id: MsgId,
    /// The names searched for.
    pub names: Names,
    /// Hops each query has left; 0 asks the receiver alone.
    pub ttl_hops: u8,
}

impl QueryAllRequest {
    /// A new query for each of `names`.
    #[must_use]
    pub fn new(names: Names, ttl_hops: u8) -> Self {
        Self { msg_id: MsgId::random(), names, ttl_hops }
    }

    /// The query for each name.
    pub fn queries(self) -> impl Iterator<Item = QueryRequest> {
        let Self { msg_id, names, ttl_hops } = self;
        let query = move |(n, name)| QueryRequest::new(msg_id.nth(n), name, ttl_hops);
        (0..).zip(names).map(query)
    }
}

/// What is left of a frame for further answers.
#[derive(Debug)]
pub struct AnswersRoom(usize);

impl Default for AnswersRoom {
    fn default() -> Self {
        Self(FRAME_BYTES_MAX - ANSWERS_BYTES_MAX)
    }
}

impl AnswersRoom {
    /// `reply`, if it fits.
    pub fn fit(&mut self, reply: QueryReply) -> Option<QueryReply> {
        self.0 = self.0.checked_sub(reply.bytes_max())?;
        Some(reply)
    }
}

/// The result of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryReply {
    /// One entry for each origin, with its newest known version.
    pub hits: List<Hit, HITS_MAX>,
    /// Whether every trusted indexer in reach answered in time and no origin was left out. Holders past the limit are
    /// left out of a complete reply too.
    pub complete: bool,
    /// Whether guests may know more: they were not asked, or not waited for.
    pub guests_unheard: bool,
    /// Known number of query messages that indexers sent to each other for this reply.
    pub messages: u32,
    /// The way of the query, if the request says so.
    pub trace: Option<Box<TraceReply>>,
}

impl QueryReply {
    /// Upper bound of its encoded length without a trace.
    fn bytes_max(&self) -> usize {
        self.hits.iter().map(hit_bytes_max).sum()
    }
}

/// Upper bound of the encoded length of a hit.
fn hit_bytes_max(hit: &Hit) -> usize {
    let name = hit.record.unverified().name.as_str().len();
    RECORD_BYTES_MAX - NAME_BYTES_MAX + name + hit.holders.len() * HOLDER_BYTES_MAX
}

/// A search as it is forwarded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindRequest {
    /// The same for every copy of one search.
    pub msg_id: MsgId,
    /// What is searched for.
    pub search: Search,
    /// Only files behind this place; `None`: from the first on.
    pub after: Option<Position>,
    /// At most this many hits, and [`LISTED_MAX`]; 0 counts as 1.
    pub limit: u16,
    /// Hops left; 0 asks the receiver alone.
    pub ttl_hops: u8,
    /// Indexers not to ask: they have been or will be sent a copy with at least as many hops left.
    #[serde(with = "crate::values::fixed_list")]
    pub covered: Covered,
    /// As [`QueryRequest::from_guest`].
    pub from_guest: bool,
}

impl FindRequest {
    /// A new search for the first page.
    #[must_use]
    pub fn new(search: Search, ttl_hops: u8) -> Self {
        let (msg_id, covered) = (MsgId::random(), Covered::new());
        let limit = u16::try_from(FOUND_MAX).unwrap_or(u16::MAX);
        Self { msg_id, search, after: None, limit, ttl_hops, covered, from_guest: false }
    }

    /// The number of hits on a full page.
    #[must_use]
    pub fn limit(&self) -> usize {
        usize::from(self.limit).clamp(1, LISTED_MAX)
    }
}

/// A page of matches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindReply {
    /// The first matches behind the place asked for, strictly in the order of their [`Position`]s; one hit for each
    /// file of an origin.
    pub hits: List<Hit, LISTED_MAX>,
    /// Where further matches may begin: those up to this place are on the page. `None`: there are none.
    pub next: Option<Position>,
    /// Whether every trusted indexer in reach answered in time, and nothing was left out before `next`.
    pub complete: bool,
    /// Whether guests may know more: they were not waited for.
    pub guests_unheard: bool,
    /// Known number of messages that indexers sent to each other for this reply.
    pub messages: u32,
    /// The indexers behind the one that replies whose answers are in this reply. Like what is behind a neighbor, they
    /// are its word.
    #[serde(with = "crate::values::fixed_list")]
    pub answered: Covered,
    /// Those that were to be asked, and whose answer is not: they are away, late or wrong. Whom they would have asked
    /// is not known, and one that was never connected [stands](NodeTag::of_addr) by its address.
    #[serde(with = "crate::values::fixed_list")]
    pub silent: Covered,
}

impl FindReply {
    /// A page of the first of these hits, as many as fit a frame; the next one begins behind them, or at `next`.
    #[must_use]
    pub fn of(mut hits: Vec<Hit>, next: Option<Position>) -> Self {
        let mut room = FIND_BYTES_MAX;
        let is_over = |hit: &Hit| {
            let left = room.checked_sub(hit_bytes_max(hit));
            room = left.unwrap_or_default();
            left.is_none()
        };
        let next = match hits.iter().position(is_over) {
            Some(end) => {
                hits.truncate(end);
                hits.last().map(|hit| Position::of(hit.record.unverified()))
            }
            None => next,
        };
        Self { next, hits: List::first_of(hits), ..Self::default() }
    }
}

/// An invalidation as it is forwarded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvalidateRequest {
    /// The same for every copy of one invalidation.
    pub msg_id: MsgId,
    /// The newer versions.
    pub records: Records,
    /// Hops left.
    pub ttl_hops: u8,
    /// Indexers not to tell.
    #[serde(with = "crate::values::fixed_list")]
    pub covered: Covered,
    /// As [`QueryRequest::from_guest`].
    pub from_guest: bool,
}

/// A name and the version of it that the caller has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The name.
    pub name: FileName,
    /// The version held.
    pub version: Version,
    /// Its content: after an origin lost its counter, one version number can have two contents.
    pub content: ContentHash,
}
