//! Delta bases of an origin: a whole copy of the newest version of each published file, and packs of the three before, after
//! which the next versions are compressed.
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
/// What the name of a copy ends with until it is one.
const PARTIAL: &str = "partial";
/// Bytes that are copied before it is looked whether that is to end.
const COPIED_AT_ONCE: u64 = 64 * 1024 * 1024;
/// Sequence numbers from one whole base to the next: what is left of one when the next one comes has the number before its own.
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
    /// within `max` bytes. Where there is room for one of two versions only, the one before goes if it `gives_way`; returns the
    /// names of those for which it would have to. Blocking: as long as it takes to read the files and write them durably, or
    /// to share their blocks where the file system can; ends soon after `stop`.
    pub(crate) fn keep_bases(
        &self,
        names: &[FileName],
        max: u64,
        gives_way: bool,
        stop: &CancellationToken,
    ) -> Result<Vec<FileName>, Failure> {
        let (mut bytes, mut crowded) = (None, Vec::new());
        for name in names {
            let Some(entry) = self.entry(name)?.filter(|entry| self.is_own(entry)) else { continue };
            let (size, mut kept) = (entry.record.size, self.kept(name)?);
            let is_kept = kept.first().is_some_and(|last| last.entry.record.content == entry.record.content);
            if is_kept || !(BASE_BYTES_MIN..=max).contains(&size) {
                continue;
            }
            let all = match bytes {
                Some(all) => all,
                None => self.bases()?.iter().map(|(_, bytes)| bytes).sum::<u64>(),
            };
            let last = kept.first().map_or(0, |last| last.sequence.next_multiple_of(SEQUENCE_STEP));
            kept.retain(|before| before.entry.record.origin == entry.record.origin); // not those of a copy
            let before = kept.iter().map(|base| base.pack.size()).sum::<u64>();
            bytes = Some(if all + size <= max {
                all + if self.keep_base(&entry, last, kept, stop)? { size } else { 0 }
            } else if all - before + size > max {
                all
            } else if gives_way {
                self.replace_kept(&[], &kept)?;
                all - before + if self.keep_base(&entry, last, Vec::new(), stop)? { size } else { 0 }
            } else {
                crowded.push(name.clone());
                all
            });
        }
        Ok(crowded)
    }

    /// Keeps one whose sequence number is the next after `last`; those `kept` so far are left as differences.
    fn keep_base(
        &self,
        entry: &Entry,
        last: u64,
        kept: Vec<EarlierVersion>,
        stop: &CancellationToken,
    ) -> Result<bool, Failure> {
        let encoded = self.manifest_of(entry)?.unwrap_or_default();
        let Some(base) = EarlierVersion::new(last + SEQUENCE_STEP, entry.clone(), &encoded, &encoded) else {
            return Ok(false);
        };
        let next = Arc::clone(&base.manifest);
        if !self.copy_whole(&base, stop)? {
            return Ok(false);
        }
        self.change_kept(&[base], &[])?;
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
        let partial = path.with_extension(PARTIAL);
        let copy = || {
            private_folder(path.parent().unwrap_or(&path)).map_err(io::Error::other)?;
            let mut file = open_file(&base.entry.path)?;
            let mut pack = open_private(&partial, File::options().write(true).create(true).truncate(true))?;
            // The system shares blocks where it can.
            while io::copy(&mut (&mut file).take(COPIED_AT_ONCE), &mut pack)? > 0 {
                if stop.is_cancelled() {
                    return Ok(false);
                }
            }
            pack.sync_all()?;
            let is_it = Stamp::of(&file.metadata()?) == base.entry.stamp;
            if is_it {
                fs::rename(&partial, &path)?;
            }
            Ok(is_it)
        };
        let copied = copy().map_err(|error| not_kept(&path, error));
        if !matches!(copied, Ok(true)) {
            drop(fs::remove_file(&partial)); // or the next start does
        }
        copied
    }

    /// Leaves of the versions `kept` so far that are whole what `next` does not have, and removes the oldest. One is whole
    /// usually, more after a process was killed.
    fn shrink(&self, mut kept: Vec<EarlierVersion>, next: &Manifest) -> Result<(), Failure> {
        let mut removed = kept.split_off(kept.len().min(BASES_OF_ONE_MAX - 1));
        let mut left = Vec::new();
        for whole in kept.into_iter().filter(|base| base.sequence.is_multiple_of(SEQUENCE_STEP)) {
            let (mut rest, mut here) = (self.remade(&whole)?, Chunks::new());
            if let Ok(file) = open_file(&self.pack_path(whole.entry.record.name.as_str(), whole.sequence)) {
                add_chunks(&mut here, &Arc::new(file), &whole.pack);
            }
            self.fill_pack(&mut rest, next, &here)?;
            left.push(rest);
            removed.push(whole);
        }
        self.replace_kept(&left, &removed)
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
            self.replace_kept(&[], &kept)?;
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

#[cfg(test)]
mod tests {
    use testkit::{goods::bytes, values::name};

    use super::*;
    use crate::storage::catalogue::model_tests::DataFolder;

    const SIZE: usize = 300_000;

    /// The versions that can be read, the newest first, and the bytes of their packs.
    fn kept(catalogue: &Catalogue) -> Vec<(u64, u64)> {
        let versions = catalogue.readable_versions(&name("a")).unwrap();
        versions.iter().map(|base| (base.entry.record.version.get(), base.pack.size())).collect()
    }

    fn keep(catalogue: &Catalogue, max: u64, gives_way: bool) -> usize {
        let stop = CancellationToken::new();
        catalogue.keep_bases(&[name("a")], max, gives_way, &stop).unwrap().len()
    }

    #[test]
    fn version_before_gives_way_where_both_have_no_room_and_only_then() {
        let (folder, catalogue) = DataFolder::begin();
        let max = SIZE as u64 * 3 / 2;
        folder.publish(&catalogue, "a", &bytes(1, SIZE));
        assert_eq!((keep(&catalogue, max, false), kept(&catalogue)), (0, vec![(1, SIZE as u64)]));
        folder.publish(&catalogue, "a", &bytes(2, SIZE));
        assert_eq!((keep(&catalogue, max, false), kept(&catalogue)), (1, vec![(1, SIZE as u64)]));
        assert_eq!((keep(&catalogue, max, true), kept(&catalogue)), (0, vec![(2, SIZE as u64)]));
        folder.publish(&catalogue, "a", &bytes(3, SIZE));
        assert_eq!(keep(&catalogue, SIZE as u64 - 1, true), 0, "a file that is larger than all may be");
        assert_eq!(kept(&catalogue), [(2, SIZE as u64)]);
        catalogue.trim_bases(SIZE as u64).unwrap();
        assert_eq!(kept(&catalogue).len(), 1);
        catalogue.trim_bases(SIZE as u64 - 1).unwrap();
        assert_eq!(kept(&catalogue), []);
    }

    /// As after a kill between the two transactions.
    #[test]
    fn several_whole_ones_become_differences_to_the_next() {
        let (folder, catalogue) = DataFolder::begin();
        let mut content = bytes(1, SIZE);
        for version in 1..=3 {
            content[100_000 * (version - 1)] ^= 1;
            folder.publish(&catalogue, "a", &content);
            let entry = catalogue.entry(&name("a")).unwrap().unwrap();
            let last = 2 * (version as u64 - 1);
            // None before it is known: so each stays whole.
            let known = if version < 3 { Vec::new() } else { catalogue.kept(&name("a")).unwrap() };
            assert!(catalogue.keep_base(&entry, last, known, &CancellationToken::new()).unwrap());
        }
        let found = kept(&catalogue);
        assert_eq!(found.iter().map(|(version, _)| *version).collect::<Vec<_>>(), [3, 2, 1]);
        assert_eq!(found[0].1, SIZE as u64);
        assert!(found[1..].iter().all(|(_, pack)| *pack < SIZE as u64 * 9 / 10), "{found:?}");
    }
}
