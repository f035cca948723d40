//! Earlier versions of copies that are kept: of each the chunks that what took its place does not have, in one file,
//! its pack. This room says which there are, and opens any part of one.
//!
//! Invariant: the chunks of a kept version are in the packs with its sequence number or a later one, and in the file in
//! its place. So the first one can be removed at any time, and so can the pack of a version that is in its place again.

pub(super) mod bases;
pub(super) mod lent;

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::PathBuf,
    sync::Arc,
};

use nekoproto::{ByteRange, Chunk, ChunkHash, FileName, Manifest, Record, open_private, private_folder};

use super::{Catalogue, Entry, error::not_kept, schema::KEPT};
use crate::{
    content::{
        chunker::hash,
        stamp::{Stamp, open_file},
        whole::read_parts,
    },
    failure::Failure,
    storage::DIGITS,
};

pub(super) const FOLDER: &str = "kept";

/// A version of a copy: one that was replaced, or the one that is in its place.
#[derive(Debug)]
pub(crate) struct EarlierVersion {
    /// Higher than that of each version that was replaced before it.
    sequence: u64,
    pub(crate) entry: Entry,
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) encoded: Arc<[u8]>,
    /// The chunks in its pack.
    pack: Manifest,
    /// Where each of its chunks is, once it was opened.
    at: Vec<PackedAt>,
}

type PackedAt = (Arc<File>, ByteRange);
type Chunks = HashMap<ChunkHash, PackedAt>;

impl EarlierVersion {
    /// `None` if a manifest is damaged.
    fn new(sequence: u64, entry: Entry, encoded: &[u8], pack: &[u8]) -> Option<Self> {
        let manifest = Arc::new(Manifest::decode_for(&entry.record, encoded).ok()?);
        let (encoded, pack) = (encoded.into(), Manifest::decode(pack).ok()?);
        Some(Self { sequence, entry, manifest, encoded, pack, at: Vec::new() })
    }

    /// One of so many bytes, none of which can be read.
    #[cfg(test)]
    pub(crate) fn of_test(size: u64) -> Self {
        use testkit::values::{file, identity, name};
        let record = Record { size, ..file(1, name("a"), 1) }.sign(&identity(1)).unwrap();
        let (path, stamp) = Default::default();
        let entry = Entry { record, path, stamp, hashed_at_ns: 0, newest: None, origin_addr: None };
        let empty = Manifest::new(Vec::new()).unwrap();
        let (manifest, encoded) = (Arc::new(empty.clone()), Arc::default());
        Self { sequence: 0, entry, manifest, encoded, pack: empty, at: Vec::new() }
    }

    fn key(&self) -> (&str, u64) {
        (self.entry.record.name.as_str(), self.sequence)
    }

    /// Whether all of its chunks are in `chunks`.
    fn open(&mut self, chunks: &Chunks) -> bool {
        let at = self.manifest.chunks().iter().map(|chunk| chunks.get(&chunk.hash).cloned());
        at.collect::<Option<_>>().map(|at| self.at = at).is_some()
    }

    /// Whether it was replaced by `held`, or before that.
    pub(crate) fn is_before(&self, held: &Record) -> bool {
        held.same_file(&self.entry.record) && *held != *self.entry.record
    }

    /// The bytes of `ranges`, which are within the file. Blocking.
    ///
    /// # Errors
    /// They cannot be read; what is in a file that another program changed is not noticed here.
    pub(crate) fn read(&self, ranges: &[ByteRange]) -> io::Result<Vec<u8>> {
        read_parts(&self.parts(ranges))
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
                let range = ByteRange { offset: at.offset + (start - chunk.start), len: end - start };
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
    ) -> Result<Vec<EarlierVersion>, Failure> {
        let (held, mut versions) = (self.in_place(name)?, self.kept(name)?);
        let Some(held) = held else { return Ok(Vec::new()) };
        versions.retain(|kept| kept.is_before(&held.entry.record));
        if !versions.iter().chain([&held]).any(|version| is_wanted(&version.entry.record)) {
            return Ok(Vec::new());
        }
        let found = fs::metadata(&held.entry.path);
        let is_unchanged = found.is_ok_and(|found| Stamp::of(&found) == held.entry.stamp);
        let is_read = is_read && !is_unchanged && !versions.is_empty();
        let (mut chunks, mut buffer) = (self.chunks(&held, is_unchanged || is_read)?, Vec::new());
        chunks.retain(|chunk, at| !is_read || is_there(at, chunk, &mut buffer));
        versions.insert(0, held);
        versions.retain_mut(|version| is_wanted(&version.entry.record) && version.open(&chunks));
        Ok(versions)
    }

    /// The copy of `name`, as it is kept when it is replaced for the first time.
    fn in_place(&self, name: &FileName) -> Result<Option<EarlierVersion>, Failure> {
        let Some(held) = self.entry(name)?.filter(|held| !self.is_own(held)) else { return Ok(None) };
        let manifest = self.manifest_of(&held)?.unwrap_or_default();
        Ok(EarlierVersion::new(0, Arc::unwrap_or_clone(held), &manifest, &[0]))
    }

    /// Where the chunks of `held` and of what is kept of its name may be.
    fn chunks(&self, held: &EarlierVersion, with_place: bool) -> Result<Chunks, Failure> {
        let mut files = self.packs(&held.entry.record.name)?;
        let place = open_file(&held.entry.path).ok().filter(|_| with_place);
        files.extend(place.map(|file| (Arc::new(file), Manifest::clone(&held.manifest))));
        let mut chunks = Chunks::new();
        files.iter().for_each(|(file, manifest)| add_chunks(&mut chunks, file, manifest));
        Ok(chunks)
    }

    /// The packs of `name` that can be opened and were not cut off, and the chunks in each. Blocking.
    pub(crate) fn packs(&self, name: &FileName) -> Result<Vec<(Arc<File>, Manifest)>, Failure> {
        let packs = self.kept(name)?.into_iter().filter_map(|kept| {
            let pack = open_file(&self.pack_path(name.as_str(), kept.sequence)).ok()?;
            let is_whole = pack.metadata().is_ok_and(|pack| pack.len() >= kept.pack.size());
            is_whole.then(|| (Arc::new(pack), kept.pack))
        });
        Ok(packs.collect())
    }

    /// Keeps the version of `name` that stands in its place before a file with the chunks of `next` takes it, if the reader
    /// wants that, which is returned. What another program changed in the file is not kept. Blocking.
    pub(crate) fn keep_before(&self, name: &FileName, next: &Manifest) -> Result<bool, Failure> {
        if self.reader(name)?.keep == 0 {
            return Ok(false);
        }
        let Some(mut version) = self.in_place(name)? else { return Ok(true) };
        version.sequence = self.kept(name)?.first().map_or(0, |last| last.sequence + 1);
        let here = self.chunks(&version, true)?;
        match self.fill_pack(&mut version, next, &here)? {
            true => self.change_kept(&[version], &[])?,
            false => tracing::warn!(%name, "the version before is not kept: it was changed on disk"),
        }
        Ok(true)
    }

    /// Removes what is kept of `name` beyond what the reader wants, the oldest first, and the version that stands in its
    /// place. Blocking.
    pub(crate) fn trim_kept(&self, name: &FileName) -> Result<(), Failure> {
        let (reader, held) = (self.reader(name)?, self.entry(name)?);
        let (mut versions, mut bytes, mut next) = (HashSet::new(), 0, None);
        let (mut grown, mut removed) = (Vec::new(), Vec::new());
        for mut kept in self.kept(name)? {
            let record = &kept.entry.record;
            let is_before = held.as_ref().is_some_and(|held| kept.is_before(&held.record));
            let is_other = is_before && versions.insert(record.version);
            bytes += if is_other { kept.pack.size() } else { 0 };
            let fits =
                versions.len() <= reader.keep as usize && reader.keep_max.is_none_or(|max| bytes <= max);
            // The one that is put back stays, however many came since.
            if !is_other || !fits && !reader.is_accepted(record) {
                removed.push(kept);
                continue;
            }
            let after = next.replace(Arc::clone(&kept.manifest));
            if !fits
                && !removed.is_empty()
                && let Some(held) = self.in_place(name)?
            {
                // With what it has in common with those that are removed.
                let here = self.chunks(&held, true)?;
                self.fill_pack(&mut kept, &after.unwrap_or(held.manifest), &here)?;
                grown.push(kept);
            }
        }
        if removed.is_empty() {
            return Ok(());
        }
        self.replace_kept(&grown, &removed)
    }

    /// Stores and removes earlier versions, and then the packs of those.
    fn replace_kept(&self, stored: &[EarlierVersion], removed: &[EarlierVersion]) -> Result<(), Failure> {
        self.change_kept(stored, removed)?;
        for (name, sequence) in removed.iter().map(EarlierVersion::key) {
            drop(fs::remove_file(self.pack_path(name, sequence))); // or the next start does
        }
        Ok(())
    }

    /// Adds to the pack of `version` those of its chunks that neither it nor `next` has, each once, durably: what is there
    /// stays as it is. One that is not `here` any more is left out; returns whether not all are. Blocking.
    fn fill_pack(
        &self,
        version: &mut EarlierVersion,
        next: &Manifest,
        here: &Chunks,
    ) -> Result<bool, Failure> {
        let path = self.pack_path(version.entry.record.name.as_str(), version.sequence);
        let (before, mut has) = (version.pack.size(), version.pack.chunks().to_vec());
        let mut known: HashSet<ChunkHash> = has.iter().chain(next.chunks()).map(|chunk| chunk.hash).collect();
        let lacking = version.manifest.chunks().iter().filter(|chunk| known.insert(chunk.hash));
        let lacking: Vec<Chunk> = lacking.copied().collect();
        let fill = || {
            let folder = path.parent().unwrap_or(&path);
            private_folder(folder).map_err(io::Error::other)?;
            let pack = open_private(&path, File::options().write(true).create(before == 0).truncate(false))?;
            let (mut end, mut buffer) = (before, Vec::new());
            let filled = lacking.iter().try_for_each(|chunk| {
                if here.get(&chunk.hash).is_some_and(|at| is_there(at, &chunk.hash, &mut buffer)) {
                    pack.write_all_at(&buffer, end)?;
                    end += u64::from(chunk.len);
                    has.push(*chunk);
                }
                Ok(())
            });
            // The disk may be full.
            filled.and_then(|()| pack.sync_all()).inspect_err(|_| drop(pack.set_len(before)))?;
            File::open(folder)?.sync_all()?;
            Manifest::new(has).map_err(io::Error::other)
        };
        version.pack = fill().map_err(|error| not_kept(&path, error))?;
        Ok(lacking.is_empty() || version.pack.size() > 0)
    }

    /// The earlier versions of `name`, the last that was replaced first. Blocking.
    pub(crate) fn kept(&self, name: &FileName) -> Result<Vec<EarlierVersion>, Failure> {
        let range = (name.as_str(), 0)..=(name.as_str(), u64::MAX);
        let mut kept = self.tables.rows(KEPT, range, usize::MAX, |(_, sequence), row| {
            let ((entry, manifest, _), pack) = row.value();
            EarlierVersion::new(sequence, entry?, manifest, pack)
        })?;
        kept.reverse();
        Ok(kept)
    }

    /// Stores and removes earlier versions, in one transaction.
    fn change_kept(&self, stored: &[EarlierVersion], removed: &[EarlierVersion]) -> Result<(), Failure> {
        let write = self.tables.begin()?;
        let pack = |kept: &EarlierVersion| kept.pack.encode().map(|(pack, _)| pack).unwrap_or_default(); // a part of one that is valid
        let packs: Vec<Vec<u8>> = stored.iter().map(pack).collect();
        let rows = stored.iter().zip(&packs).map(|(kept, pack)| {
            let copy = (Some(kept.entry.clone()), &*kept.encoded, [].as_slice());
            (kept.key(), (copy, pack.as_slice()))
        });
        write.put(KEPT, rows)?;
        write.remove(KEPT, removed.iter().map(EarlierVersion::key))?;
        self.tables.commit(write)
    }

    /// Removes the packs that nothing refers to. Blocking.
    pub(super) fn sweep_packs(&self) -> Result<(), Failure> {
        let Ok(folder) = fs::read_dir(&self.packs) else { return Ok(()) }; // nothing was ever kept
        let known = self.tables.rows(KEPT, .., usize::MAX, |key, _| Some(self.pack_path(key.0, key.1)))?;
        let known: HashSet<PathBuf> = known.into_iter().collect();
        for file in folder.flatten().map(|file| file.path()).filter(|path| !known.contains(path)) {
            drop(fs::remove_file(file));
        }
        Ok(())
    }

    fn pack_path(&self, name: &str, sequence: u64) -> PathBuf {
        let digits = &blake3::hash(name.as_bytes()).to_hex()[..DIGITS];
        self.packs.join(format!("{digits}-{sequence}"))
    }
}

/// The chunks of `manifest` are in `file`, in their order.
fn add_chunks(chunks: &mut Chunks, file: &Arc<File>, manifest: &Manifest) {
    for (index, chunk) in manifest.chunks().iter().enumerate() {
        let range = ByteRange { offset: manifest.range(index).start, len: chunk.len.into() };
        chunks.entry(chunk.hash).or_insert_with(|| (Arc::clone(file), range));
    }
}

/// Reads this chunk; whether it is there. Blocking.
fn is_there((file, at): &PackedAt, chunk: &ChunkHash, buffer: &mut Vec<u8>) -> bool {
    buffer.resize(usize::try_from(at.len).unwrap_or(usize::MAX), 0);
    file.read_exact_at(buffer, at.offset).is_ok() && hash(buffer) == *chunk
}

#[cfg(test)]
mod tests;
