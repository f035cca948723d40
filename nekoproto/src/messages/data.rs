//! Requests and replies of a data stream. File bytes follow a reply raw, outside the codec.
//!
//! A connection opened with [`Purpose::Data`](super::hello::Purpose::Data) carries requests one way and
//! replies, in the same order, the other way. Each message is a 32-bit big-endian length and as many encoded
//! bytes; a grant is followed by exactly `len` raw bytes.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{Held, error::FetchRefusal};
use crate::{
    codec::{self, CodecError},
    limits::{BASE_RANGES_MAX, BASES_MAX, PACKING_BYTES_MAX, RANGES_MAX},
    values::{ContentHash, List, ManifestHash},
};

/// A request on a data stream. Wire: append variants, never reorder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DataRequest {
    /// The encoded manifest with this hash.
    Manifest(ManifestHash),
    /// These ranges of the file with this hash, one after the other.
    Get {
        /// BLAKE3 of the file.
        content: ContentHash,
        /// The ranges.
        ranges: List<ByteRange, RANGES_MAX>,
    },
    /// Which chunks of the file with this hash the holder has: a bit for each chunk of the manifest, the lowest
    /// bit of the first byte for the first chunk. No bytes at all mean all chunks.
    Have(ContentHash),
    /// The hashes of the segments (aligned BLAKE3 subtrees) of the file whose manifest has this hash, one after
    /// the other. They can be verified against the file's hash. Not every holder keeps them.
    Outboard(ManifestHash),
    /// Whether this version is the newest, asked of its origin; the raw bytes are the encoded [`Verdict`](super::Verdict).
    /// Subscribes as the call `confirm` does.
    Confirm(Held),
    /// One range of the file with this hash, in as few bytes as the holder can make of it: the raw bytes are a
    /// [`Packing`] and what it says.
    Packed {
        /// BLAKE3 of the file.
        content: ContentHash,
        /// The range, at most [`UNPACKED_BYTES_MAX`](crate::limits::UNPACKED_BYTES_MAX) long.
        range: ByteRange,
        /// BLAKE3 of other versions that the reader can read any part of, the newest first.
        bases: List<ContentHash, BASES_MAX>,
    },
}

/// A range of bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByteRange {
    /// The first byte.
    pub offset: u64,
    /// Number of bytes, at least one.
    pub len: u64,
}

/// How the bytes of a [`DataRequest::Packed`] come. Wire: append variants, never reorder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Packing {
    /// As they are.
    Plain,
    /// As one zstd frame.
    Frame,
    /// As one zstd frame whose prefix is a part of a base, which is not sent.
    After {
        /// The place of the base in the request.
        base: u8,
        /// Its parts, one after the other.
        ranges: List<ByteRange, BASE_RANGES_MAX>,
    },
}

impl Packing {
    /// The body of a reply: this, in front of the `bytes` that it is about.
    ///
    /// # Errors
    /// Never: its ranges are bounded.
    pub fn before(&self, bytes: &[u8]) -> Result<Vec<u8>, CodecError> {
        let mut body = vec![0; size_of::<u16>()];
        codec::encode_into(&mut body, self, PACKING_BYTES_MAX)?;
        let len = u16::try_from(body.len() - size_of::<u16>()).unwrap_or(u16::MAX);
        body[..size_of::<u16>()].copy_from_slice(&len.to_be_bytes());
        body.extend_from_slice(bytes);
        Ok(body)
    }

    /// The same of a `body` that was received. `None` if it is none.
    #[must_use]
    pub fn split(body: &[u8]) -> Option<(Self, &[u8])> {
        let (len, rest) = body.split_first_chunk()?;
        let (packing, bytes) = rest.split_at_checked(u16::from_be_bytes(*len).into())?;
        Some((codec::decode(packing).ok()?, bytes))
    }
}

/// What the holder knows of its copy being the newest version.
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

/// Precedes the raw bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Raw bytes that follow.
    pub len: u64,
    /// How fresh the holder's copy is.
    pub freshness: Freshness,
    /// Which part of the file the reader is to ask this holder for first, if that was looked at.
    pub portion: Option<Portion>,
}

/// A part of a file, of as many as there are readers that ask one holder for it: each has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Portion {
    /// How many come before it.
    pub place: u16,
    /// How many there are.
    pub of: u16,
}

impl Portion {
    /// That of an only reader.
    pub const WHOLE: Self = Self { place: 0, of: 1 };

    /// Those of so many chunks that it has. None of a portion that does not exist.
    #[must_use]
    pub fn of_chunks(self, chunks: usize) -> Range<usize> {
        let begin = |place: u16| chunks * usize::from(place) / usize::from(self.of.max(1));
        begin(self.place).min(chunks)..begin(self.place.saturating_add(1)).min(chunks)
    }
}

/// The reply to a [`DataRequest`].
pub type DataReply = Result<Grant, FetchRefusal>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_are_all_of_the_file_and_one_that_does_not_exist_is_nothing() {
        for (of, chunks) in [(1, 7), (3, 100), (40, 39), (u16::MAX, 16 * 1024)] {
            let portions = (0..of).map(|place| Portion { place, of }.of_chunks(chunks));
            assert_eq!(portions.flatten().collect::<Vec<_>>(), (0..chunks).collect::<Vec<_>>());
        }
        for portion in [Portion { place: 3, of: 3 }, Portion { place: u16::MAX, of: 2 }] {
            assert!(portion.of_chunks(100).is_empty());
        }
        assert_eq!(Portion { place: 0, of: 0 }.of_chunks(100), 0..100);
    }
}
