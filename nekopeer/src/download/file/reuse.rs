//! Reuses chunks that are on this disk: in an interrupted download, in the previous version, in those that are kept,
//! in other files held here, or all zeros. Each is read and verified before it counts. Everything here blocks.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs::File,
    os::unix::fs::FileExt,
    sync::Arc,
};

use nekoproto::{ChunkHash, Manifest, Record};
use tokio_util::sync::CancellationToken;

use super::assembly::Assembly;
use crate::{
    content::{
        chunker::hash,
        equal_chunks::{by_hash, equal_to},
        outboard::SegmentHasher,
        stamp::open_file,
    },
    failure::Failure,
    storage::catalogue::{Catalogue, Entry},
};

/// Maximum number of other files searched.
const FILES_MAX: usize = 4096;
/// Maximum number of their chunks searched, about 36 MiB of manifests.
const CHUNKS_MAX: usize = 1024 * 1024;
/// A file with fewer chunks than this is not searched for in others: at most the whole file is shared, and that
/// is found by its content hash.
const CHUNKS_WORTH_LOOKING: u64 = 4 * nekoproto::limits::CHUNK_AVERAGE_MIN;

/// Where the bytes of a chunk may be found.
#[derive(Clone, Debug)]
enum ChunkAt {
    /// At the chunk's own position in the partial file, unless that has bytes of another version; then there, if anywhere.
    InPlace(Option<(Arc<File>, u64)>),
    File(Arc<File>, u64),
    Zeros,
}

/// Chunks to try, by index.
#[derive(Debug, Default)]
pub(crate) struct LocalChunks(Vec<(usize, ChunkAt)>);

impl LocalChunks {
    /// `before` is the file in the destination. Reads manifests, but no files.
    pub(crate) fn find(
        catalogue: &Catalogue,
        record: &Record,
        before: Option<File>,
        assembly: &Assembly,
        maybe_in_place: bool,
        stop: &CancellationToken,
    ) -> Self {
        let manifest = assembly.manifest();
        let mut search = ChunkSearch::new(assembly);
        if maybe_in_place {
            search.in_place();
        }
        search.zeros();
        search.repeated();
        for entry in catalogue.with_content(&record.content) {
            if let Ok(file) = open_file(&entry.path) {
                search.in_file(&Arc::new(file), manifest);
            }
        }
        let packs = catalogue.packs(&record.name);
        let packs = packs.inspect_err(|error| tracing::error!(%error, "earlier versions are not used"));
        for (pack, chunks) in packs.unwrap_or_default() {
            search.in_file(&pack, &chunks);
        }
        match catalogue.get(&record.name) {
            Some(entry) => search.in_entry(catalogue, &entry),
            None => {
                if let Some(file) = before {
                    search.in_file(&Arc::new(file), manifest); // perhaps the same bytes, uncatalogued
                }
            }
        }
        if record.size >= CHUNKS_WORTH_LOOKING {
            search.in_others(catalogue, record, stop);
        }
        Self(search.found.into_iter().collect())
    }

    pub(crate) fn indices(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().map(|(index, _)| *index)
    }

    /// Makes the partial file as long as the whole if it has runs of zeros, which then are holes already. Only before
    /// anything is written to it.
    pub(crate) fn make_room(&self, assembly: &Assembly) -> Result<(), Failure> {
        if self.0.iter().any(|(_, at)| matches!(at, ChunkAt::Zeros)) {
            return assembly.partial().lengthen(assembly.manifest().size());
        }
        Ok(())
    }

    /// Splits them into at most `parts` consecutive parts.
    pub(crate) fn split(mut self, parts: usize) -> Vec<Self> {
        let each = self.0.len().div_ceil(parts.max(1)).max(1);
        let mut split = Vec::new();
        while !self.0.is_empty() {
            let rest = self.0.split_off(each.min(self.0.len()));
            split.push(Self(std::mem::replace(&mut self.0, rest)));
        }
        split
    }

    /// Reads, verifies and writes each chunk, until `is_over`. `had` gets the indices that verified, `lost` the
    /// others.
    pub(crate) fn take(
        self,
        assembly: &Assembly,
        is_over: impl Fn() -> bool,
        mut had: impl FnMut(usize),
        mut lost: impl FnMut(usize),
    ) -> Result<(), Failure> {
        let manifest = Arc::clone(assembly.manifest());
        let (mut buffer, mut hasher) = (Vec::new(), None);
        for (index, at) in self.0 {
            if is_over() {
                return Ok(());
            }
            if assembly.have().contains(index) {
                continue; // written with an equal chunk
            }
            let chunk = manifest.chunks()[index];
            buffer.resize(chunk.len as usize, 0);
            if !take_one(assembly, index, &at, &mut buffer, &mut hasher, &mut had)? {
                lost(index);
            }
        }
        Ok(())
    }
}

fn take_one(
    assembly: &Assembly,
    index: usize,
    at: &ChunkAt,
    buffer: &mut [u8],
    hasher: &mut Option<SegmentHasher>,
    had: &mut impl FnMut(usize),
) -> Result<bool, Failure> {
    let chunk = assembly.manifest().chunks()[index];
    let range = assembly.manifest().range(index);
    let read = match at {
        ChunkAt::InPlace(other) => {
            let is_there =
                assembly.partial().read_at(buffer, range.start).is_ok() && hash(buffer) == chunk.hash;
            if let (false, Some((file, offset))) = (is_there, other) {
                let at = ChunkAt::File(Arc::clone(file), *offset);
                return take_one(assembly, index, &at, buffer, hasher, had);
            }
            is_there
        }
        // If the file changes while it is read, the hash does not match.
        ChunkAt::File(file, offset) => file.read_exact_at(buffer, *offset).is_ok(),
        ChunkAt::Zeros => {
            buffer.fill(0);
            true
        }
    };
    // Zeros were compared with the chunk's hash when they were found.
    if !read || !(matches!(at, ChunkAt::Zeros) || hash(buffer) == chunk.hash) {
        return Ok(false);
    }
    match at {
        ChunkAt::File(..) => assembly.write(index, buffer, hasher, had)?,
        ChunkAt::InPlace(_) => {
            assembly.take(index, buffer, hasher);
            had(index);
            assembly.carry(index, buffer, had)?;
        }
        ChunkAt::Zeros => {
            assembly.partial().write_zeros(range)?;
            assembly.take(index, buffer, hasher);
            had(index); // all its positions were found as zeros
        }
    }
    Ok(true)
}

struct ChunkSearch<'a> {
    assembly: &'a Assembly,
    /// Missing chunks, [by hash](by_hash).
    wanted: Vec<u32>,
    found: BTreeMap<usize, ChunkAt>,
    chunks_looked_at: usize,
}

impl<'a> ChunkSearch<'a> {
    fn new(assembly: &'a Assembly) -> Self {
        let wanted = by_hash(assembly.manifest(), |index| !assembly.have().contains(index));
        Self { assembly, wanted, found: BTreeMap::new(), chunks_looked_at: 0 }
    }

    fn wanted(&self, hash: &ChunkHash) -> &[u32] {
        equal_to(hash, &self.wanted, self.assembly.manifest())
    }

    fn in_place(&mut self) {
        for index in self.wanted.iter().map(|index| *index as usize) {
            if self.assembly.partial().is_written(self.assembly.manifest().range(index)) {
                self.found.insert(index, ChunkAt::InPlace(None));
            }
        }
    }

    fn zeros(&mut self) {
        let mut of_len: HashMap<u32, ChunkHash> = HashMap::new();
        for (index, chunk) in self.assembly.manifest().chunks().iter().enumerate() {
            // Runs of zeros have few chunk lengths: the maximum, and that of the last chunk.
            let often = self.wanted(&chunk.hash).len() > 1;
            let last = index + 1 == self.assembly.manifest().chunks().len();
            if (often || last) && !self.assembly.have().contains(index) {
                let zeros = of_len.entry(chunk.len).or_insert_with(|| hash(&vec![0; chunk.len as usize]));
                if *zeros == chunk.hash {
                    self.found.insert(index, ChunkAt::Zeros);
                }
            }
        }
    }

    /// Chunks that are present at another position of the same file.
    fn repeated(&mut self) {
        let file = self.assembly.partial().file();
        for (index, chunk) in self.assembly.manifest().chunks().iter().enumerate() {
            if self.assembly.have().contains(index) {
                let offset = self.assembly.manifest().range(index).start;
                self.note(&chunk.hash, &file, offset);
            }
        }
    }

    fn in_entry(&mut self, catalogue: &Catalogue, entry: &Entry) {
        let Ok(Some(bytes)) = catalogue.manifest_of(entry) else { return };
        let Ok(manifest) = Manifest::decode(&bytes) else { return };
        self.chunks_looked_at += manifest.chunks().len();
        let is_of_use = manifest.chunks().iter().any(|chunk| !self.wanted(&chunk.hash).is_empty());
        if let Some(file) = is_of_use.then(|| open_file(&entry.path).ok()).flatten() {
            self.in_file(&Arc::new(file), &manifest);
        }
    }

    fn in_file(&mut self, file: &Arc<File>, manifest: &Manifest) {
        for (index, chunk) in manifest.chunks().iter().enumerate() {
            self.note(&chunk.hash, file, manifest.range(index).start);
        }
    }

    fn note(&mut self, hash: &ChunkHash, file: &Arc<File>, offset: u64) {
        let wanted = self.wanted(hash).iter().map(|index| *index as usize).collect::<Vec<_>>();
        for index in wanted {
            match self.found.get_mut(&index) {
                Some(ChunkAt::InPlace(other @ None)) => *other = Some((Arc::clone(file), offset)),
                Some(_) => {}
                None => drop(self.found.insert(index, ChunkAt::File(Arc::clone(file), offset))),
            }
        }
    }

    /// Searches other files in the catalogue, those of the most similar size first.
    fn in_others(&mut self, catalogue: &Catalogue, record: &Record, stop: &CancellationToken) {
        let mut seen = HashSet::new();
        for name in catalogue.near_in_size(record.size, FILES_MAX) {
            if stop.is_cancelled()
                || self.chunks_looked_at > CHUNKS_MAX
                || self.found.len() == self.assembly.manifest().chunks().len()
            {
                return;
            }
            let other = catalogue.get(&name).filter(|entry| entry.record.name != record.name);
            if let Some(entry) = other.filter(|entry| seen.insert(entry.record.manifest)) {
                self.in_entry(catalogue, &entry);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::Cell,
        path::{Path, PathBuf},
    };

    use nekoproto::{Chunk, FileName};

    use super::*;
    use crate::{
        content::{bitfield::Bitfield, outboard::Segments},
        storage::share_folder::ShareFolder,
    };

    /// The download of a file of these bytes, of which the partial file has some already.
    fn download(folder: &Path, bytes: &[u8], there: &[u8]) -> (Arc<Manifest>, Assembly) {
        let chunk = |bytes: &[u8]| Chunk { len: 10, hash: hash(bytes) };
        let manifest = Arc::new(Manifest::new(bytes.chunks(10).map(chunk).collect()).unwrap());
        let (share, name) = (ShareFolder::open(folder).unwrap(), FileName::new("a").unwrap());
        let partial = share.place(&name).unwrap().partial(folder, &name).unwrap();
        partial.write_at(there, 0).unwrap();
        let (have, whole) = (Bitfield::with_capacity(bytes.len() / 10), Segments::new(bytes.len() as u64));
        (Arc::clone(&manifest), Assembly::open(manifest, None, partial, &have, whole))
    }

    fn file(path: PathBuf, bytes: &[u8]) -> Arc<File> {
        std::fs::write(&path, bytes).unwrap();
        Arc::new(File::open(path).unwrap())
    }

    #[test]
    fn taking_chunks_ends_soon_after_the_download() {
        let (folder, bytes) = (tempfile::tempdir().unwrap(), (0..100).collect::<Vec<u8>>());
        let (_, assembly) = download(folder.path(), &bytes, &[]);
        let before = file(folder.path().join("before"), &bytes);
        let local = (0..10).map(|index| (index, ChunkAt::File(Arc::clone(&before), 10 * index as u64)));
        let taken = Cell::new(0);
        let over = || taken.get() == 3;
        LocalChunks(local.collect()).take(&assembly, over, |_| taken.set(taken.get() + 1), |_| {}).unwrap();
        assert_eq!((taken.get(), assembly.have().snapshot().ones().count()), (3, 3));
    }

    /// A partial file is one for all versions of its name.
    #[test]
    fn chunk_where_the_partial_file_has_another_version_is_taken_from_elsewhere() {
        let (folder, bytes) = (tempfile::tempdir().unwrap(), (0..30).collect::<Vec<u8>>());
        let (manifest, assembly) = download(folder.path(), &bytes, &[&bytes[..10], &[9; 20]].concat());
        let pack = file(folder.path().join("pack"), &bytes[10..20]);
        let mut search = ChunkSearch::new(&assembly);
        search.in_place();
        search.note(&manifest.chunks()[1].hash, &pack, 0);
        let (mut had, mut lost) = (Vec::new(), Vec::new());
        let local = LocalChunks(search.found.into_iter().collect());
        local.take(&assembly, || false, |index| had.push(index), |index| lost.push(index)).unwrap();
        assert_eq!((had, lost), (vec![0, 1], vec![2]));
    }
}
