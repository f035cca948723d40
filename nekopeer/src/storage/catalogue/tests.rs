//! Tests of the catalogue: what survives a restart, and that no version number is used twice.

use nekoproto::{Policy, Record, VerifiedRecord, Version};
use testkit::{
    goods::{self, bytes},
    values::name,
};

use super::{
    model_tests::{DataFolder, identity},
    *,
};
use crate::{content::chunker::chunk_file, failure::Reason};

impl DataFolder {
    fn draft(&self, file: &str, bytes: &[u8]) -> Draft {
        let path = self.path().join(file);
        std::fs::write(&path, bytes).unwrap();
        let chunked = chunk_file(&path, None, &Default::default(), &Default::default()).unwrap();
        Draft { name: name(file), path, chunked, policy: Policy::default(), known: None, is_named: true }
    }

    pub(super) fn publish(&self, catalogue: &Catalogue, file: &str, bytes: &[u8]) -> Published {
        published(catalogue, vec![self.draft(file, bytes)]).remove(0)
    }

    pub(super) fn copy(&self, file: &str, version: u64) -> Entry {
        let Draft { path, chunked, .. } = self.draft(file, b"copy");
        let record = goods::record(2, file, version, |record| {
            (record.size, record.content, record.manifest) = (4, chunked.content, chunked.manifest_hash);
        });
        Entry { record, path, stamp: chunked.stamp, hashed_at_ns: 0, newest: None, origin_addr: None }
    }
}

fn published(catalogue: &Catalogue, drafts: Vec<Draft>) -> Vec<Published> {
    catalogue.publish(drafts).unwrap().into_iter().map(Result::unwrap).collect()
}

pub(super) fn version(published: &Published) -> u64 {
    published.record().version.get()
}

pub(super) fn stored(entry: Entry, manifest: &[u8]) -> StoredCopy {
    StoredCopy { entry, manifest: manifest.to_vec(), outboard: Vec::new() }
}

#[test]
fn versions_count_up_over_restarts_and_removals() {
    let folder = DataFolder::new();
    let mut seen = Vec::new();
    for round in 0..4u8 {
        let catalogue = folder.open();
        seen.push(version(&folder.publish(&catalogue, "a", &[round])));
        if round == 1 {
            assert!(catalogue.remove(&name("a")).unwrap());
        }
    }
    assert_eq!(seen, [1, 2, 3, 4]);
}

/// A crash between taking the number and the commit loses the publish and nothing else.
#[test]
fn an_uncommitted_publish_leaves_no_trace() {
    let (folder, catalogue) = DataFolder::begin();
    folder.publish(&catalogue, "a", b"one");
    {
        let _write = catalogue.tables.begin().unwrap();
        catalogue.next_record(&folder.draft("a", b"two")).unwrap();
    }
    drop(catalogue);
    let catalogue = folder.open();
    assert_eq!(catalogue.get(&name("a")).unwrap().record.version.get(), 1);
    assert_eq!(version(&folder.publish(&catalogue, "a", b"three")), 2);
}

#[test]
fn the_average_length_of_chunks_is_noted_with_the_version() {
    let (folder, catalogue) = DataFolder::begin();
    assert_eq!(catalogue.last_average(&name("a")).unwrap(), None);
    let mut draft = folder.draft("a", b"one");
    draft.chunked.average = 131_072;
    catalogue.publish(vec![draft]).unwrap();
    drop(catalogue);
    let catalogue = folder.open();
    assert_eq!(catalogue.last_average(&name("a")).unwrap(), Some(131_072));
    catalogue.remove(&name("a")).unwrap();
    assert_eq!(catalogue.last_average(&name("a")).unwrap(), Some(131_072), "as the counter stays");
}

#[test]
fn a_file_is_cut_at_the_average_of_its_last_version() {
    let folder = DataFolder::new();
    let path = folder.path().join("a");
    std::fs::write(&path, vec![0; 1_000_000]).unwrap();
    let chunk = |last| chunk_file(&path, last, &Default::default(), &Default::default()).unwrap();
    assert_eq!(chunk(None).average, 65_536);
    assert_eq!(chunk(Some(131_072)).average, 131_072);
    assert_ne!(chunk(None).manifest_hash, chunk(Some(131_072)).manifest_hash);
}

#[test]
fn a_copy_of_another_origin_is_not_published_over() {
    let (folder, catalogue) = DataFolder::begin();
    catalogue.put_copy(stored(folder.copy("b", 7), b"manifest")).unwrap();
    let drafts = vec![folder.draft("b", b"mine now"), folder.draft("fine", b"x")];
    let results = catalogue.publish(drafts).unwrap();
    assert!(matches!(results[0], Err(Failure { reason: Reason::CopyOfOther, .. })));
    assert_eq!(catalogue.get(&name("b")).unwrap().record.version.get(), 7);
    assert_eq!(version(results[1].as_ref().unwrap()), 1, "the others of its batch are published");
}

/// A record that this key signed elsewhere.
fn elsewhere(like: &VerifiedRecord, version: u64, content: u8) -> VerifiedRecord {
    let content = nekoproto::ContentHash::from_bytes([content; 32]);
    let record = Record { version: Version::new(version).unwrap(), content, ..Record::clone(like) };
    record.sign(&identity()).unwrap()
}

#[test]
fn number_is_above_what_the_network_knows_unless_it_knows_these_bytes() {
    let (folder, catalogue) = DataFolder::begin();
    let first = folder.publish(&catalogue, "a", b"one").record().clone();
    let publish = |known, bytes: &[u8]| {
        let draft = Draft { known: Some(known), ..folder.draft("a", bytes) };
        published(&catalogue, vec![draft]).remove(0)
    };
    assert_eq!(version(&publish(elsewhere(&first, 5, 5), b"two")), 6);
    let newer = Record { version: Version::new(9).unwrap(), ..Record::clone(&first) };
    let newer = newer.sign(&identity()).unwrap();
    assert_eq!(publish(newer.clone(), b"one"), Published::Unchanged(newer), "its number is taken over");
    assert_eq!(version(&folder.publish(&catalogue, "a", b"three")), 10);
}

#[test]
fn unchanged_file_stays_below_a_newer_version_until_the_user_knows_of_it() {
    let (folder, catalogue) = DataFolder::begin();
    let first = folder.publish(&catalogue, "a", b"one").record().clone();
    let newer = elsewhere(&first, 7, 7);
    let draft = || Draft { known: Some(newer.clone()), ..folder.draft("a", b"one") };
    assert_eq!(published(&catalogue, vec![draft()]), [Published::Unchanged(first)]);
    assert_eq!(catalogue.note_newer(std::slice::from_ref(&newer)).unwrap().len(), 1);
    assert_eq!(version(&published(&catalogue, vec![draft()])[0]), 8);
}

#[test]
fn renumbered_version_is_above_both_and_has_the_same_bytes() {
    let (folder, catalogue) = DataFolder::begin();
    let first = folder.publish(&catalogue, "a", b"one").record().clone();
    let numbers = |above: &VerifiedRecord| -> Vec<(u64, u64)> {
        let renumbered = catalogue.renumber(std::slice::from_ref(above)).unwrap();
        renumbered.iter().map(|(taken, record)| (taken.get(), record.version.get())).collect()
    };
    assert_eq!(numbers(&elsewhere(&first, 1, 9)), [(1, 2)]);
    assert_eq!(numbers(&elsewhere(&first, 1, 9)), [], "it is above already");
    assert_eq!(numbers(&elsewhere(&first, 8, 8)), [(2, 9)]);
    let entry = catalogue.get(&name("a")).unwrap();
    assert_eq!(entry.record.content, first.content);
    assert!(catalogue.manifest_of(&entry).unwrap().is_some());
    drop(catalogue);
    let catalogue = folder.open();
    assert!(catalogue.is_pending(&catalogue.get(&name("a")).unwrap().record));
    assert_eq!(version(&folder.publish(&catalogue, "a", b"two")), 10);
}

#[test]
fn copy_of_the_folder_knows_that_a_number_stands_once_that_was_stored() {
    let (folder, near) = (DataFolder::new(), ([127, 0, 0, 1], 1).into());
    let catalogue = folder.open();
    let record = folder.publish(&catalogue, "a", b"one").record().clone();
    catalogue.note_told(near, std::slice::from_ref(&record), &[near]);
    let is_pending_in_a_copy = || {
        let copy = tempfile::tempdir().unwrap();
        std::fs::copy(folder.path().join("catalogue.redb"), copy.path().join("catalogue.redb")).unwrap();
        Catalogue::open(copy.path(), identity()).unwrap().is_pending(&record)
    };
    assert!(is_pending_in_a_copy());
    catalogue.save_told().unwrap();
    assert!(!is_pending_in_a_copy() && !catalogue.is_pending(&record));
}

#[test]
fn version_is_pending_until_told_and_news_until_told_to_all_over_restarts() {
    let folder = DataFolder::new();
    let [near, far] = [1, 2].map(|port| std::net::SocketAddr::from(([127, 0, 0, 1], port)));
    let record = folder.publish(&folder.open(), "a", b"one").record().clone();
    let state = |catalogue: &Catalogue| {
        (
            catalogue.is_pending(&record),
            catalogue.is_news_to(near, &record),
            catalogue.is_news_to(far, &record),
        )
    };
    let catalogue = folder.open();
    assert_eq!(state(&catalogue), (true, true, true));
    let older = elsewhere(&record, 2, 2);
    catalogue.note_told(near, std::slice::from_ref(&older), &[near, far]);
    assert_eq!(state(&catalogue), (true, true, true), "another version was told");
    catalogue.note_told(near, std::slice::from_ref(&record), &[near, far]);
    assert_eq!(state(&catalogue), (false, false, true));
    catalogue.save_told().unwrap();
    drop(catalogue);
    let catalogue = folder.open();
    assert_eq!(state(&catalogue), (false, false, true));
    catalogue.note_told(far, std::slice::from_ref(&record), &[near, far]);
    catalogue.save_told().unwrap();
    drop(catalogue);
    let catalogue = folder.open();
    assert_eq!(state(&catalogue), (false, false, false));
    assert!(catalogue.tables.rows(untold::UNTOLD, .., 1, |_, _| Some(())).unwrap().is_empty());
    folder.publish(&catalogue, "a", b"two");
    catalogue.remove(&name("a")).unwrap();
    assert!(catalogue.tables.rows(untold::UNTOLD, .., 1, |_, _| Some(())).unwrap().is_empty());
}

#[test]
fn another_key_is_refused() {
    let folder = DataFolder::new();
    drop(folder.open());
    let other = Catalogue::open(folder.path(), Identity::from_seed(&[9; 32]));
    assert!(other.unwrap_err().message.contains("belongs to another key"));
}

#[test]
fn the_second_of_two_drafts_of_a_name_in_one_batch_gets_no_number_and_leaves_nothing_behind() {
    let (folder, catalogue) = DataFolder::begin();
    let drafts = vec![
        folder.draft("a", &bytes(1, 300_000)),
        Draft { name: name("a"), ..folder.draft("b", &bytes(2, 300_000)) },
    ];
    let second = drafts[1].chunked.content;
    let results = catalogue.publish(drafts).unwrap();
    assert!(results[0].is_ok() && matches!(results[1], Err(Failure { reason: Reason::Overtaken, .. })));
    assert!(catalogue.with_content(&second).is_empty());
    assert_eq!(catalogue.tables.counts().unwrap(), [1; 5]);
    catalogue.remove(&name("a")).unwrap();
    assert_eq!(catalogue.tables.counts().unwrap(), [0; 5]);
}

#[test]
fn numbers_that_follow_the_clock_are_not_given_by_one_that_was_not_set() {
    let (folder, catalogue) = DataFolder::begin();
    let refused = catalogue.number_above(3600).unwrap_err();
    assert!(refused.message.contains("clock of this machine stands before 2026"));
    assert_eq!(version(&folder.publish(&catalogue, "a", b"one")), 1, "no number is left out");
    catalogue.number_above(1_795_000_000).unwrap();
    assert_eq!(version(&folder.publish(&catalogue, "a", b"two")), 1_795_000_001);
}

/// Whoever publishes holds the write lock: acknowledgements of copies and checkpoints of downloads wait for it.
#[test]
fn publish_waits_for_nobody_who_hashes_a_file() {
    let (folder, (begun, all_begun), (_free, busy)) =
        (DataFolder::new(), std::sync::mpsc::channel(), std::sync::mpsc::channel::<()>());
    let catalogue = folder.open();
    let drafts: Vec<_> = (0..9).map(|n| folder.draft(&format!("f{n}"), b"one")).collect();
    let busy = std::sync::Arc::new(Mutex::new(busy));
    for _ in 0..rayon::current_num_threads() {
        let (begun, busy) = (begun.clone(), std::sync::Arc::clone(&busy));
        rayon::spawn(move || {
            begun.send(()).unwrap();
            busy.lock().recv().unwrap_err(); // until the test ends
        });
    }
    (0..rayon::current_num_threads()).for_each(|_| all_begun.recv().unwrap());
    let (done, published) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(catalogue.publish(drafts).map(|published| published.len())));
    assert_eq!(published.recv_timeout(std::time::Duration::from_secs(30)).unwrap().unwrap(), 9);
}
