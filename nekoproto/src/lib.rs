//! How nekop2p nodes speak.
//!
//! | module | what it holds |
//! |---|---|
//! | [`id`], [`name`], [`list`], [`policy`] | values that keep their rule when decoded |
//! | [`record`], [`verify`], [`identity`] | the origin's signed statement, checking it, the key pair |
//! | [`packed`] | the same statement in little memory |
//! | [`manifest`] | the chunks of one version of a file |
//! | [`summary`] | what an indexer tells its neighbors of its names |
//! | [`hello`] | the first message on every connection |
//! | [`indexer`], [`peer`] | the control calls, as tarpc services |
//! | [`data`] | the data stream, for file bytes |
//! | [`error`], [`limits`] | errors that travel; every bound |
//! | [`codec`], [`transport`] | values to bytes; bytes to nodes |
//! | [`tasks`] | work beside a node's own, ended with it |
//!
//! Nothing here decides anything: indexers and peers do. `docs/protocol.md` has the wire on one page.

pub mod codec;
pub mod data;
pub mod error;
mod fixed;
mod fixed_list;
pub mod hello;
mod hex;
pub mod id;
pub mod identity;
pub mod indexer;
pub mod limits;
pub mod list;
pub mod manifest;
pub mod name;
pub mod packed;
pub mod peer;
pub mod policy;
pub mod record;
pub mod summary;
pub mod tasks;
pub mod transport;
pub mod verify;

/// Version of everything that travels. Nodes of different versions refuse each other by name.
pub const PROTOCOL_VERSION: u16 = 4;

pub use data::{ByteRange, DataReply, DataRequest, Freshness, Grant};
pub use error::{Fault, FetchRefusal, HelloRefusal, Refusal};
pub use hello::{Hello, NetworkName, Purpose, Role};
pub use id::{ChunkHash, ContentHash, ManifestHash, MsgId, NodeId, NodeTag, Version};
pub use identity::{Identity, IdentityError};
pub use indexer::{
    Answers, Covered, Held, Hit, Holder, IndexerService, InvalidateRequest, LeaseReply, Names,
    QueryAllRequest, QueryReply, QueryRequest, Records, RegisterReply, RegisterRequest,
};
pub use list::List;
pub use manifest::{Chunk, Cut, Manifest, ManifestError};
pub use name::{FileName, NameError};
pub use packed::PackedRecord;
pub use peer::{PeerService, Verdict};
pub use policy::{Mode, Policy};
pub use record::{Record, RecordError, Signature, SignedRecord, VerifiedRecord};
pub use verify::Verifier;

/// Calls an indexer over a control connection.
pub type IndexerServiceClient = indexer::IndexerServiceClient<
    transport::Calls<indexer::IndexerServiceRequest, indexer::IndexerServiceResponse>,
>;
/// Calls a peer over a control connection.
pub type PeerServiceClient =
    peer::PeerServiceClient<transport::Calls<peer::PeerServiceRequest, peer::PeerServiceResponse>>;
