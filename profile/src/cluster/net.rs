//! Indexers that are started together, each with the addresses of its neighbors.

use std::net::SocketAddr;

use anyhow::Context;
use nekoproto::Identity;
use testkit::network::ANY_PORT;

use super::{
    client::Client,
    deployment::{Deployment, Node},
};
use crate::plan::topology::Graph;
use crate::run::watch::{LINKED_WITHIN, until};

/// Running indexers; dropping it ends them.
#[derive(Debug)]
pub struct Net {
    pub(crate) deployment: Deployment,
    pub(crate) nodes: Vec<Node>,
    /// Where the neighbors of each listen.
    neighbors: Vec<Vec<SocketAddr>>,
}

/// Which indexers answer over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Http {
    None,
    First,
    All,
}

impl Net {
    /// Starts an indexer at each place of `graph`; returns when all listen.
    pub(crate) async fn start(deployment: &Deployment, graph: &Graph, http: Http) -> anyhow::Result<Self> {
        let (kept, addrs) = deployment.ports(graph.len())?;
        let beside = |n| graph.neighbors(n).iter().map(|place| addrs[*place]).collect();
        let neighbors = (0..graph.len()).map(beside).collect();
        let mut net = Self { deployment: deployment.clone(), nodes: Vec::new(), neighbors };
        for (n, addr) in addrs.iter().enumerate() {
            let answers = http == Http::All || (http == Http::First && n == 0);
            let node = net.node(n, (*addr, answers.then_some(ANY_PORT))).await?;
            net.nodes.push(node);
        }
        drop(kept);
        Ok(net)
    }

    /// Starts one indexer.
    pub(crate) async fn single(deployment: &Deployment) -> anyhow::Result<Self> {
        Self::start(deployment, &Graph::line(1), Http::None).await
    }

    async fn node(&self, n: usize, at: (SocketAddr, Option<SocketAddr>)) -> anyhow::Result<Node> {
        self.deployment.indexer_at(n, at, self.neighbors[n].clone()).await
    }

    /// One more indexer, on a free port, which calls the first its neighbor.
    pub(crate) async fn join(&mut self) -> anyhow::Result<()> {
        self.neighbors.push(vec![self.addr(0)]);
        let node = self.node(self.nodes.len(), (ANY_PORT, None)).await?;
        self.nodes.push(node);
        Ok(())
    }

    pub(crate) fn addr(&self, n: usize) -> SocketAddr {
        self.nodes[n].addr()
    }

    pub(crate) fn addrs(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(Node::addr).collect()
    }

    /// Connects a peer with this identity to indexer `n`.
    pub(crate) async fn client(&self, n: usize, identity: Identity) -> anyhow::Result<Client> {
        let connect = Client::connect(self.addr(n), identity, self.deployment.security);
        self.deployment.client_runtime(n).spawn(connect).await?
    }

    /// What to say if an indexer has ended that nobody here killed.
    pub(crate) fn ended(&mut self) -> Option<String> {
        let ended = self.nodes.iter_mut().position(Node::has_ended)?;
        Some(format!("indexer {ended} has ended by itself"))
    }

    /// Ends indexer `n`, a process of its own, as a crash would.
    pub(crate) async fn kill(&mut self, n: usize) {
        if let Node::Apart(process) = &mut self.nodes[n] {
            process.kill_here().await;
        }
    }

    /// Starts it again where it was.
    pub(crate) async fn revive(&mut self, n: usize) -> anyhow::Result<()> {
        let at = (self.addr(n), self.nodes[n].http());
        let start = async || match self.node(n, at).await {
            Ok(node) => {
                self.nodes[n] = node;
                Ok(None)
            }
            Err(error) => Ok(Some(format!("{error:#}"))), // another process may have its port for now
        };
        until(LINKED_WITHIN, start).await.with_context(|| format!("indexer {n} does not start again"))
    }

    pub(crate) async fn stop(self) {
        for node in self.nodes {
            node.stop().await;
        }
    }
}
