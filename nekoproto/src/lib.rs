//! How nekop2p nodes speak. `docs/protocol.md` has the wire format on one page.
//!
//! The rooms, each of which imports only those above it:
//!
//! | room | what it holds |
//! |---|---|
//! | [`limits`], [`codec`], [`tasks`] | every limit; values to bytes; background tasks |
//! | `values` | [`id`], [`name`], [`list`], [`policy`], [`record`], [`packed`], [`manifest`]: checked when decoded |
//! | `identity` | a node's key pair, signing and verifying records |
//! | `messages` | [`hello`], [`indexer`], [`peer`], [`summary`], [`data`], [`error`]: what is sent |
//! | [`transport`] | connections between nodes, control calls, data streams |
//!
//! No room decides anything: indexers and peers do. The re-exports below are for other crates.

pub mod codec;
mod identity;
pub mod limits;
mod messages;
pub mod tasks;
pub mod transport;
mod values;

/// Summaries of an indexer's names: the filter, and the messages about it.
pub mod summary {
    pub use crate::{
        messages::summary::{SummaryNews, SummaryUpdate},
        values::filter::{Assembly, Filter, FilterPart, NameKey, Word},
    };
}

pub use identity::{
    key_pair::{Identity, IdentityError},
    verifier::Verifier,
};
pub use messages::{
    data::{self, ByteRange, DataReply, DataRequest, Freshness, Grant},
    error::{self, Fault, FetchRefusal, HelloRefusal, Refusal},
    hello::{self, Hello, NetworkName, PROTOCOL_VERSION, Purpose, Role},
    indexer::{
        self, Answers, Covered, Held, Hit, Holder, IndexerService, InvalidateRequest, LeaseReply, Names,
        QueryAllRequest, QueryReply, QueryRequest, Records, RegisterReply, RegisterRequest,
    },
    peer::{self, PeerService, Verdict},
};
pub use values::{
    cut::Cut,
    id::{self, ChunkHash, ContentHash, ManifestHash, MsgId, NodeId, NodeTag, Version},
    list::{self, List},
    manifest::{self, Chunk, Manifest, ManifestError},
    name::{self, FileName, NameError},
    packed::{self, PackedRecord},
    policy::{self, Mode, Policy},
    record::{self, Record, RecordError, SignedRecord, VerifiedRecord},
    signature::Signature,
};

/// Calls an indexer over a control connection.
pub type IndexerServiceClient = indexer::IndexerServiceClient<
    transport::Calls<indexer::IndexerServiceRequest, indexer::IndexerServiceResponse>,
>;
/// Calls a peer over a control connection.
pub type PeerServiceClient =
    peer::PeerServiceClient<transport::Calls<peer::PeerServiceRequest, peer::PeerServiceResponse>>;
