//! Tests of `plan/scenario.rs`.

use profile::plan::scenario::*;
use profile::plan::topology::Topology;

fn refused(change: impl FnOnce(&mut Scenario)) -> String {
    let mut scenario = Scenario::default();
    change(&mut scenario);
    scenario.graph().unwrap_err().to_string()
}

#[test]
fn numbers_out_of_range_are_named() {
    assert!(Scenario::default().graph().is_ok());
    assert_eq!(refused(|s| s.indexers = 0), "the number of indexers must be 1 to 256, not 0");
    assert_eq!(refused(|s| s.clients = 0), "the number of clients must be 1 to 10000, not 0");
    assert_eq!(refused(|s| s.ttl_hops = 17), "the TTL must be 0 to 16, not 17");
    assert_eq!(
        refused(|s| (s.indexers, s.holders) = (5, 6)),
        "the number of holders of a file must be 1 to 5, not 6"
    );
    assert!(refused(|s| s.load.miss = 1.1).contains("1.1"));
    assert!(refused(|s| s.load.miss = f64::NAN).contains("NaN"));
    for rate in [0.0, -1.0, 1e-300, f64::INFINITY, f64::NAN] {
        assert!(refused(|s| s.load.rate = Some(rate)).contains("rate"), "{rate}");
    }
    assert!(refused(|s| (s.indexers, s.holders) = (20, 9)).contains("must be 1 to 8"));
    assert!(refused(|s| s.indexers = 66).contains("65 neighbors"));
    assert!(
        refused(|s| (s.load.topology, s.load.degree) = (Topology::Random, usize::MAX)).contains("degree")
    );
    assert!(refused(|s| s.load.requests = REQUESTS_MAX).contains("too many"));
    assert!(refused(|s| (s.clients, s.load.requests) = (10_000, usize::MAX / 2)).contains("requests"));
}
