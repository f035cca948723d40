//! Files from peer to peer: how fast beside a plain copy of the same bytes, what it takes of processor
//! and memory, who sends how much. Every node is a process of its own, and every file that arrives is
//! held against what was published.

pub mod figures;
pub mod files;
pub mod floor;
pub mod folder;
pub(crate) mod round;
pub mod scenario;
pub mod show;
pub(crate) mod stage;
pub mod units;

use std::thread;

use anyhow::Context;
use tokio::sync::oneshot;

use self::{figures::Measured, folder::Folder, scenario::Scenario, stage::Stage};
use crate::outcome::{Begin, Fault};
use crate::{cluster::deployment::Deployment, report::Report, run::watch::Progress};

/// Measures these one after the other, with files in `folder`; ends early when stopped, with what was
/// measured by then.
pub async fn run(scenarios: &[Scenario], folder: &Folder, deployment: &Deployment) -> Result<Report, Fault> {
    let watch = &deployment.watch;
    let mut rows = Vec::new();
    for scenario in scenarios.iter().take_while(|_| !watch.is_stopped()) {
        rows.push(measure(scenario, folder, deployment).await?);
    }
    Ok(show::report(rows, &folder.in_words(), watch.is_stopped()))
}

/// Measures one scenario; fewer rounds of it when stopped. If that fails, nothing is left running.
pub async fn measure(
    scenario: &Scenario,
    folder: &Folder,
    deployment: &Deployment,
) -> Result<Measured, Fault> {
    let watch = &deployment.watch;
    let _progress = Progress::begin(&scenario.name(), scenario.rounds, watch);
    let mut row = Measured { scenario: scenario.clone(), rounds: Vec::new() };
    let started = watch.unless_stopped(Stage::start(scenario, deployment, &folder.path)).await;
    let started = started.with_context(|| format!("the nodes of '{}' did not start", scenario.name()));
    let mut stage = started.or_cannot_begin()?;
    for n in 0..scenario.rounds {
        match watch.unless_stopped(round::run(&mut stage, n)).await {
            Ok(round) => row.rounds.push(round),
            Err(_) if watch.is_stopped() => return Ok(row),
            Err(error) => return Err(Fault::Run(error.context(scenario.name()))),
        }
        watch.add_done(1);
    }
    stage.stop().await?;
    Ok(row)
}

/// Runs blocking work on a thread of its own. When this is dropped nobody waits for that: Ctrl-C ends
/// the program while a large file is being written.
pub(crate) async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    let (sender, done) = oneshot::channel();
    thread::Builder::new().name("files".to_owned()).spawn(move || {
        let _ = sender.send(work()); // nobody waits any more
    })?;
    done.await.context("a thread that works on files panicked")?
}
