//! Tests of `plan/workload.rs`.

use nekoproto::Identity;
use profile::plan::scenario::{Load, Scenario};
use profile::plan::workload::*;

fn workload(scenario: &Scenario) -> Workload {
    let origins: Vec<Identity> =
        (0..scenario.indexers).map(|n| Identity::from_seed(&[u8::try_from(n).unwrap(); 32])).collect();
    Workload::new(scenario, &origins)
}

#[test]
fn each_file_is_registered_as_often_as_it_has_holders() {
    let load = Load { files: 5, ..Load::default() };
    let scenario = Scenario { indexers: 4, holders: 3, load, ..Scenario::default() };
    let workload = workload(&scenario);
    let mut times = vec![0; workload.records().len()];
    for at in 0..4 {
        for record in workload.registered_at(at) {
            times[workload.records().iter().position(|known| *known == record).unwrap()] += 1;
        }
    }
    assert_eq!(times, [3; 20]);
    assert_eq!(workload.held_at(19).collect::<Vec<_>>(), [3, 0, 1]);
}

#[test]
fn draws_repeat_with_the_seed_differ_by_client_and_keep_the_share_of_misses() {
    let scenario = Scenario { load: Load { miss: 0.25, ..Load::default() }, ..Scenario::default() };
    let asks = |client| {
        let mut draw = Draw::new(&scenario, client);
        (0..4000).map(|_| draw.ask()).collect::<Vec<_>>()
    };
    assert_eq!(asks(0), asks(0));
    assert_ne!(asks(0), asks(1));
    let misses = asks(0).iter().filter(|ask| matches!(ask, Ask::Missing(_))).count();
    assert!((900..1100).contains(&misses), "{misses} of 4000, seed {}", scenario.load.seed);
}
