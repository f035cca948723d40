//! Values that keep their rule when they are decoded.
//!
//! On the wire a fixed array of bytes is a length and the bytes (`serde_bytes`), copied at once: serde's own
//! arrays are encoded byte by byte, which took longer than the rest of a message.

mod cut;
pub(crate) mod filter;
pub(crate) mod fixed_list;
mod hex;
pub mod id;
mod label;
pub mod list;
mod manifest;
pub mod name;
mod node_addrs;
mod packed;
pub mod policy;
mod record;
mod signature;
mod ticket;

#[cfg(test)]
pub(crate) use self::record::testing;
pub use self::{
    cut::Cut,
    id::{ChunkHash, ContentHash, ManifestHash, MsgId, NodeId, NodeTag, Version},
    label::{Label, LabelError},
    list::List,
    manifest::{Chunk, Manifest, ManifestError},
    name::{FileName, NameError, is_invisible},
    node_addrs::NodeAddrs,
    packed::PackedRecord,
    policy::{Mode, Policy, Staleness},
    record::{ListedRecord, Record, RecordError, SignedRecord, TrustedRecord, VerifiedRecord},
    signature::Signature,
    ticket::{IndexerAddr, TICKET_PREFIX, Ticket, TicketError, USUAL_PORT},
};
