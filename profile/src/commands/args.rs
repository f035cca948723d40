//! The arguments.

pub mod transfer;

use std::{net::SocketAddr, num::NonZeroUsize, path::PathBuf, sync::Arc};

use clap::{Args as ClapArgs, Parser, Subcommand};
use nekoindexer::{Routing, state::index::SESSION_NAMES_MAX, threads::THREADS_DEFAULT};
use nekoproto::{
    limits::{self, BATCH_MAX, CALLS_IN_FLIGHT_MAX, TTL_MAX},
    transport::Security,
};
use tokio::runtime::Handle;

use crate::{
    cluster::{layout::Layout, node::Kind, node::Place},
    instructions,
    plan::{scenario::Scenario, topology::Topology},
};

/// Limits of the indexer and its connections, as the parser wants them.
const NAMES_MAX: i64 = SESSION_NAMES_MAX as i64;
const CALLS_MAX: i64 = CALLS_IN_FLIGHT_MAX as i64;
const BATCHES_MAX: i64 = BATCH_MAX as i64;
const CONNECTIONS_MAX: i64 = limits::CONNECTIONS_MAX as i64;

/// Measures nekop2p, and checks every answer while doing so.
///
/// Exit codes: 0 done; 1 something regressed; 2 wrong usage, or it could not begin; 3 anything else, a wrong
/// answer and Ctrl-C among it.
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
    /// Response time of queries in one scenario
    Query(Query),
    /// The round trips that no query can be faster than, in every layout of threads
    Floor(Floor),
    /// One indexer: registrations, lookups, memory, beside the index without a network
    Index(Index),
    /// All goals of the search in one run: what is aimed at, what was measured, reached or missed
    Goals(Goals),
    /// Many connections to one indexer, few of them busy: what an idle one costs, and whether all are served
    Connections(Connections),
    /// The whole table of scenarios, from 1 indexer and 1 client to 10 indexers and 30 clients with 7 hops
    Matrix(Matrix),
    /// Files from peer to peer: how fast beside a plain copy, what it takes, from whom
    Transfer(Box<transfer::Transfer>),
    /// Two results beside each other; exit code 1 if the second is worse
    Compare(Compare),
    /// Instructions of the hot functions, counted by valgrind and compared with the recorded numbers
    Instructions(Instructions),
    /// A process of a cluster; started by the others
    #[command(hide = true)]
    Serve(Serve),
    /// A node of a transfer; started by the others
    #[command(hide = true)]
    TransferNode(transfer::TransferNode),
}

/// How indexers and clients are run.
#[derive(Clone, Debug, ClapArgs)]
pub struct Setup {
    /// Which threads run what
    #[arg(long, default_value = "one")]
    pub layout: Layout,
    /// Each indexer a process of its own
    #[arg(long, conflicts_with = "layout")]
    pub processes: bool,
    /// Plain TCP instead of TLS
    #[arg(long)]
    pub insecure: bool,
    /// Whom indexers send queries to
    #[arg(long, default_value = "summary")]
    pub routing: Routing,
    /// Threads of each indexer that is a process of its own
    #[arg(long, value_name = "N", default_value_t = THREADS_DEFAULT)]
    pub threads: NonZeroUsize,
    /// The n-th indexer listens on this port plus n [default: free ones]
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    pub port: u16,
}

impl Setup {
    /// Which threads run what.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        if self.processes { Layout::Processes } else { self.layout }
    }

    /// How nodes are run, those of this process on `runtimes`.
    #[must_use]
    pub const fn place(&self, runtimes: Arc<[Handle]>) -> Place {
        Place {
            layout: self.layout(),
            security: security(self.insecure),
            routing: self.routing,
            port: self.port,
            threads: self.threads,
            runtimes,
        }
    }
}

/// TLS, or plain TCP.
#[must_use]
pub const fn security(insecure: bool) -> Security {
    if insecure { Security::Insecure } else { Security::Tls }
}

/// A share that a figure may be off by.
fn tolerance(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share: &f64| share.is_finite() && *share >= 0.0);
    share.ok_or_else(|| "the tolerance is a share of at least 0, such as 0.1".to_owned())
}

/// What clients ask.
#[derive(Clone, Debug, ClapArgs)]
pub struct Load {
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

impl Load {
    /// A scenario of one indexer and one client with this load.
    #[must_use]
    pub const fn scenario(&self) -> Scenario {
        Scenario {
            indexers: 1,
            clients: 1,
            ttl_hops: 0,
            requests: self.requests,
            warm_up: self.warm_up,
            topology: self.topology,
            degree: self.degree,
            miss: self.miss,
            files: self.files,
            holders: 1,
            rate: self.rate,
            seed: self.seed,
        }
    }
}

/// Response time of queries in one scenario.
#[derive(Clone, Debug, ClapArgs)]
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
    /// Peers that hold each file, each at another indexer
    #[arg(long, default_value_t = 1)]
    pub holders: usize,
    /// What clients ask.
    #[command(flatten)]
    pub load: Load,
    /// How it is run.
    #[command(flatten)]
    pub setup: Setup,
    /// Draw scatter and histogram into this folder, as SVG and PNG
    #[arg(long, value_name = "DIR")]
    pub plot: Option<PathBuf>,
    /// Write the results into this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write every single request into this file
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
}

impl Query {
    /// What to run.
    #[must_use]
    pub const fn scenario(&self) -> Scenario {
        let (indexers, clients) = (self.indexers, self.clients);
        Scenario { indexers, clients, ttl_hops: self.ttl, holders: self.holders, ..self.load.scenario() }
    }
}

/// The floors.
#[derive(Clone, Debug, ClapArgs)]
pub struct Floor {
    /// Write the results into this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// One indexer.
#[derive(Clone, Debug, ClapArgs)]
pub struct Index {
    /// Names registered, one row of memory and throughput for each
    #[arg(long, value_delimiter = ',', default_value = "10000,100000,1000000",
          value_parser = clap::value_parser!(u32).range(100..=NAMES_MAX))]
    pub names: Vec<u32>,
    /// Calls in flight at once, one row of lookups for each
    #[arg(long, value_delimiter = ',', default_value = "1,4,16,64,256", value_parser = clap::value_parser!(u16).range(1..=CALLS_MAX))]
    pub depths: Vec<u16>,
    /// Records in one registration, one row for each
    #[arg(long, value_delimiter = ',', default_value = "1,10,100", value_parser = clap::value_parser!(u8).range(1..=BATCHES_MAX))]
    pub batches: Vec<u8>,
    /// Registrations of a peer that leaves, one row for each
    #[arg(long, value_delimiter = ',', default_value = "100000",
          value_parser = clap::value_parser!(u32).range(100..=NAMES_MAX))]
    pub leave: Vec<u32>,
    /// Lookups of each row
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    pub lookups: u32,
    /// Threads of the indexer
    #[arg(long, value_name = "N", default_value_t = THREADS_DEFAULT)]
    pub threads: NonZeroUsize,
    /// Plain TCP instead of TLS
    #[arg(long)]
    pub insecure: bool,
    /// Seed of the key that signs the names
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Write the results into this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Many connections.
#[derive(Clone, Debug, ClapArgs)]
pub struct Connections {
    /// Connections, each of a peer of its own
    #[arg(short = 'n', long, default_value_t = 10_000, value_parser = clap::value_parser!(u16).range(1..=CONNECTIONS_MAX))]
    pub connections: u16,
    /// How many of them look names up
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=CONNECTIONS_MAX))]
    pub active: u16,
    /// Lookups of each of these
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub lookups: u32,
    /// Threads of the indexer
    #[arg(long, value_name = "N", default_value_t = THREADS_DEFAULT)]
    pub threads: NonZeroUsize,
    /// Plain TCP instead of TLS
    #[arg(long)]
    pub insecure: bool,
    /// Write the results into this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// All goals.
#[derive(Clone, Debug, ClapArgs)]
pub struct Goals {
    /// Requests of each client
    #[arg(short = 'n', long, default_value_t = 3000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub requests: u32,
    /// Names that one indexer grows to, a row for each
    #[arg(long, value_delimiter = ',', default_value = "10000,100000,1000000",
          value_parser = clap::value_parser!(u32).range(100..=NAMES_MAX))]
    pub names: Vec<u32>,
    /// Connections to one indexer
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u16).range(1..=CONNECTIONS_MAX))]
    pub connections: u16,
    /// Registrations of a peer that leaves
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(100..=NAMES_MAX))]
    pub leave: u32,
    /// Write the results into this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// The whole table.
#[derive(Clone, Debug, ClapArgs)]
pub struct Matrix {
    /// What clients ask.
    #[command(flatten)]
    pub load: Load,
    /// How it is run.
    #[command(flatten)]
    pub setup: Setup,
    /// Draw scatter and histogram of each row, and how they scale, into this folder
    #[arg(long, value_name = "DIR")]
    pub plot: Option<PathBuf>,
    /// Write the results into this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Two results.
#[derive(Clone, Debug, ClapArgs)]
pub struct Compare {
    /// The result before
    pub before: PathBuf,
    /// The result after
    pub after: PathBuf,
    /// By how much a figure may be worse, as a share
    #[arg(long, default_value_t = 0.1, value_parser = tolerance)]
    pub tolerance: f64,
    /// Count times in floors of their own run: for results of different machines, or of a noisy one
    #[arg(long)]
    pub per_floor: bool,
}

/// Instructions of the hot functions.
#[derive(Clone, Debug, ClapArgs)]
pub struct Instructions {
    /// Record what is counted instead of comparing with what is recorded
    #[arg(long, conflicts_with = "count")]
    pub record: bool,
    /// File of the recorded numbers
    #[arg(long, value_name = "FILE", default_value = instructions::RECORDED)]
    pub recorded: PathBuf,
    /// By how much a function may exceed its recorded number, as a share
    #[arg(long, default_value_t = 0.05, value_parser = tolerance)]
    pub tolerance: f64,
    /// Run one function and count nothing; started by the others, under valgrind
    #[arg(long, hide = true, requires = "times")]
    pub count: Option<instructions::Hot>,
    /// How often
    #[arg(long, hide = true)]
    pub times: Option<u32>,
}

/// A process of a cluster.
#[derive(Clone, Debug, ClapArgs)]
pub struct Serve {
    /// What to be
    pub kind: Kind,
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// An indexer to forward to
    #[arg(long)]
    pub neighbor: Vec<SocketAddr>,
    /// Whom to send queries to
    #[arg(long, default_value = "summary")]
    pub routing: Routing,
    /// Its threads
    #[arg(long, value_name = "N", default_value_t = THREADS_DEFAULT)]
    pub threads: NonZeroUsize,
    /// Plain TCP instead of TLS
    #[arg(long)]
    pub insecure: bool,
}
