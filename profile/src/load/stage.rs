//! One network under load: three indexers in a line, the origin at one end, a reader at the other.

use std::{fs, net::SocketAddr, path::PathBuf, sync::Arc};

use anyhow::Context;
use nekopeer::Config;
use testkit::network::ANY_PORT;
use tokio::runtime::Handle;

use super::auditor::{Auditor, Figures};
use super::origin::{Origin, Protocol};
use super::work::{Asker, Names};
use crate::cluster::deployment::Deployment;
use crate::node::{Options, PeerOptions, Private, Request, Role, network, process::Process, start_peer};
use crate::run::watch::{LINKED_WITHIN, until};

pub(crate) const INDEXERS: usize = 3;

/// How a network is run.
#[derive(Clone)]
pub(crate) struct Setting {
    pub(crate) deployment: Deployment,
    pub(crate) protocol: Protocol,
    /// Where the origin, if it is in this process, and the workers run.
    pub(crate) runtime: Handle,
    pub(crate) folder: PathBuf,
    pub(crate) network: Option<Private>,
    pub(crate) names: Names,
    /// The first indexer listens on this port, the others on the next ones; 0: on free ones.
    pub(crate) port: u16,
}

/// A running network; dropping it ends its processes.
pub(crate) struct Stage {
    pub(crate) setting: Setting,
    indexers: Vec<Process>,
    /// Of another network, at which the nodes of this one try too.
    pub(crate) strangers: Vec<SocketAddr>,
    pub(crate) origin: Option<Arc<Origin>>,
}

impl Stage {
    pub(crate) async fn start(setting: Setting) -> anyhow::Result<Self> {
        let deployment = Deployment { port: setting.port, ..setting.deployment.clone() };
        let (kept, addrs) = deployment.ports(INDEXERS)?;
        let mut stage = Self { setting, indexers: Vec::new(), strangers: Vec::new(), origin: None };
        for n in 0..INDEXERS {
            stage.indexers.push(stage.indexer(n, &addrs, ANY_PORT).await?);
        }
        drop(kept);
        Ok(stage)
    }

    fn options(&self, role: Role) -> Options {
        Options { network: self.setting.network.clone(), ..self.setting.deployment.options(role) }
    }

    /// The n-th of the indexers at `addrs`; each names those beside it.
    async fn indexer(&self, n: usize, addrs: &[SocketAddr], http: SocketAddr) -> anyhow::Result<Process> {
        let beside = [n.checked_sub(1), n.checked_add(1)];
        let neighbors = beside.into_iter().filter_map(|other| addrs.get(other?).copied()).collect();
        let role = Role::Indexer { neighbors, flood: false, by_default: true };
        let options = Options { http: Some(http), ..self.options(role) };
        Process::start(format!("indexer {n}"), addrs[n], &options).await
    }

    /// What to say if an indexer has ended that nobody here killed.
    pub(crate) fn ended(&mut self) -> Option<String> {
        let has_ended = |one: &mut Process| !matches!(one.child.try_wait(), Ok(None));
        let ended = self.indexers.iter_mut().find_map(|one| has_ended(one).then_some(&one.label))?;
        Some(format!("{ended} has ended by itself"))
    }

    pub(crate) async fn kill_indexer(&mut self, n: usize) {
        self.indexers[n].kill_here().await;
    }

    /// Starts it again where it was.
    pub(crate) async fn revive_indexer(&mut self, n: usize) -> anyhow::Result<()> {
        let (addrs, http) = (self.addrs(), self.indexers[n].http.unwrap_or(ANY_PORT));
        let start = async || match self.indexer(n, &addrs, http).await {
            Ok(indexer) => {
                self.indexers[n] = indexer;
                Ok(None)
            }
            Err(error) => Ok(Some(format!("{error:#}"))), // another process may have its port for now
        };
        until(LINKED_WITHIN, start).await
    }

    pub(crate) fn addrs(&self) -> Vec<SocketAddr> {
        self.indexers.iter().map(|indexer| indexer.addr).collect()
    }

    /// The indexers of the reader, the last ones, and strangers.
    fn far_indexers(&self) -> Vec<SocketAddr> {
        self.addrs().into_iter().skip(1).rev().chain(self.strangers.iter().copied()).collect()
    }

    /// How a peer of this network is made.
    fn peer(&self, dir: &str, indexers: Vec<SocketAddr>) -> anyhow::Result<Config> {
        let (network, access) = network(self.setting.network.as_ref())?;
        let security = self.setting.deployment.security;
        let indexers = indexers.into_iter().map(Into::into).collect();
        Ok(Config { indexers, network, security, access, ..Config::new(self.dir(dir)) })
    }

    /// The folder of a peer, in the folder of the run.
    fn dir(&self, peer: &str) -> PathBuf {
        self.setting.folder.join(format!("{peer}-{}", self.setting.names.label))
    }

    pub(crate) fn origin_dir(&self) -> PathBuf {
        self.dir("origin")
    }

    /// Starts the origin, at the first indexer, for the first time or where it was.
    pub(crate) async fn start_origin(&mut self, listen: SocketAddr) -> anyhow::Result<()> {
        let dir = self.origin_dir();
        for worker in 0..self.setting.names.workers {
            fs::create_dir_all(dir.join(format!("w{worker:03}")))?;
        }
        let indexers = self.addrs().into_iter().take(1).chain(self.strangers.iter().copied()).collect();
        let config = Config { listen: Some(listen), ..self.peer("origin", indexers)? };
        let Setting { protocol, network, runtime, .. } = &self.setting;
        let origin = Origin::start(*protocol, config, network.as_ref(), runtime).await?;
        self.origin = Some(Arc::new(origin));
        Ok(())
    }

    /// Ends the origin as a crash would; where it was.
    pub(crate) async fn kill_origin(&mut self) -> anyhow::Result<SocketAddr> {
        let origin = self.origin.take().and_then(Arc::into_inner).context("the origin is still called")?;
        let addr = origin.addr().context("the origin does not serve")?;
        origin.kill().await?;
        Ok(addr)
    }

    /// Who looks names up, at the indexers of the reader.
    pub(crate) async fn asker(&self) -> anyhow::Result<Asker> {
        match self.setting.protocol {
            Protocol::Rest => Ok(Asker::rest(self.indexers[1..].iter().rev().filter_map(|one| one.http))),
            Protocol::Native => {
                let peer = start_peer(self.peer("asker", self.far_indexers())?);
                Ok(Asker::Native(Box::new(self.setting.runtime.spawn(peer).await??)))
            }
        }
    }

    /// Starts a reader of all names.
    pub(crate) async fn auditor(&self, pause_ms: u64) -> anyhow::Result<Auditor> {
        let (dir, indexers) = (self.dir("reader"), self.far_indexers());
        let peer = PeerOptions { dir, indexers, ..PeerOptions::default() };
        let options = self.options(Role::Peer(peer));
        let follow = Request::Follow { pause_ms };
        Auditor::start(options, follow, ANY_PORT, self.setting.names.clone()).await
    }

    /// The figures of the origin's indexer.
    pub(crate) fn figures(&self) -> anyhow::Result<Figures> {
        Ok(Figures::new(self.indexers[0].http.context("an indexer without HTTP")?))
    }

    pub(crate) async fn stop(mut self) {
        if self.origin.is_some() {
            // One that cannot be ended here ends with this process.
            let _ = self.kill_origin().await;
        }
        for n in 0..self.indexers.len() {
            self.kill_indexer(n).await;
        }
    }
}
