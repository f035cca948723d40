//! The arguments.

pub(crate) mod transfer;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use clap::{Args as ClapArgs, Parser, Subcommand};

pub(crate) use self::transfer::Transfer;
use crate::compare::{Rule, tolerance};
use crate::outcome::{Begin, Fault};
use crate::report::outputs::Outputs;
use crate::run::setup::{Connecting, Setup};
use crate::{
    batch, connections, consistency, goals, hostile, index, instructions, load, pipeline,
    plan::scenario::Load, plan::scenario::Scenario, relay, soak,
};

/// Measures nekop2p, and checks every answer while doing so.
///
/// Exit codes: 0 done; 1 something regressed; 2 wrong usage, or it could not begin; 3 anything else, a wrong
/// answer and Ctrl-C among it.
#[derive(Debug, Parser)]
#[command(name = "profile", version)]
pub struct Args {
    /// What to measure.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Response time of queries in one scenario
    Query(Run<Scenario, Setup, Detailed>),
    /// The round trips that no query can be faster than, in every layout of threads
    Floor(Output),
    /// One indexer: registrations, lookups, memory, beside the index without a network
    Index(Run<index::Options, Connecting, Output>),
    /// All goals of the search in one run: what is aimed at, what was measured, reached or missed
    Goals(Run<goals::search::Options, (), Output>),
    /// Many connections to one indexer, few of them busy: what an idle one costs, and whether all are served
    Connections(Run<connections::Options, Connecting, Output>),
    /// The whole table of scenarios, from 1 indexer and 1 client to 10 indexers and 30 clients with 7 hops
    Matrix(Run<Load, Setup, Drawn>),
    /// Files from peer to peer: how fast beside a plain copy, what it takes, from whom
    Transfer(Box<Transfer>),
    /// Attacks: what honest clients see before, during and after, and what the attacked node takes
    Hostile(Run<hostile::Options, Connecting, Drawn>),
    /// A small network for a long time, and whether memory, descriptors or threads of a process grow
    Soak(Run<soak::Options, Connecting, Drawn>),
    /// Messages down a line of three indexers: rates, what waits, what is lost, and what logging costs
    Pipeline(Run<pipeline::Options, Connecting, Drawn>),
    /// Names registered and looked up between processes, by names in a call, beside the same without a network
    Batch(Run<batch::Options, Connecting, Drawn>),
    /// Probes round a ring of indexers: where they are dropped, and how long each node has them
    Relay(Run<relay::Options, Connecting, Drawn>),
    /// Many workers that share and look up, and whether all that was acknowledged arrives
    Load(Run<load::Options, Connecting, Drawn>),
    /// How coherent copies are, simulated in virtual time: tables c1 to c6
    Consistency(Run<consistency::Options, (), Drawn>),
    /// Two results beside each other; exit code 1 if the second is worse
    Compare(Compare),
    /// Instructions of the hot functions, counted by valgrind and compared with the recorded numbers
    Instructions(Instructions),
    /// A process of a measurement; started by the others
    #[command(hide = true)]
    Node(Node),
    /// A `nekopeer` of a measurement; started by it
    #[command(hide = true, name = load::DAEMON)]
    Daemon {
        /// What it is told
        #[arg(last = true)]
        args: Vec<String>,
    },
}

/// Where the results go.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Output {
    /// Write the results into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// Results, and pictures of them.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Drawn {
    #[command(flatten)]
    pub(crate) output: Output,
    /// Draw pictures into this folder, as SVG and PNG
    #[arg(long, value_name = "DIR")]
    pub(crate) plot: Option<PathBuf>,
}

/// Results, pictures, and all that they are made of.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Detailed {
    #[command(flatten)]
    pub(crate) drawn: Drawn,
    /// Write every single request or round into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
}

/// Paths that results go to.
pub(crate) trait Target {
    /// Of the JSON, of the CSV, and of the folder of the pictures.
    fn paths(&self) -> [Option<&Path>; 3];

    /// Makes sure that they can be written.
    fn prepare(&self) -> Result<Outputs, Fault> {
        Outputs::prepare(self.paths()).or_cannot_begin()
    }
}

impl Target for Output {
    fn paths(&self) -> [Option<&Path>; 3] {
        [self.json.as_deref(), None, None]
    }
}

impl Target for Drawn {
    fn paths(&self) -> [Option<&Path>; 3] {
        [self.output.json.as_deref(), None, self.plot.as_deref()]
    }
}

impl Target for Detailed {
    fn paths(&self) -> [Option<&Path>; 3] {
        [self.drawn.output.json.as_deref(), self.csv.as_deref(), self.drawn.plot.as_deref()]
    }
}

/// What to measure, how nodes are run where that can be chosen, and where the results go.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Run<O: ClapArgs, H: ClapArgs, T: ClapArgs> {
    #[command(flatten)]
    pub(crate) options: O,
    #[command(flatten)]
    pub(crate) how: H,
    #[command(flatten)]
    pub(crate) output: T,
}

/// Two results.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Compare {
    /// The result before
    pub(crate) before: PathBuf,
    /// The result after
    pub(crate) after: PathBuf,
    #[command(flatten)]
    pub(crate) rule: Rule,
}

/// Instructions of the hot functions.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Instructions {
    /// Record what is counted instead of comparing with what is recorded
    #[arg(long, conflicts_with = "count")]
    pub(crate) record: bool,
    /// File of the recorded numbers
    #[arg(long, value_name = "FILE", default_value = instructions::RECORDED)]
    pub(crate) recorded: PathBuf,
    /// By how much a function may exceed its recorded number, as a share
    #[arg(long, default_value_t = 0.05, value_parser = tolerance)]
    pub(crate) tolerance: f64,
    /// Run one function and count nothing; started by the others, under valgrind
    #[arg(long, hide = true, requires = "times")]
    pub(crate) count: Option<instructions::Hot>,
    /// How often
    #[arg(long, hide = true)]
    pub(crate) times: Option<u32>,
}

/// A process of a measurement.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Node {
    /// Where to listen
    #[arg(long)]
    pub(crate) listen: SocketAddr,
    /// What to be, in JSON
    pub(crate) options: String,
}
