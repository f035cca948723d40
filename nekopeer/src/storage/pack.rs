//! A pack: the chunks of one version that the next does not have, one after the other in a file.

use std::{
    collections::HashSet,
    fs::File,
    io::{self, BufWriter, Write},
    os::unix::fs::FileExt,
    path::Path,
};

use nekoproto::{Chunk, ChunkHash, Manifest};
use tempfile::NamedTempFile;

use crate::content::chunker::hash;

/// Writes the chunks of `file`, whose manifest is `before`, that `next` does not have, each once, into the file `path`,
/// durably. A chunk that was changed in the file is left out. Returns the encoded manifest of what was written; `None` if
/// all that was to be written was changed. Blocking.
pub(super) fn write_pack(
    path: &Path,
    file: &File,
    before: &Manifest,
    next: &Manifest,
) -> io::Result<Option<Vec<u8>>> {
    let folder = path.parent().unwrap_or(path);
    let mut packed = BufWriter::new(NamedTempFile::new_in(folder)?);
    let mut has: HashSet<ChunkHash> = next.chunks().iter().map(|chunk| chunk.hash).collect();
    let (mut chunks, mut buffer, mut is_changed) = (Vec::new(), Vec::new(), false);
    for (index, chunk) in before.chunks().iter().enumerate() {
        if !has.insert(chunk.hash) {
            continue;
        }
        if !read_chunk(file, before, index, &mut buffer) {
            is_changed = true;
            continue;
        }
        packed.write_all(&buffer)?;
        chunks.push(Chunk { len: chunk.len, hash: chunk.hash });
    }
    if is_changed && chunks.is_empty() {
        return Ok(None);
    }
    let packed = packed.into_inner().map_err(io::IntoInnerError::into_error)?;
    packed.as_file().sync_all()?;
    packed.persist(path)?;
    File::open(folder)?.sync_all()?;
    let manifest = Manifest::new(chunks).and_then(|manifest| Ok(manifest.encode()?));
    manifest.map(|(encoded, _)| Some(encoded)).map_err(io::Error::other) // a part of one that is valid
}

/// Whether `file` has this chunk of `manifest` where it should be. Blocking.
pub(super) fn read_chunk(file: &File, manifest: &Manifest, index: usize, buffer: &mut Vec<u8>) -> bool {
    let chunk = manifest.chunks()[index];
    buffer.resize(chunk.len as usize, 0);
    file.read_exact_at(buffer, manifest.range(index).start).is_ok() && hash(buffer) == chunk.hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pack_has_each_chunk_once_that_the_next_version_lacks() {
        let folder = tempfile::tempdir().unwrap();
        let (old, path) = (folder.path().join("old"), folder.path().join("pack"));
        std::fs::write(&old, b"aabbccaa").unwrap();
        let manifest = |text: &[u8]| {
            let chunks = text.chunks(2).map(|bytes| Chunk { len: 2, hash: hash(bytes) });
            Manifest::new(chunks.collect()).unwrap()
        };
        let pack = |before: &[u8], next: &[u8]| {
            write_pack(&path, &File::open(&old).unwrap(), &manifest(before), &manifest(next)).unwrap()
        };
        let encoded = pack(b"aabbccaa", b"bbdd").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"aacc");
        assert_eq!(Manifest::decode(&encoded).unwrap(), manifest(b"aacc"));
        assert!(
            pack(b"aabbccaa", b"aabbcc").is_some_and(|pack| Manifest::decode(&pack).unwrap().size() == 0)
        );
        let encoded = pack(b"aabbccxx", b"bb").unwrap();
        assert_eq!(Manifest::decode(&encoded).unwrap(), manifest(b"aacc"), "the rest was changed");
        assert_eq!(pack(b"xxyy", b"bb"), None);
        assert_eq!(folder.path().read_dir().unwrap().count(), 2, "nothing else is left");
    }
}
