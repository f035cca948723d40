//! Earlier versions of copies that are kept: of each the chunks that what took its place does not have, in one file,
//! its pack. This room says which there are, and opens any part of one.
//!
//! Invariant: the chunks of a kept version are in the packs with its sequence number or a later one, and in the file in
//! its place. So the first one can be removed at any time, and so can the pack of a version that is in its place again.

pub(crate) mod lent;

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::Path,
    sync::Arc,
};

use nekoproto::{
    ByteRange, Chunk, ChunkHash, FileName, Manifest, Record, VerifiedRecord, open_private, private_folder,
};

use super::catalogue::{Catalogue, CatalogueError, Entry, Kept, PassedOver};
use crate::content::{
    chunker::hash,
    stamp::{Stamp, open_file},
};

/// Where chunks are: in which file, and from which byte on.
type Chunks = HashMap<ChunkHash, (Arc<File>, u64)>;

/// A version all of whose chunks are here, in the file in its place and in packs.
#[derive(Debug)]
pub(crate) struct EarlierVersion {
    pub(crate) record: VerifiedRecord,
    /// Its encoded manifest.
    pub(crate) encoded: Arc<[u8]>,
    manifest: Manifest,
    /// Where each chunk is.
    at: Vec<(Arc<File>, u64)>,
}

impl EarlierVersion {
    fn of(record: VerifiedRecord, encoded: Vec<u8>, chunks: &Chunks) -> Option<Self> {
        let manifest = Manifest::decode_for(&record, &encoded).ok()?;
        let at = manifest.chunks().iter().map(|chunk| chunks.get(&chunk.hash).cloned());
        let at = at.collect::<Option<_>>()?;
        Some(Self { record, encoded: encoded.into(), manifest, at })
    }

    /// Where the bytes of `ranges`, which are within the file, are.
    pub(crate) fn parts(&self, ranges: &[ByteRange]) -> Vec<(Arc<File>, ByteRange)> {
        let mut parts = Vec::new();
        for asked in ranges {
            let asked = asked.offset..asked.offset + asked.len;
            for index in self.manifest.chunks_in(asked.clone()) {
                let chunk = self.manifest.range(index);
                let (start, end) = (chunk.start.max(asked.start), chunk.end.min(asked.end));
                let (file, at) = &self.at[index];
                let range = ByteRange { offset: at + (start - chunk.start), len: end - start };
                parts.push((Arc::clone(file), range));
            }
        }
        parts
    }
}

impl Catalogue {
    /// The copy of `name` and its earlier versions, the last that was replaced first: those that are wanted, and whose
    /// chunks are all here. If the file in the place has another stamp than it had, its chunks count only if it
    /// `reads_changed`, and where earlier versions are wanted. Blocking.
    pub(crate) fn versions(
        &self,
        name: &FileName,
        reads_changed: bool,
        is_wanted: impl Fn(&Record) -> bool,
    ) -> Result<Vec<EarlierVersion>, CatalogueError> {
        let held = self.entry(name)?.filter(|held| !self.is_own(held));
        let Some(held) = held else { return Ok(Vec::new()) };
        let mut kept = self.kept(name)?;
        kept.retain(|kept| is_before(&kept.entry.record, &held) && is_wanted(&kept.entry.record));
        let is_held_wanted = is_wanted(&held.record);
        if kept.is_empty() && !is_held_wanted {
            return Ok(Vec::new());
        }
        let chunks = self.chunks(&held, reads_changed && !kept.is_empty())?;
        let in_place = self.manifest_of(&held)?.filter(|_| is_held_wanted);
        let in_place = in_place.map(|manifest| (held.record.clone(), manifest));
        let kept = kept.into_iter().map(|kept| (kept.entry.record, kept.manifest));
        let all = in_place.into_iter().chain(kept);
        Ok(all.filter_map(|(record, manifest)| EarlierVersion::of(record, manifest, &chunks)).collect())
    }

    /// The chunks in the place of `held` and in the packs of its name.
    fn chunks(&self, held: &Entry, reads_changed: bool) -> Result<Chunks, CatalogueError> {
        let mut chunks = Chunks::new();
        let mut add = |file: &Arc<File>, manifest: &Manifest, index: usize| {
            let at = || (Arc::clone(file), manifest.range(index).start);
            chunks.entry(manifest.chunks()[index].hash).or_insert_with(at);
        };
        if let (Some(manifest), Ok(file)) = (self.manifest_of(held)?, open_file(&held.path))
            && let Ok(manifest) = Manifest::decode(&manifest)
        {
            let is_unchanged = file.metadata().is_ok_and(|found| Stamp::of(&found) == held.stamp);
            let (file, mut buffer) = (Arc::new(file), Vec::new());
            let mut is_there = |index: usize| {
                let (chunk, start) = (&manifest.chunks()[index], manifest.range(index).start);
                is_unchanged || reads_changed && read_chunk(&file, start, chunk, &mut buffer)
            };
            (0..manifest.chunks().len())
                .filter(|index| is_there(*index))
                .for_each(|index| add(&file, &manifest, index));
        }
        for (file, pack) in self.packs(&held.record.name) {
            (0..pack.chunks().len()).for_each(|index| add(&file, &pack, index));
        }
        Ok(chunks)
    }

    /// The packs of `name`, and the chunks in each. What cannot be read is left out. Blocking.
    pub(crate) fn packs(&self, name: &FileName) -> Vec<(Arc<File>, Manifest)> {
        let kept = self.kept(name).unwrap_or_else(|error| {
            tracing::error!(%error, "earlier versions are not used");
            Vec::new()
        });
        let open = |kept: &Kept| {
            let file = open_file(&self.pack_path(name.as_str(), kept.sequence)).ok()?;
            Some((Arc::new(file), Manifest::decode(&kept.pack).ok()?))
        };
        kept.iter().filter_map(open).collect()
    }

    /// Keeps the version of `name` that stands in its place, if the reader wants that, before a file with the chunks of
    /// `next` takes it. What another program changed in the file is not kept. Blocking.
    pub(crate) fn keep_before(&self, name: &FileName, next: &Manifest) -> Result<(), CatalogueError> {
        if self.reader(name)?.keep == 0 {
            return Ok(());
        }
        let Some(held) = self.entry(name)?.filter(|held| !self.is_own(held)) else { return Ok(()) };
        let Some(manifest) = self.manifest_of(&held)? else { return Ok(()) };
        let sequence = self.kept(name)?.first().map_or(0, |last| last.sequence + 1);
        let (path, here) = (self.pack_path(name.as_str(), sequence), self.chunks(&held, true)?);
        let pack = fill_pack(&path, Vec::new(), &chunks_of(&manifest), next.chunks(), &here);
        let Some(pack) = pack.map_err(|error| CatalogueError::not_kept(&path, error))? else {
            tracing::warn!(%name, "the version before is not kept: it was changed on disk");
            return Ok(());
        };
        self.change_kept(name, &[Kept { sequence, entry: Entry::clone(&held), manifest, pack }], &[])
    }

    /// Removes what is kept of `name` beyond what the reader wants, the oldest first, and the version that stands in its
    /// place; a version that stands there is not passed over any more. Blocking.
    pub(crate) fn trim_kept(&self, name: &FileName) -> Result<(), CatalogueError> {
        let (reader, held) = (self.reader(name)?, self.entry(name)?);
        let is_there = |passed: PassedOver| {
            held.as_ref().is_some_and(|held| {
                held.record.origin != passed.origin || held.record.version >= passed.version
            })
        };
        if reader.passed_over.is_some_and(is_there) {
            self.change_readers([name], |reader| reader.passed_over = None)?;
        }
        let (mut versions, mut bytes, mut next) = (HashSet::new(), 0, None);
        let (mut grown, mut removed) = (Vec::new(), Vec::new());
        for mut kept in self.kept(name)? {
            let record = &kept.entry.record;
            let after =
                held.as_ref().filter(|held| is_before(record, held) && versions.insert(record.version));
            let pack = chunks_of(&kept.pack);
            bytes += len(&pack);
            let fits =
                versions.len() <= reader.keep as usize && reader.keep_max.is_none_or(|max| bytes <= max);
            // The one that is put back stays, however many came since.
            let Some(held) = after.filter(|_| fits || reader.is_accepted(record)) else {
                removed.push(kept);
                continue;
            };
            if fits || removed.is_empty() {
                next = Some(kept.manifest);
                continue;
            }
            // With what it has in common with those that are removed.
            let next_chunks = match &next {
                Some(next) => chunks_of(next),
                None => chunks_of(&self.manifest_of(held)?.unwrap_or_default()),
            };
            let (path, here) = (self.pack_path(name.as_str(), kept.sequence), self.chunks(held, true)?);
            let pack = fill_pack(&path, pack, &chunks_of(&kept.manifest), &next_chunks, &here);
            kept.pack = pack.map_err(|error| CatalogueError::not_kept(&path, error))?.unwrap_or(kept.pack);
            next = Some(kept.manifest.clone());
            grown.push(kept);
        }
        if removed.is_empty() {
            return Ok(());
        }
        self.change_kept(name, &grown, &removed)?;
        for kept in removed {
            drop(fs::remove_file(self.pack_path(name.as_str(), kept.sequence))); // or the next start does
        }
        Ok(())
    }
}

fn is_before(record: &VerifiedRecord, held: &Entry) -> bool {
    held.record.same_file(record) && held.record != *record
}

/// Those of an encoded manifest; none if it is damaged.
fn chunks_of(encoded: &[u8]) -> Vec<Chunk> {
    Manifest::decode(encoded).map_or_else(|_| Vec::new(), |manifest| manifest.chunks().to_vec())
}

fn len(chunks: &[Chunk]) -> u64 {
    chunks.iter().map(|chunk| u64::from(chunk.len)).sum()
}

/// Adds to the pack at `path`, which has the chunks `has`, those of `version` that neither it nor `next` has, each once,
/// durably. One that is not `here` any more is left out. Returns the encoded manifest of the pack; `None` if all that was to be
/// in it is left out. What the pack has is not touched. Blocking.
fn fill_pack(
    path: &Path,
    mut has: Vec<Chunk>,
    version: &[Chunk],
    next: &[Chunk],
    here: &Chunks,
) -> io::Result<Option<Vec<u8>>> {
    let folder = path.parent().unwrap_or(path);
    private_folder(folder).map_err(io::Error::other)?;
    let pack = open_private(path, File::options().write(true).create(true).truncate(false))?;
    let mut known: HashSet<ChunkHash> = has.iter().chain(next).map(|chunk| chunk.hash).collect();
    let (before, mut buffer, mut is_changed) = (len(&has), Vec::new(), false);
    let mut end = before;
    let filled = version.iter().filter(|chunk| known.insert(chunk.hash)).try_for_each(|chunk| {
        match here.get(&chunk.hash).filter(|(file, at)| read_chunk(file, *at, chunk, &mut buffer)) {
            Some(_) => {
                pack.write_all_at(&buffer, end)?;
                end += u64::from(chunk.len);
                has.push(*chunk);
            }
            None => is_changed = true,
        }
        Ok(())
    });
    if let Err(error) = filled.and_then(|()| pack.sync_all()) {
        drop(pack.set_len(before)); // the disk may be full
        return Err(error);
    }
    File::open(folder)?.sync_all()?;
    if is_changed && has.is_empty() {
        return Ok(None);
    }
    let manifest = Manifest::new(has).and_then(|manifest| Ok(manifest.encode()?));
    manifest.map(|(encoded, _)| Some(encoded)).map_err(io::Error::other) // a part of one that is valid
}

/// Whether `file` has this chunk from byte `at` on. Blocking.
fn read_chunk(file: &File, at: u64, chunk: &Chunk, buffer: &mut Vec<u8>) -> bool {
    buffer.resize(chunk.len as usize, 0);
    file.read_exact_at(buffer, at).is_ok() && hash(buffer) == chunk.hash
}

#[cfg(test)]
mod tests;
