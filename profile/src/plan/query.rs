//! What to run: the numbers of one measurement, checked. Pure.

use clap::Command;
use nekoindexer::config::NEIGHBORS_MAX;
use nekoproto::limits::{HOLDERS_OF_NEIGHBOR_MAX, TTL_MAX};

use crate::plan::topology::{Graph, Topology};
use crate::prelude::*;

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

/// What to run, as the command line says it.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct Query {
    /// Indexers
    #[arg(short, long, default_value_t = 10)]
    pub indexers: usize,
    /// Clients, spread over the indexers
    #[arg(short, long, default_value_t = 1)]
    pub clients: usize,
    /// Hops of each query
    #[arg(short = 'q', long = "ttl", value_name = "TTL", default_value_t = 1,
        value_parser = clap::value_parser!(u8).range(0..=i64::from(TTL_MAX)))]
    pub ttl_hops: u8,
    /// Peers that hold each file, each at another indexer
    #[arg(long, default_value_t = 1)]
    pub holders: usize,
    /// What clients ask.
    #[command(flatten)]
    pub load: Questions,
    /// Seconds for which nobody asks anything at first: what the indexers take then
    #[arg(long = "idle", value_name = "S", default_value_t = 0)]
    pub idle_s: u32,
}

/// What clients ask.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct Questions {
    /// Measured requests of each client
    #[arg(short = 'n', long, default_value_t = 1000)]
    pub requests: usize,
    /// Requests of each client before those
    #[arg(long, default_value_t = 100)]
    pub warm_up: usize,
    /// How the indexers are linked
    #[arg(long, default_value = "mesh")]
    pub topology: Topology,
    /// Neighbors of each indexer in the random topology
    #[arg(long, default_value_t = 3)]
    pub degree: usize,
    /// Share of queries for names that nobody has
    #[arg(long, default_value_t = 0.1)]
    pub miss: f64,
    /// Files registered with each indexer
    #[arg(long, default_value_t = 16)]
    pub files: usize,
    /// Queries per second of all clients together, begun whether or not earlier ones are answered; without it
    /// each client waits for its answer
    #[arg(long, value_name = "PER_S")]
    pub rate: Option<f64>,
    /// Seed of files, questions and the random topology
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Options of which each has its default.
#[expect(clippy::expect_used, reason = "every option has a default")]
pub fn defaults<T: Args>() -> T {
    let matches = T::augment_args(Command::new("")).get_matches_from([""]);
    T::from_arg_matches(&matches).expect("defaults")
}

impl Query {
    /// Checks the numbers and draws the links; the first number that is wrong is the error.
    pub fn graph(&self) -> Result<Graph> {
        let ranges = [
            ("the number of indexers", 1, INDEXERS_MAX, self.indexers),
            ("the number of clients", 1, CLIENTS_MAX, self.clients),
            ("the number of requests", 1, REQUESTS_MAX, self.load.requests),
            ("the TTL", 0, usize::from(TTL_MAX), usize::from(self.ttl_hops)),
            ("the number of files per indexer", 1, FILES_MAX / self.indexers.max(1), self.load.files),
            ("the number of holders of a file", 1, self.indexers.min(HOLDERS_OF_NEIGHBOR_MAX), self.holders),
        ];
        for (what, least, most, is) in ranges {
            ensure!((least..=most).contains(&is), "{what} must be {least} to {most}, not {is}");
        }
        let &Questions { requests, warm_up, topology, degree, miss, rate, seed, .. } = &self.load;
        let all = requests.saturating_add(warm_up).saturating_mul(self.clients);
        let many = "requests are too many for one run: at most";
        ensure!(all <= REQUESTS_MAX, "{all} {many} {REQUESTS_MAX}, of all clients together");
        ensure!((0.0..=1.0).contains(&miss), "the share of misses must be 0 to 1, not {miss}");
        if let Some(rate) = rate {
            let is_possible = (RATE_MIN..=RATE_MAX).contains(&rate);
            ensure!(is_possible, "the rate must be {RATE_MIN} to {RATE_MAX} queries per second, not {rate}");
        }
        let graph = Graph::new(topology, self.indexers, degree, seed)?;
        let named = (0..self.indexers).map(|place| graph.neighbors(place).len()).max().unwrap_or(0);
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

    pub const fn requests_of_all(&self) -> usize {
        self.load.requests * self.clients
    }
}
