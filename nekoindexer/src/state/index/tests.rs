//! Tests of the index: leases, versions, and removal.

mod histories;
mod withdrawals;

use nekoproto::{
    Holder, Identity,
    limits::{HITS_MAX, HOLDERS_MAX, HOLDERS_WHOLE_MIN},
};

use super::*;
use crate::state::{
    merge::Merge,
    testing::{self, holder, record},
};

const LEASE: Duration = Duration::from_secs(10);

/// One that has a part.
fn partial(n: u8) -> Holder {
    Holder { partial: true, ..holder(n) }
}

fn name(text: &str) -> FileName {
    FileName::new(text).unwrap()
}

struct Setup<S = RandomState> {
    index: Index<S>,
    now: Instant,
}

impl Setup {
    fn new() -> Self {
        let now = Instant::now();
        Self { index: Index::new(now), now }
    }
}

/// Gives all names the same hash.
#[derive(Default)]
struct SameHash;

impl std::hash::Hasher for SameHash {
    fn write(&mut self, _: &[u8]) {}

    fn finish(&self) -> u64 {
        7
    }
}

type Colliding = std::hash::BuildHasherDefault<SameHash>;

impl Setup<Colliding> {
    fn colliding() -> Self {
        let now = Instant::now();
        Self { index: Index::with_hash_key(Colliding::default(), now), now }
    }
}

impl<S: BuildHasher> Setup<S> {
    fn session(&self, n: u8) -> Arc<Session> {
        testing::session(&self.index, n, LEASE, self.now)
    }

    fn expire(&self, at: Instant) -> Vec<SessionId> {
        let ended = self.index.ended(at);
        ended.iter().for_each(|session| self.index.end(session, at));
        ended.iter().map(|session| session.id()).collect()
    }

    /// Whether all names have the smallest form.
    fn is_small(&self) -> bool {
        self.index.entries.iter().all(|entry| entry.is_single())
    }

    /// The versions found and their holders.
    fn found(&self, at: Instant) -> Vec<(u64, Vec<Holder>)> {
        let found = self.index.lookup(&name("a"), at);
        found.into_iter().map(|found| (found.record.version.get(), found.at())).collect()
    }
}
/// Goal: whoever connects again and again leaves nothing behind.
#[test]
fn a_session_without_names_ends_with_its_connection() {
    let setup = Setup::new();
    let session = setup.session(1);
    setup.index.disconnected(&session, setup.now);
    assert_eq!(setup.index.holders(), 0);
    assert_eq!(
        setup.index.register(&session, &record(1, "a", 1)),
        Noted::Full,
        "a call that was still under way"
    );
}

#[test]
fn holder_is_found_until_its_lease_ends() {
    let setup = Setup::new();
    let session = setup.session(2);
    assert_eq!(setup.index.register(&session, &record(1, "a", 1)), Noted::News { outdated: vec![] });
    let end = setup.now + LEASE;
    assert_eq!(setup.found(end - Duration::from_millis(1)), [(1, vec![holder(2)])]);
    assert_eq!(setup.found(end), [], "found after its lease, before any sweep");
    setup.index.renew(&session, LEASE, end);
    assert_eq!(setup.found(end), [(1, vec![holder(2)])]);
    setup.index.disconnected(&session, setup.now);
    assert_eq!(setup.expire(end + LEASE), [session.id()]);
    assert_eq!(setup.index.names(), 0);
    assert_eq!(setup.index.register(&session, &record(1, "a", 1)), Noted::Full, "a removed session");
    assert_eq!(setup.index.names(), 0);
}

#[test]
fn connected_holder_that_missed_its_lease_may_register_anew() {
    let setup = Setup::new();
    let session = setup.session(2);
    setup.index.register(&session, &record(1, "a", 1));
    let end = setup.now + LEASE;
    assert_eq!(setup.expire(end), [session.id()]);
    assert_eq!((setup.index.names(), session.count()), (0, 0));
    setup.index.renew(&session, LEASE, end);
    assert_eq!(setup.index.register(&session, &record(1, "a", 1)), Noted::News { outdated: vec![] });
    assert_eq!(setup.found(end), [(1, vec![holder(2)])]);
    setup.index.disconnected(&session, setup.now);
    assert_eq!(setup.expire(end), []);
    assert_eq!(setup.expire(end + LEASE), [session.id()]);
    assert_eq!(setup.expire(end + LEASE), [], "nothing of it is left");
}

#[test]
fn holder_that_renews_while_it_is_being_ended_stays() {
    let setup = Setup::new();
    let session = setup.session(2);
    setup.index.register(&session, &record(1, "a", 1));
    let end = setup.now + LEASE;
    assert_eq!(setup.index.ended(end).len(), 1);
    setup.index.renew(&session, LEASE, end);
    setup.index.end(&session, end);
    assert_eq!((setup.found(end), session.count()), (vec![(1, vec![holder(2)])], 1));
}

#[test]
fn what_is_registered_after_everything_was_withdrawn_stays() {
    let setup = Setup::new();
    let session = setup.session(2);
    let names: Vec<String> = (0..2 * REMOVED_AT_ONCE).map(|n| format!("f{n}")).collect();
    names.iter().for_each(|name| drop(setup.index.register(&session, &record(1, name, 1))));
    let before = session.withdrawals();
    let withdrawn = setup.index.withdraw_all(&session);
    assert_eq!((withdrawn.len(), session.count()), (names.len(), 0));
    assert_ne!(session.withdrawals(), before, "what began before is void");
    // Before they are unlisted, which happens later on a blocking thread.
    setup.index.register(&session, &record(1, "f7", 1));
    setup.index.register(&session, &record(1, "new", 1));
    setup.index.unlist_all(&session, withdrawn);
    assert_eq!((setup.index.names(), session.count()), (2, 2));
    setup.index.check();
}

#[test]
fn newer_version_hides_older_holders_and_names_them() {
    let setup = Setup::new();
    let (origin, copy) = (setup.session(1), setup.session(2));
    setup.index.register(&origin, &record(1, "a", 1));
    setup.index.register(&copy, &record(1, "a", 1));
    let noted = setup.index.register(&origin, &record(1, "a", 2));
    assert_eq!(noted, Noted::News { outdated: vec![copy.id()] });
    assert_eq!(setup.found(setup.now), [(2, vec![holder(1)])]);
    setup.index.check();
}

#[test]
fn older_version_is_told_the_newer_and_not_listed() {
    let setup = Setup::new();
    let (origin, copy) = (setup.session(1), setup.session(2));
    setup.index.register(&origin, &record(1, "a", 2));
    assert_eq!(setup.index.register(&copy, &record(1, "a", 1)), Noted::Outdated(record(1, "a", 2)));
    assert_eq!(setup.found(setup.now), [(2, vec![holder(1)])]);
    setup.index.check();
}

#[test]
fn replayed_invalidation_changes_nothing() {
    let setup = Setup::new();
    let copy = setup.session(2);
    setup.index.register(&copy, &record(1, "a", 2));
    assert_eq!(setup.index.invalidate(&record(1, "a", 1)), Noted::Outdated(record(1, "a", 2)));
    assert_eq!(setup.index.invalidate(&record(1, "a", 2)), Noted::Known);
    assert_eq!(setup.index.invalidate(&record(1, "unheld", 9)), Noted::Known);
    assert_eq!(setup.found(setup.now), [(2, vec![holder(2)])]);
    assert_eq!(setup.index.invalidate(&record(1, "a", 3)), Noted::News { outdated: vec![copy.id()] });
    assert_eq!(setup.found(setup.now), [], "nobody holds version 3 here");
}

/// Two folders with one key published at the same moment, each at another indexer.
#[test]
fn other_bytes_under_the_listed_number_are_told_to_the_folder_that_published_there() {
    let setup = Setup::new();
    let (origin, reader) = (setup.session(1), setup.session(2));
    let listed = record(1, "a", 2);
    setup.index.register(&origin, &listed);
    setup.index.register(&reader, &listed);
    let other = nekoproto::Record { size: 99, ..nekoproto::Record::clone(&listed) };
    let other = ListedRecord::from(other.sign(&Identity::from_seed(&[1; 32])).unwrap());
    let told = Noted::News { outdated: vec![origin.id()] };
    assert_eq!(setup.index.invalidate(&other), told);
    assert_eq!(setup.found(setup.now), [(2, vec![holder(1), holder(2)])], "the listed one stays");
    assert_eq!(setup.index.lookup(&name("a"), setup.now)[0].record, listed);
    setup.index.register(&origin, &record(1, "a", 3));
    assert_eq!(setup.index.invalidate(&other), Noted::Outdated(record(1, "a", 3)), "it is settled");
}

#[test]
fn another_origin_cannot_touch_the_name_of_the_first() {
    let setup = Setup::new();
    let (origin, stranger) = (setup.session(1), setup.session(9));
    setup.index.register(&origin, &record(1, "a", 1));
    setup.index.register(&stranger, &record(9, "a", 100));
    setup.index.invalidate(&record(9, "a", 101));
    assert_eq!(setup.found(setup.now), [(1, vec![holder(1)])]);
}

/// The n-th of many origins: a node that nobody has to sign for, and its file `a`.
fn one_of_many(n: usize) -> (NodeId, ListedRecord) {
    let mut bytes = [0xaa; 32];
    bytes[24..].copy_from_slice(&n.to_be_bytes());
    let (origin, signed) = (NodeId::from_bytes(bytes), record(1, "a", 1));
    let record = nekoproto::Record { origin, ..nekoproto::Record::clone(&signed) };
    let record = nekoproto::codec::encode(&(record, *signed.signed().signature())).unwrap();
    let record: SignedRecord = nekoproto::codec::decode(&record).unwrap();
    (origin, record.said_by(&origin).unwrap())
}

/// Goal: who is asked for by id is found however many others publish under the name, until the table of that name is full;
/// then an answer without it is not complete.
#[test]
fn an_origin_is_found_by_its_id_among_more_than_an_answer_holds() {
    let setup = Setup::new();
    let register = |n: usize| {
        let (node, record) = one_of_many(n);
        let session = setup.index.open_session(node, LEASE, setup.now);
        session.introduce(testing::listed(1).reach, 1);
        (setup.index.register(&session, &record), session.count())
    };
    let real = record(7, "a", 1);
    let digits: IdDigits = real.origin.to_string()[..12].to_owned().try_into().unwrap();
    let wanted = name("a");
    let wanted = Asked { origin: Some(&digits), ..Asked::from(&wanted) };
    (0..entry::ORIGINS_MAX - 1).for_each(|n| assert_eq!(register(n).1, 1));
    let answer = |asked: Asked<'_>| Merge::new(setup.index.lookup(asked, setup.now)).finish();
    let reply = answer(wanted);
    assert_eq!((reply.hits.len(), reply.complete), (0, true), "it is not listed, and there is room");
    let session = setup.session(7);
    assert_ne!(setup.index.register(&session, &real), Noted::Full);
    let reply = answer(wanted);
    assert_eq!((reply.hits.len(), reply.complete), (1, true));
    assert_eq!(reply.hits[0].record, *real.signed());
    let reply = answer(Asked { origin: None, ..wanted });
    assert_eq!((reply.hits.len(), reply.complete), (HITS_MAX, false), "all do not fit");
    assert_eq!(register(entry::ORIGINS_MAX), (Noted::Full, 0));
    setup.index.close_session(&session);
    assert_ne!(register(entry::ORIGINS_MAX).0, Noted::Full, "a place that was freed");
    assert!(!answer(wanted).complete, "it may have found no room");
    setup.index.check();
}

/// Goal: whoever lists one name with many keys and leaves makes answers incomplete for a moment, not for a lease; who was
/// listed before is found throughout.
#[test]
fn origins_that_left_give_way_where_there_are_more_than_an_answer_holds() {
    let setup = Setup::new();
    let join = |record: &ListedRecord| {
        let session = setup.index.open_session(record.origin, LEASE, setup.now);
        session.introduce(testing::listed(1).reach, 1);
        assert!(matches!(setup.index.register(&session, record), Noted::News { .. }));
        session
    };
    let real = record(7, "a", 1);
    let _real = join(&real);
    let many: Vec<_> = (0..3 * HITS_MAX).map(|n| join(&one_of_many(n).1)).collect();
    let late = record(8, "a", 1);
    let _late = join(&late);
    let answer = |after: Duration| {
        let found = setup.index.lookup(&name("a"), setup.now + after);
        let has = |record: &ListedRecord| found.iter().any(|found| found.record.origin == record.origin);
        let (has_real, has_late) = (has(&real), has(&late));
        (Merge::new(found).finish().complete, has_real, has_late)
    };
    for _ in 0..20 {
        let (is_complete, has_real, _) = answer(Duration::ZERO);
        assert!(!is_complete && has_real);
    }
    many.iter().for_each(|session| setup.index.disconnected(session, setup.now));
    assert!(!answer(Duration::from_millis(1_500)).0, "they may come back");
    assert_eq!(answer(Duration::from_secs(2)), (true, true, true));
    setup.index.check();
}

/// Goal: a name is not taken for a lease by as many keys as may list it.
#[test]
fn an_origin_gets_the_place_of_one_that_left_where_all_are_taken() {
    let setup = Setup::new();
    let join = |n: usize| {
        let (node, record) = one_of_many(n);
        let session = setup.index.open_session(node, LEASE, setup.now);
        (setup.index.register(&session, &record), session)
    };
    let sessions: Vec<_> = (0..entry::ORIGINS_MAX).map(|n| join(n).1).collect();
    assert_eq!(join(9000).0, Noted::Full);
    setup.index.disconnected(&sessions[5], setup.now);
    assert!(matches!(join(9001).0, Noted::News { .. }));
    assert_eq!(join(9002).0, Noted::Full);
    setup.index.check();
}

#[test]
fn holders_that_failed_are_left_out_if_they_are_not_wanted() {
    let setup = Setup::new();
    for n in 1..4 {
        setup.index.register(&setup.session(n), &record(1, "a", 1));
    }
    let (failed, wanted) = ([holder(1), holder(2)].map(|holder| holder.node.tag()), name("a"));
    let found = setup.index.lookup(Asked { without: &failed, ..Asked::from(&wanted) }, setup.now);
    assert_eq!(found[0].at(), [holder(3)]);
}

#[test]
fn nobody_is_listed_before_it_has_said_where_it_is() {
    let setup = Setup::new();
    let session = setup.index.open_session(holder(1).node, LEASE, setup.now);
    setup.index.register(&session, &record(1, "a", 1));
    assert_eq!(setup.found(setup.now), []);
    session.introduce(testing::listed(1).reach, 1);
    assert_eq!(setup.found(setup.now), [(1, vec![holder(1)])]);
    session.introduce(testing::listed(1).reach, 0);
    assert_eq!(setup.found(setup.now), []);
}

#[test]
fn names_with_the_same_hash_are_kept_apart() {
    let setup = Setup::colliding();
    let (first, second) = (setup.session(1), setup.session(2));
    let found = |text| -> Vec<(u64, Vec<Holder>)> {
        let found = setup.index.lookup(&name(text), setup.now);
        assert!(found.iter().all(|found| found.record.name == name(text)));
        found.into_iter().map(|found| (found.record.version.get(), found.at())).collect()
    };
    setup.index.register(&first, &record(1, "a", 1));
    assert_eq!(found("b"), [], "there is a name with this hash, but another");
    assert_eq!(setup.index.invalidate(&record(1, "b", 9)), Noted::Known);
    assert_eq!(setup.index.register(&second, &record(1, "b", 5)), Noted::News { outdated: vec![] });
    assert_eq!(setup.index.register(&first, &record(1, "b", 5)), Noted::Known);
    assert_eq!(setup.index.register(&first, &record(1, "a", 2)), Noted::News { outdated: vec![] });
    assert_eq!((found("a"), found("b").len()), (vec![(2, vec![holder(1)])], 1));
    assert_eq!(found("b")[0].1.len(), 2);
    assert!(setup.index.vouch(record(1, "b", 5).into_signed()).is_ok());
    assert!(setup.index.vouch(record(1, "c", 5).into_signed()).is_err());
    let mut keys = setup.index.keys();
    keys.sort_by_key(|key| *key != NameKey::of(&name("a")));
    assert_eq!(keys, [NameKey::of(&name("a")), NameKey::of(&name("b"))]);
    for origin in 2..=u8::try_from(HITS_MAX).unwrap() {
        assert_ne!(setup.index.register(&setup.session(origin), &record(origin, "a", 1)), Noted::Full);
    }
    assert_ne!(setup.index.register(&setup.session(98), &record(98, "b", 1)), Noted::Full);
    setup.index.check();
    setup.index.close_session(&first);
    assert!(found("b").contains(&(5, vec![holder(2)])));
    setup.index.check();
}

#[test]
fn a_node_holds_one_file_under_a_name() {
    let setup = Setup::new();
    let (first, second, reader) = (setup.session(1), setup.session(2), setup.session(3));
    setup.index.register(&first, &record(1, "a", 1));
    setup.index.register(&second, &record(2, "a", 1));
    setup.index.register(&reader, &record(1, "a", 1));
    setup.index.register(&reader, &record(2, "a", 1));
    let holders: Vec<usize> = setup.found(setup.now).iter().map(|(_, holders)| holders.len()).collect();
    assert_eq!(holders, [1, 2], "the reader has the second origin's file now");
    setup.index.check();
}

#[test]
fn one_number_for_two_contents_is_told_to_whoever_comes_second() {
    let setup = Setup::new();
    let other = nekoproto::Identity::from_seed(&[1; 32]);
    let first = record(1, "a", 1);
    let mut twin = nekoproto::Record::clone(&first);
    twin.content = nekoproto::ContentHash::from_bytes([99; 32]);
    let twin = twin.sign(&other).unwrap().into();
    setup.index.register(&setup.session(2), &first);
    assert_eq!(setup.index.register(&setup.session(1), &twin), Noted::Outdated(first));
    assert_eq!(setup.found(setup.now), [(1, vec![holder(2)])]);
}

#[test]
fn a_new_session_of_a_node_replaces_its_old_one() {
    let setup = Setup::new();
    let (before, after) = (setup.session(2), setup.session(2));
    setup.index.register(&before, &record(1, "a", 1));
    setup.index.register(&after, &record(1, "a", 1));
    setup.index.close_session(&before);
    assert_eq!(setup.found(setup.now), [(1, vec![holder(2)])]);
    setup.index.close_session(&after);
    assert_eq!(setup.index.names(), 0);
}

#[test]
fn holder_of_a_part_is_listed_as_one_after_those_of_the_whole() {
    let setup = Setup::new();
    let (first, second, origin) = (setup.session(2), setup.session(3), setup.session(1));
    assert_eq!(setup.index.register_partial(&first, &record(1, "a", 1)), Noted::News { outdated: vec![] });
    assert_eq!(setup.found(setup.now), [(1, vec![partial(2)])]);
    assert_eq!(setup.index.keys(), [NameKey::of(&name("a"))], "a name of which there is a part is one");
    setup.index.register_partial(&second, &record(1, "a", 1));
    assert_eq!(setup.index.register(&origin, &record(1, "a", 1)), Noted::Known);
    let found = setup.found(setup.now);
    assert_eq!((found[0].1.len(), found[0].1[0]), (3, holder(1)));
    setup.index.check();
    for session in [first, second, origin] {
        setup.index.deregister(&session, &name("a"));
    }
    assert_eq!(setup.index.names(), 0);
}

#[test]
fn newest_word_on_how_much_is_held_counts_and_the_whole_takes_least_room() {
    let setup = Setup::new();
    let session = setup.session(2);
    setup.index.register_partial(&session, &record(1, "a", 1));
    assert!(!setup.is_small());
    assert_eq!(setup.index.register(&session, &record(1, "a", 1)), Noted::Known);
    assert_eq!(setup.found(setup.now), [(1, vec![holder(2)])]);
    assert!(setup.is_small());
    assert_eq!(setup.index.register_partial(&session, &record(1, "a", 1)), Noted::Known);
    assert_eq!(setup.found(setup.now), [(1, vec![partial(2)])]);
    let next = setup.index.register_partial(&session, &record(1, "a", 2));
    assert_eq!((next, session.count()), (Noted::News { outdated: vec![] }, 1));
    assert_eq!(setup.found(setup.now), [(2, vec![partial(2)])], "in place of the copy of the older version");
    setup.index.check();
}

#[test]
fn holder_of_a_part_is_told_of_newer_versions_and_not_listed_with_an_older() {
    let setup = Setup::new();
    let (origin, reader, late) = (setup.session(1), setup.session(2), setup.session(3));
    setup.index.register(&origin, &record(1, "a", 1));
    setup.index.register_partial(&reader, &record(1, "a", 1));
    let noted = setup.index.register(&origin, &record(1, "a", 2));
    assert_eq!(noted, Noted::News { outdated: vec![reader.id()] });
    let noted = setup.index.register_partial(&late, &record(1, "a", 1));
    assert_eq!(noted, Noted::Outdated(record(1, "a", 2)));
    assert_eq!(setup.found(setup.now), [(2, vec![holder(1)])]);
    setup.index.check();
}

#[test]
fn crowd_of_holders_of_parts_leaves_room_for_the_whole_and_takes_turns() {
    let setup = Setup::new();
    let crowd = u8::try_from(3 * HOLDERS_MAX).unwrap();
    for n in 0..crowd {
        let session = setup.session(n);
        // The last are those that hold all of it.
        if usize::from(n) < 2 * HOLDERS_MAX {
            setup.index.register_partial(&session, &record(1, "a", 1));
        } else {
            setup.index.register(&session, &record(1, "a", 1));
        }
    }
    setup.index.check();
    let mut seen = std::collections::HashSet::new();
    for _ in 0..2000 {
        let holders = setup.found(setup.now).remove(0).1;
        assert_eq!(holders.len(), HOLDERS_MAX);
        assert_eq!(holders.iter().filter(|holder| !holder.partial).count(), HOLDERS_WHOLE_MIN);
        assert!(holders.is_sorted_by_key(|holder| holder.partial));
        seen.extend(holders);
    }
    assert_eq!(seen.len(), usize::from(crowd), "each of them has its turn");
}

#[test]
fn newest_version_is_known_after_its_last_holder_left() {
    let setup = Setup::new();
    let (origin, reader) = (setup.session(1), setup.session(2));
    let newest = record(1, "a", 5);
    setup.index.register(&origin, &newest);
    setup.index.close_session(&origin);
    assert_eq!(setup.found(setup.now), []);
    assert_eq!(setup.index.register(&reader, &record(1, "a", 4)), Noted::Outdated(newest.clone()));
    // The same where another origin's file keeps the entry.
    setup.index.register(&setup.session(3), &record(3, "a", 1));
    assert_eq!(setup.index.register(&reader, &record(1, "a", 4)), Noted::Outdated(newest.clone()));
    assert_eq!(setup.index.register(&reader, &newest), Noted::News { outdated: vec![] });
    setup.index.register(&reader, &record(3, "a", 1)); // in place of the other
    assert_eq!(setup.index.register(&setup.session(4), &record(1, "a", 4)), Noted::Outdated(newest));
    setup.index.check();
}

#[test]
fn copy_of_a_folder_that_runs_elsewhere_hears_of_the_newer_version() {
    let setup = Setup::new();
    let (one, other) = (setup.session(1), setup.session(1));
    setup.index.register(&one, &record(1, "a", 1));
    let noted = setup.index.register(&other, &record(1, "a", 2));
    assert_eq!(noted, Noted::News { outdated: vec![one.id()] });
}

#[test]
fn version_that_nobody_held_whole_does_not_keep_an_older_one_out() {
    let setup = Setup::new();
    let reader = setup.session(2);
    setup.index.register(&reader, &record(1, "a", 1));
    setup.index.register_partial(&reader, &record(1, "a", 2));
    setup.index.deregister(&reader, &name("a"));
    assert_eq!(setup.index.register(&reader, &record(1, "a", 1)), Noted::News { outdated: vec![] });
}
