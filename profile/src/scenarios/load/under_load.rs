//! A network under load with its workers and its auditor.

use std::{fs, sync::Arc, time::Duration};

use anyhow::ensure;

use testkit::network::ANY_PORT;
use tokio::{process::Command, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::auditor::{Auditor, Figures};
use super::judge::Held;
use super::plan::{Broken, Plan, Trial};
use super::stage::{INDEXERS, Stage};
use super::work::{Done, Job, Worker};
use crate::report::some_of;

/// A running network, and what came of it so far.
pub(crate) struct UnderLoad {
    pub(crate) stage: Stage,
    pub(crate) figures: Figures,
    /// `None` if there is no reader yet.
    pub(crate) auditor: Option<Auditor>,
    stop: CancellationToken,
    workers: Vec<Worker>,
    working: Vec<JoinHandle<Done>>,
    pub(crate) done: Done,
    /// Publications before the load began.
    pub(crate) first: usize,
    /// What the reader has in the end; nothing if that is not known.
    pub(crate) held: Vec<Held>,
    pub(crate) faults: Vec<String>,
}

impl UnderLoad {
    /// Publishes all names for the first time, and starts the reader.
    pub(crate) async fn begin(plan: &Plan, mut stage: Stage) -> anyhow::Result<Self> {
        stage.start_origin(ANY_PORT).await?;
        let stop = CancellationToken::new();
        let job = Arc::new(stage.job(plan.every, stop.clone()).await?);
        let runtime = stage.setting.runtime.clone();
        let workers = (0..job.names.workers).map(|number| {
            let mut worker = Worker { number, job: Arc::clone(&job), rounds: 0, done: Done::default() };
            runtime.spawn(async move { worker.publish().await.map(|()| worker) })
        });
        let mut ready = Vec::new();
        for worker in workers.collect::<Vec<_>>() {
            ready.push(worker.await??);
        }
        if plan.broken == Some(Broken::Lose) {
            let (from, to) = (stage.origin_dir(), stage.origin_dir().with_extension("before"));
            let copied = Command::new("cp").arg("-r").args([from, to]).status().await?;
            ensure!(copied.success(), "cannot copy the folder of the origin");
        }
        let (first, figures) = (job.names.count(), stage.figures()?);
        let (working, held, faults) = Default::default();
        let done = Done::default();
        let mut net =
            Self { stage, figures, auditor: None, stop, workers: ready, working, done, first, held, faults };
        if plan.scenario != Trial::Disk {
            net.start_auditor(plan).await;
        }
        Ok(net)
    }

    async fn start_auditor(&mut self, plan: &Plan) {
        match self.stage.auditor(plan.scenario.pause_ms()).await {
            Ok(auditor) => self.auditor = Some(auditor),
            Err(error) => self.faults.push(format!("{error:#}")),
        }
    }

    pub(crate) fn work(&mut self) {
        let runtime = &self.stage.setting.runtime;
        self.working = self.workers.drain(..).map(|worker| runtime.spawn(worker.run())).collect();
    }

    /// Lets the workers end what they do, and no more.
    pub(crate) async fn rest(&mut self) {
        self.stop.cancel();
        for worker in std::mem::take(&mut self.working) {
            match worker.await {
                Ok(done) => self.done.add(done),
                Err(error) => self.faults.push(format!("a worker died: {error}")),
            }
        }
    }

    /// Takes what arrived, and reads the indexer's figures.
    pub(crate) async fn look(&mut self) {
        let read = self.figures.read().await.map(drop);
        self.note(read);
        if let Some(auditor) = &mut self.auditor {
            let looked = auditor.look().await;
            self.note(looked);
        }
    }

    /// Keeps what went wrong, each once.
    pub(crate) fn note(&mut self, done: anyhow::Result<()>) {
        self.note_fault(done.err().map(|error| format!("{error:#}")));
    }

    /// The same, of what is said in words.
    pub(crate) fn note_fault(&mut self, fault: Option<String>) {
        self.faults.extend(fault.filter(|fault| !self.faults.contains(fault)));
    }

    /// Kills the origin and the indexers, starts them again, and then the reader.
    pub(crate) async fn restart(&mut self, plan: &Plan) -> anyhow::Result<()> {
        let addr = self.stage.kill_origin().await?;
        for n in 0..INDEXERS {
            self.stage.net.kill(n).await;
        }
        if plan.broken == Some(Broken::Lose) {
            let dir = self.stage.origin_dir();
            fs::remove_dir_all(&dir)?;
            fs::rename(dir.with_extension("before"), &dir)?;
        }
        for n in 0..INDEXERS {
            self.stage.net.revive(n).await?;
        }
        self.stage.start_origin(addr).await?;
        self.start_auditor(plan).await;
        Ok(())
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stage.setting.deployment.watch.is_stopped()
    }

    /// How often each name was to be published.
    pub(crate) fn attempts(&self) -> Vec<u64> {
        let names = 0..self.stage.setting.names.count();
        names.map(|name| self.done.attempts.get(&name).copied().unwrap_or(0)).collect()
    }

    /// What did not hold for the workers.
    pub(crate) fn broken_promises(&self, plan: &Plan) -> Vec<String> {
        let done = &self.done;
        // While an indexer is gone it cannot answer.
        let unanswered = if plan.scenario == Trial::Crash { 0 } else { done.unanswered };
        let strange = self.auditor.as_ref().map_or(0, |auditor| auditor.strange);
        let all = [
            (done.failed, "versions that could not be shared"),
            (unanswered, "lookups without an answer"),
            (done.older, "lookups older than acknowledged"),
            (done.foreign, "lookups with files of others"),
            (strange, "names of others arrived"),
        ];
        let is_said = done.failed + unanswered > 0;
        some_of(all).chain(done.faults.iter().filter(|_| is_said).cloned()).collect()
    }

    pub(crate) async fn stop(mut self) {
        if let Some(auditor) = &mut self.auditor {
            auditor.kill().await;
        }
        self.workers.clear();
        self.stage.stop().await;
    }
}

impl Stage {
    /// What the workers of this network share.
    async fn job(&self, every: Option<Duration>, stop: CancellationToken) -> anyhow::Result<Job> {
        let origin = self.origin.clone().ok_or_else(|| anyhow::anyhow!("no origin runs"))?;
        let names = self.setting.names.clone();
        let (dir, node, asker) = (self.origin_dir(), origin.node(), self.asker().await?);
        Ok(Job { names, dir, origin, node, asker, every, stop })
    }
}
