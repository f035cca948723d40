//! Checkpoints of a download: written every few seconds, so that an interrupted download resumes without
//! reading the whole partial file. Everything here blocks.
//!
//! A checkpoint is written after its chunks were made durable, so it holds after a crash or a loss of
//! power. It is used if the partial file is the same file, is not shorter, and a sample of its chunks
//! verifies; otherwise every chunk is read and verified again. The hashes in it count only if the file was not written to
//! since.

use nekoproto::{Manifest, codec};
use serde::{Deserialize, Serialize};

use super::assembly::Assembly;
use crate::{
    content::{
        bitfield::{self, Bitfield},
        chunker::hash,
        outboard::{SegmentHash, Segments},
        stamp::Stamp,
    },
    storage::{
        StoreError,
        catalogue::{Catalogue, CatalogueError},
        partial::Partial,
    },
};

/// Chunks in the sample that is verified.
const SAMPLE_CHUNKS: usize = 64;
/// Maximum size of a checkpoint in bytes: one bit per chunk, one hash per segment.
const NOTE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The stored form. A change makes old checkpoints unreadable; their downloads verify every chunk again.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    stamp: Stamp,
    chunks: Vec<u8>,
    segments: Vec<Option<SegmentHash>>,
}

/// Why a checkpoint was not written. The previous one, if any, still holds.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoteError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    #[error(transparent)]
    Codec(#[from] codec::CodecError),
    /// Every chunk has to be verified again.
    #[error("another program wrote to the partial file")]
    Touched,
}

pub(crate) fn note(catalogue: &Catalogue, assembly: &Assembly) -> Result<(), NoteError> {
    // Bit field first, then the sync: every chunk in the checkpoint is durable.
    let chunks = bitfield::to_bytes(&assembly.have().snapshot());
    let segments = assembly.segments();
    assembly.partial().sync()?;
    let stamp = assembly.partial().stamp()?.ok_or(NoteError::Touched)?;
    let segments = (0..segments.len()).map(|index| segments.get(index)).collect();
    let note = Note { stamp, chunks, segments };
    let mut bytes = Vec::new();
    codec::encode_into(&mut bytes, &note, NOTE_BYTES_MAX)?;
    Ok(catalogue.note_progress(&assembly.partial().path(), &bytes)?)
}

/// The chunks and segments of `manifest` with which a download into `partial` starts, and whether the
/// file may contain further chunks, which must be verified.
pub(crate) fn recall(
    catalogue: &Catalogue,
    manifest: &Manifest,
    partial: &Partial,
) -> Result<(Bitfield, Segments, bool), StoreError> {
    let count = manifest.chunks().len();
    let nothing = || (Bitfield::with_capacity(count), Segments::new(manifest.size()));
    let there = partial.bytes()?;
    if there == 0 {
        let (chunks, segments) = nothing();
        return Ok((chunks, segments, false));
    }
    let noted = catalogue.progress(&partial.path()).ok().flatten();
    let (chunks, segments) =
        noted.and_then(|bytes| believed(&bytes, manifest, partial, there)).unwrap_or_else(nothing);
    Ok((chunks, segments, true))
}

fn believed(
    bytes: &[u8],
    manifest: &Manifest,
    partial: &Partial,
    there: u64,
) -> Option<(Bitfield, Segments)> {
    let note: Note = codec::decode(bytes).ok()?;
    let now = partial.stamp().ok().flatten()?;
    if !note.stamp.is_same_file(&now) {
        return None;
    }
    let chunks = bitfield::from_bytes(&note.chunks, manifest.chunks().len())?;
    let had: Vec<usize> = chunks.ones().collect();
    if had.last().is_some_and(|last| manifest.range(*last).end > there) {
        return None; // truncated by another program
    }
    let step = had.len().div_ceil(SAMPLE_CHUNKS).max(1);
    let mut sample = had.iter().step_by(step).chain(had.last());
    let mut buffer = Vec::new();
    let intact = sample.all(|index| {
        let chunk = manifest.chunks()[*index];
        buffer.resize(chunk.len as usize, 0);
        partial.read_at(&mut buffer, manifest.range(*index).start).is_ok() && hash(&buffer) == chunk.hash
    });
    let mut segments = Segments::new(manifest.size());
    if !intact || note.segments.len() != segments.len() {
        return None;
    }
    let is_unchanged = note.stamp == now;
    for (index, hash) in note.segments.iter().enumerate().filter(|_| is_unchanged) {
        if let Some(hash) = hash {
            segments.put(index, *hash);
        }
    }
    Some((chunks, segments))
}
