//! What to run and what must come out of it. Pure.

use std::collections::VecDeque;

use clap::ValueEnum;

/// How the indexers are linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Topology {
    /// Everybody with everybody.
    Mesh,
    /// Each with the next, the last with the first.
    Ring,
    /// Each with the next.
    Line,
}

/// One measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Indexers.
    pub indexers: usize,
    /// Clients; the n-th asks indexer n modulo their number.
    pub clients: usize,
    /// Hops of each query.
    pub ttl_hops: u8,
    /// Measured requests of each client.
    pub requests: usize,
    /// How the indexers are linked.
    pub topology: Topology,
    /// Share of queries for names that nobody has.
    pub miss: f64,
    /// Seed of everything random.
    pub seed: u64,
}

impl Scenario {
    /// `indexers/clients/ttl`, as the results are known.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}/{}", self.indexers, self.clients, self.ttl_hops)
    }

    /// The indexers that indexer `place` names as its neighbors: each pair is named once.
    #[must_use]
    pub fn names_as_neighbors(&self, place: usize) -> Vec<usize> {
        match self.topology {
            Topology::Mesh => (0..place).collect(),
            Topology::Line => place.checked_sub(1).into_iter().collect(),
            Topology::Ring if place > 1 && place + 1 == self.indexers => vec![place - 1, 0],
            Topology::Ring => place.checked_sub(1).into_iter().collect(),
        }
    }

    /// How many neighbors each indexer ends up with.
    #[must_use]
    pub fn degrees(&self) -> Vec<usize> {
        self.links().iter().map(Vec::len).collect()
    }

    fn links(&self) -> Vec<Vec<usize>> {
        let mut links = vec![Vec::new(); self.indexers];
        for place in 0..self.indexers {
            for neighbor in self.names_as_neighbors(place) {
                links[place].push(neighbor);
                links[neighbor].push(place);
            }
        }
        links
    }

    /// Whether a query that starts at indexer `from` must find what indexer `at` lists.
    #[must_use]
    pub fn reaches(&self, from: usize) -> Vec<bool> {
        let links = self.links();
        let mut hops = vec![None; self.indexers];
        hops[from] = Some(0u8);
        let mut queue = VecDeque::from([(from, 0u8)]);
        while let Some((place, distance)) = queue.pop_front() {
            if distance == self.ttl_hops {
                continue;
            }
            for neighbor in &links[place] {
                if hops[*neighbor].is_none() {
                    hops[*neighbor] = Some(distance + 1);
                    queue.push_back((*neighbor, distance + 1));
                }
            }
        }
        hops.iter().map(Option::is_some).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(topology: Topology, indexers: usize, ttl_hops: u8) -> Scenario {
        Scenario { indexers, clients: 1, ttl_hops, requests: 1, topology, miss: 0.0, seed: 0 }
    }

    fn reached(scenario: &Scenario, from: usize) -> usize {
        scenario.reaches(from).into_iter().filter(|reached| *reached).count()
    }

    #[test]
    fn topologies_have_the_links_they_should() {
        assert_eq!(scenario(Topology::Mesh, 4, 1).degrees(), [3, 3, 3, 3]);
        assert_eq!(scenario(Topology::Line, 4, 1).degrees(), [1, 2, 2, 1]);
        assert_eq!(scenario(Topology::Ring, 4, 1).degrees(), [2, 2, 2, 2]);
        assert_eq!(scenario(Topology::Ring, 2, 1).degrees(), [1, 1]);
        assert_eq!(scenario(Topology::Ring, 1, 1).degrees(), [0]);
    }

    #[test]
    fn reach_is_bounded_by_the_ttl() {
        assert_eq!(reached(&scenario(Topology::Mesh, 10, 0), 3), 1);
        assert_eq!(reached(&scenario(Topology::Mesh, 10, 1), 3), 10);
        assert_eq!(reached(&scenario(Topology::Line, 10, 2), 0), 3);
        assert_eq!(reached(&scenario(Topology::Ring, 10, 2), 0), 5);
    }
}
