//! Whatever is replaced, gone back to and removed in whatever order: what is kept can be put together again.

use std::{collections::HashMap, os::unix::fs::FileExt};

use nekoproto::{Chunk, ChunkHash, ContentHash, VerifiedRecord, Version};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use testkit::goods;

use super::{kept::Kept, *};
use crate::content::{chunker::hash, stamp::Looker};

const KEEP: u32 = 3;
/// Bytes of a chunk, and chunks that there are.
const CHUNK: usize = 4;
const CHUNKS: u8 = 12;

struct World {
    folder: tempfile::TempDir,
    catalogue: Catalogue,
    name: FileName,
    /// Of each version its content, a chunk for each byte.
    contents: HashMap<Version, Vec<u8>>,
    /// The versions that were replaced, the last one first, each once.
    replaced: Vec<Version>,
}

fn bytes(content: &[u8]) -> Vec<u8> {
    content.iter().flat_map(|chunk| [*chunk; CHUNK]).collect()
}

fn manifest(content: &[u8]) -> Manifest {
    let chunk = |chunk: &u8| Chunk { len: 4, hash: hash(&[*chunk; CHUNK]) };
    Manifest::new(content.iter().map(chunk).collect()).unwrap()
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let catalogue = Catalogue::open(folder.path(), Identity::from_seed(&[9; 32])).unwrap();
        let name = FileName::new("a").unwrap();
        catalogue.change_readers([&name], |reader| reader.keep = KEEP).unwrap();
        let (contents, replaced) = Default::default();
        Self { folder, catalogue, name, contents, replaced }
    }

    fn held(&self) -> Option<VerifiedRecord> {
        self.catalogue.get(&self.name).map(|entry| entry.record.clone())
    }

    /// Puts a version in its place, as a download does.
    fn place(&mut self, version: Version) {
        let content = &self.contents[&version];
        let manifest = manifest(content);
        let (encoded, manifest_hash) = manifest.encode().unwrap();
        let record = goods::record(1, self.name.as_str(), version.get(), |record| {
            (record.size, record.manifest) = (manifest.size(), manifest_hash);
            record.content = ContentHash::from_bytes(*blake3::hash(&bytes(content)).as_bytes());
        });
        self.catalogue.may_hold(&record).unwrap();
        self.catalogue.keep_before(&self.name, &manifest).unwrap();
        let (path, partial) = (self.folder.path().join("a"), self.folder.path().join("partial"));
        std::fs::write(&partial, bytes(content)).unwrap();
        std::fs::rename(partial, &path).unwrap();
        let before = self.held();
        let stamp = Looker::default().stamp(&path).unwrap();
        let entry = Entry { record, path, stamp, hashed_at_ns: 0, newest: None, origin_addr: None };
        self.catalogue.put_copy(Copy { entry, manifest: encoded, outboard: Vec::new() }).unwrap();
        self.catalogue.trim_kept(&self.name).unwrap();
        let before = before.map(|before| before.version);
        self.replaced.retain(|replaced| *replaced != version && Some(*replaced) != before);
        self.replaced.splice(..0, before);
        self.replaced.truncate(KEEP as usize);
    }

    fn go_back(&mut self, version: Version) {
        let held = self.held().unwrap();
        let newest = *self.contents.keys().max().unwrap();
        let passed = PassedOver { origin: held.origin, version: newest, why: Why::RolledBack };
        self.catalogue.change_readers([&self.name], |reader| reader.passed_over = Some(passed)).unwrap();
        self.place(version);
    }

    /// Puts each kept version together from the packs and the file in its place.
    fn check(&self) {
        let kept = self.catalogue.kept(&self.name).unwrap();
        let versions: Vec<Version> = kept.iter().map(|kept| kept.copy.entry.record.version).collect();
        assert_eq!(versions, self.replaced);
        let mut found: HashMap<ChunkHash, Vec<u8>> = HashMap::new();
        let held =
            Manifest::decode(&manifest(&self.contents[&self.held().unwrap().version]).encode().unwrap().0);
        let place = std::fs::File::open(self.folder.path().join("a")).unwrap();
        for (file, chunks) in self.catalogue.packs(&self.name).into_iter().chain([(place, held.unwrap())]) {
            for (index, chunk) in chunks.chunks().iter().enumerate() {
                let mut bytes = vec![0; chunk.len as usize];
                file.read_exact_at(&mut bytes, chunks.range(index).start).unwrap();
                assert_eq!(hash(&bytes), chunk.hash);
                found.insert(chunk.hash, bytes);
            }
        }
        for Kept { copy, .. } in kept {
            let record = &copy.entry.record;
            let chunks = Manifest::decode_for(record, &copy.manifest).unwrap();
            let joined: Vec<u8> =
                chunks.chunks().iter().flat_map(|chunk| found[&chunk.hash].clone()).collect();
            assert_eq!(joined, bytes(&self.contents[&record.version]), "version {}", record.version);
        }
        let files = std::fs::read_dir(self.folder.path().join(kept::FOLDER)).map_or(0, Iterator::count);
        assert_eq!(files, versions.len(), "a pack of each and no other");
    }
}

#[test]
fn what_is_kept_can_be_put_together_after_any_steps_forward_and_back() {
    for seed in 0..12 {
        println!("seed {seed}");
        let (mut world, mut random) = (World::new(), StdRng::seed_from_u64(seed));
        for _ in 0..25 {
            let back = world.replaced.get(random.random_range(0..6)).copied();
            match back {
                Some(version) => world.go_back(version),
                None => {
                    let newest = world.contents.keys().max().map_or(0, |newest| newest.get());
                    let version = Version::new(newest + 1).unwrap();
                    let len = random.random_range(2..10);
                    let content = (0..len).map(|_| random.random_range(0..CHUNKS)).collect();
                    world.contents.insert(version, content);
                    world.place(version);
                }
            }
            world.check();
        }
        world.catalogue.change_readers([&world.name], |reader| reader.keep = 1).unwrap();
        world.catalogue.trim_kept(&world.name).unwrap();
        world.replaced.truncate(1);
        world.check();
    }
}

/// An older version may take the place only where what is there is passed over, and stays marked as outdated.
#[test]
fn older_version_needs_to_be_asked_for() {
    let mut world = World::new();
    let versions = [1, 2, 3].map(|n| Version::new(n).unwrap());
    for (n, version) in (0u8..).zip(versions) {
        world.contents.insert(version, vec![n, 9]);
        world.place(version);
    }
    let older = world.catalogue.kept(&world.name).unwrap().remove(0).copy;
    let refused = world.catalogue.put_copy(older);
    assert!(matches!(refused, Err(CatalogueError::Overtaken(_))), "{refused:?}");
    world.go_back(versions[0]);
    let entry = world.catalogue.get(&world.name).unwrap();
    assert_eq!(
        (entry.record.version, entry.newest.as_ref().map(|newest| newest.version)),
        (versions[0], Some(versions[2]))
    );
    let reader = world.catalogue.reader(&world.name).unwrap();
    assert!(reader.passes_over(entry.newest.as_ref().unwrap()));
    world.place(versions[2]); // it is asked for
    assert_eq!(world.catalogue.reader(&world.name).unwrap().passed_over, None);
    let pack = world.folder.path().join(kept::FOLDER).join("0-0");
    std::fs::write(&pack, "left by a crash").unwrap();
    world.catalogue.settle_all().unwrap();
    assert!(!pack.exists());
    world.check();
}

/// What counts of the file in the place is its bytes. A version of which some are nowhere is not offered, whatever else has
/// to be thought of it.
#[test]
fn touched_copy_is_kept_and_what_cannot_be_put_together_is_not_listed() {
    let mut world = World::new();
    let contents: [&[u8]; 5] = [&[1, 2, 3, 4], &[1, 2, 3, 5], &[1, 2, 6, 5], &[7], &[8, 7]];
    let path = world.folder.path().join("a");
    let listed = |world: &World| -> Vec<u64> {
        let kept = world.catalogue.restorable(&world.name).unwrap();
        kept.iter().map(|copy| copy.entry.record.version.get()).collect()
    };
    let write_over = |chunk: u64| {
        let place = std::fs::File::options().write(true).open(&path).unwrap();
        place.write_all_at(b"else", chunk * CHUNK as u64).unwrap();
    };
    let place = |world: &mut World, number: u8| {
        let version = Version::new(number.into()).unwrap();
        world.contents.insert(version, contents[usize::from(number) - 1].to_vec());
        world.place(version);
    };
    for number in 1..=3 {
        place(&mut world, number);
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::File::open(&path).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
        world.check();
    }
    assert_eq!(listed(&world), [2, 1]);
    write_over(2); // what only version 3 has
    assert_eq!(listed(&world), [2, 1]);
    place(&mut world, 4);
    assert_eq!(listed(&world), [2, 1], "what they had in common with version 3 is kept");
    place(&mut world, 5);
    assert_eq!(listed(&world), [4, 2]);
    write_over(1); // what version 4 has in common with it
    assert_eq!(listed(&world), [2]);
}
