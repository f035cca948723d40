//! Tests of `cluster/layout.rs`.

use profile::cluster::layout::cores;
use profile::cluster::layout::*;
use std::thread;

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
