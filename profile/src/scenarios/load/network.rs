//! One network under load: three indexers in a line, the origin and its workers at one end, a reader at the other.

use nekopeer::Config;
use testkit::network::kept_port;
use tokio::{net::TcpSocket, process::Command};

use super::{
    Broken, Plan, Trial, auditor::Auditor, auditor::Status, judge::Held, origin::Origin, origin::Protocol,
    work::Done, work::Finder, work::Job, work::Names, work::Worker,
};
use crate::node::{Private, network, start_peer};
use crate::scenarios::prelude::*;

pub(crate) const INDEXERS: usize = 3;

/// A running network, and what came of it so far; dropping it ends its processes.
pub(crate) struct Network {
    pub(crate) net: Net,
    plan: Arc<Plan>,
    pub(crate) names: Names,
    /// Indexers of another network, at which the nodes of this one try too.
    strangers: Vec<SocketAddr>,
    /// Where the origin listens, each time that it starts.
    origin_at: (TcpSocket, SocketAddr),
    origin: Option<Arc<Origin>>,
    /// Of the origin's indexer.
    pub(crate) figures: Status,
    /// `None` if there is no reader yet.
    pub(crate) auditor: Option<Auditor>,
    stop: CancellationToken,
    workers: Vec<Worker>,
    working: Vec<JoinHandle<Done>>,
    pub(crate) done: Done,
    /// What the reader has in the end; nothing if that is not known.
    pub(crate) held: Vec<Held>,
    pub(crate) faults: Vec<String>,
}

impl Network {
    /// Starts the indexers of the n-th network of this run.
    pub(crate) async fn start(plan: &Arc<Plan>, n: usize) -> Result<Self> {
        let (options, networks) = (&plan.options, plan.trial.networks());
        let of = if options.broken == Some(Broken::Mix) { 0 } else { n };
        let private = Private { name: format!("load-{of}"), secret: format!("{of}").repeat(64) };
        let (network, port) = ((networks > 1).then_some(private), if n == 0 { options.port } else { 0 });
        let on = Deployment { network, by_default: true, port, ..plan.on.clone() };
        let net = Net::start(&on, &Graph::line(INDEXERS), INDEXERS).await?;
        let figures = Status(Http::new(net.nodes[0].http.context("an indexer without HTTP")?, None));
        let plan = Arc::clone(plan);
        let names = Names { label: ["a", "b"][n], workers: plan.workers(), each: options.names };
        let (strangers, origin, auditor, stop, workers) = Default::default();
        let (working, done, held, faults) = Default::default();
        Ok(Self {
            net,
            plan,
            names,
            strangers,
            origin_at: kept_port(),
            origin,
            figures,
            auditor,
            stop,
            workers,
            working,
            done,
            held,
            faults,
        })
    }

    /// Publishes all names for the first time, and starts the reader.
    pub(crate) async fn begin(&mut self, strangers: Vec<SocketAddr>) -> Result<()> {
        self.strangers = strangers;
        self.start_origin().await?;
        let job = Arc::new(self.job().await?);
        let workers = (0..job.names.workers).map(|number| {
            let mut worker = Worker { number, job: Arc::clone(&job), rounds: 0, done: Done::default() };
            self.plan.runtime.spawn(async move { worker.publish().await.map(|()| worker) })
        });
        for worker in workers.collect::<Vec<_>>() {
            self.workers.push(worker.await??);
        }
        if self.plan.options.broken == Some(Broken::Lose) {
            let (from, to) = (self.dir("origin"), self.dir("origin").with_extension("before"));
            let copied = Command::new("cp").arg("-r").args([from, to]).status().await?;
            ensure!(copied.success(), "cannot copy the folder of the origin");
        }
        if self.plan.trial != Trial::Disk {
            self.start_auditor().await;
        }
        Ok(())
    }

    /// The indexers of the reader, the last ones, and strangers.
    fn far_indexers(&self) -> Vec<SocketAddr> {
        self.net.addrs().into_iter().skip(1).rev().chain(self.strangers.iter().copied()).collect()
    }

    fn peer(&self, dir: &str, indexers: Vec<SocketAddr>) -> Result<Config> {
        let Deployment { security, network: private, .. } = &self.net.deployment;
        let (network, access) = network(private.as_ref())?;
        let indexers = indexers.into_iter().map(Into::into).collect();
        Ok(Config { indexers, network, security: *security, access, ..Config::new(self.dir(dir)) })
    }

    fn dir(&self, peer: &str) -> PathBuf {
        self.net.deployment.folder.join(format!("{peer}-{}", self.names.label))
    }

    /// Starts the origin, at the first indexer.
    async fn start_origin(&mut self) -> Result<()> {
        let dir = self.dir("origin");
        for worker in 0..self.names.workers {
            fs::create_dir_all(dir.join(format!("w{worker:03}")))?;
        }
        let indexers = self.net.addrs().into_iter().take(1).chain(self.strangers.iter().copied()).collect();
        let config = Config { listen: Some(self.origin_at.1), ..self.peer("origin", indexers)? };
        let private = self.net.deployment.network.as_ref();
        let Plan { protocol, runtime, .. } = &*self.plan;
        self.origin = Some(Arc::new(Origin::start(*protocol, config, private, runtime).await?));
        Ok(())
    }

    /// Ends the origin as a crash would.
    async fn kill_origin(&mut self) -> Result<()> {
        let origin = self.origin.take().and_then(Arc::into_inner).context("the origin is still called")?;
        origin.kill().await
    }

    /// What the workers of this network share; they look names up at the indexers of the reader.
    async fn job(&self) -> Result<Job> {
        let asker = match self.plan.protocol {
            Protocol::Rest => {
                let doors = self.net.nodes[1..].iter().rev().filter_map(|node| node.http);
                Finder::Rest(doors.map(|door| Http::new(door, None)).collect())
            }
            Protocol::Native => {
                let peer = start_peer(self.peer("asker", self.far_indexers())?);
                Finder::Native(Box::new(self.plan.runtime.spawn(peer).await??))
            }
        };
        let origin = self.origin.clone().context("no origin runs")?;
        let (names, dir, node) = (self.names.clone(), self.dir("origin"), origin.node.clone());
        Ok(Job { names, dir, origin, node, asker, every: self.plan.every(), stop: self.stop.clone() })
    }

    async fn start_auditor(&mut self) {
        let (dir, indexers) = (self.dir("reader"), self.far_indexers());
        let peer = PeerOptions { dir, indexers, ..PeerOptions::default() };
        let (on, names) = (&self.net.deployment, self.names.clone());
        match Auditor::start(on, peer, self.plan.trial.pause_ms(), names).await {
            Ok(auditor) => self.auditor = Some(auditor),
            Err(error) => self.faults.push(format!("{error:#}")),
        }
    }

    pub(crate) fn work(&mut self) {
        self.working = self.workers.drain(..).map(|worker| self.plan.runtime.spawn(worker.run())).collect();
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
    pub(crate) fn note(&mut self, done: Result<()>) {
        let fault = done.err().map(|error| format!("{error:#}"));
        self.faults.extend(fault.filter(|fault| !self.faults.contains(fault)));
    }

    /// Kills the origin and the indexers, starts them again, and then the reader.
    pub(crate) async fn restart(&mut self) -> Result<()> {
        self.kill_origin().await?;
        for n in 0..INDEXERS {
            self.net.kill(n).await;
        }
        if self.plan.options.broken == Some(Broken::Lose) {
            let dir = self.dir("origin");
            fs::remove_dir_all(&dir)?;
            fs::rename(dir.with_extension("before"), &dir)?;
        }
        for n in 0..INDEXERS {
            self.net.revive(n).await?;
        }
        self.start_origin().await?;
        self.start_auditor().await;
        Ok(())
    }

    /// How often each name was to be published.
    pub(crate) fn attempts(&self) -> Vec<u64> {
        (0..self.names.count()).map(|name| self.done.attempts.get(&name).copied().unwrap_or(0)).collect()
    }

    pub(crate) fn broken_promises(&self) -> Vec<String> {
        let done = &self.done;
        // While an indexer is gone it cannot answer.
        let unanswered = if self.plan.trial == Trial::Crash { 0 } else { done.unanswered };
        let strange = self.auditor.as_ref().map_or(0, |auditor| auditor.strange);
        let mut broken = some_of([
            (done.failed, "versions that could not be shared"),
            (unanswered, "lookups without an answer"),
            (done.older, "lookups older than acknowledged"),
            (done.foreign, "lookups with files of others"),
            (strange, "names of others arrived"),
        ]);
        broken.extend(done.faults.iter().filter(|_| done.failed + unanswered > 0).cloned());
        broken
    }

    pub(crate) async fn stop(mut self) {
        if let Some(auditor) = &mut self.auditor {
            auditor.process.kill().await;
        }
        self.workers.clear();
        if self.origin.is_some() {
            // One that cannot be ended here ends with this process.
            let _ = self.kill_origin().await;
        }
        self.net.stop().await;
    }
}
