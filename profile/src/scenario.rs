//! What a scenario is, and how the program carries one out: checked, measured, written and printed.

use std::sync::Arc;

use clap::Args;

use crate::cluster::deployment::Deployment;
use crate::outcome::{Begin, Fault, Outcome, print};
use crate::report::{Report, outputs::Target};
use crate::run::Watch;
use crate::run::setup::{Connecting, Setup};
use crate::run::watch::note;

/// What one command measures. Its fields are its options, its rows and goals are in the report.
pub(crate) trait Scenario: Args + Sync {
    /// How nodes are run, as far as that can be chosen.
    type How: How;
    /// Where the results go.
    type Target: Target;
    /// The figures depend on how fast this program is.
    const IS_TIMED: bool = true;

    /// The first thing that makes no sense is the error; nothing is there yet.
    fn check(&self, _how: &Self::How) -> anyhow::Result<()> {
        Ok(())
    }

    /// Measures it; less when stopped.
    async fn run(&self, on: &<Self::How as How>::On) -> Result<Report, Fault>;
}

/// How nodes are run, as the command line says it.
pub(crate) trait How: Args + Sync {
    /// What a scenario runs on.
    type On;

    /// Does the `work` where it belongs.
    fn start(
        &self,
        work: impl AsyncFnOnce(&Self::On) -> Result<Report, Fault> + Send,
    ) -> Result<Report, Fault>;
}

impl How for Setup {
    type On = Deployment;

    fn start(
        &self,
        work: impl AsyncFnOnce(&Deployment) -> Result<Report, Fault> + Send,
    ) -> Result<Report, Fault> {
        self.on_threads(&Arc::default(), async |on| work(&on).await)
    }
}

/// Nodes are processes of their own.
impl How for Connecting {
    type On = Deployment;

    fn start(
        &self,
        work: impl AsyncFnOnce(&Deployment) -> Result<Report, Fault> + Send,
    ) -> Result<Report, Fault> {
        Setup::apart(self.clone()).start(work)
    }
}

/// The scenario chooses itself, each time that it runs some.
impl How for () {
    type On = Arc<Watch>;

    fn start(
        &self,
        work: impl AsyncFnOnce(&Arc<Watch>) -> Result<Report, Fault> + Send,
    ) -> Result<Report, Fault> {
        futures::executor::block_on(work(&Arc::default()))
    }
}

/// What a command does.
pub(crate) trait Command {
    fn run(&self) -> Result<Outcome, Fault>;
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

impl<S: Scenario> Command for Run<S> {
    fn run(&self) -> Result<Outcome, Fault> {
        if cfg!(debug_assertions) && S::IS_TIMED {
            note("note: this is a debug build, its figures say little (cargo run --profile dist)");
        }
        self.scenario.check(&self.how).or_cannot_begin()?;
        let outputs = self.target.prepare()?;
        let mut report = self.how.start(async |on: &_| self.scenario.run(on).await)?;
        // What is said to be written is on disk by then.
        let written = outputs.write(&mut report)?;
        print(&[report.text(), written].join("\n"))?;
        Ok(if report.is_broken || report.interrupted { Outcome::NotAllWell } else { Outcome::Done })
    }
}
