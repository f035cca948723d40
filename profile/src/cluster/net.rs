//! The only place that starts nodes: indexers, each with the addresses of its neighbors, peers at them, and clients.

use nekoindexer::{Indexer, IndexerHandle};
use testkit::network::kept_port;
use tokio::net::TcpSocket;

use super::client::Client;
use super::deployment::{Deployment, indexer_config};
use super::layout::Layout;
use crate::node::process::Process;
use crate::node::{Options, PeerOptions, Probes, Request, Role};
use crate::plan::topology::Graph;
use crate::prelude::*;
use crate::run::watch::Watch;

/// Running indexers; dropping it ends them.
#[derive(Debug)]
pub struct Net {
    pub(crate) deployment: Deployment,
    pub(crate) nodes: Vec<Node>,
}

/// A running indexer, and where it listens and answers over HTTP; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) addr: SocketAddr,
    pub(crate) http: Option<SocketAddr>,
    place: NodePlace,
}

#[derive(Debug)]
enum NodePlace {
    Here(Box<IndexerHandle>),
    Apart(Box<Process>),
}

#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) label: String,
    pub(crate) listen: SocketAddr,
    pub(crate) neighbors: Vec<SocketAddr>,
    http: Option<SocketAddr>,
    /// In a network of its own; `None`: in that of this process.
    pub(crate) host: Option<Namespace>,
}

impl Net {
    /// Starts an indexer at each place of `graph`, of which the first `doors` answer over HTTP; returns when all listen.
    pub(crate) async fn start(on: &Deployment, graph: &Graph, doors: usize) -> Result<Self> {
        let (_kept, places) = Self::places(on, graph, doors)?;
        Self::of(on, places).await
    }

    /// Where the indexers of `graph` listen, so that each can name the others before they are there. A free port is kept
    /// until its socket is dropped.
    pub(crate) fn places(
        on: &Deployment,
        graph: &Graph,
        doors: usize,
    ) -> Result<(Vec<TcpSocket>, Vec<Place>)> {
        let (kept, addrs): (Vec<_>, Vec<_>) = match on.port {
            0 => (0..graph.len()).map(|_| kept_port()).unzip(),
            first => {
                let at = |n| {
                    let port =
                        first.checked_add(u16::try_from(n)?).context("there are no ports past 65535")?;
                    Ok(SocketAddr::new(ANY_PORT.ip(), port))
                };
                (Vec::new(), (0..graph.len()).map(at).collect::<Result<_>>()?)
            }
        };
        let place = |(n, listen): (usize, &SocketAddr)| {
            let neighbors = graph.neighbors(n).iter().map(|place| addrs[*place]).collect();
            let (label, http) = (format!("indexer {n}"), (n < doors).then_some(ANY_PORT));
            Place { label, listen: *listen, neighbors, http, host: None }
        };
        Ok((kept, addrs.iter().enumerate().map(place).collect()))
    }

    pub(crate) async fn of(on: &Deployment, places: Vec<Place>) -> Result<Self> {
        let mut net = Self { deployment: on.clone(), nodes: Vec::new() };
        for place in places {
            net.nodes.push(net.node(place).await?);
        }
        Ok(net)
    }

    pub(crate) async fn single(on: &Deployment) -> Result<Self> {
        Self::start(on, &Graph::line(1), 0).await
    }

    async fn node(&self, place: Place) -> Result<Node> {
        let (on, n, Place { label, listen, neighbors, http, host }) =
            (&self.deployment, self.nodes.len(), place);
        let (flood, by_default) = (on.routing == Routing::Flood, on.by_default);
        let log = on.log.clone().map(|level| (level, on.folder.join(format!("{n}.log"))));
        let options = Options { http, log, ..on.options(Role::Indexer { neighbors, flood, by_default }) };
        if on.layout == Layout::Processes {
            let process = Process::start(label, listen, options, host).await?;
            let (addr, http) = (process.addr, process.http);
            return Ok(Node { addr, http, place: NodePlace::Apart(Box::new(process)) });
        }
        let indexer = on.runtime(n).spawn(Indexer::spawn(indexer_config(listen, &options)?)).await??;
        let (addr, http) = (indexer.local_addr(), indexer.http_addr());
        Ok(Node { addr, http, place: NodePlace::Here(Box::new(indexer)) })
    }

    /// One more indexer, on a free port, which calls the first its neighbor; its number.
    pub(crate) async fn join(&mut self) -> Result<usize> {
        let (n, neighbors) = (self.nodes.len(), vec![self.addr(0)]);
        let place =
            Place { label: format!("indexer {n}"), listen: ANY_PORT, neighbors, http: None, host: None };
        self.nodes.push(self.node(place).await?);
        Ok(n)
    }

    pub(crate) fn addr(&self, n: usize) -> SocketAddr {
        self.nodes[n].addr
    }

    pub(crate) const fn watch(&self) -> &Arc<Watch> {
        &self.deployment.watch
    }

    pub(crate) fn addrs(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| node.addr).collect()
    }

    pub async fn client(&self, n: usize, identity: Identity) -> Result<Client> {
        let at = self.peers(n);
        self.deployment.client_runtime(n).spawn(async move { at.client(identity).await }).await?
    }

    pub(crate) fn peers(&self, n: usize) -> Peers {
        Peers { on: self.deployment.clone(), indexer: self.addr(n) }
    }

    pub(crate) async fn counts(&mut self) -> Result<Vec<ProbeCounts>> {
        let mut counts = Vec::new();
        for node in &mut self.nodes {
            counts.push(node.probes().await?.0);
        }
        Ok(counts)
    }

    /// An error if an indexer has ended that nobody here killed.
    pub(crate) fn all_run(&mut self) -> Result<()> {
        let ended = self.nodes.iter_mut().position(Node::has_ended);
        ended.map_or(Ok(()), |n| bail!("indexer {n} has ended by itself"))
    }

    /// Ends indexer `n`, a process of its own, as a crash would.
    pub(crate) async fn kill(&mut self, n: usize) {
        if let NodePlace::Apart(process) = &mut self.nodes[n].place {
            process.kill().await;
        }
    }

    pub(crate) async fn revive(&mut self, n: usize) -> Result<()> {
        if let NodePlace::Apart(process) = &mut self.nodes[n].place {
            process.again().await.with_context(|| format!("indexer {n} does not start again"))?;
        }
        Ok(())
    }

    pub(crate) async fn stop(self) {
        for node in self.nodes {
            node.stop().await;
        }
    }
}

/// How peers are started at one indexer, each in a folder of its own, and clients there.
#[derive(Clone, Debug)]
pub(crate) struct Peers {
    on: Deployment,
    indexer: SocketAddr,
}

impl Peers {
    /// How the peer called `label` is made; its folder is called so too.
    pub(crate) fn options(&self, label: &str) -> PeerOptions {
        let (dir, indexers) = (self.on.folder.join(label.replace(' ', "-")), vec![self.indexer]);
        PeerOptions { dir, indexers, ..PeerOptions::default() }
    }

    /// Connects one with this identity, on the runtime that this is called on.
    pub(crate) async fn client(&self, identity: Identity) -> Result<Client> {
        Client::connect(ANY_PORT, self.indexer, identity, self.on.security).await
    }

    pub(crate) async fn start(&self, label: &str) -> Result<Process> {
        self.on.process(label, Role::Peer(self.options(label))).await
    }
}

impl Node {
    fn has_ended(&mut self) -> bool {
        match &mut self.place {
            NodePlace::Here(_) => false,
            NodePlace::Apart(process) => !matches!(process.child.try_wait(), Ok(None)),
        }
    }

    pub(crate) async fn probes(&mut self) -> Result<Probes> {
        match &mut self.place {
            NodePlace::Here(indexer) => Ok((indexer.probes(), 0)),
            NodePlace::Apart(process) => process.tells(&Request::Probes).await,
        }
    }

    /// What the system says of its own process, if it has one that is still there.
    pub(crate) fn of_process<T>(&self, says: fn(u32) -> Option<T>) -> Option<T> {
        let NodePlace::Apart(process) = &self.place else { return None };
        process.id().and_then(says)
    }

    async fn stop(self) {
        match self.place {
            NodePlace::Here(indexer) => indexer.shutdown().await,
            NodePlace::Apart(mut process) => process.kill().await,
        }
    }
}
