//! Tests of `plan/expected.rs`.

use nekoproto::Holder;
use nekoproto::QueryReply;
use profile::plan::workload::Ask;
use std::net::SocketAddr;
use std::sync::Arc;

use nekoproto::{Hit, Identity, List, ListedHolder, NodeAddrs, SignedRecord};

use profile::plan::expected::*;
use profile::plan::{
    scenario::{Load, Scenario},
    topology::Topology,
    workload::{Workload, sign_record},
};

/// A line of three indexers with two files each, held at two of them; asked from one end, one hop.
fn expected() -> (Expected, Vec<Holder>, Vec<SignedRecord>) {
    let load = Load { files: 2, topology: Topology::Line, ..Load::default() };
    let scenario = Scenario { indexers: 3, holders: 2, load, ..Scenario::default() };
    let origins: Vec<Identity> = (0..3).map(|n| Identity::from_seed(&[n; 32])).collect();
    let holders: Vec<Holder> = origins
        .iter()
        .zip(1..)
        .map(|(origin, port)| Holder::new(origin.id(), SocketAddr::from(([127, 0, 0, 1], port))))
        .collect();
    let workload = Arc::new(Workload::new(&scenario, &origins));
    let expected = Expected::new(Arc::clone(&workload), &scenario.graph().unwrap(), 0, 1, &holders);
    (expected, holders, workload.records().to_vec())
}

fn listed(holder: &Holder) -> ListedHolder {
    ListedHolder::new(NodeAddrs::new(holder.node, [holder.addr]))
}

fn reply(hits: &[(&SignedRecord, &[Holder])]) -> QueryReply {
    let hits = hits.iter().map(|(record, holders)| Hit {
        record: (*record).clone(),
        holders: List::first_of(holders.iter().map(listed)),
    });
    QueryReply { hits: List::first_of(hits), complete: true, messages: 1, ..QueryReply::default() }
}

#[test]
fn exactly_what_is_in_reach_is_right() {
    let (expected, holders, records) = expected();
    let judge = |file: usize, reply: &QueryReply| expected.judge(Ask::File(file), reply);
    // File 0 is held at indexers 0 and 1, file 2 at 1 and 2, file 4 at 2 and 0; 2 is out of reach.
    assert_eq!(judge(0, &reply(&[(&records[0], &[holders[1], holders[0]])])), Verdict::Right);
    assert_eq!(judge(2, &reply(&[(&records[2], &holders[1..2])])), Verdict::Right);
    assert_eq!(judge(4, &reply(&[(&records[4], &holders[..1])])), Verdict::Right);
    assert_eq!(expected.judge(Ask::Missing(0), &reply(&[])), Verdict::Right);
    assert!(expected.is_hit(Ask::File(5)) && !expected.is_hit(Ask::Missing(5)));
}

#[test]
fn anything_else_is_wrong_and_said_how() {
    let (expected, holders, records) = expected();
    let judge = |reply: &QueryReply| expected.judge(Ask::File(0), reply);
    assert_eq!(judge(&reply(&[])), Verdict::Missing);
    assert_eq!(judge(&reply(&[(&records[0], &holders[..1])])), Verdict::Missing);
    assert_eq!(judge(&reply(&[(&records[0], &holders)])), Verdict::Unexpected);
    let twice = (&records[0], &holders[..2]);
    assert_eq!(judge(&reply(&[twice, twice])), Verdict::Unexpected);
    assert_eq!(judge(&reply(&[(&records[1], &holders[..2])])), Verdict::Altered);
    let resigned = sign_record(&Identity::from_seed(&[9; 32]), "indexer-0/file-0.bin").to_signed();
    assert_eq!(judge(&reply(&[(&resigned, &holders[..2])])), Verdict::Altered);
    let elsewhere = Holder { addr: SocketAddr::from(([127, 0, 0, 1], 99)), ..holders[1] };
    assert_eq!(judge(&reply(&[(&records[0], &[holders[0], elsewhere])])), Verdict::Unexpected);
    assert_eq!(expected.judge(Ask::Missing(0), &reply(&[(&records[0], &holders[..2])])), Verdict::Unexpected);
    let partly = QueryReply { complete: false, ..reply(&[(&records[0], &holders[..2])]) };
    assert_eq!(judge(&partly), Verdict::Incomplete);
}
