//! The manifest: the chunks of one version of a file, in order. Arithmetic only, no file is read.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{
    id::{ChunkHash, ManifestHash},
    record::Record,
};
use crate::{
    codec::{self, CodecError},
    limits::{CHUNK_BYTES_MAX, CHUNKS_MAX, MANIFEST_BYTES_MAX},
};

/// Begins the manifest of an executable file: the number of its chunks in eight bytes, longer than it has to be. Every
/// program reads that number; one that knows no such files sees no difference.
const EXECUTABLE: u8 = 253;

/// One chunk: its length and its BLAKE3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Bytes, 1 to [`CHUNK_BYTES_MAX`].
    pub len: u32,
    /// BLAKE3 of these bytes.
    pub hash: ChunkHash,
}

/// The chunks of one version of a file.
///
/// Invariants, checked whenever one is made or decoded:
/// - each chunk has 1 to [`CHUNK_BYTES_MAX`] bytes;
/// - there are at most [`CHUNKS_MAX`] chunks;
/// - `offsets[i]` is where chunk `i` begins, and the last entry is the size of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    chunks: Vec<Chunk>,
    offsets: Vec<u64>,
    is_executable: bool,
}

/// Why a manifest is not the one its record promises.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The bytes have another hash than the record says.
    #[error("the manifest is not the one that the record names")]
    WrongHash,
    /// The chunks do not add up to the size the record says.
    #[error("the chunks add up to {sum} bytes, the record says {size}")]
    WrongSize {
        /// What the chunks add up to.
        sum: u64,
        /// What the record says.
        size: u64,
    },
    /// An empty or too long chunk.
    #[error("a chunk of {0} bytes")]
    BadChunk(u32),
    /// More chunks than any file may have.
    #[error("{0} chunks are more than any file may have")]
    TooManyChunks(usize),
    /// Bytes that are no manifest.
    #[error(transparent)]
    Malformed(#[from] CodecError),
}

impl Manifest {
    /// The manifest of these chunks.
    ///
    /// # Errors
    /// The chunks break an invariant.
    pub fn new(chunks: Vec<Chunk>) -> Result<Self, ManifestError> {
        if chunks.len() as u64 > CHUNKS_MAX {
            return Err(ManifestError::TooManyChunks(chunks.len()));
        }
        let mut offsets = Vec::with_capacity(chunks.len() + 1);
        let mut end = 0u64;
        offsets.push(end);
        for chunk in &chunks {
            if chunk.len == 0 || u64::from(chunk.len) > CHUNK_BYTES_MAX {
                return Err(ManifestError::BadChunk(chunk.len));
            }
            end += u64::from(chunk.len);
            offsets.push(end);
        }
        Ok(Self { chunks, offsets, is_executable: false })
    }

    /// The same chunks, of an executable file or of another.
    #[must_use]
    pub fn of_executable(self, is_executable: bool) -> Self {
        Self { is_executable, ..self }
    }

    /// Whether the file is executable where it is published.
    #[must_use]
    pub const fn is_executable(&self) -> bool {
        self.is_executable
    }

    /// Whether this is the encoded manifest of an executable file.
    #[must_use]
    pub fn says_executable(encoded: &[u8]) -> bool {
        encoded.first() == Some(&EXECUTABLE)
    }

    /// Decodes a manifest and compares it with the record that names it.
    ///
    /// # Errors
    /// It is not the manifest of that record: the sender is at fault.
    pub fn decode_for(record: &Record, bytes: &[u8]) -> Result<Self, ManifestError> {
        if hash_of(bytes) != record.manifest {
            return Err(ManifestError::WrongHash);
        }
        let manifest = Self::decode(bytes)?;
        if manifest.size() != record.size {
            return Err(ManifestError::WrongSize { sum: manifest.size(), size: record.size });
        }
        Ok(manifest)
    }

    /// Decodes a manifest that this node stored itself.
    ///
    /// # Errors
    /// The bytes are no manifest.
    pub fn decode(bytes: &[u8]) -> Result<Self, ManifestError> {
        Ok(Self::new(codec::decode(bytes)?)?.of_executable(Self::says_executable(bytes)))
    }

    /// The encoded manifest and its hash.
    ///
    /// # Errors
    /// Never for a manifest that keeps its invariants.
    pub fn encode(&self) -> Result<(Vec<u8>, ManifestHash), CodecError> {
        let mut bytes = Vec::with_capacity(self.chunks.len() * 36 + 8);
        codec::encode_into(&mut bytes, &self.chunks, MANIFEST_BYTES_MAX)?;
        if self.is_executable {
            let mut prefix = Vec::new();
            codec::append(&mut prefix, &self.chunks.len())?;
            let long = [&[EXECUTABLE][..], &(self.chunks.len() as u64).to_le_bytes()].concat();
            bytes.splice(..prefix.len(), long);
        }
        let hash = hash_of(&bytes);
        Ok((bytes, hash))
    }

    /// The chunks in order.
    #[must_use]
    pub fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// Bytes of the whole file.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.offsets.last().copied().unwrap_or(0)
    }

    /// Where chunk `index` lies in the file.
    ///
    /// # Panics
    /// There is no such chunk.
    #[must_use]
    pub fn range(&self, index: usize) -> Range<u64> {
        self.offsets[index]..self.offsets[index + 1]
    }

    /// The chunks that have a byte of `bytes`; those past the end of the file are left out.
    #[must_use]
    pub fn chunks_in(&self, bytes: Range<u64>) -> Range<usize> {
        if bytes.is_empty() {
            return 0..0;
        }
        let first = self.offsets.partition_point(|offset| *offset <= bytes.start).saturating_sub(1);
        let end = self.offsets.partition_point(|offset| *offset < bytes.end).min(self.chunks.len());
        first.min(end)..end
    }

    /// The manifest of a file of at most one chunk, and its encoded form: both follow from the record
    /// alone. `None` if the file has more chunks.
    #[must_use]
    pub fn implied_by(record: &Record) -> Option<(Self, Vec<u8>)> {
        let len = u32::try_from(record.size).ok()?;
        let only = Chunk { len, hash: ChunkHash::from_bytes(*record.content.as_bytes()) };
        let manifest = Self::new(if len == 0 { Vec::new() } else { vec![only] }).ok()?;
        [false, true].into_iter().find_map(|is_executable| {
            let manifest = manifest.clone().of_executable(is_executable);
            let (bytes, hash) = manifest.encode().ok()?;
            (hash == record.manifest).then_some((manifest, bytes))
        })
    }
}

fn hash_of(bytes: &[u8]) -> ManifestHash {
    ManifestHash::from_bytes(*blake3::hash(bytes).as_bytes())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chunk(len: u32) -> Chunk {
        Chunk { len, hash: ChunkHash::from_bytes([9; 32]) }
    }

    #[test]
    fn chunks_that_are_empty_or_too_long_are_refused() {
        for len in [0, u32::MAX] {
            assert!(matches!(Manifest::new(vec![chunk(1), chunk(len)]), Err(ManifestError::BadChunk(_))));
        }
    }

    #[test]
    fn bytes_are_found_in_their_chunks() {
        let manifest = Manifest::new(vec![chunk(10), chunk(5), chunk(20)]).unwrap();
        let cases =
            [(0..1, 0..1), (9..10, 0..1), (9..11, 0..2), (10..15, 1..2), (0..35, 0..3), (34..99, 2..3)];
        for (bytes, chunks) in cases {
            assert_eq!(manifest.chunks_in(bytes.clone()), chunks, "{bytes:?}");
        }
        for nothing in [3..3, 35..40, 99..100] {
            assert!(manifest.chunks_in(nothing.clone()).is_empty(), "{nothing:?}");
        }
    }

    #[test]
    fn empty_file_has_no_chunks() {
        let manifest = Manifest::new(Vec::new()).unwrap();
        assert_eq!((manifest.size(), manifest.chunks().len()), (0, 0));
        assert_eq!(manifest.encode().unwrap().1, hash_of(&[0]), "as the record of a withdrawal has it");
    }

    /// Programs before the bit decode the list alone, and hash and pass on the bytes as they came.
    #[test]
    fn executable_file_has_another_manifest_that_every_program_reads() {
        for lens in [vec![], vec![7], vec![9; 300]] {
            let manifest = Manifest::new(lens.iter().map(|len| chunk(*len)).collect()).unwrap();
            let (plain, plain_hash) = manifest.encode().unwrap();
            let (bytes, hash) = manifest.clone().of_executable(true).encode().unwrap();
            assert_eq!(codec::decode::<Vec<Chunk>>(&bytes).unwrap(), manifest.chunks);
            assert_ne!(hash, plain_hash);
            assert!(Manifest::decode(&bytes).unwrap().is_executable());
            assert!(!Manifest::decode(&plain).unwrap().is_executable());
        }
    }

    proptest! {
        #[test]
        fn manifest_survives_the_wire_and_ranges_touch(lens in prop::collection::vec(1..100_000u32, 0..50), x: bool) {
            let manifest = Manifest::new(lens.iter().map(|len| chunk(*len)).collect()).unwrap().of_executable(x);
            let (bytes, _) = manifest.encode().unwrap();
            prop_assert_eq!(&Manifest::decode(&bytes).unwrap(), &manifest);
            let mut end = 0;
            for (index, len) in lens.iter().enumerate() {
                prop_assert_eq!(manifest.range(index), end..end + u64::from(*len));
                end += u64::from(*len);
            }
            prop_assert_eq!(manifest.size(), end);
        }
    }
}
