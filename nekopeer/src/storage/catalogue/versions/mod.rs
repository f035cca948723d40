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
    path::PathBuf,
    sync::Arc,
};

use nekoproto::{
    ByteRange, Chunk, ChunkHash, FileName, Manifest, Record, VerifiedRecord, open_private, private_folder,
};

use super::{
    Catalogue, CatalogueError, Entry,
    entry::{from_row, to_row},
    schema::KEPT,
};
use crate::content::{
    chunker::hash,
    stamp::{Stamp, open_file},
};

/// The folder of the packs in the data folder.
pub(super) const FOLDER: &str = "kept";
/// Digits of the hash of a name in the name of a pack.
const NAME_DIGITS: usize = 32;

/// An earlier version.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// One later than that of the version that was replaced before it.
    sequence: u64,
    pub(crate) entry: Entry,
    /// Its encoded manifest, and that of its pack.
    pub(crate) manifest: Vec<u8>,
    pack: Vec<u8>,
}

/// Where a chunk is.
#[derive(Clone, Debug)]
struct At {
    file: Arc<File>,
    offset: u64,
    len: u32,
}

impl At {
    /// Reads it; whether it is there. Blocking.
    fn has(&self, chunk: &ChunkHash, buffer: &mut Vec<u8>) -> bool {
        buffer.resize(self.len as usize, 0);
        self.file.read_exact_at(buffer, self.offset).is_ok() && hash(buffer) == *chunk
    }
}

type Chunks = HashMap<ChunkHash, At>;

/// A version all of whose chunks are here, in the file in its place and in packs.
#[derive(Debug)]
pub(crate) struct EarlierVersion {
    pub(crate) record: VerifiedRecord,
    /// Its encoded manifest.
    pub(crate) encoded: Arc<[u8]>,
    manifest: Manifest,
    /// Where each chunk is.
    at: Vec<At>,
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
                let At { file, offset, .. } = &self.at[index];
                let range = ByteRange { offset: offset + (start - chunk.start), len: end - start };
                parts.push((Arc::clone(file), range));
            }
        }
        parts
    }
}

impl Catalogue {
    /// The copy of `name` and its earlier versions, the last that was replaced first: those that are wanted, and whose
    /// chunks are all here. If the file in the place has another stamp than it had, its chunks count only if all `is_read`,
    /// for the sake of earlier versions. Blocking.
    pub(crate) fn versions(
        &self,
        name: &FileName,
        is_read: bool,
        is_wanted: impl Fn(&Record) -> bool,
    ) -> Result<Vec<EarlierVersion>, CatalogueError> {
        let held = self.entry(name)?.filter(|held| !self.is_own(held));
        let Some(held) = held else { return Ok(Vec::new()) };
        let kept = self.kept(name)?.into_iter().filter(|kept| is_before(&kept.entry.record, &held));
        let mut all: Vec<(VerifiedRecord, Vec<u8>)> =
            kept.map(|kept| (kept.entry.record, kept.manifest)).collect();
        let is_unchanged = open_file(&held.path).and_then(|file| file.metadata());
        let is_unchanged = is_unchanged.is_ok_and(|found| Stamp::of(&found) == held.stamp);
        let is_read = !is_unchanged && is_read && !all.is_empty();
        all.splice(..0, self.manifest_of(&held)?.map(|manifest| (held.record.clone(), manifest)));
        all.retain(|(record, _)| is_wanted(record));
        if all.is_empty() {
            return Ok(Vec::new());
        }
        let (mut chunks, mut buffer) = (self.chunks(&held, is_unchanged || is_read)?, Vec::new());
        chunks.retain(|chunk, at| !is_read || at.has(chunk, &mut buffer));
        Ok(all
            .into_iter()
            .filter_map(|(record, encoded)| EarlierVersion::of(record, encoded, &chunks))
            .collect())
    }

    /// Where the chunks of `held` and of what is kept of its name may be.
    fn chunks(&self, held: &Entry, with_place: bool) -> Result<Chunks, CatalogueError> {
        let mut files = self.packs(&held.record.name);
        let manifest = self.manifest_of(held)?.and_then(|encoded| Manifest::decode(&encoded).ok());
        let place = open_file(&held.path).ok().zip(manifest).filter(|_| with_place);
        files.extend(place.map(|(file, manifest)| (Arc::new(file), manifest)));
        let mut chunks = Chunks::new();
        for (file, manifest) in &files {
            for (index, chunk) in manifest.chunks().iter().enumerate() {
                let at =
                    || At { file: Arc::clone(file), offset: manifest.range(index).start, len: chunk.len };
                chunks.entry(chunk.hash).or_insert_with(at);
            }
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
        let (sequence, pack) = (self.kept(name)?.first().map_or(0, |last| last.sequence + 1), Vec::new());
        let mut kept = Kept { sequence, entry: Entry::clone(&held), manifest, pack };
        if self.fill_pack(&held, &mut kept, next.chunks())? {
            return self.change_kept(name, &[kept], &[]);
        }
        tracing::warn!(%name, "the version before is not kept: it was changed on disk");
        Ok(())
    }

    /// Removes what is kept of `name` beyond what the reader wants, the oldest first, and the version that stands in its
    /// place. Blocking.
    pub(crate) fn trim_kept(&self, name: &FileName) -> Result<(), CatalogueError> {
        let (reader, held) = (self.reader(name)?, self.entry(name)?);
        let (mut versions, mut bytes, mut next) = (HashSet::new(), 0, None);
        let (mut grown, mut removed) = (Vec::new(), Vec::new());
        for mut kept in self.kept(name)? {
            let record = &kept.entry.record;
            let after =
                held.as_ref().filter(|held| is_before(record, held) && versions.insert(record.version));
            bytes += Manifest::decode(&kept.pack).map_or(0, |pack| pack.size());
            let fits =
                versions.len() <= reader.keep as usize && reader.keep_max.is_none_or(|max| bytes <= max);
            // The one that is put back stays, however many came since.
            match after.filter(|_| fits || reader.is_accepted(record)) {
                None => removed.push(kept),
                Some(_) if fits || removed.is_empty() => next = Some(kept.manifest),
                Some(held) => {
                    // With what it has in common with those that are removed.
                    let after = next.map_or_else(|| self.manifest_of(held), |next| Ok(Some(next)))?;
                    self.fill_pack(held, &mut kept, &chunks_of(&after.unwrap_or_default()))?;
                    next = Some(kept.manifest.clone());
                    grown.push(kept);
                }
            }
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

    /// Adds to the pack of `kept` those of its chunks that neither it nor the version `next` has, each once, durably: what
    /// is there stays as it is. One that is not here any more is left out; returns whether not all are. Blocking.
    fn fill_pack(&self, held: &Entry, kept: &mut Kept, next: &[Chunk]) -> Result<bool, CatalogueError> {
        let (here, path) =
            (self.chunks(held, true)?, self.pack_path(held.record.name.as_str(), kept.sequence));
        let mut has = chunks_of(&kept.pack);
        let mut known: HashSet<ChunkHash> = has.iter().chain(next).map(|chunk| chunk.hash).collect();
        let mut lacks = chunks_of(&kept.manifest);
        lacks.retain(|chunk| known.insert(chunk.hash));
        let before = has.iter().map(|chunk| u64::from(chunk.len)).sum();
        let fill = || {
            let folder = path.parent().unwrap_or(&path);
            private_folder(folder).map_err(io::Error::other)?;
            let pack = open_private(&path, File::options().write(true).create(true).truncate(false))?;
            let (mut end, mut buffer) = (before, Vec::new());
            let filled = lacks.iter().try_for_each(|chunk| {
                if here.get(&chunk.hash).is_some_and(|at| at.has(&chunk.hash, &mut buffer)) {
                    pack.write_all_at(&buffer, end)?;
                    end += u64::from(chunk.len);
                    has.push(*chunk);
                }
                Ok(())
            });
            if let Err(error) = filled.and_then(|()| pack.sync_all()) {
                drop(pack.set_len(before)); // the disk may be full
                return Err(error);
            }
            File::open(folder)?.sync_all()?;
            let is_any = !has.is_empty() || lacks.is_empty();
            let (pack, _) =
                Manifest::new(has).and_then(|manifest| Ok(manifest.encode()?)).map_err(io::Error::other)?;
            kept.pack = pack;
            Ok(is_any)
        };
        fill().map_err(|error| CatalogueError::not_kept(&path, error))
    }

    /// The earlier versions of `name`, the last that was replaced first. Blocking.
    pub(crate) fn kept(&self, name: &FileName) -> Result<Vec<Kept>, CatalogueError> {
        let name = name.as_str();
        self.tables.read(|committed| {
            let mut kept = Vec::new();
            for found in committed.table(KEPT)?.range((name, 0)..=(name, u64::MAX))?.rev() {
                let (key, row) = found?;
                let ((entry, manifest, _), pack) = row.value();
                kept.extend(from_row(name, entry).map(|entry| Kept {
                    sequence: key.value().1,
                    entry,
                    manifest: manifest.to_vec(),
                    pack: pack.to_vec(),
                }));
            }
            Ok(kept)
        })
    }

    /// Stores and removes earlier versions of `name`, in one transaction. Blocking.
    fn change_kept(&self, name: &FileName, stored: &[Kept], removed: &[Kept]) -> Result<(), CatalogueError> {
        let write = self.tables.begin()?;
        write.with(KEPT, |table| {
            for Kept { sequence, entry, manifest, pack } in stored {
                let row = to_row(entry).unwrap_or_default(); // as short as its own in the catalogue
                let placed = (row.as_slice(), manifest.as_slice(), [].as_slice());
                table.insert((name.as_str(), *sequence), (placed, pack.as_slice()))?;
            }
            removed.iter().try_for_each(|kept| table.remove((name.as_str(), kept.sequence)).map(drop))
        })?;
        self.tables.commit(write)
    }

    /// Removes the packs that nothing refers to. Blocking.
    pub(super) fn sweep_packs(&self) -> Result<(), CatalogueError> {
        let Ok(folder) = fs::read_dir(&self.packs) else { return Ok(()) }; // nothing was ever kept
        let known = self.tables.read(|committed| {
            let rows = committed.table(KEPT)?.range::<(&str, u64)>(..)?;
            let paths = rows.map(|row| {
                let (key, _) = row?;
                let (name, sequence) = key.value();
                Ok(self.pack_path(name, sequence))
            });
            paths.collect::<Result<HashSet<_>, redb::Error>>()
        })?;
        for file in folder.flatten().map(|file| file.path()).filter(|path| !known.contains(path)) {
            drop(fs::remove_file(file));
        }
        Ok(())
    }

    fn pack_path(&self, name: &str, sequence: u64) -> PathBuf {
        let digits = &blake3::hash(name.as_bytes()).to_hex()[..NAME_DIGITS];
        self.packs.join(format!("{digits}-{sequence}"))
    }
}

fn is_before(record: &VerifiedRecord, held: &Entry) -> bool {
    held.record.same_file(record) && held.record != *record
}

/// Those of an encoded manifest; none if it is damaged.
fn chunks_of(encoded: &[u8]) -> Vec<Chunk> {
    Manifest::decode(encoded).map_or_else(|_| Vec::new(), |manifest| manifest.chunks().to_vec())
}

#[cfg(test)]
mod tests;
