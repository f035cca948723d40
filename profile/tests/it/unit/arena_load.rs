//! Tests of `arena/load.rs`.

use std::net::SocketAddr;

use nekoproto::{Hit, Holder, Identity, List, ListedHolder, NodeAddrs, QueryReply, SignedRecord};
use profile::arena::load::*;
use profile::plan::workload::sign_record;

fn file(seed: u8) -> (SignedRecord, ListedHolder) {
    let origin = Identity::from_seed(&[seed; 32]);
    let holder = ListedHolder::new(NodeAddrs::new(origin.id(), [SocketAddr::from(([127, 0, 0, 1], 4000))]));
    (sign_record(&origin, "a/file.bin").to_signed(), holder)
}

fn reply(hits: &[(&SignedRecord, &[&ListedHolder])], complete: bool) -> QueryReply {
    let hit = |(record, holders): &(&SignedRecord, &[&ListedHolder])| Hit {
        record: (*record).clone(),
        holders: List::first_of(holders.iter().copied().cloned()),
    };
    QueryReply { hits: List::first_of(hits.iter().map(hit)), complete, messages: 1, ..QueryReply::default() }
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
    for (n, (reply, found)) in cases.iter().enumerate() {
        assert_eq!(target.judge(reply), *found, "case {n}");
    }
}
