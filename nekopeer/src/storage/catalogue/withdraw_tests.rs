//! Tests of withdrawals in the catalogue: durable, numbered, bounded, and no files.

use std::cell::Cell;

use nekoproto::Version;
use testkit::values::name;

use super::{
    model_tests::DataFolder,
    tests::{stored, version},
    *,
};

/// Withdraws `file`, which is published; returns the version, and the names that made room for it.
fn withdraw(catalogue: &Catalogue, file: &str, most: usize) -> (u64, Vec<FileName>) {
    let gone = catalogue.withdraw(&[name(file)], Withdrawal::Named, most, |_| {});
    match gone.unwrap().remove(0).unwrap() {
        Gone::Withdrawn { record, oldest } => (record.version.get(), oldest),
        gone => panic!("{gone:?}"),
    }
}

fn withdraw_all(
    catalogue: &Catalogue,
    names: &[FileName],
    before: impl Fn(&FileName),
) -> Vec<Result<Gone, Failure>> {
    catalogue.withdraw(names, Withdrawal::Named, WITHDRAWALS_MAX, before).unwrap()
}

/// The names that are stated, and whether each is withdrawn.
fn stated(catalogue: &Catalogue) -> Vec<(String, bool)> {
    let stated =
        catalogue.tables.rows(FILES, .., 100, |_, entry| Some(entry.value().unwrap().record)).unwrap();
    stated.iter().map(|record| (record.name.to_string(), record.is_withdrawal())).collect()
}

#[test]
fn withdrawal_is_the_next_version_over_restarts_and_no_file() {
    let folder = DataFolder::new();
    folder.publish(&folder.open(), "a", b"");
    {
        let catalogue = folder.open();
        assert_eq!(withdraw(&catalogue, "a", 9), (2, Vec::new()));
        let again = withdraw_all(&catalogue, &[name("a")], |_| panic!("nothing changes"));
        assert!(matches!(again[..], [Ok(Gone::Unknown)]));
        assert!(!catalogue.remove(&name("a")).unwrap());
    }
    let catalogue = folder.open();
    assert_eq!(stated(&catalogue), [("a".to_owned(), true)]);
    let record = catalogue.get_stated(&name("a")).unwrap().record.clone();
    assert!(catalogue.is_pending(&record), "an indexer is to be told");
    assert_eq!(record.clone().into_signed().verify().unwrap(), record);
    assert!(catalogue.get(&name("a")).is_none());
    assert!(catalogue.page(&PageStart::default(), 9).unwrap().entries.is_empty());
    assert!(catalogue.with_content(&record.content).is_empty(), "an empty file of that name is not served");
    assert_eq!(version(&folder.publish(&catalogue, "a", b"")), 3, "also the same bytes");
    drop(catalogue);
    assert_eq!(stated(&folder.open()), [("a".to_owned(), false)]);
}

#[test]
fn the_oldest_withdrawals_are_forgotten_and_their_numbers_are_not() {
    let (folder, catalogue) = DataFolder::begin();
    for file in ["a", "b", "c"] {
        folder.publish(&catalogue, file, b"one");
    }
    assert_eq!(withdraw(&catalogue, "c", 2).1, []);
    std::thread::sleep(std::time::Duration::from_millis(2)); // their order is that of their times
    assert_eq!(withdraw(&catalogue, "a", 2).1, []);
    assert_eq!(withdraw(&catalogue, "b", 2).1, [name("c")]);
    assert_eq!(stated(&catalogue), [("a".to_owned(), true), ("b".to_owned(), true)]);
    // One that is published again makes room, too.
    assert_eq!(version(&folder.publish(&catalogue, "a", b"two")), 3);
    assert_eq!(
        version(&folder.publish(&catalogue, "c", b"two")),
        3,
        "above the withdrawal that was forgotten"
    );
    assert_eq!(withdraw(&catalogue, "c", 2).1, []);
}

#[test]
fn copy_of_another_origins_file_takes_the_place_of_a_withdrawal_and_is_forgotten_without_one() {
    let (folder, catalogue) = DataFolder::begin();
    folder.publish(&catalogue, "a", b"one");
    withdraw(&catalogue, "a", 9);
    catalogue.put_copy(stored(folder.copy("a", 1), b"")).unwrap();
    assert_eq!(stated(&catalogue), [("a".to_owned(), false)]);
    assert!(!catalogue.has_pending(), "nobody is to be told of the withdrawal any more");
    let is_called = Cell::new(false);
    let gone = withdraw_all(&catalogue, &[name("a")], |_| is_called.set(true));
    assert!(matches!(gone[..], [Ok(Gone::Forgotten)]));
    assert!(is_called.get() && stated(&catalogue).is_empty());
    assert_eq!(version(&folder.publish(&catalogue, "a", b"three")), 3);
}

#[test]
fn many_are_withdrawn_at_once_and_one_that_cannot_be_hinders_no_other() {
    let (folder, catalogue) = DataFolder::begin();
    for file in ["a", "b", "full"] {
        folder.publish(&catalogue, file, b"one");
    }
    catalogue.put_copy(stored(folder.copy("copy", 1), b"")).unwrap();
    let write = catalogue.tables.begin().unwrap();
    write.use_up([(&name("full"), Version::new(u64::MAX).unwrap())].into_iter()).unwrap();
    catalogue.tables.commit(write).unwrap();
    let names = ["a", "nothing", "full", "copy", "b", "a"].map(name);
    let before = std::cell::RefCell::new(Vec::new());
    let gone = withdraw_all(&catalogue, &names, |name| before.borrow_mut().push(name.to_string()));
    let [
        Ok(Gone::Withdrawn { record: a, .. }),
        Ok(Gone::Unknown),
        Err(used_up),
        Ok(Gone::Forgotten),
        Ok(Gone::Withdrawn { record: b, .. }),
        Ok(Gone::Unknown),
    ] = &gone[..]
    else {
        panic!("{gone:?}")
    };
    assert!(used_up.message.contains("no version number is left"), "{used_up}");
    assert_eq!([a, b].map(|record| (record.name.as_str(), record.version.get())), [("a", 2), ("b", 2)]);
    assert_eq!(before.into_inner(), ["a", "copy", "b"]);
    drop(catalogue);
    let expected = [("a", true), ("b", true), ("full", false)];
    assert_eq!(stated(&folder.open()), expected.map(|(n, w)| (n.to_owned(), w)));
}

/// Each commit waits for the disk.
#[test]
fn many_are_withdrawn_in_one_commit() {
    let (folder, catalogue) = DataFolder::begin();
    let names: Vec<FileName> = (0..64).map(|n| name(&format!("f{n}"))).collect();
    names.iter().for_each(|name| _ = folder.publish(&catalogue, name.as_str(), b"one"));
    let before = catalogue.tables.faults.syncs();
    withdraw(&catalogue, "f0", 99);
    let of_one = catalogue.tables.faults.syncs() - before;
    assert!(withdraw_all(&catalogue, &names, |_| {}).iter().all(Result::is_ok));
    assert_eq!(catalogue.tables.faults.syncs() - before, 2 * of_one);
}
