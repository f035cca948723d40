//! The data stream: how file bytes are asked for. They follow the reply raw, outside the codec.
//!
//! A connection opened with [`Purpose::Data`](crate::Purpose::Data) carries requests one way and,
//! in the same order, replies the other way. Each message is a 32-bit big-endian length and that
//! many encoded bytes; behind a reply that grants follow exactly `len` raw bytes.

use serde::{Deserialize, Serialize};

use crate::{ContentHash, FetchRefusal, List, ManifestHash, limits::RANGES_MAX};

/// A request on a data stream. Wire: append variants, never reorder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DataRequest {
    /// The encoded manifest with this hash.
    Manifest(ManifestHash),
    /// These ranges of the file with this hash, one behind the other.
    Get {
        /// BLAKE3 of the file.
        content: ContentHash,
        /// What is wanted of it.
        ranges: List<ByteRange, RANGES_MAX>,
    },
    /// Which chunks of the file with this hash the holder has by now: a bit for each chunk of its
    /// manifest, the lowest bit of the first byte for the first chunk. No bytes at all: it has them all.
    Have(ContentHash),
    /// The hashes of the segments of the file whose manifest has this hash: aligned subtrees of its BLAKE3,
    /// one behind the other. They prove themselves against the file's hash. Not every holder keeps them.
    Outline(ManifestHash),
}

/// A range of bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByteRange {
    /// The first byte.
    pub offset: u64,
    /// How many, at least one.
    pub len: u64,
}

/// How sure the holder is that its copy is the newest version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Freshness {
    /// Confirmed by the origin within the policy's bound, or the origin itself.
    Fresh,
    /// Past the bound without a confirmation; no newer version is known.
    Unverified,
    /// A newer version is known.
    Stale,
}

impl std::fmt::Display for Freshness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Fresh => "fresh",
            Self::Unverified => "unverified",
            Self::Stale => "stale",
        })
    }
}

/// What precedes the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Raw bytes that follow.
    pub len: u64,
    /// How fresh the holder's copy is.
    pub freshness: Freshness,
}

/// The reply to a [`DataRequest`].
pub type DataReply = Result<Grant, FetchRefusal>;
