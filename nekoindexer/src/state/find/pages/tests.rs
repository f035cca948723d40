//! Tests of pages: collected from an index, checked, and merged over several indexers.

use std::{
    collections::{BTreeMap, BTreeSet},
    slice,
    time::{Duration, Instant},
};

use nekoproto::{Covered, Hit, Identity, List, MsgId, NodeId, Record, Search, SignedReach, Term, Terms};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use super::*;
use crate::state::{
    holders::heard,
    index::Index,
    testing::{holder, listed, record, session},
};

fn search(term: &str) -> Search {
    Search { terms: Terms::first_of([Term::new(term).unwrap()]), ..Search::default() }
}

fn request(term: &str, after: Option<Position>, limit: u16) -> FindRequest {
    let msg_id = MsgId::from_u128(1);
    FindRequest { msg_id, search: search(term), after, limit, ttl_hops: 1, covered: Covered::new() }
}

fn believe(holders: List<ListedHolder, HOLDERS_MAX>) -> Vec<Listed> {
    heard(holders, HOLDERS_MAX, &[], SignedReach::verify)
}

fn found(origin: u8, name: &str, version: u64) -> Found {
    Found {
        record: record(origin, name, version),
        holders: believe(List::first_of([listed(origin).into_sent()])),
    }
}

fn page(found: impl IntoIterator<Item = Found>, more: bool) -> Page {
    Page { found: found.into_iter().collect(), more }
}

fn reply(found: &[Found], more: bool) -> FindReply {
    FindReply {
        hits: List::first_of(found.iter().cloned().map(Found::into_hit)),
        more,
        complete: true,
        messages: 0,
    }
}

fn verify(record: SignedRecord) -> Option<ListedRecord> {
    record.verify().map(ListedRecord::from).ok()
}

fn check(request: &FindRequest, found: &[Found], more: bool) -> Result<Page, WrongPage> {
    checked(reply(found, more), request, &Matcher::new(&request.search).unwrap(), verify, believe)
}

/// Goal: following the pages of several indexers shows every file that matches exactly once, in order, with all its
/// holders, whatever the limit is.
/// Method: random files at random indexers, some at several, some in an older version; compared with a sorted set.
#[test]
fn following_the_pages_of_several_indexers_shows_every_file_once() {
    for seed in 0..60 {
        let mut rng = StdRng::seed_from_u64(seed);
        let now = Instant::now();
        let indexers: Vec<Index> = (0..rng.random_range(1..5)).map(|_| Index::new(now)).collect();
        let mut names = BTreeSet::new();
        for n in 0..rng.random_range(0..150u32) {
            let (folder, kind) =
                (["a", "b b", "é"].choose(&mut rng).unwrap(), ["bin", "txt"].choose(&mut rng).unwrap());
            let (name, origin) = (format!("{folder}/f{}.{kind}", n % 40), rng.random_range(1..3));
            for (at, indexer) in (10..).zip(&indexers) {
                if rng.random_ratio(1, 2) {
                    let session = session(indexer, at, Duration::from_secs(9), now);
                    indexer.register(&session, &record(origin, &name, rng.random_range(1..4)));
                }
            }
            names.insert(name);
        }
        // What an index itself says of a name is right by its own tests.
        let mut expected: BTreeMap<Position, (u64, BTreeSet<NodeId>)> = BTreeMap::new();
        for name in names.iter().filter(|name| name.ends_with(".bin")) {
            let name = nekoproto::FileName::new(name).unwrap();
            for found in indexers.iter().flat_map(|indexer| indexer.lookup(&name, now)) {
                let known = expected.entry(Position::of(&found.record)).or_default();
                let version = found.record.version.get();
                if version > known.0 {
                    *known = (version, BTreeSet::new());
                }
                if version == known.0 {
                    known.1.extend(found.at().iter().map(|holder| holder.node));
                }
            }
        }
        let limit = rng.random_range(1..30);
        let (mut shown, mut after) = (BTreeMap::new(), None);
        loop {
            let request = request("*.bin", after.clone(), limit);
            let matcher = Matcher::new(&request.search).unwrap();
            let limit = request.limit();
            let pages = indexers.iter().map(|indexer| {
                let Page { found, more } =
                    indexer.find(&request.search, &matcher, after.as_ref(), limit, now, || false);
                check(&request, &found, more).unwrap()
            });
            let page = merged(pages, limit);
            for found in &page.found {
                let position = Position::of(&found.record);
                assert!(after.as_ref().is_none_or(|after| *after < position), "seed {seed}");
                let holders = found.at().iter().map(|holder| holder.node).collect();
                shown.insert(position.clone(), (found.record.version.get(), holders));
                after = Some(position);
            }
            assert!(!page.more || page.found.len() == limit, "seed {seed}");
            if !page.more {
                break;
            }
        }
        assert_eq!(shown, expected, "seed {seed}");
    }
}

#[test]
fn size_time_and_origin_are_compared_and_names_without_holders_left_out() {
    let now = Instant::now();
    let index = Index::new(now);
    let lease = Duration::from_secs(9);
    for n in 1..=3u8 {
        let session = session(&index, n, lease * u32::from(n), now);
        index.register(&session, &record(n, &format!("f{n}"), n.into()));
    }
    let names = |search: Search, now| -> Vec<String> {
        let page = index.find(&search, &Matcher::new(&search).unwrap(), None, 9, now, || false);
        page.found.iter().map(|found| found.record.name.to_string()).collect()
    };
    let all = || search("f*");
    assert_eq!(names(all(), now), ["f1", "f2", "f3"]);
    assert_eq!(names(Search::default(), now), ["f1", "f2", "f3"]);
    assert_eq!(names(Search { min_size: 2, ..all() }, now), ["f2", "f3"]);
    assert_eq!(names(Search { published_from_ms: 1_795_000_000_000, ..all() }, now).len(), 3);
    assert_eq!(names(Search { published_from_ms: 1_795_000_000_001, ..all() }, now).len(), 0);
    let origin = holder(2).node.to_string()[..9].to_owned().try_into().unwrap();
    assert_eq!(names(Search { origin: Some(origin), ..all() }, now), ["f2"]);
    assert_eq!(names(all(), now + lease), ["f2", "f3"], "the lease of the first has ended");
}

#[test]
fn names_that_went_and_came_back_are_found_once() {
    let now = Instant::now();
    let index = Index::new(now);
    let session = session(&index, 1, Duration::from_secs(9), now);
    let long = "x".repeat(200);
    let name = |n: u32| nekoproto::FileName::new(&format!("{long}/{n}")).unwrap();
    let found = |index: &Index| {
        let page = index.find(&search("*"), &Matcher::new(&search("*")).unwrap(), None, 100, now, || false);
        page.found.iter().map(|found| found.record.name.clone()).collect::<Vec<_>>()
    };
    let signed = record(1, "a", 1);
    let register = |n: u32| {
        let bytes = (Record { name: name(n), ..Record::clone(&signed) }, *signed.signed().signature());
        let record = nekoproto::codec::encode(&bytes).unwrap();
        let record: SignedRecord = nekoproto::codec::decode(&record).unwrap();
        index.register(&session, &record.said_by(&signed.origin).unwrap());
    };
    for round in 0..3000u32 {
        (0..3).for_each(register);
        assert!(round % 500 != 0 || found(&index) == [name(0), name(1), name(2)]);
        (0..3).for_each(|n| index.deregister(&session, &name(n)));
        index.renew_log();
    }
    assert_eq!(found(&index), []);
    (1..3).for_each(register);
    assert_eq!(found(&index), [name(1), name(2)]);
}

#[test]
fn page_that_is_not_what_was_asked_for_does_not_count() {
    let all = ["a.bin", "b.bin", "c.bin"].map(|name| found(1, name, 1));
    let [a, b, c] = all.clone();
    let asked = request("*.bin", Some(Position::of(&a.record)), 2);
    assert_eq!(check(&asked, &[b.clone(), c.clone()], true), Ok(page([b.clone(), c.clone()], true)));
    assert_eq!(check(&asked, slice::from_ref(&c), false), Ok(page([c.clone()], false)));
    assert_eq!(
        check(&asked, slice::from_ref(&b), true),
        Err(WrongPage::Length),
        "nobody knows what is behind it"
    );
    assert_eq!(check(&asked, &[], true), Err(WrongPage::Length));
    assert_eq!(check(&request("*", None, 2), &all, false), Err(WrongPage::Length));
    assert_eq!(check(&asked, &[c.clone(), b.clone()], false), Err(WrongPage::Order));
    assert_eq!(check(&asked, &[b.clone(), b.clone()], false), Err(WrongPage::Order));
    assert_eq!(check(&asked, &[a.clone(), b.clone()], false), Err(WrongPage::Order), "not behind the place");
    assert_eq!(check(&asked, &[b.clone(), found(1, "c.txt", 1)], false), Err(WrongPage::Foreign));
    let small = FindRequest { search: Search { min_size: 2, ..asked.search.clone() }, ..asked.clone() };
    assert_eq!(check(&small, slice::from_ref(&b), false), Err(WrongPage::Foreign));
    let mut forged = reply(&[b], false);
    let changed = Record { size: 9, ..Record::clone(&c.record) };
    let bytes = nekoproto::codec::encode(&(changed, *c.record.signed().signature())).unwrap();
    let record = nekoproto::codec::decode(&bytes).unwrap();
    forged.hits = List::first_of(forged.hits.into_iter().chain([Hit { record, holders: List::new() }]));
    let matcher = Matcher::new(&asked.search).unwrap();
    assert_eq!(checked(forged, &asked, &matcher, verify, believe), Err(WrongPage::Forged));
}

#[test]
fn newest_version_counts_and_of_two_under_one_number_the_same_in_any_order() {
    let other = Record { size: 99, ..Record::clone(&record(1, "a", 2)) };
    let other = Found { record: other.sign(&Identity::from_seed(&[1; 32])).unwrap().into(), holders: vec![] };
    let pages = [found(1, "a", 1), found(1, "a", 2), other.clone()].map(|found| page([found], false));
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [2, 0, 1]] {
        let merged = merged(order.map(|n| pages[n].clone()), 9);
        assert_eq!(merged, page([other.clone()], false), "{order:?}: the larger one outranks it");
    }
    let twice =
        merged([page([found(1, "a", 1), found(2, "a", 1)], false), page([found(1, "b", 1)], false)], 2);
    assert_eq!((twice.found.len(), twice.more), (2, true), "one for each origin; b is behind");
}

#[test]
fn a_hundred_thousand_names_are_paged_through_in_order() {
    let now = Instant::now();
    let index = Index::new(now);
    let session = session(&index, 1, Duration::from_secs(9), now);
    let signed = record(1, "a", 1);
    for n in 0..100_000u32 {
        // An index lists what its origin says, signed or not; and signing so many takes a while.
        let name = nekoproto::FileName::new(&format!("d{}/f{n}.bin", n % 7)).unwrap();
        let bytes = (Record { name, ..Record::clone(&signed) }, *signed.signed().signature());
        let bytes = nekoproto::codec::encode(&bytes).unwrap();
        let record: SignedRecord = nekoproto::codec::decode(&bytes).unwrap();
        index.register(&session, &record.said_by(&signed.origin).unwrap());
    }
    let search = search("d3/*99*");
    let matcher = Matcher::new(&search).unwrap();
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let page = index.find(&search, &matcher, after.as_ref(), 100, now, || false);
        names.extend(page.found.iter().map(|found| found.record.name.to_string()));
        after = page.found.last().map(|found| Position::of(&found.record));
        if !page.more {
            break;
        }
    }
    let mut expected: Vec<String> = (0..100_000u32)
        .filter(|n| n % 7 == 3 && n.to_string().contains("99"))
        .map(|n| format!("d3/f{n}.bin"))
        .collect();
    expected.sort();
    assert!(expected.len() > 300);
    assert_eq!(names, expected);
}
