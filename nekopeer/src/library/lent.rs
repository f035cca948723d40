//! [`Lent`]: versions that were asked for by their number, opened so that their bytes can be sent for a while. Of an
//! earlier one that is kept, the chunks are in the packs of those that replaced it, and in the file in its place.

use std::{
    collections::HashMap,
    fs::File,
    sync::Arc,
    time::{Duration, Instant},
};

use nekoproto::{
    ByteRange, ChunkHash, ContentHash, Manifest, ManifestHash, Numbered, Record, VerifiedRecord,
};
use parking_lot::Mutex;

use super::{Library, opened::open_unchanged};
use crate::{
    storage::catalogue::{CatalogueError, Copy},
    util::clock,
};

/// How long a version stays open after it was asked for last.
const LENT_FOR: Duration = Duration::from_secs(600);
/// Versions that are open at once, their files, and their chunks (some 60 bytes each in memory).
const LENT_MAX: usize = 16;
const LENT_FILES_MAX: usize = 1024;
const LENT_CHUNKS_MAX: usize = 1024 * 1024;

/// The versions that are open; the one that was asked for last is the last.
#[derive(Debug, Default)]
pub(crate) struct Lent(Mutex<Vec<(Instant, Arc<LentVersion>)>>);

#[derive(Debug)]
pub(crate) struct LentVersion {
    pub(crate) record: VerifiedRecord,
    pub(crate) encoded: Arc<[u8]>,
    manifest: Manifest,
    files: Vec<Arc<File>>,
    /// For each chunk which of `files` has it, and where.
    at: Vec<(usize, u64)>,
}

impl LentVersion {
    /// Where the bytes of `ranges`, which are within the file, are.
    pub(crate) fn parts(&self, ranges: &[ByteRange]) -> Vec<(Arc<File>, ByteRange)> {
        let mut parts = Vec::new();
        for asked in ranges {
            let asked = asked.offset..asked.offset + asked.len;
            for index in self.manifest.chunks_in(asked.clone()) {
                let chunk = self.manifest.range(index);
                let (start, end) = (chunk.start.max(asked.start), chunk.end.min(asked.end));
                let (file, at) = self.at[index];
                let range = ByteRange { offset: at + (start - chunk.start), len: end - start };
                parts.push((Arc::clone(&self.files[file]), range));
            }
        }
        parts
    }
}

impl Lent {
    /// The version with this content, if it is open.
    pub(crate) fn with_content(&self, content: &ContentHash) -> Option<Arc<LentVersion>> {
        self.find(|record| record.content == *content, clock::now())
    }

    /// The version whose manifest has this hash, if it is open.
    pub(crate) fn with_manifest(&self, manifest: &ManifestHash) -> Option<Arc<LentVersion>> {
        self.find(|record| record.manifest == *manifest, clock::now())
    }

    fn find(&self, is_wanted: impl Fn(&Record) -> bool, now: Instant) -> Option<Arc<LentVersion>> {
        let mut lent = self.0.lock();
        lent.retain(|(since, _)| now.saturating_duration_since(*since) < LENT_FOR);
        let at = lent.iter().position(|(_, version)| is_wanted(&version.record))?;
        let (_, version) = lent.remove(at);
        lent.push((now, Arc::clone(&version)));
        Some(version)
    }

    /// Adds a version; those that were not asked for longest make room for it.
    fn add(&self, version: LentVersion, now: Instant) {
        let mut lent = self.0.lock();
        lent.push((now, Arc::new(version)));
        let sum = |lent: &[(Instant, Arc<LentVersion>)], of: fn(&LentVersion) -> usize| {
            lent.iter().map(|(_, version)| of(version)).sum::<usize>()
        };
        while lent.len() > LENT_MAX
            || sum(&lent, |version| version.files.len()) > LENT_FILES_MAX
            || sum(&lent, |version| version.at.len()) > LENT_CHUNKS_MAX
        {
            lent.remove(0);
        }
    }
}

impl Library {
    /// The record of a version of another origin's file that is held or kept here; its bytes can be read for a while.
    /// Blocking.
    pub(crate) fn lend(&self, wanted: &Numbered) -> Result<Option<VerifiedRecord>, CatalogueError> {
        let Numbered { origin, name, version } = wanted;
        let is_wanted =
            |record: &Record| record.origin == *origin && record.name == *name && record.version == *version;
        let now = clock::now();
        if let Some(lent) = self.lent.find(is_wanted, now) {
            return Ok(Some(lent.record.clone()));
        }
        let Some(version) = self.open_version(wanted, is_wanted)? else { return Ok(None) };
        let record = version.record.clone();
        self.lent.add(version, now);
        Ok(Some(record))
    }

    /// `None` also if a part of it is not there any more.
    fn open_version(
        &self,
        wanted: &Numbered,
        is_wanted: impl Fn(&Record) -> bool,
    ) -> Result<Option<LentVersion>, CatalogueError> {
        let catalogue = &self.catalogue;
        let held = catalogue.entry(&wanted.name)?.filter(|held| !catalogue.is_own(held));
        let held = match held {
            Some(held) => catalogue.manifest_of(&held)?.map(|manifest| (held, manifest)),
            None => None,
        };
        let (record, encoded) = match &held {
            Some((entry, manifest)) if is_wanted(&entry.record) => (entry.record.clone(), manifest.clone()),
            _ => {
                let mut kept = catalogue.kept(&wanted.name)?.into_iter().map(|kept| kept.copy);
                let Some(copy) = kept.find(|copy| is_wanted(&copy.entry.record)) else { return Ok(None) };
                let Copy { entry, manifest, .. } = copy;
                (entry.record, manifest)
            }
        };
        let Ok(manifest) = Manifest::decode_for(&record, &encoded) else { return Ok(None) };
        let in_place = held.and_then(|(entry, encoded)| {
            Some((open_unchanged(&entry).ok()?, Manifest::decode(&encoded).ok()?))
        });
        let sources = in_place.into_iter().chain(catalogue.packs(&wanted.name));
        let Some((files, at)) = locate(&manifest, sources) else { return Ok(None) };
        Ok(Some(LentVersion { record, encoded: encoded.into(), manifest, files, at }))
    }
}

/// The files that have the chunks of `manifest`, and for each chunk which of them has it where; `None` if one is
/// nowhere.
#[expect(clippy::type_complexity, reason = "it is taken apart where it is called")]
fn locate(
    manifest: &Manifest,
    sources: impl Iterator<Item = (File, Manifest)>,
) -> Option<(Vec<Arc<File>>, Vec<(usize, u64)>)> {
    let mut found: HashMap<ChunkHash, Option<(usize, u64)>> =
        manifest.chunks().iter().map(|chunk| (chunk.hash, None)).collect();
    let (mut files, mut missing) = (Vec::new(), found.len());
    for (file, has) in sources {
        let before = missing;
        for (index, chunk) in has.chunks().iter().enumerate() {
            if let Some(at @ None) = found.get_mut(&chunk.hash) {
                *at = Some((files.len(), has.range(index).start));
                missing -= 1;
            }
        }
        if missing < before {
            files.push(Arc::new(file));
        }
    }
    let at = manifest.chunks().iter().map(|chunk| found.get(&chunk.hash).copied().flatten());
    Some((files, at.collect::<Option<Vec<_>>>()?))
}

#[cfg(test)]
mod tests {
    use std::{fs::write, io::Read, os::unix::fs::FileExt};

    use nekoproto::Chunk;
    use testkit::goods::record;

    use super::*;
    use crate::content::chunker::hash;

    fn manifest(text: &[u8]) -> Manifest {
        let chunk = |bytes: &[u8]| Chunk { len: u32::try_from(bytes.len()).unwrap(), hash: hash(bytes) };
        Manifest::new(text.chunks(2).map(chunk).collect()).unwrap()
    }

    fn lent(content: u8, text: &[u8], at: &[(&str, &[u8])]) -> Option<LentVersion> {
        let folder = tempfile::tempdir().unwrap();
        let sources = at.iter().map(|(name, text)| {
            let path = folder.path().join(name);
            write(&path, text).unwrap();
            (File::open(path).unwrap(), manifest(text))
        });
        let manifest = manifest(text);
        let (files, at) = locate(&manifest, sources)?;
        let record = record(1, "a", 1, |record| {
            (record.size, record.content) = (text.len() as u64, ContentHash::from_bytes([content; 32]));
        });
        Some(LentVersion { record, encoded: Arc::default(), manifest, files, at })
    }

    fn read(version: &LentVersion, offset: u64, len: u64) -> Vec<u8> {
        let mut all = Vec::new();
        for (file, range) in version.parts(&[ByteRange { offset, len }]) {
            let mut bytes = vec![0; usize::try_from(range.len).unwrap()];
            file.read_exact_at(&mut bytes, range.offset).unwrap();
            bytes.as_slice().read_to_end(&mut all).unwrap();
        }
        all
    }

    #[test]
    fn version_is_read_from_the_packs_and_the_file_in_its_place() {
        let place: &[(&str, &[u8])] = &[("place", b"ddbbxx"), ("pack 1", b"zz"), ("pack 0", b"aacc")];
        let version = lent(1, b"aabbccaad", &[place, &[("last", b"d")]].concat()).unwrap();
        assert_eq!(version.files.len(), 3, "the pack without one of its chunks is closed");
        assert_eq!(read(&version, 0, 9), b"aabbccaad");
        assert_eq!(read(&version, 1, 6), b"abbcca");
        assert_eq!(read(&version, 8, 1), b"d");
        assert!(lent(1, b"aabbccaad", place).is_none(), "one chunk is nowhere");
    }

    #[test]
    fn versions_are_lent_for_a_while_and_make_room_for_others() {
        let (table, now) = (Lent::default(), Instant::now());
        let add = |content: u8, now: Instant| table.add(lent(content, b"aa", &[("f", b"aa")]).unwrap(), now);
        let has = |content: u8, now: Instant| {
            table.find(|record| record.content == ContentHash::from_bytes([content; 32]), now).is_some()
        };
        (0..16).for_each(|content| add(content, now));
        assert!(has(0, now));
        add(16, now);
        assert!(has(0, now) && !has(1, now), "the one that was not asked for longest made room");
        assert!(has(0, now + LENT_FOR / 2) && has(0, now + LENT_FOR));
        assert!(!has(16, now + LENT_FOR), "it was not asked for since");
    }
}
