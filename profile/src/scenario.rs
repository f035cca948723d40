//! What a scenario is, and how the program carries one out: checked, measured, written and printed.

use std::sync::Arc;

use clap::Args;

use crate::cluster::deployment::Deployment;
use crate::outcome::{Begin, Fault, Outcome, print};
use crate::report::{Report, outputs::Outputs, outputs::Paths};
use crate::run::setup::{Connecting, Setup};
use crate::run::watch::note;

/// What one command measures. Its fields are its options, its rows and goals are in the report.
pub(crate) trait Scenario: Args + Sync {
    /// How nodes are run, as far as that can be chosen.
    type How: Threads;
    /// Where the results go.
    type Target: Paths;
    /// The figures depend on how fast this program is.
    const IS_TIMED: bool = true;

    /// The first thing that makes no sense is the error; nothing is there yet.
    fn check(&self, _how: &Self::How) -> anyhow::Result<()> {
        Ok(())
    }

    /// Measures it; less when stopped.
    async fn run(&self, on: &Deployment) -> Result<Report, Fault>;
}

/// How nodes are run, as the command line says it.
pub(crate) trait Threads: Args + Sync {
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
#[derive(Args)]
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
