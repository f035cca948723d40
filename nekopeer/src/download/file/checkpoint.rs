//! Checkpoints of a download: written every few seconds, so that an interrupted download resumes without
//! reading the whole partial file. Everything here blocks.
//!
//! A checkpoint is written after its chunks were made durable, so it holds after a crash or a loss of
//! power. It is used if it is of the same content, and the partial file is the same file and not shorter; otherwise every
//! chunk is read and verified again. The hashes in it count only if the file was not written to since; the others are made
//! of what is on disk at the end.

use nekoproto::{Manifest, ManifestHash, codec};
use serde::{Deserialize, Serialize};

use super::assembly::Assembly;
use crate::{
    content::{
        bitfield::{self, Bitfield},
        outboard::{SegmentHash, Segments},
        stamp::Stamp,
    },
    failure::Failure,
    storage::partial::Partial,
};

/// Maximum size of a checkpoint in bytes: one bit per chunk, one hash per segment.
const BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The stored form. A change makes old checkpoints unreadable; their downloads verify every chunk again.
#[derive(Debug, Serialize, Deserialize)]
struct Checkpoint {
    manifest: ManifestHash,
    stamp: Stamp,
    chunks: Vec<u8>,
    segments: Vec<Option<SegmentHash>>,
}

/// Saves what is there of the file whose manifest has this hash. If that fails, the checkpoint before still holds.
pub(crate) fn save(manifest: ManifestHash, assembly: &Assembly) -> Result<(), Failure> {
    // Bit field first, then the sync: every chunk in the checkpoint is durable.
    let chunks = bitfield::to_bytes(&assembly.have().snapshot());
    let segments = assembly.segments();
    assembly.partial().sync()?;
    let stamp = assembly.partial().stamp()?;
    let segments = (0..segments.len()).map(|index| segments.get(index)).collect();
    let (mut bytes, checkpoint) = (Vec::new(), Checkpoint { manifest, stamp, chunks, segments });
    match codec::encode_into(&mut bytes, &checkpoint, BYTES_MAX) {
        Ok(()) => assembly.partial().save_progress(&bytes),
        Err(_) => Ok(()), // it is too long: all is verified again
    }
}

/// The chunks and segments of `manifest`, which has the hash `of`, with which a download into `partial` starts, and whether
/// the file may contain further chunks, which must be verified.
pub(crate) fn recall(
    of: ManifestHash,
    manifest: &Manifest,
    partial: &Partial,
) -> Result<(Bitfield, Segments, bool), Failure> {
    let there = partial.bytes()?;
    let saved = if there == 0 { None } else { partial.progress() };
    let saved = saved.and_then(|bytes| codec::decode::<Checkpoint>(&bytes).ok());
    let believed = saved
        .filter(|checkpoint| checkpoint.manifest == of)
        .and_then(|checkpoint| believed(&checkpoint, manifest, partial, there));
    let nothing = || (Bitfield::with_capacity(manifest.chunks().len()), Segments::new(manifest.size()));
    let (chunks, segments) = believed.unwrap_or_else(nothing);
    Ok((chunks, segments, there > 0))
}

fn believed(
    saved: &Checkpoint,
    manifest: &Manifest,
    partial: &Partial,
    there: u64,
) -> Option<(Bitfield, Segments)> {
    let now = partial.stamp().ok()?;
    if !saved.stamp.is_same_file(&now) {
        return None;
    }
    let chunks = bitfield::from_bytes(&saved.chunks, manifest.chunks().len())?;
    if chunks.ones().next_back().is_some_and(|last| manifest.range(last).end > there) {
        return None; // it was cut off
    }
    let mut segments = Segments::new(manifest.size());
    if saved.segments.len() != segments.len() {
        return None;
    }
    let is_unchanged = saved.stamp == now;
    for (index, hash) in saved.segments.iter().enumerate().filter(|_| is_unchanged) {
        if let Some(hash) = hash {
            segments.put(index, *hash);
        }
    }
    Some((chunks, segments))
}
