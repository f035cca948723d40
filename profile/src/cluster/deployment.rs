//! How nodes are run: as tasks of this process, or as processes of their own.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use anyhow::Context;
use nekoindexer::{Config, Indexer, IndexerHandle, Routing};
use nekoproto::transport::Security;
use testkit::network::{ANY_PORT, kept_port};
use tokio::net::TcpSocket;
use tokio::runtime::Handle;

use crate::node::{Options, PeerOptions, Private, Probes, Request, Role, network};
use crate::report::{machine, security_name};
use crate::{cluster::layout::Layout, node::process::Process, run::watch::Watch};

/// How long a peer of a measured cluster stays listed without a renewal: no renewal shows in a measurement.
pub(crate) const LEASE: Duration = Duration::from_secs(3600);
const _: () = assert!(LEASE.as_secs() <= nekoindexer::config::LEASE_SECS_MAX as u64);

/// How nodes are run.
#[derive(Clone, Debug)]
pub struct Deployment {
    /// Which threads run what.
    pub layout: Layout,
    /// TLS or plain TCP.
    pub security: Security,
    /// The network of the nodes, unless it is the open one.
    pub network: Option<Private>,
    /// Whom indexers send queries to.
    pub routing: Routing,
    /// Indexers with the memory and the leases that users get; otherwise with room for a million names of one peer,
    /// and leases without renewals.
    pub by_default: bool,
    /// The n-th indexer listens on this port plus n; 0: on free ones.
    pub port: u16,
    /// Threads of a node that is a process of its own.
    pub threads: NonZeroUsize,
    /// The runtimes of nodes in this process: the n-th node runs on the n-th, and so on in turn.
    pub runtimes: Arc<[Handle]>,
    /// May end what runs there.
    pub watch: Arc<Watch>,
}

/// A running indexer; dropping it ends it.
#[derive(Debug)]
pub(crate) enum Node {
    Here(Box<IndexerHandle>),
    Apart(Box<Process>),
}

impl Deployment {
    /// How connections are secured, and the machine.
    pub(crate) fn in_words(&self) -> String {
        format!("{}, {}", security_name(self.security), machine::in_words())
    }

    /// The runtime of the n-th node, if it is in this process.
    pub fn runtime(&self, n: usize) -> &Handle {
        &self.runtimes[n % self.runtimes.len()]
    }

    /// The runtime of clients of the n-th node. To be called where clients run.
    pub fn client_runtime(&self, n: usize) -> Handle {
        match self.layout {
            Layout::Cores => self.runtime(n).clone(),
            Layout::One | Layout::Shared | Layout::Split | Layout::Processes => Handle::current(),
        }
    }

    /// Where this number of indexers listen, so that each can name the others before they are there. A free port is kept
    /// until its socket is dropped.
    pub(crate) fn ports(&self, count: usize) -> anyhow::Result<(Vec<TcpSocket>, Vec<SocketAddr>)> {
        if self.port == 0 {
            return Ok((0..count).map(|_| kept_port()).unzip());
        }
        let at = |n: usize| {
            let port = self.port.checked_add(u16::try_from(n)?).context("there are no ports past 65535")?;
            Ok(SocketAddr::new(ANY_PORT.ip(), port))
        };
        Ok((Vec::new(), (0..count).map(at).collect::<anyhow::Result<_>>()?))
    }

    /// The n-th indexer listens here, and answers over HTTP there.
    pub(crate) async fn indexer_at(
        &self,
        n: usize,
        (listen, http): (SocketAddr, Option<SocketAddr>),
        neighbors: Vec<SocketAddr>,
    ) -> anyhow::Result<Node> {
        if self.layout == Layout::Processes {
            let role = Role::Indexer {
                neighbors,
                flood: self.routing == Routing::Flood,
                by_default: self.by_default,
            };
            let options = Options { http, ..self.options(role) };
            let process = Process::start(format!("indexer {n}"), listen, &options).await;
            return process.map(|process| Node::Apart(Box::new(process)));
        }
        let config = indexer_config(listen, neighbors, self.security, self.routing, self.by_default);
        let (network, access) = network(self.network.as_ref())?;
        let config = Config { http, network, access, ..config };
        Ok(Node::Here(Box::new(self.runtime(n).spawn(Indexer::spawn(config)).await??)))
    }

    pub(crate) async fn process(&self, label: &str, role: Role) -> anyhow::Result<Process> {
        Process::start(label.to_owned(), ANY_PORT, &self.options(role)).await
    }

    /// How a process is made that does what `role` says.
    pub(crate) fn options(&self, role: Role) -> Options {
        let (insecure, network) = (self.security == Security::Insecure, self.network.clone());
        Options { role, insecure, threads: self.threads, log: None, network, http: None }
    }
}

/// How an indexer is made: as users get it, or with room for a million names of one peer, which may take a third of it.
pub(crate) fn indexer_config(
    listen: SocketAddr,
    neighbors: Vec<SocketAddr>,
    security: Security,
    routing: Routing,
    by_default: bool,
) -> Config {
    let neighbors = neighbors.into_iter().map(Into::into).collect();
    let config = Config { listen, neighbors, security, routing, ..Config::default() };
    if by_default { config } else { Config { lease: LEASE, memory: 2 << 30, carries_probes: true, ..config } }
}

pub(crate) const fn security(insecure: bool) -> Security {
    if insecure { Security::Insecure } else { Security::Tls }
}

/// How peers are started at one indexer, each in a folder of its own.
#[derive(Clone, Debug)]
pub(crate) struct Peers {
    pub(crate) deployment: Deployment,
    pub(crate) folder: PathBuf,
    pub(crate) indexer: SocketAddr,
}

impl Peers {
    /// How the peer called `label` is made; its folder is called so too.
    pub(crate) fn options(&self, label: &str) -> PeerOptions {
        let (dir, indexers) = (self.folder.join(label.replace(' ', "-")), vec![self.indexer]);
        PeerOptions { dir, indexers, ..PeerOptions::default() }
    }

    pub(crate) async fn start(&self, label: &str) -> anyhow::Result<Process> {
        self.deployment.process(label, Role::Peer(self.options(label))).await
    }
}

impl Node {
    pub(crate) const fn addr(&self) -> SocketAddr {
        match self {
            Self::Here(indexer) => indexer.local_addr(),
            Self::Apart(process) => process.addr,
        }
    }

    pub(crate) fn http(&self) -> Option<SocketAddr> {
        match self {
            Self::Here(indexer) => indexer.http_addr(),
            Self::Apart(process) => process.http,
        }
    }

    /// Whether its own process, if it has one, has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        match self {
            Self::Here(_) => false,
            Self::Apart(process) => !matches!(process.child.try_wait(), Ok(None)),
        }
    }

    /// What it counted of route probes, and how many tasks its process has.
    pub(crate) async fn probes(&mut self) -> anyhow::Result<Probes> {
        match self {
            Self::Here(indexer) => Ok((indexer.probes(), 0)),
            Self::Apart(process) => process.tells(&Request::Probes).await,
        }
    }

    /// What the system says of its own process, if it has one that is still there.
    pub(crate) fn of_process<T>(&self, says: fn(u32) -> Option<T>) -> Option<T> {
        match self {
            Self::Here(_) => None,
            Self::Apart(process) => process.id().and_then(says),
        }
    }

    pub(crate) async fn stop(self) {
        match self {
            Self::Here(indexer) => indexer.shutdown().await,
            Self::Apart(process) => process.kill().await,
        }
    }
}
