//! All scenarios, the list of commands, what a scenario is, and how the program carries one out: checked, measured, written and
//! printed. To add one: its file, and a line in each of the two lists here.

pub(crate) mod batch;
pub(crate) mod connections;
pub mod consistency;
pub(crate) mod delta;
pub(crate) mod far;
pub(crate) mod floor;
pub mod hostile;
pub mod index;
pub mod load;
pub(crate) mod pipeline;
pub(crate) mod prelude;
pub(crate) mod query;
pub mod relay;
pub(crate) mod soak;
pub mod transfer;

use clap::{Parser, Subcommand};

use crate::cluster::deployment::{Connecting, Deployment, Setup};
use crate::outcome::{Begin, Fault, Outcome, print};
use crate::prelude::*;
use crate::report::{Report, outputs::Outputs, outputs::Paths};
use crate::run::watch::note;
use crate::{compare, goals, instructions, matrix, node::serve};

/// Measures nekop2p, and checks every answer while doing so.
///
/// Exit codes: 0 done; 1 something regressed; 2 wrong usage, or it could not begin; 3 anything else, a wrong
/// answer and Ctrl-C among it.
#[derive(Parser)]
#[command(name = "profile", version)]
pub struct Args {
    /// What to measure.
    #[command(subcommand)]
    command: Command,
}

/// Makes of each line a command: what help says of it, its name, and its options.
macro_rules! commands {
    ($($(#[$about:meta])+ $name:ident($options:ty),)+) => {
        #[derive(Subcommand)]
        enum Command {
            $($(#[$about])+ $name($options),)+
        }

        /// Does what the arguments say.
        pub fn run(args: &Args) -> Result<Outcome, Fault> {
            nekoproto::transport::raise_file_limit();
            match &args.command {
                $(Command::$name(command) => command.run(),)+
            }
        }
    };
}

commands! {
    /// Response time of queries in one scenario
    Query(Run<query::Query>),
    /// The round trips that no query can be faster than, in every layout of threads
    Floor(Run<floor::Layouts>),
    /// One indexer: registrations, lookups, memory, beside the index without a network
    Index(Run<index::Index>),
    /// All goals of the search in one run: what is aimed at, what was measured, reached or missed
    Goals(Run<goals::Goals>),
    /// Many connections to one indexer, few of them busy: what an idle one costs, and whether all are served
    Connections(Run<connections::Connections>),
    /// The whole table of scenarios, from 1 indexer and 1 client to 10 indexers and 30 clients with 7 hops
    Matrix(Run<matrix::Matrix>),
    /// Files from peer to peer: how fast beside a plain copy, what it takes, from whom
    Transfer(Box<Run<transfer::Transfer>>),
    /// Updates: how much of a file moves when it changes, beside rsync and zstd
    Delta(Run<delta::Delta>),
    /// Journeys over a far link: round trips, flights, seconds, beside plain TCP and rsync
    Far(Run<far::Far>),
    /// Attacks: what honest clients see before, during and after, and what the attacked node takes
    Hostile(Run<hostile::Hostile>),
    /// A small network for a long time, and whether memory, descriptors or threads of a process grow
    Soak(Run<soak::Soak>),
    /// Messages down a line of three indexers: rates, what waits, what is lost, and what logging costs
    Pipeline(Run<pipeline::Pipeline>),
    /// Names registered and looked up between processes, by names in a call, beside the same without a network
    Batch(Run<batch::Batch>),
    /// Probes round a ring of indexers: where they are dropped, and how long each node has them
    Relay(Run<relay::Relay>),
    /// Many workers that share and look up, and whether all that was acknowledged arrives
    Load(Run<load::Load>),
    /// How coherent copies are, simulated in virtual time: tables c1 to c6
    Consistency(Run<consistency::Consistency>),
    /// Two results beside each other; exit code 1 if the second is worse
    Compare(compare::Compare),
    /// Instructions of the hot functions, counted by valgrind and compared with the recorded numbers
    Instructions(instructions::Instructions),
    /// A process of a measurement; started by the others
    #[command(hide = true)]
    Node(serve::Serve),
    /// A `nekopeer` of a measurement; started by it
    #[command(hide = true)]
    Daemon(load::origin::Told),
}

/// What one command measures. Its fields are its options, its rows and goals are in the report.
pub(crate) trait Scenario: clap::Args + Sync {
    /// How nodes are run, as far as that can be chosen.
    type How: Threads;
    /// Where the results go.
    type Target: Paths;
    /// The figures depend on how fast this program is.
    const IS_TIMED: bool = true;

    /// The first thing that makes no sense is the error; nothing is there yet.
    fn check(&self, _how: &Self::How) -> Result<()> {
        Ok(())
    }

    /// Measures it; less when stopped.
    async fn run(&self, on: &Deployment) -> Result<Report, Fault>;
}

/// How nodes are run, as the command line says it.
pub(crate) trait Threads: clap::Args + Sync {
    /// On which threads; `None`: the scenario chooses, each time that it starts some.
    fn setup(&self) -> Option<Setup>;
}

impl Threads for Setup {
    fn setup(&self) -> Option<Setup> {
        Some(self.clone())
    }
}

/// Nodes are processes of their own.
impl Threads for Connecting {
    fn setup(&self) -> Option<Setup> {
        Some(Setup::apart(self.clone()))
    }
}

impl Threads for () {
    fn setup(&self) -> Option<Setup> {
        None
    }
}

/// The command that measures a scenario.
#[derive(clap::Args)]
pub(crate) struct Run<S: Scenario> {
    #[command(flatten)]
    scenario: S,
    #[command(flatten)]
    how: S::How,
    #[command(flatten)]
    target: S::Target,
}

impl<S: Scenario> Run<S> {
    pub(crate) fn run(&self) -> Result<Outcome, Fault> {
        if cfg!(debug_assertions) && S::IS_TIMED {
            note("note: this is a debug build, its figures say little (cargo run --profile dist)");
        }
        self.scenario.check(&self.how).or_cannot_begin()?;
        let outputs = Outputs::prepare(self.target.paths()).or_cannot_begin()?;
        let (watch, work) = (Arc::default(), async |on: Deployment| self.scenario.run(&on).await);
        let mut report = match self.how.setup() {
            Some(setup) => setup.on_threads(&watch, work)?,
            None => futures::executor::block_on(work(Setup::plain().deployment([].into(), &watch)))?,
        };
        // What is said to be written is on disk by then.
        let written = outputs.write(&mut report)?;
        print(&[report.text(), written].join("\n"))?;
        Ok(if report.is_broken || report.interrupted { Outcome::NotAllWell } else { Outcome::Done })
    }
}
