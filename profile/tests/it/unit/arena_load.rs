//! Tests of `arena/load.rs`.

use std::net::SocketAddr;

use nekoproto::{Hit, Holder, Identity, List, ListedHolder, NodeAddrs, SignedRecord};
use profile::arena::load::*;
use profile::plan::workload::sign_record;

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
