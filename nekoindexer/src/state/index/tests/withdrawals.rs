//! A version that withdraws its name is one like any other: none before comes back.

use nekoproto::{ListedRecord, Policy, Record, Version};

use super::*;

/// The version of `a` that withdraws it.
fn withdrawal(origin: u8, version: u64) -> ListedRecord {
    let identity = Identity::from_seed(&[origin; 32]);
    let version = Version::new(version).unwrap();
    let record = Record::withdrawal(identity.id(), name("a"), version, Policy::default(), 1);
    record.sign(&identity).unwrap().into()
}

#[test]
fn older_version_that_is_registered_late_does_not_bring_a_withdrawn_name_back() {
    let setup = Setup::new();
    let (origin, holder) = (setup.session(1), setup.session(2));
    setup.index.register(&origin, &record(1, "a", 1));
    setup.index.register(&holder, &record(1, "a", 1));
    let noted = setup.index.register(&origin, &withdrawal(1, 2));
    assert_eq!(noted, Noted::News { outdated: vec![holder.id()] }, "its holder is told");
    assert_eq!(setup.index.register(&holder, &record(1, "a", 1)), Noted::Outdated(withdrawal(1, 2)));
    let found = setup.index.lookup(&name("a"), setup.now);
    let [found] = found.as_slice() else { panic!("{found:?}") };
    assert!(found.record.is_withdrawal());

    // Nor when all that listed it have left, for a while.
    setup.index.unlist_all(&origin, setup.index.withdraw_all(&origin));
    setup.index.unlist_all(&holder, setup.index.withdraw_all(&holder));
    assert_eq!(setup.index.names(), 0);
    assert_eq!(setup.index.register(&holder, &record(1, "a", 1)), Noted::Outdated(withdrawal(1, 2)));
    assert_eq!(setup.index.register(&origin, &record(1, "a", 3)), Noted::News { outdated: vec![] });
    assert_eq!(setup.found(setup.now), [(3, vec![testing::holder(1)])], "published again");
}
