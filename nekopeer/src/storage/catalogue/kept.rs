//! The table of earlier versions: what each was, and which chunks its pack has. See [`versions`](crate::storage::versions).

use std::{collections::HashSet, fs, path::PathBuf};

use nekoproto::FileName;

use super::{
    Catalogue, CatalogueError, Entry,
    entry::{from_row, to_row},
    schema::KEPT,
};

/// The folder of the packs in the data folder.
pub(super) const FOLDER: &str = "kept";
/// Digits of the hash of a name in the name of a pack.
const NAME_DIGITS: usize = 32;

/// An earlier version.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// One later than that of the version that was replaced before it.
    pub(in crate::storage) sequence: u64,
    pub(crate) entry: Entry,
    /// Its encoded manifest, and that of its pack.
    pub(crate) manifest: Vec<u8>,
    pub(in crate::storage) pack: Vec<u8>,
}

impl Catalogue {
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
    pub(in crate::storage) fn change_kept(
        &self,
        name: &FileName,
        stored: &[Kept],
        removed: &[Kept],
    ) -> Result<(), CatalogueError> {
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

    pub(in crate::storage) fn pack_path(&self, name: &str, sequence: u64) -> PathBuf {
        let digits = &blake3::hash(name.as_bytes()).to_hex()[..NAME_DIGITS];
        self.packs.join(format!("{digits}-{sequence}"))
    }
}
