//! The catalogue on a disk that fails: what failed is said, nothing is lost, and the next operation works.

use testkit::values::name;

use super::{
    model_tests::{DataFolder, copy},
    stress_tests::beside_readers,
    *,
};
use crate::failure::FailureKind;

/// Changes to the disk that one commit makes, at most.
const CHANGES_MAX: u64 = 200;

fn version(catalogue: &Catalogue, text: &str) -> Option<u64> {
    catalogue.entry(&name(text)).unwrap().map(|entry| entry.record.version.get())
}

/// The disk gets full after each number of changes in turn: the commit is there as a whole, or nothing of it, and
/// the catalogue is read and written as soon as there is space.
#[test]
fn failed_commit_leaves_the_old_or_the_new_state_and_the_next_operation_works() {
    let (folder, catalogue) = DataFolder::begin();
    let faults = Arc::clone(&catalogue.tables.faults);
    let mut last = 1;
    catalogue.put_copy(copy(&folder, "a", last, 3)).unwrap();
    for changes in 0..CHANGES_MAX {
        faults.begin_after(changes);
        let next = catalogue.put_copy(copy(&folder, "a", last + 1, 3));
        if let Err(error) = &next {
            assert!(error.kind == FailureKind::Full, "after {changes} changes: {error}");
            assert!(error.to_string().contains("no space is left"), "{error}");
            // As long as the disk is full each attempt says so.
            let again = catalogue.put_copy(copy(&folder, "b", last + 1, 3)).unwrap_err();
            assert!(again.kind == FailureKind::Full, "after {changes} changes: {again}");
            // What was committed is read from memory, or it is said that it cannot be.
            match catalogue.entry(&name("a")) {
                Ok(entry) => assert!(entry.unwrap().record.version.get() >= last),
                Err(error) => assert!(error.kind == FailureKind::Full, "{error}"),
            }
        }
        faults.end();
        let found = version(&catalogue, "a").unwrap();
        assert!(found == last + 1 || next.is_err() && found == last, "after {changes} changes: {found}");
        assert_eq!(version(&catalogue, "b"), None);
        last = found + 1;
        catalogue.put_copy(copy(&folder, "a", last, 3)).unwrap();
        assert_eq!(version(&catalogue, "a"), Some(last), "after {changes} changes");
        if next.is_ok() {
            drop(catalogue);
            assert_eq!(version(&folder.open(), "a"), Some(last));
            return;
        }
    }
    panic!("a commit changes the disk more than {CHANGES_MAX} times");
}

/// What another program moved away is not created anew: version numbers would be used again.
#[test]
fn catalogue_that_was_removed_is_not_taken_for_an_empty_one() {
    let (folder, catalogue) = DataFolder::begin();
    catalogue.put_copy(copy(&folder, "a", 1, 3)).unwrap();
    let faults = Arc::clone(&catalogue.tables.faults);
    faults.begin_after(0);
    catalogue.put_copy(copy(&folder, "a", 2, 3)).unwrap_err();
    faults.end();
    let (file, aside) = (folder.path().join("catalogue.redb"), folder.path().join("aside"));
    std::fs::rename(&file, &aside).unwrap();
    let error = catalogue.put_copy(copy(&folder, "b", 1, 3)).unwrap_err();
    assert!(error.message.contains("catalogue.redb failed: "), "{error}");
    assert!(!file.exists());
    std::fs::rename(&aside, &file).unwrap();
    catalogue.put_copy(copy(&folder, "b", 1, 3)).unwrap();
    assert_eq!((version(&catalogue, "a"), version(&catalogue, "b")), (Some(1), Some(1)));
}

/// Readers wait while the database is opened again; none is told that there is nothing. One that meets the full disk
/// is told that.
#[test]
fn readers_beside_failing_commits_find_every_entry() {
    let (folder, catalogue) = DataFolder::begin();
    let faults = Arc::clone(&catalogue.tables.faults);
    let names: Vec<String> = (0..40).map(|n| format!("f{n}")).collect();
    let put = |version| names.iter().map(|name| copy(&folder, name, version, 3)).collect();
    catalogue.put_copies(put(1)).unwrap();
    let read = || {
        match catalogue.page(&PageStart::default(), 100) {
            Ok(page) => assert_eq!(page.entries.len(), names.len()),
            Err(error) => assert!(error.kind == FailureKind::Full, "{error}"),
        }
        for text in &names {
            match catalogue.entry(&name(text)) {
                Ok(entry) => assert!(entry.is_some(), "{text}"),
                Err(error) => assert!(error.kind == FailureKind::Full, "{error}"),
            }
        }
    };
    beside_readers(read, || {
        for round in 2..60 {
            faults.begin_after(round % 5);
            let failed = catalogue.put_copies(put(round));
            faults.end();
            assert!(
                matches!(failed, Err(Failure { kind: FailureKind::Full, .. })),
                "round {round}: {failed:?}"
            );
        }
    });
}
