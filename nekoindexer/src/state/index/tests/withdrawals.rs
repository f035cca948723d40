//! A version that withdraws its name is one like any other: none before comes back.

use nekoproto::{Policy, Version};

use super::*;

#[test]
fn older_version_that_is_registered_late_does_not_bring_a_withdrawn_name_back() {
    let (setup, [origin, holder]) = Setup::with([1, 2]);
    let version = Version::FIRST.next().unwrap();
    let withdrawal = Record::withdrawal(testing::identity(1).id(), name("a"), version, Policy::default(), 1);
    let withdrawal = signed(1, withdrawal);
    setup.register(&origin, 1);
    setup.register(&holder, 1);
    assert_eq!(setup.index.register(&origin, &withdrawal), news_for(&holder), "its holder is told");
    assert_eq!(setup.register(&holder, 1), Noted::Outdated(withdrawal.clone()));
    let found = setup.index.lookup(&name("a"), setup.now);
    let [found] = found.as_slice() else { panic!("{found:?}") };
    assert!(found.record.is_withdrawal());

    // Nor when all that listed it have left, for a while.
    for session in [&origin, &holder] {
        setup.index.unlist_all(session, setup.index.withdraw_all(session));
    }
    assert_eq!(setup.index.names(), 0);
    assert_eq!(setup.register(&holder, 1), Noted::Outdated(withdrawal));
    assert_eq!(setup.register(&origin, 3), NEWS);
    assert_eq!(setup.found(), [(3, vec![testing::holder(1)])], "published again");
}
