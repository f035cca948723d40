//! Assembles one file on disk: chunks in any order, from any thread, then the final checks. Everything
//! here blocks.

use std::{collections::HashMap, ops::Range, sync::Arc};

use nekoproto::{Manifest, Record};
use parking_lot::Mutex;
use rayon::{iter::ParallelIterator, slice::ParallelSlice};
use tokio_util::sync::CancellationToken;

use super::bases::Bases;
use crate::{
    content::{
        bitfield::{Bitfield, SharedBitfield},
        chunker::hash,
        equal_chunks::by_hash,
        outboard::{self, SegmentHash, SegmentHasher, Segments},
    },
    download::error::origin_lies,
    failure::Failure,
    storage::{partial::Partial, stopped},
};

/// Bytes per read for hashing: few enough to stay in the processor's cache.
const READ_BYTES: usize = 256 * 1024;
/// Segments that a thread hashes before it takes more.
const SEGMENTS_AT_ONCE: usize = 32;

/// A file being assembled.
///
/// Invariants:
/// - `have` contains only chunks whose verified bytes are in the partial file;
/// - `whole` has the hash of a segment only if all its bytes were verified when they were hashed; nobody else writes into
///   the partial file.
#[derive(Debug)]
pub(crate) struct Assembly {
    manifest: Arc<Manifest>,
    /// The outboard, if a holder sent it; its hashes combine to the record's content hash.
    outboard: Option<Arc<Segments>>,
    partial: Partial,
    have: Arc<SharedBitfield>,
    whole: Mutex<Segments>,
    /// Serializes writes: the system allows one writer per file and the others spin. While a thread waits
    /// for the lock it hashes instead.
    writing: Mutex<()>,
    /// For chunks that occur more than once: index of the first occurrence -> indices of the others.
    again: HashMap<usize, Vec<usize>>,
    bases: Bases,
}

impl Assembly {
    /// Starts with the chunks and segments known to be in the partial file.
    pub(crate) fn open(
        manifest: Arc<Manifest>,
        outboard: Option<Arc<Segments>>,
        partial: Partial,
        had: &Bitfield,
        whole: Segments,
    ) -> Self {
        let chunks = manifest.chunks();
        let by_hash = by_hash(&manifest, |_| true);
        let mut again: HashMap<usize, Vec<usize>> = HashMap::new();
        for equal in by_hash.chunk_by(|one, other| chunks[*one as usize].hash == chunks[*other as usize].hash)
        {
            if let [first, others @ ..] = equal
                && !others.is_empty()
            {
                again.insert(*first as usize, others.iter().map(|index| *index as usize).collect());
            }
        }
        let have = Arc::new(SharedBitfield::new(had));
        let (whole, writing, bases) = (Mutex::new(whole), Mutex::new(()), Bases::default());
        Self { manifest, outboard, partial, have, whole, writing, again, bases }
    }

    /// The same, of which sources may send what changed since these.
    pub(crate) fn after(self, bases: Bases) -> Self {
        Self { bases, ..self }
    }

    pub(crate) const fn bases(&self) -> &Bases {
        &self.bases
    }

    pub(crate) const fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    pub(crate) const fn outboard(&self) -> Option<&Arc<Segments>> {
        self.outboard.as_ref()
    }

    /// Stores the hash of segment `index`, which was verified.
    pub(crate) fn has_segment(&self, index: usize, hash: SegmentHash) {
        self.whole.lock().put(index, hash);
    }

    pub(crate) const fn partial(&self) -> &Partial {
        &self.partial
    }

    pub(crate) const fn have(&self) -> &Arc<SharedBitfield> {
        &self.have
    }

    /// Missing chunks that are written together with an equal, missing chunk earlier in the file.
    pub(crate) fn repeated(&self) -> impl Iterator<Item = usize> + '_ {
        let missing = self.again.iter().filter(|(first, _)| !self.have.contains(**first));
        missing.flat_map(|(_, others)| others).copied().filter(|other| !self.have.contains(*other))
    }

    pub(crate) fn segments(&self) -> Segments {
        self.whole.lock().clone()
    }

    /// Writes consecutive chunks from `first` on, whose `bytes` are verified, at every position where they
    /// occur; `took` gets each chunk index written. `hasher` hashes what one thread writes consecutively.
    pub(crate) fn write(
        &self,
        first: usize,
        bytes: &[u8],
        hasher: &mut Option<SegmentHasher>,
        took: impl FnMut(usize),
    ) -> Result<(), Failure> {
        let start = self.manifest.range(first).start;
        self.put(first, bytes, || self.hash(start, bytes, hasher), took)
    }

    /// As [`write`](Self::write); `hash` is called before the write, or after it if the lock is free.
    pub(crate) fn put(
        &self,
        first: usize,
        bytes: &[u8],
        hash: impl FnOnce(),
        mut took: impl FnMut(usize),
    ) -> Result<(), Failure> {
        let start = self.manifest.range(first).start;
        match self.writing.try_lock() {
            Some(turn) => {
                self.partial.write_at(bytes, start)?;
                drop(turn);
                hash();
            }
            None => {
                hash();
                let _turn = self.writing.lock();
                self.partial.write_at(bytes, start)?;
            }
        }
        let mut at = 0;
        for index in first.. {
            if at >= bytes.len() {
                break;
            }
            let chunk = &bytes[at..at + self.manifest.chunks()[index].len as usize];
            at += chunk.len();
            self.have.insert(index);
            took(index);
            self.carry(index, chunk, &mut took)?;
        }
        Ok(())
    }

    /// Writes chunk `index`, whose bytes are verified, at its other positions; `took` gets each index.
    pub(crate) fn carry(
        &self,
        index: usize,
        bytes: &[u8],
        took: &mut impl FnMut(usize),
    ) -> Result<(), Failure> {
        for other in self.again.get(&index).into_iter().flatten().copied() {
            if !self.have.contains(other) {
                self.partial.write_at(bytes, self.manifest.range(other).start)?;
                self.have.insert(other);
                took(other);
            }
        }
        Ok(())
    }

    /// Records that chunk `index` is in the partial file already and verified.
    pub(crate) fn take(&self, index: usize, bytes: &[u8], hasher: &mut Option<SegmentHasher>) {
        self.have.insert(index);
        self.hash(self.manifest.range(index).start, bytes, hasher);
    }

    fn hash(&self, start: u64, bytes: &[u8], hasher: &mut Option<SegmentHasher>) {
        if hasher.as_ref().is_none_or(|hasher| hasher.at() != start) {
            *hasher = Some(SegmentHasher::new(self.manifest.size(), start));
        }
        if let Some(hasher) = hasher {
            hasher.update(bytes, |segment, hash| self.whole.lock().put(segment, hash));
        }
    }

    /// Verifies the whole file against the record. Returns the chunks that were damaged on disk, by a loss of power or
    /// another program: if there are any, they must be fetched again.
    ///
    /// # Panics
    /// A chunk is missing.
    pub(crate) fn check(&self, record: &Record, stop: &CancellationToken) -> Result<Vec<usize>, Failure> {
        assert!(self.have.is_complete(), "every chunk is there");
        self.hash_rest(stop)?;
        if self.whole.lock().whole().is_some_and(|whole| whole == record.content) {
            return Ok(Vec::new());
        }
        let damaged = self.damaged(stop)?;
        if damaged.is_empty() {
            self.partial.discard()?;
            return Err(origin_lies(&record.name));
        }
        for index in &damaged {
            self.have.remove(*index);
        }
        *self.whole.lock() = Segments::new(self.manifest.size());
        Ok(damaged)
    }

    /// The partial file of what was [checked](Self::check), which is complete, and its outboard.
    pub(crate) fn into_complete(self) -> (Partial, Vec<u8>) {
        let outboard = self.whole.lock().to_outboard();
        (self.partial, outboard)
    }

    /// Hashes, on all cores, the segments that have no hash yet.
    fn hash_rest(&self, stop: &CancellationToken) -> Result<(), Failure> {
        if self.manifest.size() == 0 {
            self.whole.lock().put(0, outboard::of_nothing());
            return Ok(());
        }
        let missing: Vec<Range<u64>> = {
            let whole = self.whole.lock();
            let missing = (0..whole.len()).filter(|segment| whole.get(*segment).is_none());
            missing.map(|segment| whole.range(segment)).collect()
        };
        missing.par_chunks(SEGMENTS_AT_ONCE).try_for_each(|segments| self.hash_segments(segments, stop))
    }

    fn hash_segments(&self, segments: &[Range<u64>], stop: &CancellationToken) -> Result<(), Failure> {
        let mut buffer = vec![0; READ_BYTES];
        for range in segments {
            self.goes_on(stop)?;
            let mut hasher = SegmentHasher::new(self.manifest.size(), range.start);
            while hasher.at() < range.end {
                let left = usize::try_from(range.end - hasher.at()).unwrap_or(READ_BYTES);
                let piece = &mut buffer[..left.min(READ_BYTES)];
                self.partial.read_at(piece, hasher.at())?;
                hasher.update(piece, |segment, hash| self.whole.lock().put(segment, hash));
            }
        }
        Ok(())
    }

    /// The chunks whose bytes on disk do not match their hashes.
    fn damaged(&self, stop: &CancellationToken) -> Result<Vec<usize>, Failure> {
        let mut buffer = Vec::new();
        let mut damaged = Vec::new();
        for (index, chunk) in self.manifest.chunks().iter().enumerate() {
            self.goes_on(stop)?;
            buffer.resize(chunk.len as usize, 0);
            self.partial.read_at(&mut buffer, self.manifest.range(index).start)?;
            if hash(&buffer) != chunk.hash {
                damaged.push(index);
            }
        }
        Ok(damaged)
    }

    fn goes_on(&self, stop: &CancellationToken) -> Result<(), Failure> {
        if stop.is_cancelled() { Err(stopped(self.partial.path())) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use nekoproto::{Chunk, ContentHash};
    use tempfile::TempDir;
    use testkit::values::name;

    use super::*;
    use crate::{failure::Reason, storage::share_folder::ShareFolder};

    const BYTES: &[u8] = b"the quick brown fox jumps over the lazy dog";

    fn manifest(bytes: &[u8]) -> Arc<Manifest> {
        let chunk = |bytes: &[u8]| Chunk { len: u32::try_from(bytes.len()).unwrap(), hash: hash(bytes) };
        Arc::new(Manifest::new(bytes.chunks(5).map(chunk).collect()).unwrap())
    }

    fn record(content: &[u8]) -> Record {
        let content = ContentHash::from_bytes(*blake3::hash(content).as_bytes());
        Record { size: BYTES.len() as u64, content, ..testkit::values::file(1, name("a"), 1) }
    }

    fn open(bytes: &[u8]) -> (TempDir, Assembly) {
        let folder = tempfile::tempdir().unwrap();
        let place = ShareFolder::open(folder.path()).unwrap().place(&name("a")).unwrap();
        let partial = place.partial(folder.path(), &name("a")).unwrap();
        let manifest = manifest(bytes);
        let chunks = manifest.chunks().len();
        let (have, whole) = (Bitfield::with_capacity(chunks), Segments::new(bytes.len() as u64));
        (folder, Assembly::open(manifest, None, partial, &have, whole))
    }

    fn complete() -> (TempDir, Assembly) {
        let (folder, assembly) = open(BYTES);
        for (index, bytes) in BYTES.chunks(5).enumerate() {
            assembly.write(index, bytes, &mut None, |_| {}).unwrap();
        }
        (folder, assembly)
    }

    fn check(assembly: &Assembly, record: &Record) -> Result<Vec<usize>, Failure> {
        assembly.check(record, &CancellationToken::new())
    }

    fn chunk(bytes: &[u8], index: usize) -> &[u8] {
        bytes.chunks(5).nth(index).unwrap()
    }

    #[test]
    fn chunks_in_any_order_make_the_file() {
        let (_folder, assembly) = open(BYTES);
        let mut hasher = None;
        for index in [3, 0, 8, 1, 7, 2, 6, 4, 5] {
            let mut took = Vec::new();
            assembly.write(index, chunk(BYTES, index), &mut hasher, |index| took.push(index)).unwrap();
            assert_eq!(took, [index]);
        }
        assert_eq!(check(&assembly, &record(BYTES)).unwrap(), [0; 0]);
        let (partial, _) = assembly.into_complete();
        assert_eq!(std::fs::read(partial.path()).unwrap(), BYTES);
    }

    #[test]
    fn a_chunk_that_occurs_again_comes_once() {
        let bytes = b"aaaaabbbbbaaaaacccccaaaaa";
        let (_folder, assembly) = open(bytes);
        let mut repeated: Vec<usize> = assembly.repeated().collect();
        repeated.sort_unstable();
        assert_eq!(repeated, [2, 4]);
        let mut took = Vec::new();
        for index in [1, 0, 3] {
            assembly.write(index, chunk(bytes, index), &mut None, |index| took.push(index)).unwrap();
        }
        assert_eq!(took, [1, 0, 2, 4, 3]);
        let mut record = record(bytes);
        record.size = bytes.len() as u64;
        assert_eq!(check(&assembly, &record).unwrap(), [0; 0]);
        let (partial, _) = assembly.into_complete();
        assert_eq!(std::fs::read(partial.path()).unwrap(), bytes);
    }

    #[test]
    fn a_check_ends_soon_after_the_download_and_keeps_what_is_there() {
        let (_folder, assembly) = complete();
        *assembly.whole.lock() = Segments::new(BYTES.len() as u64); // as after a restart
        let (partial, stop) = (assembly.partial.path().to_owned(), CancellationToken::new());
        stop.cancel();
        assert_eq!(assembly.check(&record(BYTES), &stop).unwrap_err().reason, Reason::Other);
        assert_eq!(std::fs::read(partial).unwrap(), BYTES);
    }

    #[test]
    fn what_was_damaged_on_disk_meanwhile_is_named() {
        let (_folder, assembly) = complete();
        assembly.partial.write_at(b"X", 11).unwrap();
        *assembly.whole.lock() = Segments::new(BYTES.len() as u64); // as after a restart
        assert_eq!(check(&assembly, &record(BYTES)).unwrap(), [2]);
        assert!(!assembly.have.contains(2) && assembly.have.contains(1));
        assembly.write(2, chunk(BYTES, 2), &mut None, |_| {}).unwrap();
        assert_eq!(check(&assembly, &record(BYTES)).unwrap(), [0; 0]);
    }
}
