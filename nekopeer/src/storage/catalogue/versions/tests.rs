//! Whatever is replaced, gone back to and removed in whatever order: what is kept can be read.

use std::{
    io::Write,
    os::unix::fs::PermissionsExt,
    time::{Duration, Instant},
};

use nekoproto::{ContentHash, Identity, Numbered, VerifiedRecord, Version};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use testkit::goods;

use super::{super::PassedOver, lent::Lent, *};
use crate::{
    content::stamp::Looker,
    storage::catalogue::{CommandId, ReaderState, StoredCopy, Why},
};

const KEEP: u32 = 3;
/// Bytes of a chunk, and chunks that there are.
const CHUNK: usize = 4;
const CHUNKS: u8 = 12;

struct VersionHistory {
    folder: tempfile::TempDir,
    catalogue: Catalogue,
    name: FileName,
    /// The content of each version from the first on, a chunk for each byte.
    contents: Vec<Vec<u8>>,
    /// The versions that were replaced and are to be kept, the last one first, each once; how many, and the one that is in
    /// any case.
    replaced: Vec<u64>,
    keep: u32,
    accepted: Option<u64>,
}

fn bytes(content: &[u8]) -> Vec<u8> {
    content.iter().flat_map(|chunk| [*chunk; CHUNK]).collect()
}

impl VersionHistory {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let catalogue = Catalogue::open(folder.path(), Identity::from_seed(&[9; 32])).unwrap();
        let name = FileName::new("a").unwrap();
        let (contents, replaced, accepted) = Default::default();
        let mut history = Self { folder, catalogue, name, contents, replaced, keep: KEEP, accepted };
        history.keep(KEEP, None);
        history
    }

    fn held(&self) -> Option<VerifiedRecord> {
        self.catalogue.get(&self.name).map(|entry| entry.record.clone())
    }

    fn content(&self, number: u64) -> Vec<u8> {
        bytes(&self.contents[usize::try_from(number - 1).unwrap()])
    }

    /// Puts a version in its place, as a download does.
    fn place(&mut self, number: u64) -> StoredCopy {
        let content = self.content(number);
        let chunks = content.chunks(CHUNK).map(|bytes| Chunk { len: 4, hash: hash(bytes) });
        let chunks = Manifest::new(chunks.collect()).unwrap();
        let (manifest, manifest_hash) = chunks.encode().unwrap();
        let record = goods::record(1, self.name.as_str(), number, |record| {
            (record.size, record.manifest) = (chunks.size(), manifest_hash);
            record.content = ContentHash::from_bytes(*blake3::hash(&content).as_bytes());
        });
        self.catalogue.may_put(&record, None).unwrap();
        self.catalogue.keep_before(&self.name, &chunks).unwrap();
        let (path, partial) = (self.folder.path().join("a"), self.folder.path().join("partial"));
        fs::write(&partial, content).unwrap();
        fs::rename(partial, &path).unwrap();
        let before = self.held().map(|held| held.version.get());
        let stamp = Looker::default().stamp(&path).unwrap();
        let entry = Entry { record, path, stamp, hashed_at_ns: 0, newest: None, origin_addr: None };
        let copy = StoredCopy { entry, manifest, outboard: Vec::new() };
        self.catalogue.put_copy(copy.clone()).unwrap();
        self.catalogue.trim_kept(&self.name).unwrap();
        self.replaced.retain(|replaced| *replaced != number && Some(*replaced) != before);
        self.replaced.splice(..0, before);
        self.forget();
        copy
    }

    fn forget(&mut self) {
        let mut place = 0;
        self.replaced.retain(|replaced| {
            place += 1;
            place <= self.keep || Some(*replaced) == self.accepted
        });
    }

    fn place_new(&mut self, content: &[u8]) -> StoredCopy {
        self.contents.push(content.to_vec());
        self.place(self.contents.len() as u64)
    }

    fn go_back(&mut self, number: u64) {
        let origin = self.held().unwrap().origin;
        let newest = Version::new(self.contents.len() as u64).unwrap();
        let passed = PassedOver { origin, version: newest, why: Why::RolledBack };
        self.catalogue.change_readers([&self.name], |reader| reader.passed_over = Some(passed)).unwrap();
        self.place(number);
    }

    /// A command accepts what is in the place.
    fn accept(&mut self) {
        let held = self.held().unwrap();
        let accept = |reader: &mut ReaderState| reader.accept(CommandId([1; 32]), held.origin, held.version);
        self.catalogue.change_readers([&self.name], accept).unwrap();
        self.accepted = Some(held.version.get());
    }

    fn keep(&mut self, keep: u32, keep_max: Option<u64>) {
        let change = |reader: &mut ReaderState| (reader.keep, reader.keep_max) = (keep, keep_max);
        self.catalogue.change_readers([&self.name], change).unwrap();
        self.catalogue.trim_kept(&self.name).unwrap();
        self.keep = keep;
        self.forget();
    }

    /// The earlier versions that can be opened.
    fn listed(&self) -> Vec<u64> {
        let versions = self.catalogue.versions(&self.name, true, |_| true).unwrap();
        let numbers = versions.iter().map(|found| found.entry.record.version.get());
        numbers.filter(|number| *number != self.held().unwrap().version.get()).collect()
    }

    fn packs(&self) -> Vec<Vec<u8>> {
        let packs = fs::read_dir(self.folder.path().join("kept")).into_iter().flatten();
        packs.map(|pack| fs::read(pack.unwrap().path()).unwrap()).collect()
    }

    /// As a crash does while packs grow.
    fn leave_a_rest(&self) {
        for pack in fs::read_dir(self.folder.path().join("kept")).into_iter().flatten() {
            let mut pack = File::options().append(true).open(pack.unwrap().path()).unwrap();
            pack.write_all(b"a rest").unwrap();
        }
    }

    fn write_over(&self, chunk: u64) {
        let place = File::options().write(true).open(self.folder.path().join("a")).unwrap();
        place.write_all_at(b"else", chunk * CHUNK as u64).unwrap();
    }

    /// What is to be kept is listed, and all of it can be read, from wherever to wherever.
    fn check(&self) {
        assert_eq!(self.listed(), self.replaced);
        assert_eq!(self.packs().len(), self.replaced.len(), "a pack of each and no other");
        for found in self.catalogue.versions(&self.name, true, |_| true).unwrap() {
            let content = self.content(found.entry.record.version.get());
            for (from, to) in [(0, content.len()), (1, content.len() - 1), (3, content.len().min(6))] {
                let range = ByteRange { offset: from as u64, len: (to - from) as u64 };
                let mut read = Vec::new();
                for (file, range) in found.parts(&[range]) {
                    let begin = read.len();
                    read.resize(begin + usize::try_from(range.len).unwrap(), 0);
                    file.read_exact_at(&mut read[begin..], range.offset).unwrap();
                }
                assert_eq!(read, content[from..to], "version {}", found.entry.record.version);
            }
        }
    }
}

#[test]
fn what_is_kept_can_be_read_after_any_steps_forward_and_back() {
    for seed in 0..12 {
        println!("seed {seed}");
        let (mut history, mut random) = (VersionHistory::new(), StdRng::seed_from_u64(seed));
        for _ in 0..25 {
            match history.replaced.get(random.random_range(0..6)).copied() {
                Some(version) => history.go_back(version),
                None => {
                    let len = random.random_range(2..10);
                    let content: Vec<u8> = (0..len).map(|_| random.random_range(0..CHUNKS)).collect();
                    history.place_new(&content);
                }
            }
            history.check();
            match random.random_range(0..8) {
                0 => history.accept(),
                1..3 => history.leave_a_rest(),
                _ => {}
            }
        }
        history.keep(1, None);
        history.check();
    }
}

#[test]
fn packs_have_no_more_bytes_than_the_reader_wants_but_for_what_a_command_accepted() {
    let mut history = VersionHistory::new();
    history.place_new(&[0, 1, 2]);
    history.accept();
    (2..7).for_each(|n| drop(history.place_new(&[1, n, n + 100])));
    assert_eq!(history.listed(), [5, 4, 3, 1]);
    let size = |history: &VersionHistory| history.packs().iter().map(Vec::len).collect::<Vec<_>>();
    for (max, listed) in [(24, [5, 4, 3, 1].as_slice()), (23, &[5, 4, 1]), (16, &[5, 4, 1]), (7, &[1])] {
        history.keep(KEEP, Some(max));
        assert_eq!(history.listed(), listed, "{max} bytes of packs: {:?}", size(&history));
    }
    history.place_new(&[7]);
    history.replaced = vec![1];
    history.check();
}

/// Each chunk once that the next version lacks, and none that is another by now.
#[test]
fn pack_has_what_the_next_version_lacks_and_nobody_changed() {
    let mut history = VersionHistory::new();
    history.place_new(&[1, 2, 3, 1]);
    history.place_new(&[2, 4, 5]);
    assert_eq!(history.packs(), [bytes(&[1, 3])]);
    history.place_new(&[2, 4, 5, 6]);
    assert!(history.packs().contains(&Vec::new()));
    history.check();
    history.write_over(1);
    history.place_new(&[2, 5]);
    assert!(history.packs().contains(&bytes(&[6])));
    (0..2).for_each(|chunk| history.write_over(chunk));
    history.place_new(&[7]);
    assert_eq!(
        history.catalogue.kept(&history.name).unwrap()[0].entry.record.version.get(),
        3,
        "nothing is left of 4"
    );
}

/// An older version may take the place only where what is there is passed over, and stays marked as outdated.
#[test]
fn older_version_needs_to_be_asked_for() {
    let mut history = VersionHistory::new();
    let [first, _, last] = [0, 1, 2].map(|n| history.place_new(&[n, 9]));
    let refused = history.catalogue.put_copy(first.clone());
    assert!(matches!(refused, Err(Failure { reason: crate::failure::Reason::Overtaken, .. })), "{refused:?}");
    history.go_back(1);
    let entry = history.catalogue.get(&history.name).unwrap();
    assert_eq!((&entry.record, &entry.newest), (&first.entry.record, &Some(last.entry.record)));
    let reader = history.catalogue.reader(&history.name).unwrap();
    assert!(reader.passes_over(entry.newest.as_ref().unwrap()));
    history.place(3); // it is asked for
    assert_eq!(history.catalogue.reader(&history.name).unwrap().passed_over, None);
    let pack = history.folder.path().join("kept/0-0");
    fs::write(&pack, "left by a crash").unwrap();
    history.catalogue.settle_all().unwrap();
    assert!(!pack.exists());
    history.check();
}

/// What counts of the file in the place is its bytes. A version of which some are nowhere is not listed, whatever else has
/// to be thought of it.
#[test]
fn touched_copy_is_kept_and_what_cannot_be_put_together_is_not_listed() {
    let mut history = VersionHistory::new();
    let path = history.folder.path().join("a");
    for content in [[1, 2, 3, 4], [1, 2, 3, 5], [1, 2, 6, 5]] {
        history.place_new(&content);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        File::open(&path).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
        history.check();
    }
    history.write_over(2); // what only version 3 has
    assert_eq!(history.listed(), [2, 1]);
    history.place_new(&[7]);
    assert_eq!(history.listed(), [2, 1], "what they had in common with version 3 is kept");
    history.place_new(&[8, 7]);
    assert_eq!(history.listed(), [4, 2]);
    history.write_over(1); // what version 4 has in common with it
    assert_eq!(history.listed(), [2]);
}

/// As a disk leaves it that lost what was written last.
#[test]
fn version_whose_pack_was_cut_off_is_not_listed_and_others_are() {
    let mut history = VersionHistory::new();
    (0..3).for_each(|n| drop(history.place_new(&[n, 9])));
    let pack = fs::read_dir(history.folder.path().join("kept")).unwrap().map(|pack| pack.unwrap().path());
    let pack = pack.max().unwrap(); // of the one that was replaced last
    File::options().write(true).open(pack).unwrap().set_len(3).unwrap();
    assert_eq!(history.listed(), [1]);
}

#[test]
fn versions_are_lent_for_a_while_and_make_room_for_others() {
    let (mut history, lent, now) = (VersionHistory::new(), Lent::default(), Instant::now());
    history.keep(20, None);
    (0..18).for_each(|n| drop(history.place_new(&[n, n + 1])));
    let origin = history.held().unwrap().origin;
    let lend = |number: u64| {
        let wanted = Numbered { origin, name: history.name.clone(), version: Version::new(number).unwrap() };
        lent.lend(&history.catalogue, &wanted).unwrap().is_some()
    };
    let has = |number: u64, secs: u64| {
        let now = now + Duration::from_secs(secs);
        lent.find(|record| record.version.get() == number, now).is_some()
    };
    assert!((1..=16).all(lend) && !lend(19));
    assert!(has(1, 0) && lend(17));
    assert!(has(1, 0) && !has(2, 0), "the one that was not asked for longest made room");
    assert!(has(1, 400) && has(1, 800));
    assert!(!has(17, 800), "it was not asked for since");
}
