//! The profiler measures real clusters, and its checker notices every kind of wrong answer.

use std::{sync::Arc, thread, time::Duration};

use nekoproto::{FileName, Identity, transport::Security};
use profile::{
    cluster::{Cluster, client::Client, deployment::Deployment, layout::Layout},
    plan::{query::Query, query::Questions, query::defaults, topology::Topology, workload::Verdict},
    run::{
        Watch, connect, run,
        samples::{Failure, Samples},
    },
};
use tarpc::context;
use tokio::runtime::Handle;

fn deployment() -> Deployment {
    Deployment::new(Layout::Shared, Security::Insecure, [Handle::current()].into(), Arc::default())
}

fn scenario() -> Query {
    let load = Questions { requests: 40, warm_up: 5, miss: 0.2, seed: 7, ..defaults() };
    Query { indexers: 4, clients: 3, load, ..defaults() }
}

fn loaded(change: impl FnOnce(&mut Questions)) -> Query {
    let mut scenario = scenario();
    change(&mut scenario.load);
    scenario
}

async fn measured(scenario: &Query, cluster: &Cluster) -> Samples {
    watched(scenario, cluster, &Arc::default()).await
}

async fn watched(scenario: &Query, cluster: &Cluster, watch: &Arc<Watch>) -> Samples {
    let clients = connect(scenario, cluster, watch).await.unwrap();
    run(scenario, clients, watch).await.unwrap()
}

/// Starts a cluster, lets `spoil` change it, and returns what the checker says then.
async fn spoiled(spoil: impl AsyncFnOnce(&Cluster) -> Option<Client>) -> Vec<Verdict> {
    let scenario = loaded(|load| (load.miss, load.files) = (0.0, 1));
    let cluster = Cluster::start(&scenario, &deployment()).await.unwrap();
    assert!(measured(&scenario, &cluster).await.wrong().is_empty());
    let _connected = spoil(&cluster).await;
    let samples = measured(&scenario, &cluster).await;
    assert!(samples.failures().is_empty());
    cluster.stop().await;
    samples.wrong().into_keys().collect()
}

#[testkit::test]
async fn every_answer_is_right_in_every_topology() {
    for topology in [Topology::Mesh, Topology::Ring, Topology::Line, Topology::Tree, Topology::Random] {
        for (ttl_hops, holders) in [(1, 1), (2, 2)] {
            let scenario =
                Query { indexers: 6, ttl_hops, holders, ..loaded(|load| load.topology = topology) };
            let cluster = Cluster::start(&scenario, &deployment()).await.unwrap();
            let samples = measured(&scenario, &cluster).await;
            assert!(samples.wrong().is_empty() && samples.failures().is_empty(), "{topology:?} {ttl_hops}");
            assert_eq!((samples.answered(), samples.warm_up_figures().count), (120, 15));
            assert!(samples.hits() > 20, "{topology:?}: {} hits", samples.hits());
            cluster.stop().await;
        }
    }
}

#[testkit::test]
async fn a_holder_too_many_is_noticed() {
    let verdicts = spoiled(async |cluster| {
        let copy = cluster.net.client(1, Identity::generate()).await.unwrap();
        copy.register(cluster.workload.records[..1].to_vec()).await.unwrap();
        Some(copy)
    });
    assert_eq!(verdicts.await, [Verdict::Unexpected]);
}

#[testkit::test]
async fn an_open_loop_begins_every_request_at_its_time() {
    let scenario = loaded(|load| load.rate = Some(2000.0));
    let cluster = Cluster::start(&scenario, &deployment()).await.unwrap();
    let samples = measured(&scenario, &cluster).await;
    cluster.stop().await;
    assert!(samples.wrong().is_empty() && samples.failures().is_empty());
    assert_eq!(samples.answered(), 120);
    let mut begun: Vec<u128> = samples.measured.iter().map(|sample| sample.begun.as_micros()).collect();
    begun.sort_unstable();
    assert_eq!(begun, (0..120).map(|n| n * 500).collect::<Vec<_>>());
    assert!(samples.measured.iter().all(|sample| sample.took >= sample.late));
}

/// Everything here is on one thread; while that is held up, requests fall due and cannot be sent.
#[testkit::test]
async fn times_of_an_open_loop_count_from_when_requests_were_due() {
    const HELD_UP: Duration = Duration::from_millis(150);
    let load = |load: &mut Questions| (load.rate, load.requests, load.warm_up) = (Some(1000.0), 1000, 0);
    let scenario = Query { clients: 1, ..loaded(load) };
    let cluster = Cluster::start(&scenario, &deployment()).await.unwrap();
    let watch = Arc::new(Watch::default());
    let holding_up = Arc::clone(&watch);
    tokio::spawn(async move {
        while holding_up.done() < 20 {
            tokio::task::yield_now().await;
        }
        thread::sleep(HELD_UP); // the point: it blocks
    });
    let samples = watched(&scenario, &cluster, &watch).await;
    cluster.stop().await;
    let late: Vec<_> = samples.measured.iter().filter(|sample| sample.late > HELD_UP / 3).collect();
    assert!(late.len() >= 50, "{} requests were late", late.len());
    assert!(late.iter().all(|sample| sample.took >= sample.late));
    assert!(samples.figures().max >= 100_000.0, "the longest took {} us", samples.figures().max);
}

#[testkit::test]
async fn an_indexer_that_is_gone_is_a_failure_and_no_answer() {
    let cluster = Cluster::start(&scenario(), &deployment()).await.unwrap();
    let client = cluster.net.client(0, Identity::generate()).await.unwrap();
    cluster.stop().await;
    let request = profile::cluster::request(&FileName::new("a").unwrap(), 0);
    let failure = client.calls.query(context::current(), request).await.unwrap_err();
    assert_eq!(Failure::from(failure), Failure::ConnectionLost);
}
