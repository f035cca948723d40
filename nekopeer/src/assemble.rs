//! Putting one file together on disk: what is there already, chunks as they come, the last checks.
//! Everything here blocks.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    ops::Range,
    os::unix::fs::FileExt,
    path::PathBuf,
    sync::Arc,
};

use nekoproto::{ChunkHash, Manifest, Record};

use crate::{
    Progress,
    chunker::hash,
    stamp::Stamp,
    store::{Partial, StoreError},
};

/// A file in the making.
///
/// Invariants:
/// - `had` are the chunks whose verified bytes are in the partial file;
/// - `whole` has hashed exactly the chunks before `hashed`, all of them had.
#[derive(Debug)]
pub(crate) struct Assembly {
    manifest: Arc<Manifest>,
    partial: Partial,
    had: HashSet<usize>,
    whole: blake3::Hasher,
    hashed: usize,
}

/// An older copy on disk, to take chunks from.
#[derive(Debug)]
pub(crate) struct OldCopy {
    pub(crate) file: File,
    pub(crate) manifest: Manifest,
}

/// Why a complete file is not put in its place.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AssembleError {
    /// All chunks are those of the manifest, and yet the whole is not what the record says.
    #[error("the content is not what the origin signed")]
    WrongContent,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Assembly {
    /// Begins with what an interrupted download left and what an older copy has; both verified.
    pub(crate) fn open(
        manifest: Arc<Manifest>,
        partial: Partial,
        old: Option<&OldCopy>,
        progress: &Progress,
    ) -> Result<Self, StoreError> {
        let mut assembly =
            Self { manifest, partial, had: HashSet::new(), whole: blake3::Hasher::new(), hashed: 0 };
        assembly.take_from_partial(progress)?;
        if let Some(old) = old {
            assembly.take_from_old(old, progress)?;
        }
        Ok(assembly)
    }

    fn take_from_partial(&mut self, progress: &Progress) -> Result<(), StoreError> {
        let there = self.partial.bytes()?;
        let mut buffer = Vec::new();
        for index in 0..self.manifest.chunks().len() {
            let range = self.manifest.range(index);
            if range.end > there {
                break;
            }
            let chunk = self.manifest.chunks()[index];
            buffer.resize(chunk.len as usize, 0);
            self.partial.read_at(&mut buffer, range.start)?;
            if hash(&buffer) == chunk.hash {
                self.take(index, &buffer);
                progress.add_done(buffer.len() as u64);
            }
        }
        Ok(())
    }

    fn take_from_old(&mut self, old: &OldCopy, progress: &Progress) -> Result<(), StoreError> {
        let known: HashMap<ChunkHash, Range<u64>> = (0..old.manifest.chunks().len())
            .map(|index| (old.manifest.chunks()[index].hash, old.manifest.range(index)))
            .collect();
        let mut buffer = Vec::new();
        for index in 0..self.manifest.chunks().len() {
            let chunk = self.manifest.chunks()[index];
            let Some(range) = known.get(&chunk.hash).filter(|_| !self.had.contains(&index)) else { continue };
            buffer.resize(chunk.len as usize, 0);
            // Whoever edits the old file meanwhile makes it useless, not wrong: the hash decides.
            let read = old.file.read_exact_at(&mut buffer, range.start);
            if read.is_ok() && hash(&buffer) == chunk.hash {
                self.write(index, &buffer)?;
                progress.add_done(buffer.len() as u64);
            }
        }
        Ok(())
    }

    /// Whether chunk `index` is there.
    pub(crate) fn has(&self, index: usize) -> bool {
        self.had.contains(&index)
    }

    /// Writes chunk `index`, whose bytes are verified.
    pub(crate) fn write(&mut self, index: usize, bytes: &[u8]) -> Result<(), StoreError> {
        self.partial.write_at(bytes, self.manifest.range(index).start)?;
        self.take(index, bytes);
        Ok(())
    }

    fn take(&mut self, index: usize, bytes: &[u8]) {
        self.had.insert(index);
        if index == self.hashed {
            self.whole.update(bytes);
            self.hashed += 1;
        }
    }

    /// Checks the whole against the record and puts it in its place, where nothing but the file
    /// with the stamp `replaceable` may stand.
    ///
    /// # Panics
    /// A chunk is missing.
    pub(crate) fn finish(
        mut self,
        record: &Record,
        replaceable: Option<Stamp>,
    ) -> Result<(Stamp, PathBuf), AssembleError> {
        assert_eq!(self.had.len(), self.manifest.chunks().len(), "every chunk is there");
        let mut buffer = Vec::new();
        for index in self.hashed..self.manifest.chunks().len() {
            let range = self.manifest.range(index);
            buffer.resize(self.manifest.chunks()[index].len as usize, 0);
            self.partial.read_at(&mut buffer, range.start)?;
            self.whole.update(&buffer);
        }
        if self.whole.finalize().as_bytes() != record.content.as_bytes() {
            self.partial.discard()?;
            return Err(AssembleError::WrongContent);
        }
        let path = self.partial.target().to_owned();
        let stamp = self.partial.commit(record.size, replaceable)?;
        Ok((stamp, path))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use nekoproto::{Chunk, ContentHash, FileName, Identity, ManifestHash, Policy, Version};

    use super::*;
    use crate::store::ShareFolder;

    const BYTES: &[u8] = b"the quick brown fox jumps over the lazy dog";

    fn manifest(bytes: &[u8]) -> Arc<Manifest> {
        let chunk = |bytes: &[u8]| Chunk { len: u32::try_from(bytes.len()).unwrap(), hash: hash(bytes) };
        Arc::new(Manifest::new(bytes.chunks(5).map(chunk).collect()).unwrap())
    }

    fn record(content: &[u8]) -> Record {
        Record {
            origin: Identity::from_seed(&[1; 32]).id(),
            name: FileName::new("a").unwrap(),
            version: Version::FIRST,
            size: BYTES.len() as u64,
            content: ContentHash::from_bytes(*blake3::hash(content).as_bytes()),
            manifest: ManifestHash::from_bytes([0; 32]),
            policy: Policy::default(),
        }
    }

    fn open(folder: &Path, old: Option<&OldCopy>) -> Assembly {
        let place = ShareFolder::open(folder).unwrap().place(&FileName::new("a").unwrap()).unwrap();
        let partial = place.partial(&record(BYTES).content).unwrap();
        Assembly::open(manifest(BYTES), partial, old, &Progress::default()).unwrap()
    }

    fn missing(assembly: &Assembly) -> Vec<usize> {
        (0..9).filter(|index| !assembly.has(*index)).collect()
    }

    #[test]
    fn chunks_in_any_order_make_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut assembly = open(folder.path(), None);
        for index in [3, 0, 8, 1, 7, 2, 6, 4, 5] {
            assembly.write(index, BYTES.chunks(5).nth(index).unwrap()).unwrap();
        }
        let (_, path) = assembly.finish(&record(BYTES), None).unwrap();
        assert_eq!(std::fs::read(path).unwrap(), BYTES);
    }

    #[test]
    fn an_interrupted_download_goes_on_with_what_is_intact() {
        let folder = tempfile::tempdir().unwrap();
        let mut assembly = open(folder.path(), None);
        for index in [0, 1, 4, 5] {
            assembly.write(index, BYTES.chunks(5).nth(index).unwrap()).unwrap();
        }
        let partial = assembly.partial.path();
        drop(assembly);
        let file = std::fs::OpenOptions::new().write(true).open(&partial).unwrap();
        file.write_all_at(b"X", 6).unwrap(); // damages chunk 1
        file.set_len(28).unwrap(); // cuts chunk 5
        drop(file);
        assert_eq!(missing(&open(folder.path(), None)), [1, 2, 3, 5, 6, 7, 8]);
    }

    #[test]
    fn chunks_of_an_older_copy_are_taken_wherever_they_lie() {
        let folder = tempfile::tempdir().unwrap();
        let mut old_bytes = b"0123456789".to_vec(); // two other chunks first
        old_bytes.extend_from_slice(&BYTES[..25]);
        let old_path = folder.path().join("old");
        std::fs::write(&old_path, &old_bytes).unwrap();
        let old = OldCopy {
            file: File::open(&old_path).unwrap(),
            manifest: Manifest::clone(&manifest(&old_bytes)),
        };
        std::fs::write(&old_path, [&old_bytes[..10], b"EDIT!", &old_bytes[15..]].concat()).unwrap();
        assert_eq!(missing(&open(folder.path(), Some(&old))), [0, 5, 6, 7, 8], "one was edited meanwhile");
    }

    #[test]
    fn a_record_that_contradicts_its_manifest_puts_nothing_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let mut assembly = open(folder.path(), None);
        for (index, bytes) in BYTES.chunks(5).enumerate() {
            assembly.write(index, bytes).unwrap();
        }
        let error = assembly.finish(&record(b"something else"), None).unwrap_err();
        assert!(matches!(error, AssembleError::WrongContent));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
