//! Earlier versions of copies that are kept: of each the chunks that what took its place does not have, in one file,
//! its pack.
//!
//! Invariant: the chunks of a kept version are in the packs with its sequence number or a later one, and in the file in
//! its place. So the first one can be removed at any time, and so can the pack of a version that is in its place again.

use std::{
    collections::HashSet,
    fs::{self, File},
    io,
    path::PathBuf,
};

use nekoproto::{ChunkHash, FileName, Manifest, private_folder};

use super::{
    Catalogue, CatalogueError, Copy, Entry, PassedOver,
    entry::{from_row, to_row},
    schema::KEPT,
};
use crate::{
    content::stamp::{Stamp, open_file},
    storage::pack::{read_chunk, write_pack},
};

/// The folder of the packs in the data folder.
pub(super) const FOLDER: &str = "kept";
/// Digits of the hash of a name in the name of a pack.
const NAME_DIGITS: usize = 32;

/// An earlier version.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    sequence: u64,
    /// What it was, and where.
    pub(crate) copy: Copy,
    /// The encoded manifest of its pack.
    pack: Vec<u8>,
}

impl Catalogue {
    /// The earlier versions of `name` that are kept, the last that was replaced first. Blocking.
    pub(crate) fn kept(&self, name: &FileName) -> Result<Vec<Kept>, CatalogueError> {
        let name = name.as_str();
        self.tables.read(|committed| {
            let mut kept = Vec::new();
            for found in committed.table(KEPT)?.range((name, 0)..=(name, u64::MAX))?.rev() {
                let (key, row) = found?;
                let ((entry, manifest, outboard), pack) = row.value();
                kept.extend(from_row(name, entry).map(|entry| Kept {
                    sequence: key.value().1,
                    copy: Copy { entry, manifest: manifest.to_vec(), outboard: outboard.to_vec() },
                    pack: pack.to_vec(),
                }));
            }
            Ok(kept)
        })
    }

    /// Those of them whose chunks are all here: in their packs, the later ones and the file in the place. That file is read
    /// if its stamp is another than it was. Blocking.
    pub(crate) fn restorable(&self, name: &FileName) -> Result<Vec<Copy>, CatalogueError> {
        let (held, mut kept) = (self.entry(name)?, self.kept(name)?);
        let mut here = HashSet::new();
        if let Some(held) = held.filter(|held| !kept.is_empty() && !self.is_own(held)) {
            self.add_chunks_in_place(&held, &mut here)?;
        }
        kept.retain(|kept| {
            if let Some((_, pack)) = self.open_pack(name, kept) {
                here.extend(pack.chunks().iter().map(|chunk| chunk.hash));
            }
            let chunks = Manifest::decode(&kept.copy.manifest);
            chunks.is_ok_and(|chunks| chunks.chunks().iter().all(|chunk| here.contains(&chunk.hash)))
        });
        Ok(kept.into_iter().map(|kept| kept.copy).collect())
    }

    fn add_chunks_in_place(&self, held: &Entry, here: &mut HashSet<ChunkHash>) -> Result<(), CatalogueError> {
        let Some(Ok(manifest)) = self.manifest_of(held)?.map(|encoded| Manifest::decode(&encoded)) else {
            return Ok(());
        };
        let Ok(file) = open_file(&held.path) else { return Ok(()) };
        let is_unchanged = file.metadata().is_ok_and(|found| Stamp::of(&found) == held.stamp);
        let (mut buffer, chunks) = (Vec::new(), manifest.chunks().iter().enumerate());
        let mut is_there = |index| is_unchanged || read_chunk(&file, &manifest, index, &mut buffer);
        here.extend(chunks.filter(|(index, _)| is_there(*index)).map(|(_, chunk)| chunk.hash));
        Ok(())
    }

    /// The packs of `name`, and the chunks in each. What cannot be read is left out. Blocking.
    pub(crate) fn packs(&self, name: &FileName) -> Vec<(File, Manifest)> {
        let kept = self.kept(name).unwrap_or_else(|error| {
            tracing::error!(%error, "earlier versions are not used");
            Vec::new()
        });
        kept.iter().filter_map(|kept| self.open_pack(name, kept)).collect()
    }

    fn open_pack(&self, name: &FileName, kept: &Kept) -> Option<(File, Manifest)> {
        let path = self.pack_path(name, kept.sequence);
        Some((open_file(&path).ok()?, Manifest::decode(&kept.pack).ok()?))
    }

    /// Keeps the version of `name` that stands in its place, if the reader wants that, before a file with the chunks of
    /// `next` takes it. What another program changed in the file is not kept. Blocking.
    pub(crate) fn keep_before(&self, name: &FileName, next: &Manifest) -> Result<(), CatalogueError> {
        if self.reader(name)?.keep == 0 {
            return Ok(());
        }
        let Some(entry) = self.entry(name)?.filter(|entry| !self.is_own(entry)) else { return Ok(()) };
        let Some(encoded) = self.manifest_of(&entry)? else { return Ok(()) };
        let Ok(manifest) = Manifest::decode(&encoded) else { return Ok(()) };
        let Ok(file) = open_file(&entry.path) else { return Ok(()) };
        let sequence = self.kept(name)?.first().map_or(0, |last| last.sequence + 1);
        let path = self.pack_path(name, sequence);
        let packed = private_folder(&self.packs).map_err(io::Error::other);
        let packed = packed.and_then(|()| write_pack(&path, &file, &manifest, next));
        let Some(pack) = packed.map_err(|error| CatalogueError::not_kept(&path, error))? else {
            tracing::warn!(%name, "the version before is not kept: it was changed on disk");
            return Ok(());
        };
        let outboard = self.outboard(&entry.record.manifest)?.unwrap_or_default();
        let entry = Entry::clone(&entry);
        self.put_kept(Kept { sequence, copy: Copy { entry, manifest: encoded, outboard }, pack })
    }

    fn put_kept(&self, kept: Kept) -> Result<(), CatalogueError> {
        let Kept { sequence, copy: Copy { entry, manifest, outboard }, pack } = kept;
        let write = self.tables.begin()?;
        let row = to_row(&entry).unwrap_or_default(); // as short as its own in the catalogue
        write.with(KEPT, |table| {
            let placed = (row.as_slice(), manifest.as_slice(), outboard.as_slice());
            table.insert((entry.record.name.as_str(), sequence), (placed, pack.as_slice())).map(drop)
        })?;
        self.tables.commit(write)
    }

    /// Removes what is kept of `name` beyond what the reader wants, and the version that stands in its place; a version
    /// that stands there is not passed over any more. Blocking.
    pub(crate) fn trim_kept(&self, name: &FileName) -> Result<(), CatalogueError> {
        let (reader, held, kept) = (self.reader(name)?, self.entry(name)?, self.kept(name)?);
        let is_there = |passed: PassedOver| {
            held.as_ref().is_some_and(|held| {
                held.record.origin != passed.origin || held.record.version >= passed.version
            })
        };
        if reader.passed_over.is_some_and(is_there) {
            self.change_readers([name], |reader| reader.passed_over = None)?;
        }
        if kept.is_empty() {
            return Ok(());
        }
        let limit = reader.keep as usize;
        let mut versions = HashSet::new();
        let mut is_superfluous = |kept: &Kept| {
            let record = &kept.copy.entry.record;
            let is_before = |held: &Entry| held.record.same_file(record) && held.record != *record;
            if !held.as_deref().is_some_and(is_before) || versions.contains(&record.version) {
                return true;
            }
            // The one that is put back stays, however many came since.
            let is_kept = reader.is_accepted(record) || versions.len() < limit;
            if is_kept {
                versions.insert(record.version);
            }
            !is_kept
        };
        let removed = kept.into_iter().filter(|kept| is_superfluous(kept)).map(|kept| kept.sequence);
        let removed: Vec<u64> = removed.collect();
        if removed.is_empty() {
            return Ok(());
        }
        let write = self.tables.begin()?;
        write.with(KEPT, |table| {
            removed.iter().try_for_each(|sequence| table.remove((name.as_str(), *sequence)).map(drop))
        })?;
        self.tables.commit(write)?;
        for sequence in removed {
            drop(fs::remove_file(self.pack_path(name, sequence))); // or the next start does
        }
        Ok(())
    }

    /// Removes the packs that nothing refers to. Blocking.
    pub(super) fn sweep_packs(&self) -> Result<(), CatalogueError> {
        let Ok(folder) = fs::read_dir(&self.packs) else { return Ok(()) }; // nothing was ever kept
        let known = self.tables.read(|committed| {
            let mut known = HashSet::new();
            for row in committed.table(KEPT)?.range::<(&str, u64)>(..)? {
                let (key, _) = row?;
                let (name, sequence) = key.value();
                known.insert(pack_name(name, sequence));
            }
            Ok(known)
        })?;
        for file in folder.flatten() {
            if file.file_name().to_str().is_none_or(|name| !known.contains(name)) {
                drop(fs::remove_file(file.path()));
            }
        }
        Ok(())
    }

    fn pack_path(&self, name: &FileName, sequence: u64) -> PathBuf {
        self.packs.join(pack_name(name.as_str(), sequence))
    }
}

fn pack_name(name: &str, sequence: u64) -> String {
    format!("{}-{sequence}", &blake3::hash(name.as_bytes()).to_hex()[..NAME_DIGITS])
}
