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
use crate::cluster::net::{Doors, Net, Node};
use crate::node::{PeerOptions, Request, Role, network, start_peer};
use crate::plan::topology::Graph;

pub(crate) const INDEXERS: usize = 3;

/// How a network is run.
#[derive(Clone)]
pub(crate) struct Setting {
    pub(crate) deployment: Deployment,
    pub(crate) protocol: Protocol,
    /// Where the origin, if it is in this process, and the workers run.
    pub(crate) runtime: Handle,
    pub(crate) folder: PathBuf,
    pub(crate) names: Names,
}

/// A running network; dropping it ends its processes.
pub(crate) struct Stage {
    pub(crate) setting: Setting,
    pub(crate) net: Net,
    /// Of another network, at which the nodes of this one try too.
    pub(crate) strangers: Vec<SocketAddr>,
    pub(crate) origin: Option<Arc<Origin>>,
}

impl Stage {
    pub(crate) async fn start(setting: Setting) -> anyhow::Result<Self> {
        let net = Net::start(&setting.deployment, &Graph::line(INDEXERS), Doors::All).await?;
        Ok(Self { setting, net, strangers: Vec::new(), origin: None })
    }

    /// The indexers of the reader, the last ones, and strangers.
    fn far_indexers(&self) -> Vec<SocketAddr> {
        self.net.addrs().into_iter().skip(1).rev().chain(self.strangers.iter().copied()).collect()
    }

    /// How a peer of this network is made.
    fn peer(&self, dir: &str, indexers: Vec<SocketAddr>) -> anyhow::Result<Config> {
        let Deployment { security, network: private, .. } = &self.setting.deployment;
        let (network, access) = network(private.as_ref())?;
        let indexers = indexers.into_iter().map(Into::into).collect();
        Ok(Config { indexers, network, security: *security, access, ..Config::new(self.dir(dir)) })
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
        let indexers = self.net.addrs().into_iter().take(1).chain(self.strangers.iter().copied()).collect();
        let config = Config { listen: Some(listen), ..self.peer("origin", indexers)? };
        let Setting { protocol, deployment, runtime, .. } = &self.setting;
        let origin = Origin::start(*protocol, config, deployment.network.as_ref(), runtime).await?;
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
            Protocol::Rest => Ok(Asker::rest(self.net.nodes[1..].iter().rev().filter_map(Node::http))),
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
        let options = self.setting.deployment.options(Role::Peer(peer));
        let follow = Request::Follow { pause_ms };
        Auditor::start(options, follow, ANY_PORT, self.setting.names.clone()).await
    }

    /// The figures of the origin's indexer.
    pub(crate) fn figures(&self) -> anyhow::Result<Figures> {
        Ok(Figures::new(self.net.nodes[0].http().context("an indexer without HTTP")?))
    }

    pub(crate) async fn stop(mut self) {
        if self.origin.is_some() {
            // One that cannot be ended here ends with this process.
            let _ = self.kill_origin().await;
        }
        self.net.stop().await;
    }
}
