//! Cuts a file into content-defined chunks and hashes them: one read, all cores, bounded memory.

mod spans;
mod window;

use std::{
    io,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use nekoproto::{ChunkHash, ContentHash, Cut, Manifest, ManifestError, ManifestHash, limits::FILE_BYTES_MAX};
use tokio_util::sync::CancellationToken;

pub(crate) use self::spans::takes_all_cores;
use crate::{
    content::stamp::{Stamp, is_executable, now_ns, open_file},
    failure::{Failure, Reason},
};

/// Attempts at a file that changes while it is read.
const TRIES: u32 = 3;

#[derive(Clone, Debug)]
pub(crate) struct Chunked {
    /// The file's stamp, the same before and after it was read.
    pub stamp: Stamp,
    /// When reading started, by [`now_ns`].
    pub hashed_at_ns: i128,
    /// BLAKE3 of the whole file.
    pub content: ContentHash,
    pub manifest: Vec<u8>,
    pub manifest_hash: ManifestHash,
    /// The hashes of its segments, see [`outboard`](crate::content::outboard).
    pub outboard: Vec<u8>,
    /// The average chunk length that the cut aims at, in bytes.
    pub average: u32,
}

impl Chunked {
    /// The same bytes, of an executable file or of another.
    pub(crate) fn of_executable(self, is_executable: bool) -> Result<Self, ManifestError> {
        let manifest = Manifest::decode(&self.manifest)?.of_executable(is_executable);
        let (manifest, manifest_hash) = manifest.encode()?;
        Ok(Self { manifest, manifest_hash, ..self })
    }
}

pub(crate) fn keeps_changing(path: &Path) -> Failure {
    let what = "keeps changing while it is read: share it again when it is complete";
    Failure::new(format!("{} {what}", path.display())).because(Reason::KeepsChanging)
}

pub(crate) fn stopped() -> Failure {
    Failure::new("stopped before the file was read to its end").because(Reason::Stopped)
}

/// Why a file was not read to its end.
#[derive(Debug)]
enum Halt {
    Unreadable(io::Error),
    Changed,
    Stopped,
}

/// Reads and chunks the file at `path`, adding the bytes read to `progress`, until `stop`. Blocking.
///
/// `last_average` is the average of the previous version, if any: reusing it keeps most chunks the same.
pub(crate) fn chunk_file(
    path: &Path,
    last_average: Option<u32>,
    progress: &AtomicU64,
    stop: &CancellationToken,
) -> Result<Chunked, Failure> {
    let go_on = || if stop.is_cancelled() { Err(Halt::Stopped) } else { Ok(()) };
    chunk_unchanged(path, last_average, progress, &go_on)
}

/// See [`chunk_file`]; `go_on` is called after each read.
fn chunk_unchanged(
    path: &Path,
    last_average: Option<u32>,
    progress: &AtomicU64,
    go_on: &(dyn Fn() -> Result<(), Halt> + Sync),
) -> Result<Chunked, Failure> {
    for _ in 0..TRIES {
        let counted = AtomicU64::new(0);
        let go_on = |bytes| {
            progress.fetch_add(bytes, Ordering::Relaxed);
            counted.fetch_add(bytes, Ordering::Relaxed);
            go_on()
        };
        if let Some(chunked) = chunk_once(path, last_average, &go_on)? {
            return Ok(chunked);
        }
        progress.fetch_sub(counted.into_inner(), Ordering::Relaxed);
    }
    Err(keeps_changing(path))
}

/// `None` if the file changed while it was read.
fn chunk_once(
    path: &Path,
    last_average: Option<u32>,
    go_on: &(dyn Fn(u64) -> Result<(), Halt> + Sync),
) -> Result<Option<Chunked>, Failure> {
    let unreadable = |error: io::Error| Failure::new(format!("cannot read {}: {error}", path.display()));
    let unfit = |why: String| Failure::new(format!("{} {why}", path.display())).because(Reason::Unfit);
    let hashed_at_ns = now_ns();
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        // Opening a pipe would block until a writer opens it.
        return Err(unfit("is not a regular file: share regular files and folders".to_owned()));
    }
    let file = open_file(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    let (stamp, is_executable) = (Stamp::of(&metadata), is_executable(&metadata));
    if stamp.size() > FILE_BYTES_MAX {
        return Err(unfit(format!("is larger than the limit of {FILE_BYTES_MAX} bytes")));
    }
    let cut = Cut::for_next_version(stamp.size(), last_average);
    let found = match spans::cut_all(&file, spans::SpanPlan::new(stamp.size(), cut), go_on) {
        Ok(found) => found,
        Err(Halt::Changed) => return Ok(None),
        Err(Halt::Stopped) => return Err(stopped()),
        Err(Halt::Unreadable(source)) => return Err(unreadable(source)),
    };
    // The stamp must match both the open file and the file that the path names now.
    let open_now = Stamp::of(&file.metadata().map_err(unreadable)?);
    let there_now = std::fs::metadata(path).ok().map(|metadata| Stamp::of(&metadata));
    if open_now != stamp || there_now != Some(stamp) {
        return Ok(None);
    }
    let in_manifest = |error: ManifestError| unfit(format!("cannot be cut into chunks: {error}"));
    let manifest = Manifest::new(found.chunks).map_err(in_manifest)?.of_executable(is_executable);
    let (manifest, manifest_hash) = manifest.encode().map_err(|error| in_manifest(error.into()))?;
    let (content, average) = (found.content, cut.average);
    let outboard = found.outboard;
    Ok(Some(Chunked { stamp, hashed_at_ns, content, manifest, manifest_hash, outboard, average }))
}

pub(crate) fn hash(bytes: &[u8]) -> ChunkHash {
    ChunkHash::from_bytes(*blake3::hash(bytes).as_bytes())
}

#[cfg(test)]
mod tests;
