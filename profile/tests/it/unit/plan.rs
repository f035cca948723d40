//! Tests of `plan/`.

use std::{net::SocketAddr, sync::Arc};

use nekoproto::{Hit, Holder, Identity, List, ListedHolder, NodeAddrs, QueryReply, SignedRecord};
use profile::plan::{query::*, topology::*, workload::*};

/// A line of three indexers with two files each, held at two of them; asked from one end, one hop.
fn expected() -> (Expected, Vec<Holder>, Vec<SignedRecord>) {
    let load = Questions { files: 2, topology: Topology::Line, ..defaults() };
    let scenario = Query { indexers: 3, holders: 2, load, ..defaults() };
    let origins: Vec<Identity> = (0..3).map(|n| Identity::from_seed(&[n; 32])).collect();
    let holders: Vec<Holder> = origins
        .iter()
        .zip(1..)
        .map(|(origin, port)| Holder::new(origin.id(), SocketAddr::from(([127, 0, 0, 1], port))))
        .collect();
    let workload = Arc::new(Workload::new(&scenario, &origins));
    let expected = Expected::new(Arc::clone(&workload), &scenario.graph().unwrap(), 0, 1, &holders);
    (expected, holders, workload.records.clone())
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

fn refused(change: impl FnOnce(&mut Query)) -> String {
    let mut scenario = defaults::<Query>();
    change(&mut scenario);
    scenario.graph().unwrap_err().to_string()
}

#[test]
fn numbers_out_of_range_are_named() {
    assert!(defaults::<Query>().graph().is_ok());
    assert_eq!(refused(|s| s.indexers = 0), "the number of indexers must be 1 to 256, not 0");
    assert_eq!(refused(|s| s.clients = 0), "the number of clients must be 1 to 10000, not 0");
    assert_eq!(refused(|s| s.ttl_hops = 17), "the TTL must be 0 to 16, not 17");
    assert!(
        refused(|s| (s.indexers, s.holders) = (5, 6)).ends_with("holders of a file must be 1 to 5, not 6")
    );
    assert!(refused(|s| s.load.miss = 1.1).contains("1.1"));
    assert!(refused(|s| s.load.miss = f64::NAN).contains("NaN"));
    for rate in [0.0, -1.0, 1e-300, f64::INFINITY, f64::NAN] {
        assert!(refused(|s| s.load.rate = Some(rate)).contains("rate"), "{rate}");
    }
    assert!(refused(|s| (s.indexers, s.holders) = (20, 9)).contains("must be 1 to 8"));
    assert!(refused(|s| s.indexers = 66).contains("65 neighbors"));
    let endless = |s: &mut Query| (s.load.topology, s.load.degree) = (Topology::Random, usize::MAX);
    assert!(refused(endless).contains("degree"));
    assert!(refused(|s| s.load.requests = REQUESTS_MAX).contains("too many"));
    assert!(refused(|s| (s.clients, s.load.requests) = (10_000, usize::MAX / 2)).contains("requests"));
}

fn degrees(topology: Topology, indexers: usize) -> Vec<usize> {
    let graph = Graph::new(topology, indexers, 3, 1).unwrap();
    (0..indexers).map(|place| graph.neighbors(place).len()).collect()
}

fn reached(topology: Topology, ttl_hops: u8, from: usize) -> usize {
    let graph = Graph::new(topology, 10, 3, 1).unwrap();
    graph.reach(from, ttl_hops).into_iter().filter(|reached| *reached).count()
}

#[test]
fn topologies_have_the_links_they_should() {
    assert_eq!(degrees(Topology::Mesh, 4), [3, 3, 3, 3]);
    assert_eq!(degrees(Topology::Line, 4), [1, 2, 2, 1]);
    assert_eq!(degrees(Topology::Ring, 4), [2, 2, 2, 2]);
    assert_eq!(degrees(Topology::Ring, 2), [1, 1]);
    assert_eq!(degrees(Topology::Tree, 6), [2, 3, 2, 1, 1, 1]);
    for topology in [Topology::Mesh, Topology::Ring, Topology::Line, Topology::Tree] {
        assert_eq!(degrees(topology, 1), [0]);
    }
}

#[test]
fn reach_is_bounded_by_the_ttl() {
    assert_eq!(reached(Topology::Mesh, 0, 3), 1);
    assert_eq!(reached(Topology::Mesh, 1, 3), 10);
    assert_eq!(reached(Topology::Line, 2, 0), 3);
    assert_eq!(reached(Topology::Ring, 2, 0), 5);
    assert_eq!(reached(Topology::Tree, 1, 0), 3);
    assert_eq!(reached(Topology::Tree, 2, 0), 7);
}

#[test]
fn random_graphs_are_regular_connected_and_repeatable() {
    for seed in 0..50 {
        for (indexers, degree) in [(10, 3), (11, 4), (64, 2), (40, 7), (4, 3)] {
            let graph = Graph::new(Topology::Random, indexers, degree, seed).unwrap();
            assert!(graph.is_connected(), "seed {seed}");
            for place in 0..indexers {
                let mut neighbors = graph.neighbors(place).to_vec();
                neighbors.dedup();
                assert_eq!(neighbors.len(), degree, "seed {seed}");
                assert!(!neighbors.contains(&place), "seed {seed}");
            }
        }
    }
    let of_seed = |seed| Graph::new(Topology::Random, 20, 3, seed).unwrap();
    assert_eq!(of_seed(1), of_seed(1));
    assert_ne!(of_seed(1), of_seed(2));
}

#[test]
fn impossible_degrees_are_refused() {
    for (indexers, degree, why) in [
        (9, 3, "9 indexers of degree 3 cannot be: the product must be even"),
        (9, 1, "a degree of 1 connects nobody: at least 2 is needed"),
        (3, 3, "a degree of 3 is more than 3 indexers can have"),
    ] {
        let graph = Graph::new(Topology::Random, indexers, degree, 1);
        assert_eq!(graph.unwrap_err().to_string(), why);
    }
}

fn workload(scenario: &Query) -> Workload {
    let origins: Vec<Identity> =
        (0..scenario.indexers).map(|n| Identity::from_seed(&[u8::try_from(n).unwrap(); 32])).collect();
    Workload::new(scenario, &origins)
}

#[test]
fn each_file_is_registered_as_often_as_it_has_holders() {
    let load = Questions { files: 5, ..defaults() };
    let scenario = Query { indexers: 4, holders: 3, load, ..defaults() };
    let workload = workload(&scenario);
    let mut times = vec![0; workload.records.len()];
    for at in 0..4 {
        for record in workload.registered_at(at) {
            times[workload.records.iter().position(|known| *known == record).unwrap()] += 1;
        }
    }
    assert_eq!(times, [3; 20]);
    assert_eq!(workload.held_at(19).collect::<Vec<_>>(), [3, 0, 1]);
}

#[test]
fn draws_repeat_with_the_seed_differ_by_client_and_keep_the_share_of_misses() {
    let scenario = Query { load: Questions { miss: 0.25, ..defaults() }, ..defaults() };
    let asks = |client| {
        let mut draw = Draw::new(&scenario, client);
        (0..4000).map(|_| draw.ask()).collect::<Vec<_>>()
    };
    assert_eq!(asks(0), asks(0));
    assert_ne!(asks(0), asks(1));
    let misses = asks(0).iter().filter(|ask| matches!(ask, Ask::Missing(_))).count();
    assert!((900..1100).contains(&misses), "{misses} of 4000, seed {}", scenario.load.seed);
}
