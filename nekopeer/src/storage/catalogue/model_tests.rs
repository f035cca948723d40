//! The catalogue compared with a simple model over random operations, with restarts and lost transactions; rows
//! that were damaged; and another format.

use std::collections::BTreeMap;

use nekoproto::{Identity, Manifest, Record, VerifiedRecord};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use redb::ReadableTable;
use testkit::goods::record;

use super::*;
use crate::{content::stamp::Stamp, failure::Reason};

pub(super) fn identity() -> Identity {
    Identity::from_seed(&[1; 32])
}

pub(super) struct DataFolder(tempfile::TempDir);

impl DataFolder {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(super) fn begin() -> (Self, Catalogue) {
        let folder = Self::new();
        let catalogue = folder.open();
        (folder, catalogue)
    }

    pub(super) fn open(&self) -> Catalogue {
        Catalogue::open(self.0.path(), identity()).unwrap()
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The database, past the catalogue.
    fn database(&self) -> redb::Database {
        redb::Database::create(self.0.path().join("catalogue.redb")).unwrap()
    }

    fn damage(&self, name: &str, at: usize) {
        let database = self.database();
        let files = redb::TableDefinition::<&str, &[u8]>::new("files");
        let write = database.begin_write().unwrap();
        {
            let mut files = write.open_table(files).unwrap();
            let mut row = files.get(name).unwrap().unwrap().value().to_vec();
            let len = row.len();
            row[at % len] ^= 1;
            files.insert(name, row.as_slice()).unwrap();
        }
        write.commit().unwrap();
    }
}

/// A copy of another origin's file. `content` chooses its bytes; an even one has one chunk, an odd one several.
pub(super) fn copy(folder: &DataFolder, name: &str, version: u64, content: u8) -> StoredCopy {
    let size = 1000 + u64::from(content);
    let hash = ContentHash::from_bytes([content; 32]);
    let chunk = nekoproto::Chunk {
        len: u32::try_from(size).unwrap(),
        hash: nekoproto::ChunkHash::from_bytes(*hash.as_bytes()),
    };
    let (bytes, implied) = Manifest::new(vec![chunk]).unwrap().encode().unwrap();
    let (manifest, bytes) = if content.is_multiple_of(2) {
        (implied, bytes)
    } else {
        (ManifestHash::from_bytes([content; 32]), vec![content])
    };
    let path = folder.0.path().join("file");
    std::fs::write(&path, b"x").unwrap();
    let record = record(2, name, version, |record| {
        (record.size, record.content, record.manifest) = (size, hash, manifest);
    });
    StoredCopy { manifest: bytes, ..copy_of(record, &path) }
}

/// A copy of this version whose file stands at `path`.
pub(crate) fn copy_of(record: VerifiedRecord, path: &Path) -> StoredCopy {
    let (path, stamp) = (path.to_owned(), Stamp::of(&std::fs::metadata(path).unwrap()));
    let entry = Entry { record, path, stamp, hashed_at_ns: 0, newest: None, origin_addr: None };
    StoredCopy { entry, manifest: Vec::new(), outboard: Vec::new() }
}

fn all(catalogue: &Catalogue, limit: usize) -> Vec<Entry> {
    let (mut start, mut all) = (Some(PageStart::default()), Vec::new());
    while let Some(from) = start {
        let page = catalogue.page(&from, limit).unwrap();
        all.extend(page.entries.into_iter().map(Result::unwrap));
        start = page.next;
    }
    all
}

fn check(catalogue: &Catalogue, model: &BTreeMap<String, StoredCopy>, seed: u64) {
    let expected: Vec<&Entry> = model.values().map(|copy| &copy.entry).collect();
    for limit in [1, 3, 100] {
        assert_eq!(all(catalogue, limit).iter().collect::<Vec<_>>(), expected, "seed {seed}");
    }
    for StoredCopy { entry, manifest, .. } in model.values() {
        let record = &entry.record;
        assert_eq!(catalogue.get(&record.name).as_deref(), Some(entry), "seed {seed}");
        let with = |key: &dyn Fn(&Record) -> bool| -> Vec<&Entry> {
            expected.iter().copied().filter(|entry| key(&entry.record)).collect()
        };
        for (same, expected) in [
            (catalogue.with_content(&record.content), with(&|r| r.content == record.content)),
            (catalogue.with_manifest(&record.manifest), with(&|r| r.manifest == record.manifest)),
        ] {
            assert_eq!(same.iter().map(|e| &**e).collect::<Vec<_>>(), expected, "seed {seed}");
        }
        assert_eq!(catalogue.manifest_of(entry).unwrap().as_ref(), Some(manifest), "seed {seed}");
    }
    let mut near: Vec<(u64, String)> = expected
        .iter()
        .filter(|entry| entry.stores_manifest())
        .map(|entry| (entry.record.size.abs_diff(1100), entry.record.name.to_string()))
        .collect();
    near.sort();
    let found: Vec<String> = catalogue.near_in_size(1100, 100).iter().map(ToString::to_string).collect();
    assert_eq!(found, near.into_iter().map(|(_, name)| name).collect::<Vec<_>>(), "seed {seed}");
    let stored: std::collections::HashSet<_> =
        expected.iter().filter(|e| e.stores_manifest()).map(|e| e.record.manifest).collect();
    let (files, sizes) = (expected.len(), expected.iter().filter(|e| e.stores_manifest()).count());
    let counts = [files, files, files, sizes, stored.len()];
    assert_eq!(catalogue.tables.counts().unwrap(), counts, "nothing is left behind, seed {seed}");
}

#[test]
fn catalogue_is_what_a_simple_model_says_also_after_restarts_and_lost_transactions() {
    for seed in 0..12 {
        let (folder, mut random) = (DataFolder::new(), StdRng::seed_from_u64(seed));
        let (mut catalogue, mut model, mut version) = (folder.open(), BTreeMap::new(), 0);
        for step in 0..60 {
            let mut any = || {
                version += 1;
                let name = format!("f{}", random.random_range(0..8));
                copy(&folder, &name, version, random.random_range(0..10))
            };
            match step % 5 {
                0 | 1 => {
                    let copies: Vec<StoredCopy> = (0..4).map(|_| any()).collect();
                    catalogue.put_copies(copies.clone()).unwrap();
                    model.extend(copies.into_iter().map(|copy| (copy.entry.record.name.to_string(), copy)));
                }
                2 => {
                    let name = any().entry.record.name.clone();
                    let is_there = model.remove(name.as_str()).is_some();
                    assert_eq!(catalogue.remove(&name).unwrap(), is_there, "seed {seed}");
                }
                3 => {
                    let newer = any().entry.record;
                    catalogue.note_newer(std::slice::from_ref(&newer)).unwrap();
                    if let Some(known) = model.get_mut(newer.name.as_str()) {
                        known.entry.newest = Some(newer);
                    }
                }
                _ => {
                    // A crash before the commit, then a restart.
                    let lost = any().entry;
                    let write = catalogue.tables.begin().unwrap();
                    write.put_entries(vec![lost]).unwrap();
                    write.remove_entry(&FileName::new("f0").unwrap()).unwrap();
                    drop(write);
                    if step % 2 == 0 {
                        drop(catalogue);
                        catalogue = folder.open();
                    }
                }
            }
            check(&catalogue, &model, seed);
        }
    }
}

#[test]
fn damaged_entry_is_an_error_of_its_name_alone_and_can_be_removed() {
    for at in [0, 20, 60, 200, 331] {
        let (folder, catalogue) = DataFolder::begin();
        let copies = ["a", "b", "c"].map(|name| copy(&folder, name, 1, 3));
        catalogue.put_copies(copies.to_vec()).unwrap();
        drop(catalogue);
        folder.damage("b", at);
        let (catalogue, b) = (folder.open(), FileName::new("b").unwrap());
        let error = catalogue.entry(&b).unwrap_err();
        assert_eq!(error.reason, Reason::DamagedEntry);
        assert!(error.to_string().contains("entry of b") && catalogue.get(&b).is_none(), "{error}");
        let page = catalogue.page(&PageStart::default(), 10).unwrap();
        let names = page.entries.into_iter().map(|entry| entry.map(|entry| entry.record.name.to_string()));
        let names: Vec<Option<String>> = names.map(Result::ok).collect();
        assert_eq!(names, [Some("a".to_owned()), None, Some("c".to_owned())]);
        assert_eq!(catalogue.with_content(&ContentHash::from_bytes([3; 32])).len(), 2);
        let put = catalogue.put_copies(vec![copy(&folder, "b", 9, 3)]).unwrap().remove(0);
        assert!(put.is_err(), "nothing is lost");
        assert!(catalogue.may_publish(&b).is_err());
        assert!(catalogue.remove(&b).unwrap());
        catalogue.put_copy(copy(&folder, "b", 9, 3)).unwrap();
        assert_eq!(catalogue.get(&b).unwrap().record.version.get(), 9);
    }
}

#[test]
fn an_operation_decodes_what_it_asks_for() {
    let (folder, catalogue) = DataFolder::begin();
    let copies = (0..500).map(|n| copy(&folder, &format!("f{n:03}"), 1, 2 * u8::try_from(n % 100).unwrap()));
    catalogue.put_copies(copies.collect()).unwrap();
    drop(catalogue);
    let catalogue = folder.open();
    let decoded = |work: &dyn Fn()| {
        let before = catalogue.tables.rows_read();
        work();
        catalogue.tables.rows_read() - before
    };
    assert_eq!(catalogue.tables.rows_read(), 0, "nothing is loaded at a start");
    assert_eq!(decoded(&|| drop(catalogue.get(&FileName::new("f007").unwrap()))), 1);
    let same_content = || assert_eq!(catalogue.with_content(&ContentHash::from_bytes([4; 32])).len(), 5);
    let page = || assert_eq!(catalogue.page(&PageStart::default(), 9).unwrap().entries.len(), 9);
    assert_eq!((decoded(&same_content), decoded(&page)), (5, 9));
}

#[test]
fn missing_tables_are_created() {
    let folder = DataFolder::new();
    drop(folder.open());
    let database = folder.database();
    let write = database.begin_write().unwrap();
    write.delete_table(schema::TREES).unwrap();
    write.commit().unwrap();
    drop(database);
    assert!(folder.open().sets().unwrap().is_empty());
}

/// A catalogue of the format before, which had a table for each kind of key and one for partial files, and no last field of
/// readers.
#[test]
fn format_before_is_read_and_rewritten() {
    let folder = DataFolder::new();
    let (reader, partial) = (FileName::new("a").unwrap(), folder.path().join(".neko-part-a"));
    folder.open().change_readers([&reader], |reader| reader.keep = 3).unwrap();
    std::fs::write(&partial, "half").unwrap();
    let model = [("a", 3), ("b", 4), ("c", 3)].map(|(name, content)| (name, copy(&folder, name, 1, content)));
    folder.open().put_copies(model.iter().map(|(_, copy)| copy.clone()).collect()).unwrap();
    let database = folder.database();
    let write = database.begin_write().unwrap();
    write.delete_table(schema::INDEX).unwrap();
    drop(write.open_table(redb::TableDefinition::<(&[u8; 16], &str), ()>::new("contents")).unwrap());
    let bytes = |name| redb::TableDefinition::<&str, &[u8]>::new(name);
    let row = write.open_table(bytes("readers")).unwrap().get("a").unwrap().unwrap().value().to_vec();
    write.open_table(bytes("readers")).unwrap().insert("a", &row[..row.len() - 1]).unwrap();
    let noted = partial.as_os_str().as_encoded_bytes();
    write.open_table(bytes("partials")).unwrap().insert("a", noted).unwrap();
    let before = schema::SCHEMA_BEFORE.to_le_bytes();
    write.open_table(schema::META).unwrap().insert("schema", before.as_slice()).unwrap();
    write.commit().unwrap();
    drop(database);
    let model = model.map(|(name, copy)| (name.to_owned(), copy)).into();
    check(&folder.open(), &model, 0);
    check(&folder.open(), &model, 0);
    let reader = folder.open().reader(&reader).unwrap();
    assert_eq!((reader.keep, reader.keep_max), (3, None));
    let moved = folder.path().join("parts").join(crate::storage::digits(&FileName::new("a").unwrap()));
    assert_eq!((partial.exists(), std::fs::read(moved).unwrap().as_slice()), (false, b"half".as_slice()));
}
