//! Tests of the index: leases, versions, and removal.

mod histories;
mod withdrawals;

use nekoproto::{
    Holder, NodeId, Record,
    limits::{HITS_MAX, HOLDERS_MAX, HOLDERS_WHOLE_MIN},
};

use super::*;
use crate::state::{
    merge::Merge,
    testing::{self, holder, name, record, said, signed},
};

const LEASE: Duration = Duration::from_secs(10);
/// News that no older copy makes anybody's business.
const NEWS: Noted = Noted::News { outdated: vec![] };

fn partial(n: u8) -> Holder {
    Holder { partial: true, ..holder(n) }
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

    fn with<const N: usize>(nodes: [u8; N]) -> (Self, [Arc<Session>; N]) {
        let setup = Self::new();
        let sessions = setup.sessions(nodes);
        (setup, sessions)
    }
}

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

    fn sessions<const N: usize>(&self, nodes: [u8; N]) -> [Arc<Session>; N] {
        nodes.map(|n| self.session(n))
    }

    fn register(&self, session: &Arc<Session>, version: u64) -> Noted {
        self.index.register(session, &record(1, "a", version))
    }

    fn register_partial(&self, session: &Arc<Session>, version: u64) -> Noted {
        self.index.register_partial(session, &record(1, "a", version))
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

    fn found_at(&self, at: Instant) -> Vec<(u64, Vec<Holder>)> {
        let found = self.index.lookup(&name("a"), at);
        found.into_iter().map(|found| (found.record.version.get(), found.at())).collect()
    }

    fn found(&self) -> Vec<(u64, Vec<Holder>)> {
        self.found_at(self.now)
    }

    fn join(&self, record: &ListedRecord) -> (Noted, Arc<Session>) {
        let at = NodeAddrs::new(record.origin, [holder(1).addr]);
        let session = self.index.open_session(at, LEASE, self.now);
        (self.index.register(&session, record), session)
    }
}

/// Tells of the newest instead of the older one that was said.
fn outdated(version: u64) -> Noted {
    Noted::Outdated(record(1, "a", version))
}

/// News for the holders of an older copy.
fn news_for(session: &Session) -> Noted {
    Noted::News { outdated: vec![session.id()] }
}

/// Goal: whoever connects again and again leaves nothing behind.
#[test]
fn a_session_without_names_ends_with_its_connection() {
    let (setup, [session]) = Setup::with([1]);
    setup.index.disconnected(&session, setup.now);
    assert_eq!(setup.index.holders(), 0);
    assert_eq!(setup.register(&session, 1), Noted::Full, "a call that was still under way");
}

#[test]
fn holder_is_found_until_its_lease_ends_and_may_register_anew_while_it_is_connected() {
    let (setup, [session]) = Setup::with([2]);
    assert_eq!(setup.register(&session, 1), NEWS);
    let end = setup.now + LEASE;
    assert_eq!(setup.found_at(end - Duration::from_millis(1)), [(1, vec![holder(2)])]);
    assert_eq!(setup.found_at(end), [], "found after its lease, before any sweep");
    setup.index.renew(&session, LEASE, end);
    assert_eq!(setup.found_at(end), [(1, vec![holder(2)])]);
    let end = end + LEASE;
    assert_eq!(setup.expire(end), [session.id()]);
    assert_eq!((setup.index.names(), session.count()), (0, 0));
    setup.index.renew(&session, LEASE, end);
    assert_eq!(setup.register(&session, 1), NEWS);
    assert_eq!(setup.found_at(end), [(1, vec![holder(2)])]);
    // One that renews while it is being ended stays.
    let later = end + LEASE;
    assert_eq!(setup.index.ended(later).len(), 1);
    setup.index.renew(&session, LEASE, later);
    setup.index.end(&session, later);
    assert_eq!((setup.found_at(later), session.count()), (vec![(1, vec![holder(2)])], 1));
    setup.index.disconnected(&session, setup.now);
    assert_eq!(setup.expire(later), []);
    assert_eq!(setup.expire(later + LEASE), [session.id()]);
    assert_eq!(setup.expire(later + LEASE), [], "nothing of it is left");
    assert_eq!(setup.register(&session, 1), Noted::Full, "a removed session");
    assert_eq!(setup.index.names(), 0);
}

#[test]
fn what_is_registered_after_everything_was_withdrawn_stays() {
    let (setup, [session]) = Setup::with([2]);
    let (first, count) = (record(1, "f0", 1), 2 * REMOVED_AT_ONCE);
    let register = |n: usize| setup.index.register(&session, &testing::named(&format!("f{n}"), &first));
    (0..count).for_each(|n| assert_eq!(register(n), NEWS));
    let before = session.withdrawals();
    let withdrawn = setup.index.withdraw_all(&session);
    assert_eq!((withdrawn.len(), session.count()), (count, 0));
    assert_ne!(session.withdrawals(), before, "what began before is void");
    // Before they are unlisted, which happens later on a blocking thread.
    [7, count].iter().for_each(|n| assert_ne!(register(*n), Noted::Full));
    setup.index.unlist_all(&session, withdrawn);
    assert_eq!((setup.index.names(), session.count()), (2, 2));
    setup.index.check();
}

#[test]
fn newer_version_hides_older_holders_names_them_and_is_told_to_whoever_brings_an_older_one() {
    let (setup, [origin, copy, reader, late]) = Setup::with([1, 2, 3, 4]);
    setup.register(&origin, 1);
    setup.register(&copy, 1);
    assert_eq!(setup.register(&origin, 2), news_for(&copy));
    assert_eq!(setup.register(&copy, 1), outdated(2));
    assert_eq!(setup.found(), [(2, vec![holder(1)])]);
    setup.index.close_session(&copy);
    setup.register_partial(&reader, 2);
    assert_eq!(setup.register(&origin, 3), news_for(&reader));
    assert_eq!(setup.register_partial(&late, 2), outdated(3));
    assert_eq!(setup.found(), [(3, vec![holder(1)])]);
    setup.index.check();
}

#[test]
fn replayed_invalidation_changes_nothing() {
    let (setup, [copy]) = Setup::with([2]);
    setup.register(&copy, 2);
    let invalidate = |text, version| setup.index.invalidate(&record(1, text, version));
    let noted = [invalidate("a", 1), invalidate("a", 2), invalidate("unheld", 9)];
    assert_eq!(noted, [outdated(2), Noted::Known, Noted::Known]);
    assert_eq!(setup.found(), [(2, vec![holder(2)])]);
    assert_eq!(invalidate("a", 3), news_for(&copy));
    assert_eq!(setup.found(), [], "nobody holds version 3 here");
}

/// Two folders with one key published at the same moment, each at another indexer.
#[test]
fn other_bytes_under_the_listed_number_are_told_to_the_folder_that_published_there() {
    let (setup, [origin, reader]) = Setup::with([1, 2]);
    let listed = record(1, "a", 2);
    setup.register(&origin, 2);
    setup.register(&reader, 2);
    let other = signed(1, Record { size: 99, ..Record::clone(&listed) });
    assert_eq!(setup.index.invalidate(&other), news_for(&origin));
    let second = setup.index.register(&setup.session(1), &other);
    assert_eq!(second, Noted::Outdated(listed.clone()));
    assert_eq!(setup.found(), [(2, vec![holder(1), holder(2)])], "the listed one stays");
    assert_eq!(setup.index.lookup(&name("a"), setup.now)[0].record, listed);
    setup.register(&origin, 3);
    assert_eq!(setup.index.invalidate(&other), outdated(3), "it is settled");
}

/// The file `a` of the n-th of many origins, for which nobody has to sign.
fn one_of_many(n: usize) -> ListedRecord {
    let mut bytes = [0xaa; 32];
    bytes[24..].copy_from_slice(&n.to_be_bytes());
    let signed = record(1, "a", 1);
    said(Record { origin: NodeId::from_bytes(bytes), ..Record::clone(&signed) }, &signed)
}

/// Goal: who is asked for by id is found however many others publish under the name, until the table of that name is full;
/// then an answer without it is not complete.
#[test]
fn an_origin_is_found_by_its_id_among_more_than_an_answer_holds() {
    let setup = Setup::new();
    let register = |n: usize| setup.join(&one_of_many(n)).0;
    let real = record(7, "a", 1);
    let digits: IdDigits = real.origin.to_string()[..12].to_owned().try_into().unwrap();
    let wanted = name("a");
    let wanted = Asked { origin: Some(&digits), ..Asked::from(&wanted) };
    (0..entry::ORIGINS_MAX - 1).for_each(|n| assert_eq!(register(n), NEWS));
    let answer = |asked: Asked<'_>| {
        let reply = Merge::new(setup.index.lookup(asked, setup.now)).finish();
        (reply.hits.len(), reply.complete, reply.hits.first().map(|hit| hit.record.clone()))
    };
    assert_eq!(answer(wanted), (0, true, None), "it is not listed, and there is room");
    let (noted, session) = setup.join(&real);
    assert_eq!(noted, NEWS);
    assert_eq!(answer(wanted), (1, true, Some(real.to_signed())));
    let (hits, complete, _) = answer(Asked { origin: None, ..wanted });
    assert_eq!((hits, complete), (HITS_MAX, false), "all do not fit");
    assert_eq!(register(entry::ORIGINS_MAX), Noted::Full);
    setup.index.close_session(&session);
    assert_eq!(register(entry::ORIGINS_MAX), NEWS, "a place that was freed");
    assert!(!answer(wanted).1, "it may have found no room");
    setup.index.check();
}

/// Goal: whoever lists one name with many keys and leaves makes answers incomplete for a moment, not for a lease; who was
/// listed before is found throughout.
#[test]
fn origins_that_left_give_way_where_there_are_more_than_an_answer_holds() {
    let setup = Setup::new();
    let [real, late] = [7, 8].map(|origin| record(origin, "a", 1));
    let _real = setup.join(&real);
    let many: Vec<_> = (0..3 * HITS_MAX).map(|n| setup.join(&one_of_many(n)).1).collect();
    let _late = setup.join(&late);
    let answer = |after: Duration| {
        let found = setup.index.lookup(&name("a"), setup.now + after);
        let [has_real, has_late] =
            [&real, &late].map(|record| found.iter().any(|found| found.record.origin == record.origin));
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
    let join = |n: usize| setup.join(&one_of_many(n));
    let sessions: Vec<_> = (0..entry::ORIGINS_MAX).map(|n| join(n).1).collect();
    assert_eq!(join(9000).0, Noted::Full);
    setup.index.disconnected(&sessions[5], setup.now);
    assert_eq!([9001, 9002].map(|n| join(n).0), [NEWS, Noted::Full]);
    setup.index.check();
}

/// Goal: as many keys as may list a name, all from one site, neither keep out an origin of another site nor hide it.
#[test]
fn an_origin_gets_a_place_among_many_of_one_other_site() {
    let setup = Setup::new();
    (0..entry::ORIGINS_MAX).for_each(|n| assert_eq!(setup.join(&one_of_many(n)).0, NEWS));
    let from = |n: u8, site: [u8; 4]| {
        let real = record(n, "a", 1);
        let at = NodeAddrs::new(real.origin, [holder(1).addr]);
        let session = setup.index.open_session_on(None, (at, site.into()), LEASE, setup.now);
        (setup.index.register(&session, &real), real)
    };
    for (n, site) in [(7, [10, 0, 0, 1]), (8, [10, 0, 0, 2])] {
        let (noted, real) = from(n, site);
        assert_eq!(noted, NEWS);
        assert_eq!(setup.join(&one_of_many(9000 + usize::from(n))).0, Noted::Full, "their site has enough");
        for _ in 0..20 {
            let found = setup.index.lookup(&name("a"), setup.now);
            let found = &found[..HITS_MAX];
            assert!(found.iter().any(|found| found.record.origin == real.origin), "it is in each answer");
        }
    }
    setup.index.check();
}

#[test]
fn holders_that_failed_are_left_out_if_they_are_not_wanted() {
    let setup = Setup::new();
    setup.sessions([1, 2, 3]).iter().for_each(|session| drop(setup.register(session, 1)));
    let (failed, wanted) = ([holder(1), holder(2)].map(|holder| holder.node.tag()), name("a"));
    let found = setup.index.lookup(Asked { without: &failed, ..Asked::from(&wanted) }, setup.now);
    assert_eq!(found[0].at(), [holder(3)]);
}

#[test]
fn names_with_the_same_hash_are_kept_apart() {
    let setup = Setup::colliding();
    let [first, second] = setup.sessions([1, 2]);
    let found = |text| -> Vec<(u64, Vec<Holder>)> {
        let found = setup.index.lookup(&name(text), setup.now);
        assert!(found.iter().all(|found| found.record.name == name(text)));
        found.into_iter().map(|found| (found.record.version.get(), found.at())).collect()
    };
    setup.register(&first, 1);
    assert_eq!(found("b"), [], "there is a name with this hash, but another");
    assert_eq!(setup.index.invalidate(&record(1, "b", 9)), Noted::Known);
    let register = |session, text, version| setup.index.register(session, &record(1, text, version));
    assert_eq!(register(&second, "b", 5), NEWS);
    assert_eq!(register(&first, "b", 5), Noted::Known);
    assert_eq!(register(&first, "a", 2), NEWS);
    assert_eq!((found("a"), found("b").len()), (vec![(2, vec![holder(1)])], 1));
    assert_eq!(found("b")[0].1.len(), 2);
    assert!(setup.index.vouch(record(1, "b", 5).into_signed()).is_ok());
    assert!(setup.index.vouch(record(1, "c", 5).into_signed()).is_err());
    let mut keys = setup.index.keys();
    keys.sort_by_key(|key| *key != NameKey::of(&name("a")));
    assert_eq!(keys, ["a", "b"].map(|text| NameKey::of(&name(text))));
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
fn a_new_session_of_a_node_replaces_its_old_one() {
    let (setup, [before, after]) = Setup::with([2, 2]);
    setup.register(&before, 1);
    setup.register(&after, 1);
    setup.index.close_session(&before);
    assert_eq!(setup.found(), [(1, vec![holder(2)])]);
    setup.index.close_session(&after);
    assert_eq!(setup.index.names(), 0);
    // A copy of a folder that runs elsewhere hears of the newer version.
    let [one, other] = setup.sessions([1, 1]);
    setup.register(&one, 2);
    assert_eq!(setup.register(&other, 3), news_for(&one));
}

#[test]
fn holder_of_a_part_is_listed_as_one_after_those_of_the_whole() {
    let (setup, [first, second, origin]) = Setup::with([2, 3, 1]);
    assert_eq!(setup.register_partial(&first, 1), NEWS);
    assert_eq!(setup.found(), [(1, vec![partial(2)])]);
    assert_eq!(setup.index.keys(), [NameKey::of(&name("a"))], "a name of which there is a part is one");
    setup.register_partial(&second, 1);
    assert_eq!(setup.register(&origin, 1), Noted::Known);
    let found = setup.found();
    assert_eq!((found[0].1.len(), found[0].1[0]), (3, holder(1)));
    setup.index.check();
    for session in [first, second, origin] {
        setup.index.deregister(&session, &name("a"));
    }
    assert_eq!(setup.index.names(), 0);
}

/// A reader that is gone is no source; a holder may have lost the connection only.
#[test]
fn who_holds_parts_only_is_listed_as_long_as_it_is_connected() {
    let (setup, [holder_of_all, reader, was_reader]) = Setup::with([1, 2, 3]);
    setup.register(&holder_of_all, 1);
    for session in [&reader, &was_reader] {
        setup.register_partial(session, 1);
    }
    setup.register(&was_reader, 1);
    for session in [&holder_of_all, &reader, &was_reader] {
        setup.index.disconnected(session, setup.now);
    }
    let mut found = setup.found().remove(0).1;
    found.sort_unstable_by_key(|holder| holder.addr);
    assert_eq!(found, [holder(1), holder(3)]);
    assert_eq!(setup.index.holders(), 2);
    assert_eq!(setup.register_partial(&reader, 1), Noted::Full, "its connection is over");
    setup.index.check();
}

#[test]
fn newest_word_on_how_much_is_held_counts_and_the_whole_takes_least_room() {
    let (setup, [session]) = Setup::with([2]);
    setup.register_partial(&session, 1);
    assert!(!setup.is_small());
    assert_eq!(setup.register(&session, 1), Noted::Known);
    assert_eq!(setup.found(), [(1, vec![holder(2)])]);
    assert!(setup.is_small());
    assert_eq!(setup.register_partial(&session, 1), Noted::Known);
    assert_eq!(setup.found(), [(1, vec![partial(2)])]);
    assert_eq!((setup.register_partial(&session, 2), session.count()), (NEWS, 1));
    assert_eq!(setup.found(), [(2, vec![partial(2)])], "in place of the copy of the older version");
    setup.index.check();
    // A version that nobody held whole does not keep an older one out.
    setup.index.deregister(&session, &name("a"));
    assert_eq!(setup.register(&session, 1), NEWS);
}

#[test]
fn crowd_of_holders_of_parts_leaves_room_for_the_whole_and_takes_turns() {
    let setup = Setup::new();
    let crowd = u8::try_from(3 * HOLDERS_MAX).unwrap();
    for n in 0..crowd {
        // The last are those that hold all of it.
        let is_partial = usize::from(n) < 2 * HOLDERS_MAX;
        let session = setup.session(n);
        if is_partial {
            setup.register_partial(&session, 1)
        } else {
            setup.register(&session, 1)
        };
    }
    setup.index.check();
    let mut seen = std::collections::HashSet::new();
    for _ in 0..2000 {
        let holders = setup.found().remove(0).1;
        assert_eq!(holders.len(), HOLDERS_MAX);
        assert_eq!(holders.iter().filter(|holder| !holder.partial).count(), HOLDERS_WHOLE_MIN);
        assert!(holders.is_sorted_by_key(|holder| holder.partial));
        seen.extend(holders);
    }
    assert_eq!(seen.len(), usize::from(crowd), "each of them has its turn");
}

#[test]
fn newest_version_is_known_after_its_last_holder_left() {
    let (setup, [origin, reader, third, fourth]) = Setup::with([1, 2, 3, 4]);
    setup.register(&origin, 5);
    setup.index.close_session(&origin);
    assert_eq!(setup.found(), []);
    assert_eq!(setup.register(&reader, 4), outdated(5));
    // The same where another origin's file keeps the entry.
    setup.index.register(&third, &record(3, "a", 1));
    assert_eq!(setup.register(&reader, 4), outdated(5));
    assert_eq!(setup.register(&reader, 5), NEWS);
    setup.index.register(&reader, &record(3, "a", 1)); // in place of the other
    assert_eq!(setup.register(&fourth, 4), outdated(5));
    setup.index.check();
}
