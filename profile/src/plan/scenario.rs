//! What to run: the numbers of one measurement, checked. Pure.

use anyhow::ensure;
use nekoindexer::config::NEIGHBORS_MAX;
use nekoproto::limits::{HOLDERS_OF_NEIGHBOR_MAX, TTL_MAX};

use crate::plan::topology::{Graph, Topology};

/// Indexers of one scenario; more would measure this machine's scheduler.
pub const INDEXERS_MAX: usize = 256;
/// Clients of one scenario, each with a connection of its own.
pub const CLIENTS_MAX: usize = 10_000;
/// Requests of one run, of all clients together, warm-up included: each leaves a sample.
pub const REQUESTS_MAX: usize = 20_000_000;
/// Files of one cluster: each is signed before a run.
pub const FILES_MAX: usize = 200_000;
/// Queries per second of an open loop.
pub const RATE_MIN: f64 = 0.001;
pub(crate) const RATE_MAX: f64 = 10_000_000.0;

/// One measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Number of indexers.
    pub indexers: usize,
    /// Clients; the n-th asks indexer n modulo their number.
    pub clients: usize,
    /// Hops of each query.
    pub ttl_hops: u8,
    /// Measured requests of each client.
    pub requests: usize,
    /// Requests of each client before the measured ones.
    pub warm_up: usize,
    /// How the indexers are linked.
    pub topology: Topology,
    /// Neighbors of each indexer in the random topology.
    pub degree: usize,
    /// Share of queries for names that nobody has, 0 to 1.
    pub miss: f64,
    /// Files registered with each indexer by its own peer.
    pub files: usize,
    /// Peers that hold each file, each at another indexer.
    pub holders: usize,
    /// Queries per second of all clients together, begun whether or not earlier ones are answered;
    /// `None`: each client waits for its answer before it asks again.
    pub rate: Option<f64>,
    /// Seconds for which the indexers are left alone and measured before anybody asks; 0: not at all.
    pub idle_s: u32,
    /// Seed of keys, questions and the random topology.
    pub seed: u64,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            indexers: 10,
            clients: 1,
            ttl_hops: 1,
            requests: 1000,
            warm_up: 100,
            topology: Topology::Mesh,
            degree: 3,
            miss: 0.1,
            files: 16,
            holders: 1,
            rate: None,
            idle_s: 0,
            seed: 1,
        }
    }
}

impl Scenario {
    /// Checks the numbers and draws the links; the first number that is wrong is the error.
    pub fn graph(&self) -> anyhow::Result<Graph> {
        let ranges = [
            ("the number of indexers", 1, INDEXERS_MAX, self.indexers),
            ("the number of clients", 1, CLIENTS_MAX, self.clients),
            ("the number of requests", 1, REQUESTS_MAX, self.requests),
            ("the TTL", 0, usize::from(TTL_MAX), usize::from(self.ttl_hops)),
            ("the number of files per indexer", 1, FILES_MAX / self.indexers.max(1), self.files),
            ("the number of holders of a file", 1, self.indexers.min(HOLDERS_OF_NEIGHBOR_MAX), self.holders),
        ];
        for (what, least, most, is) in ranges {
            ensure!((least..=most).contains(&is), "{what} must be {least} to {most}, not {is}");
        }
        let (all, miss) =
            (self.requests.saturating_add(self.warm_up).saturating_mul(self.clients), self.miss);
        let together = "of all clients together";
        ensure!(
            all <= REQUESTS_MAX,
            "{all} requests are too many for one run: at most {REQUESTS_MAX}, {together}"
        );
        ensure!((0.0..=1.0).contains(&miss), "the share of misses must be 0 to 1, not {miss}");
        if let Some(rate) = self.rate {
            let is_possible = (RATE_MIN..=RATE_MAX).contains(&rate);
            ensure!(is_possible, "the rate must be {RATE_MIN} to {RATE_MAX} queries per second, not {rate}");
        }
        let graph = Graph::new(self.topology, self.indexers, self.degree, self.seed)?;
        let named = (0..self.indexers).map(|place| graph.names_as_neighbors(place).len()).max().unwrap_or(0);
        ensure!(
            named <= NEIGHBORS_MAX,
            "an indexer would name {named} neighbors, at most {NEIGHBORS_MAX} can be"
        );
        Ok(graph)
    }

    /// `indexers/clients/ttl`, as the results are known.
    pub fn name(&self) -> String {
        format!("{}/{}/{}", self.indexers, self.clients, self.ttl_hops)
    }

    /// Measured requests of all clients together.
    pub const fn requests_of_all(&self) -> usize {
        self.requests * self.clients
    }

    /// The indexer that the n-th client asks.
    pub const fn place_of(&self, client: usize) -> usize {
        client % self.indexers
    }
}
