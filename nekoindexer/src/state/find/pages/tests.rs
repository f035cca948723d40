//! Tests of pages: collected from an index, checked, and merged over several indexers.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use nekoproto::{Hit, List, NodeId, Record, Search};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use super::*;
use crate::state::{
    holders::heard,
    index::Index,
    testing::{SENDER, find, holder, listed, name, named, record, search, session, signed},
};

const LEASE: Duration = Duration::from_secs(9);

fn believe(holders: List<ListedHolder, HOLDERS_MAX>) -> Vec<Listed> {
    heard(holders, HOLDERS_MAX, &[], SENDER)
}

fn found(origin: u8, name: &str, version: u64) -> Found {
    Found {
        record: record(origin, name, version),
        holders: believe(List::first_of([listed(origin).into_sent()])),
    }
}

fn page(found: impl IntoIterator<Item = Found>, next: Option<Position>) -> Page {
    Page { found: found.into_iter().collect(), next }
}

fn at(found: &Found) -> Option<Position> {
    Some(Position::of(&found.record))
}

fn reply(found: &[Found], next: Option<Position>) -> FindReply {
    let hits = List::first_of(found.iter().cloned().map(Found::into_hit));
    FindReply { hits, next, complete: true, ..FindReply::default() }
}

fn verify(record: SignedRecord) -> Option<ListedRecord> {
    record.verify().map(ListedRecord::from).ok()
}

fn found_in(index: &Index, term: &str, after: Option<&Position>, limit: usize) -> Page {
    let search = search(term);
    index.find(&search, &Matcher::new(&search).unwrap(), after, limit, Instant::now(), || 0).unwrap()
}

fn names(page: &Page) -> Vec<String> {
    page.found.iter().map(|found| found.record.name.to_string()).collect()
}

fn check(request: &FindRequest, found: &[Found], next: Option<Position>) -> Result<Page, WrongPage> {
    checked(reply(found, next), request, &Matcher::new(&request.search).unwrap(), verify, believe)
}

/// Goal: following the pages of several indexers shows every file that matches exactly once, in order, with all its
/// holders, whatever the limit is.
/// Method: random files at random indexers, some at several, some in an older version; compared with a sorted set.
#[test]
fn following_the_pages_of_several_indexers_shows_every_file_once() {
    for seed in testkit::seeds(10) {
        let mut rng = StdRng::seed_from_u64(seed);
        let now = Instant::now();
        let indexers: Vec<Index> = (0..rng.random_range(1..5)).map(|_| Index::new(now)).collect();
        let mut all = BTreeSet::new();
        for n in 0..rng.random_range(0..150u32) {
            let (folder, kind) =
                (["a", "b b", "é"].choose(&mut rng).unwrap(), ["bin", "txt"].choose(&mut rng).unwrap());
            let (text, origin) = (format!("{folder}/f{}.{kind}", n % 40), rng.random_range(1..3));
            for (at, indexer) in (10..).zip(&indexers) {
                if rng.random_ratio(1, 2) {
                    let session = session(indexer, at, LEASE, now);
                    indexer.register(&session, &record(origin, &text, rng.random_range(1..4)));
                }
            }
            all.insert(text);
        }
        // What an index itself says of a name is right by its own tests.
        let mut expected: BTreeMap<Position, (u64, BTreeSet<NodeId>)> = BTreeMap::new();
        for text in all.iter().filter(|text| text.ends_with(".bin")) {
            for found in indexers.iter().flat_map(|indexer| indexer.lookup(&name(text), now)) {
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
            let request = find("*.bin", after.clone(), limit);
            let limit = request.limit();
            let pages = indexers.iter().map(|indexer| {
                let Page { found, next } = found_in(indexer, "*.bin", after.as_ref(), limit);
                check(&request, &found, next).unwrap()
            });
            let page = merged(pages, limit);
            for found in &page.found {
                let position = Position::of(&found.record);
                assert!(after.as_ref().is_none_or(|after| *after < position));
                let holders = found.at().iter().map(|holder| holder.node).collect();
                shown.insert(position, (found.record.version.get(), holders));
            }
            assert!(page.next.is_none() || page.next == page.found.get(limit - 1).and_then(at));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(shown, expected);
    }
}

#[test]
fn size_time_and_origin_are_compared_and_names_without_holders_left_out() {
    let now = Instant::now();
    let index = Index::new(now);
    for n in 1..=3u8 {
        let session = session(&index, n, LEASE * u32::from(n), now);
        index.register(&session, &record(n, &format!("f{n}"), n.into()));
    }
    let origin = holder(2).node.to_string()[..9].to_owned().try_into().ok();
    let time = 1_795_000_000_000;
    let all = || search("f*");
    let cases: [(&str, Search, Duration, &[&str]); 7] = [
        ("by name", all(), Duration::ZERO, &["f1", "f2", "f3"]),
        ("by nothing", Search::default(), Duration::ZERO, &["f1", "f2", "f3"]),
        ("by size", Search { min_size: 2, ..all() }, Duration::ZERO, &["f2", "f3"]),
        ("from then", Search { published_from_ms: time, ..all() }, Duration::ZERO, &["f1", "f2", "f3"]),
        ("later", Search { published_from_ms: time + 1, ..all() }, Duration::ZERO, &[]),
        ("by origin", Search { origin, ..all() }, Duration::ZERO, &["f2"]),
        ("the lease of the first has ended", all(), LEASE, &["f2", "f3"]),
    ];
    for (case, search, after, expected) in cases {
        let matcher = Matcher::new(&search).unwrap();
        let page = index.find(&search, &matcher, None, 9, now + after, || 0).unwrap();
        assert_eq!(names(&page), expected, "{case}");
    }
}

#[test]
fn names_that_went_and_came_back_are_found_once() {
    let index = Index::new(Instant::now());
    let session = session(&index, 1, LEASE, Instant::now());
    let signed = record(1, "a", 1);
    let text = |n: u32| format!("{}/{n}", ["x".repeat(250).as_str(); 4].join("/"));
    let register = |n: u32| drop(index.register(&session, &named(&text(n), &signed)));
    let found = || names(&found_in(&index, "*", None, 100));
    for round in 0..600u32 {
        (0..3).for_each(register);
        assert!(round % 100 != 0 || found() == [0, 1, 2].map(text));
        (0..3).for_each(|n| index.deregister(&session, &name(&text(n))));
        index.renew_log();
    }
    assert_eq!(found(), [""; 0]);
    (1..3).for_each(register);
    assert_eq!(found(), [1, 2].map(text));
}

#[test]
fn page_that_is_not_what_was_asked_for_does_not_count() {
    let [a, b, c] = ["a.bin", "b.bin", "c.bin"].map(|name| found(1, name, 1));
    let text = found(1, "c.txt", 1);
    let asked = find("*.bin", Some(Position::of(&a.record)), 2);
    let small = FindRequest { search: Search { min_size: 2, ..asked.search.clone() }, ..asked.clone() };
    let all = find("*", None, 2);
    let good = [(vec![&b, &c], at(&c)), (vec![&c], None), (vec![&b], at(&c)), (vec![], at(&b))];
    for (found, next) in good.map(|(found, next)| (found.into_iter().cloned().collect::<Vec<_>>(), next)) {
        assert_eq!(check(&asked, &found, next.clone()), Ok(page(found, next)));
    }
    type Case<'a> = (&'a str, &'a FindRequest, &'a [&'a Found], Option<Position>, WrongPage);
    let bad: [Case<'_>; 8] = [
        ("goes on before its end", &asked, &[&b, &c], at(&b), WrongPage::Order),
        ("goes on where it began", &asked, &[], at(&a), WrongPage::Order),
        ("too many", &all, &[&a, &b, &c], None, WrongPage::Length),
        ("backwards", &asked, &[&c, &b], None, WrongPage::Order),
        ("twice", &asked, &[&b, &b], None, WrongPage::Order),
        ("not behind the place", &asked, &[&a, &b], None, WrongPage::Order),
        ("no match", &asked, &[&b, &text], None, WrongPage::Foreign),
        ("too small", &small, &[&b], None, WrongPage::Foreign),
    ];
    for (case, request, found, next, wrong) in bad {
        let found: Vec<Found> = found.iter().copied().cloned().collect();
        assert_eq!(check(request, &found, next), Err(wrong), "{case}");
    }
    let mut forged = reply(&[b], None);
    let changed = Record { size: 9, ..Record::clone(&c.record) };
    let record = SignedRecord::new(changed, *c.record.signed().signature());
    forged.hits = List::first_of(forged.hits.into_iter().chain([Hit { record, holders: List::new() }]));
    let matcher = Matcher::new(&asked.search).unwrap();
    assert_eq!(checked(forged, &asked, &matcher, verify, believe), Err(WrongPage::Forged));
}

#[test]
fn newest_version_counts_and_of_two_under_one_number_the_same_in_any_order() {
    let other = signed(1, Record { size: 99, ..Record::clone(&record(1, "a", 2)) });
    let other = Found { record: other, holders: vec![] };
    let pages = [found(1, "a", 1), found(1, "a", 2), other.clone()].map(|found| page([found], None));
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [2, 0, 1]] {
        let merged = merged(order.map(|n| pages[n].clone()), 9);
        assert_eq!(merged, page([other.clone()], None), "{order:?}: the larger one outranks it");
    }
    let both = page([found(1, "a", 1), found(2, "a", 1)], None);
    let twice = merged([both, page([found(1, "b", 1)], None)], 2);
    assert_eq!(twice.found.len(), 2, "one for each origin");
    assert_eq!(twice.next, at(&twice.found[1]), "b is behind");
}

#[test]
fn merged_page_ends_where_the_shortest_of_them_does() {
    let [a, b, c] = ["a", "b", "c"].map(|name| found(1, name, 1));
    let short = page([a.clone()], at(&b));
    let long = page([b.clone(), c], None);
    assert_eq!(merged([short, long], 9), page([a, b.clone()], at(&b)));
}

#[test]
fn tens_of_thousands_of_names_are_paged_through_in_order() {
    const NAMES: u32 = 30_000;
    let index = Index::new(Instant::now());
    let session = session(&index, 1, LEASE, Instant::now());
    let (signed, text) = (record(1, "a", 1), |n: u32| format!("d{}/f{n}.bin", n % 7));
    (0..NAMES).for_each(|n| drop(index.register(&session, &named(&text(n), &signed))));
    let (mut shown, mut after) = (Vec::new(), None);
    loop {
        let page = found_in(&index, "d3/*99*", after.as_ref(), 40);
        shown.extend(names(&page));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let is_wanted = |n: &u32| n % 7 == 3 && n.to_string().contains("99");
    let mut expected: Vec<String> = (0..NAMES).filter(is_wanted).map(text).collect();
    expected.sort();
    assert!(expected.len() > 100);
    assert_eq!(shown, expected);
}
