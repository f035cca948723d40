//! Tests of `arena/load.rs`, `cluster/layout.rs`, `scenarios/index.rs` and `scenarios/relay.rs`.

use std::{net::SocketAddr, thread};

use nekoproto::{Hit, Holder, Identity, List, ListedHolder, NodeAddrs, SignedRecord};
use profile::scenarios::{index::*, relay::*};
use profile::{arena::load::*, cluster::layout::*, plan::workload::sign_record};

fn file(seed: u8) -> (SignedRecord, ListedHolder) {
    let origin = Identity::from_seed(&[seed; 32]);
    let holder = ListedHolder::new(NodeAddrs::new(origin.id(), [SocketAddr::from(([127, 0, 0, 1], 4000))]));
    (sign_record(&origin, "a/file.bin").to_signed(), holder)
}

fn hit((record, holders): &(&SignedRecord, &[&ListedHolder])) -> Hit {
    Hit { record: (*record).clone(), holders: List::first_of(holders.iter().copied().cloned()) }
}

/// What is found, and whether that is all.
fn reply(hits: &[(&SignedRecord, &[&ListedHolder])], complete: bool) -> (Vec<Hit>, bool) {
    (hits.iter().map(hit).collect(), complete)
}

#[test]
fn answers_are_judged_by_what_is_there() {
    let ((record, holder), (other, stranger)) = (file(1), file(2));
    let at: Holder = holder.at().next().unwrap();
    let target = Target::held(record.clone(), at);
    let (holder, stranger) = (&holder, &stranger);
    let cases = [
        (reply(&[(&record, &[holder])], true), Found::Right),
        (reply(&[(&record, &[holder])], false), Found::Incomplete),
        (reply(&[(&other, &[stranger]), (&record, &[holder])], true), Found::Right),
        (reply(&[], true), Found::Wrong),
        (reply(&[], false), Found::Incomplete),
        (reply(&[(&other, &[stranger])], true), Found::Wrong),
        (reply(&[(&record, &[stranger, holder])], true), Found::Wrong),
        (reply(&[(&record, &[])], true), Found::Wrong),
    ];
    for (n, ((hits, complete), found)) in cases.iter().enumerate() {
        assert_eq!(target.judge(hits, *complete), *found, "case {n}");
    }
}

#[test]
fn of_a_name_that_nobody_has_only_what_is_signed_may_be_found() {
    let (target, (record, holder)) = (Target::missing("a/file.bin"), file(1));
    assert_eq!(target.judge(&[], true), Found::Right);
    assert_eq!(target.judge(&[], false), Found::Incomplete);
    let published = hit(&(&record, &[&holder]));
    assert_eq!(target.judge(std::slice::from_ref(&published), true), Found::Right, "somebody published it");
    let forged = SignedRecord::new(record.unverified().clone(), *file(2).0.signature());
    assert_eq!(target.judge(&[published, hit(&(&forged, &[&holder]))], true), Found::Wrong);
}

#[test]
fn counts_of_all_nodes_add_up() {
    for (nodes, hops) in (2..9).flat_map(|nodes| (0..40).map(move |hops| (nodes, hops))) {
        let ring = Ring { nodes, hops };
        let all: Vec<_> = (0..nodes).map(|node| ring.counts(node, 7)).collect();
        assert_eq!(all.iter().map(|one| one.received).sum::<u64>(), 7 * (u64::from(hops) + 1));
        assert_eq!(all.iter().map(|one| one.forwarded).sum::<u64>(), 7 * u64::from(hops));
        assert_eq!(all.iter().map(|one| one.out_of_hops).sum::<u64>(), 7);
        let came = all.iter().filter(|one| one.received > 0).count() as u64;
        assert_eq!(all.iter().map(|one| one.circles).sum::<u64>(), 7 * (u64::from(hops) + 1 - came));
    }
}

#[test]
fn every_difference_counts() {
    let ring = Ring { nodes: 3, hops: 10 };
    let counts = ring.counts(1, 10);
    assert_eq!(off(&counts, &counts), 0);
    let lost = nekoindexer::ProbeCounts { received: counts.received - 1, lost: 2, ..counts };
    assert_eq!(off(&lost, &counts), 3);
}

#[test]
fn names_have_thirty_bytes_and_are_signed_in_order() {
    assert_eq!(name_of(7).len(), 30);
    let names: Vec<String> =
        sign(Whose::Own, 1, 5..12).iter().map(|record| record.name.to_string()).collect();
    assert_eq!(names, (5..12).map(name_of).collect::<Vec<_>>());
}

#[test]
fn indexers_run_where_the_layout_says() {
    for (layout, apart) in [(Layout::One, false), (Layout::Split, true)] {
        let runtimes = Runtimes::new(layout).unwrap();
        let (here, there) = runtimes.run(|indexers| async move {
            let there = indexers[0].spawn(async { thread::current().id() }).await.unwrap();
            (thread::current().id(), there)
        });
        assert_eq!(here != there, apart, "{layout:?}");
    }
}

#[test]
fn every_core_has_a_thread_of_its_own() {
    let threads = Runtimes::new(Layout::Cores).unwrap().run(|runtimes| async move {
        let mut threads = std::collections::HashSet::new();
        for runtime in runtimes.iter() {
            threads.insert(runtime.spawn(async { thread::current().id() }).await.unwrap());
        }
        threads
    });
    assert_eq!(threads.len(), cores());
}
