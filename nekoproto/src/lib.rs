//! How nekop2p nodes speak. `docs/protocol.md` has the wire format on one page.
//!
//! The rooms, each of which imports only those above it:
//!
//! | room | what it holds |
//! |---|---|
//! | [`limits`], [`codec`], [`clock`], [`tasks`], `remedy` | every limit; values to bytes; a clock that runs on in suspend; background tasks; what helps against errors |
//! | `values` | names, ids, policies, records, manifests, filters: checked when decoded |
//! | `identity` | a node's key pair, signing and verifying records |
//! | `messages` | [`hello`], [`indexer`], [`peer`], [`summary`], data streams, refusals: what is sent |
//! | [`budget`] | bytes kept for others, and each node's share |
//! | [`transport`] | connections between nodes, control calls, data streams |
//!
//! No room decides anything: indexers and peers do. The re-exports below are for other crates.

pub mod budget;
pub mod clock;
pub mod codec;
mod identity;
pub mod limits;
mod messages;
mod remedy;
pub mod small_file;
pub mod tasks;
pub mod transport;
mod values;

pub use self::{identity::*, messages::*, remedy::*, values::*};

/// Calls an indexer over a control connection.
pub type IndexerServiceClient = indexer::IndexerServiceClient<
    transport::Calls<indexer::IndexerServiceRequest, indexer::IndexerServiceResponse>,
>;
/// Calls a peer over a control connection.
pub type PeerServiceClient =
    peer::PeerServiceClient<transport::Calls<peer::PeerServiceRequest, peer::PeerServiceResponse>>;
