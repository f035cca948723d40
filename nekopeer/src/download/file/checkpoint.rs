//! What an interrupted download is known to have: noted every few seconds, so that it goes on without
//! reading all of it again. Everything here blocks.
//!
//! A note is written after the chunks it names were made durable, so that it is true after a crash
//! and after a loss of power. It is believed if the partial file is still the same one, has not become
//! shorter, and a sample of its chunks is intact; otherwise every chunk is read and verified again.

use std::os::unix::fs::MetadataExt;

use nekoproto::{Manifest, codec};
use serde::{Deserialize, Serialize};

use super::assembly::Assembly;
use crate::{
    content::{
        bitfield::{self, Bitfield},
        chunker::hash,
        outboard::{SegmentHash, Segments},
    },
    storage::{
        StoreError,
        catalogue::{Catalogue, CatalogueError},
        partial::Partial,
    },
};

/// Chunks that are read to see whether a note is to be believed.
const SAMPLE_CHUNKS: usize = 64;
/// Bytes of a note at most: a bit for each chunk, a hash for each segment.
const NOTE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The stored form. Changing it makes notes unreadable, which costs no more than reading the file.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    inode: u64,
    device: u64,
    chunks: Vec<u8>,
    segments: Vec<Option<SegmentHash>>,
}

/// Why progress could not be noted. The note before, if any, still holds.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoteError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    #[error(transparent)]
    Codec(#[from] codec::CodecError),
    #[error("cannot look at the partial file: {0}")]
    Metadata(#[from] std::io::Error),
}

/// Notes what `assembly` has by now.
pub(crate) fn note(catalogue: &Catalogue, assembly: &Assembly) -> Result<(), NoteError> {
    // First what is had, then the sync: whatever the note names is on disk by then.
    let chunks = bitfield::to_bytes(&assembly.have().snapshot());
    let segments = assembly.segments();
    assembly.partial().sync()?;
    let metadata = assembly.partial().file().metadata()?;
    let segments = (0..segments.len()).map(|index| segments.get(index)).collect();
    let note = Note { inode: metadata.ino(), device: metadata.dev(), chunks, segments };
    let mut bytes = Vec::new();
    codec::encode_into(&mut bytes, &note, NOTE_BYTES_MAX)?;
    Ok(catalogue.note_progress(&assembly.partial().path(), &bytes)?)
}

/// What a download of `manifest` into `partial` begins with: chunks and segments that are there, and
/// whether further chunks may be there, to be verified.
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
    let metadata = partial.file().metadata().ok()?;
    if (note.inode, note.device) != (metadata.ino(), metadata.dev()) {
        return None;
    }
    let chunks = bitfield::from_bytes(&note.chunks, manifest.chunks().len())?;
    let had: Vec<usize> = chunks.ones().collect();
    if had.last().is_some_and(|last| manifest.range(*last).end > there) {
        return None; // it was cut: what else happened to it?
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
    for (index, hash) in note.segments.iter().enumerate() {
        if let Some(hash) = hash {
            segments.put(index, *hash);
        }
    }
    Some((chunks, segments))
}
