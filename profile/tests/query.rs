//! The profiler measures a real cluster, and its checker notices a wrong answer.

use nekoproto::transport::Security;
use profile::{
    cluster::Cluster,
    run,
    scenario::{Scenario, Topology},
};

fn scenario(topology: Topology, ttl_hops: u8) -> Scenario {
    Scenario { indexers: 4, clients: 3, ttl_hops, requests: 40, topology, miss: 0.2, seed: 7 }
}

#[tokio::test]
async fn every_answer_is_right_in_every_topology() {
    for topology in [Topology::Mesh, Topology::Ring, Topology::Line] {
        let scenario = scenario(topology, 1);
        let cluster = Cluster::start(&scenario, Security::Insecure).await.unwrap();
        let samples = run::run(&scenario, &cluster).await.unwrap();
        assert_eq!((samples.hits_wrong, samples.errors), (0, 0), "{topology:?}");
        assert_eq!(samples.took.len(), 120);
        cluster.stop().await;
    }
}

#[tokio::test]
async fn an_expectation_that_does_not_fit_the_cluster_is_noticed() {
    let cluster = Cluster::start(&scenario(Topology::Line, 1), Security::Insecure).await.unwrap();
    // Expected are the answers of a mesh; the line cannot reach that far with one hop.
    let samples = run::run(&scenario(Topology::Mesh, 1), &cluster).await.unwrap();
    assert!(samples.hits_wrong > 0);
    cluster.stop().await;
}
