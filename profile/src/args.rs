//! The arguments.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use nekoproto::{limits::TTL_MAX, transport::Security};

use crate::scenario::{Scenario, Topology};

/// Measures nekop2p, and checks every answer while doing so.
#[derive(Debug, Parser)]
#[command(name = "profile", version)]
pub struct Args {
    /// What to measure.
    #[command(subcommand)]
    pub command: Command,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Response time of queries
    Query(Query),
}

/// Response time of queries.
#[derive(Clone, Debug, clap::Args)]
pub struct Query {
    /// Indexers
    #[arg(short, long, default_value_t = 10)]
    pub indexers: usize,
    /// Clients, spread over the indexers
    #[arg(short, long, default_value_t = 1)]
    pub clients: usize,
    /// Hops of each query
    #[arg(short = 'q', long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=i64::from(TTL_MAX)))]
    pub ttl: u8,
    /// Measured requests of each client
    #[arg(short = 'n', long, default_value_t = 1000)]
    pub requests: usize,
    /// How the indexers are linked
    #[arg(long, default_value = "mesh")]
    pub topology: Topology,
    /// Share of queries for names that nobody has
    #[arg(long, default_value_t = 0.1)]
    pub miss: f64,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Plain TCP instead of TLS
    #[arg(long)]
    pub insecure: bool,
    /// Write scatter and histogram (SVG) into this folder
    #[arg(long, value_name = "DIR")]
    pub plot: Option<PathBuf>,
    /// Write the results into this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

impl Query {
    /// What to run.
    ///
    /// # Errors
    /// A value that makes no scenario.
    pub fn scenario(&self) -> anyhow::Result<Scenario> {
        anyhow::ensure!(self.indexers > 0, "at least one indexer is needed");
        anyhow::ensure!(self.clients > 0, "at least one client is needed");
        anyhow::ensure!(self.requests > 0, "at least one request is needed");
        anyhow::ensure!((0.0..=1.0).contains(&self.miss), "--miss is a share between 0 and 1");
        Ok(Scenario {
            indexers: self.indexers,
            clients: self.clients,
            ttl_hops: self.ttl,
            requests: self.requests,
            topology: self.topology,
            miss: self.miss,
            seed: self.seed,
        })
    }

    /// TLS, or plain TCP.
    #[must_use]
    pub const fn security(&self) -> Security {
        if self.insecure { Security::Insecure } else { Security::Tls }
    }
}
