//! Tests of `plan/topology.rs`.

use profile::plan::topology::*;

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
    let graph = |indexers, degree| Graph::new(Topology::Random, indexers, degree, 1);
    assert_eq!(graph(9, 3), Err(TopologyError::OddEnds(9, 3)));
    assert_eq!(graph(9, 1), Err(TopologyError::DegreeTooSmall(1)));
    assert_eq!(graph(3, 3), Err(TopologyError::DegreeTooLarge(3, 3)));
}
