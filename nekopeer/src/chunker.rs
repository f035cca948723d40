//! Cuts a file into content-defined chunks and hashes them, in one pass and bounded memory.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use fastcdc::v2020::FastCDC;
use nekoproto::{
    Chunk, ChunkHash, ContentHash, Cut, Manifest, ManifestError, ManifestHash, limits::FILE_BYTES_MAX,
};

use tokio_util::sync::CancellationToken;

use crate::stamp::{Stamp, now_ns};

/// Tries with a file that changes while it is read.
const TRIES: u32 = 3;
/// Bytes read at once, beyond the longest chunk.
const READ_BYTES: usize = 4 * 1024 * 1024;

/// One version of a file, read from disk.
#[derive(Debug)]
pub struct Chunked {
    /// The file's stamp, the same before and after it was read.
    pub stamp: Stamp,
    /// When reading began, by [`now_ns`].
    pub hashed_at_ns: i128,
    /// BLAKE3 of the whole file.
    pub content: ContentHash,
    /// Its encoded manifest.
    pub manifest: Vec<u8>,
    /// Hash of that.
    pub manifest_hash: ManifestHash,
}

/// Why a file cannot be published.
#[derive(Debug, thiserror::Error)]
pub enum ChunkError {
    /// It cannot be read.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is no regular file.
    #[error("{0} is not a regular file")]
    NotAFile(PathBuf),
    /// It is larger than any file may be.
    #[error("{0} is larger than the limit of {FILE_BYTES_MAX} bytes")]
    TooLarge(PathBuf),
    /// It changed at every try while it was read.
    #[error("{0} keeps changing while it is read: publish it again when it is complete")]
    KeepsChanging(PathBuf),
    /// The peer is ending.
    #[error("stopped before the file was read to its end")]
    Stopped,
    /// Its chunks break a limit of the protocol.
    #[error("{path} cannot be cut into chunks: {source}")]
    Manifest {
        /// The file.
        path: PathBuf,
        /// The broken limit.
        source: ManifestError,
    },
}

/// Reads and chunks the file at `path`, adding the bytes read to `progress`, until `stop`. Blocking.
///
/// # Errors
/// The file cannot be published as it is now; nothing was changed.
pub fn chunk_file(
    path: &Path,
    progress: &AtomicU64,
    stop: &CancellationToken,
) -> Result<Chunked, ChunkError> {
    for _ in 0..TRIES {
        let counted = AtomicU64::new(0);
        if let Some(chunked) = chunk_once(path, progress, &counted, stop)? {
            return Ok(chunked);
        }
        progress.fetch_sub(counted.into_inner(), Ordering::Relaxed);
    }
    Err(ChunkError::KeepsChanging(path.to_owned()))
}

/// `None` when the file changed meanwhile.
fn chunk_once(
    path: &Path,
    progress: &AtomicU64,
    counted: &AtomicU64,
    stop: &CancellationToken,
) -> Result<Option<Chunked>, ChunkError> {
    let unreadable = |source| ChunkError::Unreadable { path: path.to_owned(), source };
    let hashed_at_ns = now_ns();
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(ChunkError::NotAFile(path.to_owned())); // opening a pipe would wait for a writer
    }
    let mut file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    let stamp = Stamp::of(&metadata);
    if stamp.size() > FILE_BYTES_MAX {
        return Err(ChunkError::TooLarge(path.to_owned()));
    }
    let mut whole = blake3::Hasher::new();
    let mut chunks = Vec::new();
    let cut = Cut::for_size(stamp.size());
    let mut read = 0u64;
    let still_fits = for_each_chunk(&mut file, stamp.size(), cut, |bytes| {
        whole.update(bytes);
        chunks.push(Chunk { len: len_u32(bytes), hash: hash(bytes) });
        read += bytes.len() as u64;
        progress.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        counted.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        // A file that grows while it is read need not be read to its end.
        read <= stamp.size() && !stop.is_cancelled()
    })
    .map_err(unreadable)?;
    if stop.is_cancelled() {
        return Err(ChunkError::Stopped);
    }
    // Both the open file and whatever the path names now must be what was stamped.
    let open_now = Stamp::of(&file.metadata().map_err(unreadable)?);
    let there_now = std::fs::metadata(path).ok().map(|metadata| Stamp::of(&metadata));
    if !still_fits || read != stamp.size() || open_now != stamp || there_now != Some(stamp) {
        return Ok(None);
    }
    let in_manifest = |source| ChunkError::Manifest { path: path.to_owned(), source };
    let manifest = Manifest::new(chunks).map_err(in_manifest)?;
    let (manifest, manifest_hash) = manifest.encode().map_err(|error| in_manifest(error.into()))?;
    let content = ContentHash::from_bytes(*whole.finalize().as_bytes());
    Ok(Some(Chunked { stamp, hashed_at_ns, content, manifest, manifest_hash }))
}

/// Gives each chunk of `source` to `take` until that says stop; whether it never did.
fn for_each_chunk(
    source: &mut impl Read,
    size: u64,
    cut: Cut,
    mut take: impl FnMut(&[u8]) -> bool,
) -> io::Result<bool> {
    let (min, average, max) = (cut.min as usize, cut.average as usize, cut.max as usize);
    // One byte more than the file has, so that its end is noticed within one buffer.
    let all = usize::try_from(size).unwrap_or(usize::MAX).saturating_add(1);
    let mut buffer = vec![0; all.min(max + READ_BYTES)];
    let (mut start, mut end, mut at_end) = (0, 0, false);
    loop {
        while !at_end && end < buffer.len() {
            match source.read(&mut buffer[end..]) {
                Ok(0) => at_end = true,
                Ok(read) => end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // A chunk is known for certain when as many bytes as the longest may have are there.
        while start < end && (at_end || end - start >= max) {
            let window = &buffer[start..end];
            let len =
                FastCDC::new(window, min, average, max).next().map_or(window.len(), |chunk| chunk.length);
            if !take(&window[..len]) {
                return Ok(false);
            }
            start += len;
        }
        if at_end {
            return Ok(true);
        }
        buffer.copy_within(start..end, 0);
        (start, end) = (0, end - start);
    }
}

/// BLAKE3 of one chunk.
#[must_use]
pub fn hash(bytes: &[u8]) -> ChunkHash {
    ChunkHash::from_bytes(*blake3::hash(bytes).as_bytes())
}

fn len_u32(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX) // a chunk has at most CHUNK_BYTES_MAX bytes
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

    fn random(len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        StdRng::seed_from_u64(7).fill(bytes.as_mut_slice());
        bytes
    }

    fn chunks(bytes: &[u8]) -> Vec<Chunk> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, bytes).unwrap();
        let chunked = chunk_file(&path, &AtomicU64::new(0), &CancellationToken::new()).unwrap();
        assert_eq!(chunked.content.as_bytes(), blake3::hash(bytes).as_bytes());
        let manifest = Manifest::decode(&chunked.manifest).unwrap();
        assert_eq!(manifest.size(), bytes.len() as u64);
        let mut rest = bytes;
        for chunk in manifest.chunks() {
            let (this, after) = rest.split_at(chunk.len as usize);
            assert_eq!(hash(this), chunk.hash);
            rest = after;
        }
        manifest.chunks().to_vec()
    }

    #[test]
    fn chunks_cover_files_of_every_kind() {
        for len in [0, 1, 16 * 1024, 64 * 1024, 5_000_000, 13_000_001] {
            chunks(&random(len));
        }
        chunks(&vec![0; 3_000_000]);
    }

    #[test]
    fn an_insertion_changes_only_the_chunks_around_it() {
        let before = random(8_000_000);
        let after = [&before[..4_000_000], b"inserted", &before[4_000_000..]].concat();
        let known: HashSet<_> = chunks(&before).iter().map(|chunk| *chunk.hash.as_bytes()).collect();
        let fresh = chunks(&after).iter().filter(|chunk| !known.contains(chunk.hash.as_bytes())).count();
        assert!((1..=3).contains(&fresh), "{fresh} chunks are new");
    }

    #[test]
    fn a_missing_file_and_a_folder_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = chunk_file(&folder.path().join("none"), &AtomicU64::new(0), &CancellationToken::new())
            .unwrap_err();
        assert!(error.to_string().contains("none"), "{error}");
        let error = chunk_file(folder.path(), &AtomicU64::new(0), &CancellationToken::new()).unwrap_err();
        assert!(matches!(error, ChunkError::NotAFile(_)), "{error}");
    }

    /// A file that grows with every chunk read from it is never called complete.
    #[test]
    fn a_file_that_changes_while_it_is_read_is_refused() {
        use std::io::Write;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("growing");
        std::fs::write(&path, random(9_000_000)).unwrap();
        let progress = std::sync::Arc::new(AtomicU64::new(0));
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"x").unwrap();
        let writer = std::thread::spawn({
            let stop = stop.clone();
            move || {
                while !stop.load(Ordering::Relaxed) {
                    file.write_all(b"x").unwrap();
                }
            }
        });
        let result = chunk_file(&path, &progress, &CancellationToken::new());
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        assert!(matches!(result, Err(ChunkError::KeepsChanging(_))), "{result:?}");
        assert_eq!(progress.load(Ordering::Relaxed), 0);
        assert!(chunk_file(&path, &progress, &CancellationToken::new()).is_ok(), "complete now");
    }
}
