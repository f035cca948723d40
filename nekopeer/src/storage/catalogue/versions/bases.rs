//! Bases: whole copies of what this peer publishes, kept so that what comes next is sent as a difference to them.
//!
//! The newest base of a name is a pack with all its chunks in their order; those before it are packs of what the next one
//! does not have. A base never stands in the way of what is shared: where there is no room, there is none.

use std::{
    fs::{self, File},
    io::{self, Read},
    sync::Arc,
};

use nekoproto::{FileName, Manifest, open_private, private_folder};
use tokio_util::sync::CancellationToken;

use super::{Chunks, EarlierVersion, add_chunks};
use crate::{
    content::stamp::{Stamp, open_file},
    failure::Failure,
    storage::catalogue::{Catalogue, Entry, error::not_kept, schema::KEPT},
};

/// Smallest file of which a base is kept, in bytes: less is sent whole.
pub(crate) const BASE_BYTES_MIN: u64 = 128 * 1024;
/// Versions of one name that are kept as bases.
const BASES_OF_ONE_MAX: usize = 4;
/// Bytes that are copied before it is looked whether that is to end.
const COPIED_AT_ONCE: u64 = 64 * 1024 * 1024;
/// Sequence numbers from one base to the next: what is left of a base when the next one comes has the number before its own.
const SEQUENCE_STEP: u64 = 2;

impl Catalogue {
    /// Every version of `name` that can be read here at any place, but for the file of a name that is published here, which
    /// its owner may be writing. Blocking.
    pub(crate) fn readable_versions(&self, name: &FileName) -> Result<Vec<EarlierVersion>, Failure> {
        match self.entry(name)? {
            Some(entry) if self.is_own(&entry) => {
                let mut chunks = Chunks::new();
                self.packs(name)?.iter().for_each(|(file, pack)| add_chunks(&mut chunks, file, pack));
                let mut versions = self.kept(name)?;
                versions.retain_mut(|version| version.open(&chunks));
                Ok(versions)
            }
            _ => self.versions(name, false, |_| true),
        }
    }

    /// Copies the published files of `names` whose bytes have no base yet, as long as all bases of this peer together stay
    /// within `max` bytes. Blocking: as long as it takes to read the files and write them durably, or to share their blocks
    /// where the file system can; ends soon after `stop`.
    pub(crate) fn keep_bases(
        &self,
        names: &[FileName],
        max: u64,
        stop: &CancellationToken,
    ) -> Result<(), Failure> {
        let mut bytes = None;
        for name in names {
            let Some(entry) = self.entry(name)?.filter(|entry| self.is_own(entry)) else { continue };
            let (size, kept) = (entry.record.size, self.kept(name)?);
            let is_kept = kept.first().is_some_and(|last| last.entry.record.content == entry.record.content);
            if is_kept || !(BASE_BYTES_MIN..=max).contains(&size) {
                continue;
            }
            let all = match bytes {
                Some(all) => all,
                None => self.bases()?.iter().map(|(_, bytes)| bytes).sum::<u64>(),
            };
            let has_room = all + size <= max;
            bytes = Some(if has_room && self.keep_base(&entry, kept, stop)? { all + size } else { all });
        }
        Ok(())
    }

    fn keep_base(
        &self,
        entry: &Entry,
        mut kept: Vec<EarlierVersion>,
        stop: &CancellationToken,
    ) -> Result<bool, Failure> {
        let encoded = self.manifest_of(entry)?.unwrap_or_default();
        let last = kept.first().map_or(0, |last| last.sequence.next_multiple_of(SEQUENCE_STEP));
        let Some(base) = EarlierVersion::new(last + SEQUENCE_STEP, entry.clone(), &encoded, &encoded) else {
            return Ok(false);
        };
        let next = Arc::clone(&base.manifest);
        if !self.copy_whole(&base, stop)? {
            return Ok(false);
        }
        self.change_kept(&[base], &[])?;
        kept.retain(|before| before.entry.record.origin == entry.record.origin); // not those of a copy
        self.shrink(kept, &next)?;
        // It may have been unshared while it was copied: whoever comes last removes what is kept.
        if !self.entry(&entry.record.name)?.is_some_and(|now| self.is_own(&now)) {
            self.trim_kept(&entry.record.name)?;
        }
        Ok(true)
    }

    /// Copies the file into the pack of `base`; false if it is not what was published any more.
    fn copy_whole(&self, base: &EarlierVersion, stop: &CancellationToken) -> Result<bool, Failure> {
        let path = self.pack_path(base.entry.record.name.as_str(), base.sequence);
        let copy = || {
            private_folder(path.parent().unwrap_or(&path)).map_err(io::Error::other)?;
            let mut file = open_file(&base.entry.path)?;
            let mut pack = open_private(&path, File::options().write(true).create(true).truncate(true))?;
            // The system shares blocks where it can.
            while io::copy(&mut (&mut file).take(COPIED_AT_ONCE), &mut pack)? > 0 {
                if stop.is_cancelled() {
                    return Ok(false);
                }
            }
            pack.sync_all()?;
            Ok(Stamp::of(&file.metadata()?) == base.entry.stamp)
        };
        let copied = copy().map_err(|error| not_kept(&path, error));
        if !matches!(copied, Ok(true)) {
            drop(fs::remove_file(&path)); // or the next start does
        }
        copied
    }

    /// Leaves of the base before, of the versions `kept` so far, what `next` does not have, and removes the oldest.
    fn shrink(&self, mut kept: Vec<EarlierVersion>, next: &Manifest) -> Result<(), Failure> {
        let mut removed = kept.split_off(kept.len().min(BASES_OF_ONE_MAX - 1));
        let mut left = Vec::new();
        if !kept.is_empty() {
            let whole = kept.remove(0);
            let mut rest = self.remade(&whole)?;
            let mut here = Chunks::new();
            if let Ok(file) = open_file(&self.pack_path(whole.entry.record.name.as_str(), whole.sequence)) {
                add_chunks(&mut here, &Arc::new(file), &whole.pack);
            }
            self.fill_pack(&mut rest, next, &here)?;
            left.push(rest);
            removed.push(whole);
        }
        self.replace_bases(&left, &removed)
    }

    fn replace_bases(&self, stored: &[EarlierVersion], removed: &[EarlierVersion]) -> Result<(), Failure> {
        self.change_kept(stored, removed)?;
        for gone in removed {
            drop(fs::remove_file(self.pack_path(gone.entry.record.name.as_str(), gone.sequence))); // or the next start does
        }
        Ok(())
    }

    /// Removes bases of one name after the other until they take `max` bytes at most: fewer than before are allowed. Blocking.
    pub(crate) fn trim_bases(&self, max: u64) -> Result<(), Failure> {
        let mut bases = self.bases()?;
        let mut bytes = bases.iter().map(|(_, bytes)| bytes).sum::<u64>();
        bases.dedup_by(|(name, more), (first, sum)| {
            name == first && {
                *sum += *more;
                true
            }
        });
        for (name, of_name) in bases {
            if bytes <= max {
                break;
            }
            let own = self.identity.id();
            let mut kept = self.kept(&name)?;
            kept.retain(|base| base.entry.record.origin == own);
            self.replace_bases(&[], &kept)?;
            bytes -= of_name;
        }
        Ok(())
    }

    /// `whole`, with nothing in its pack yet, under the sequence number before its own.
    fn remade(&self, whole: &EarlierVersion) -> Result<EarlierVersion, Failure> {
        let (entry, sequence) = (whole.entry.clone(), whole.sequence - 1);
        drop(fs::remove_file(self.pack_path(entry.record.name.as_str(), sequence))); // of a process that was killed
        EarlierVersion::new(sequence, entry, &whole.encoded, &[0])
            .ok_or_else(|| Failure::new("the manifest of a base is damaged".to_owned()))
    }

    /// Name and bytes of each base of this peer, by name.
    fn bases(&self) -> Result<Vec<(FileName, u64)>, Failure> {
        let own = self.identity.id();
        self.tables.rows(KEPT, .., usize::MAX, |(name, _), row| {
            let ((entry, ..), pack) = row.value();
            entry.filter(|entry| entry.record.origin == own)?;
            Some((FileName::new(name).ok()?, Manifest::decode(pack).ok()?.size()))
        })
    }
}
