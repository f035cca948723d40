//! Running indexers, linked as the scenario says, with files registered: all that queries need.

pub mod client;
pub mod deployment;
pub mod layout;
pub mod net;

use nekoproto::QueryRequest;
use tokio::time::Instant;

use self::client::Client;
use self::deployment::Deployment;
use self::net::Net;
use crate::plan::workload::{Ask, Expected, Verdict, Workload};
use crate::prelude::*;
use crate::report::{Row, count, machine};
use crate::run::watch::{LINKED_WITHIN, until};
use crate::{plan::query::Query, plan::topology::Graph};

/// A running cluster; dropping it ends it.
#[derive(Debug)]
pub struct Cluster {
    pub net: Net,
    /// One peer for each indexer, with files registered there.
    pub(crate) peers: Vec<Client>,
    graph: Graph,
    /// What is registered, and may be asked for.
    pub workload: Arc<Workload>,
}

impl Cluster {
    /// Starts the indexers of `scenario`, waits for their links, and registers the files.
    pub async fn start(scenario: &Query, deployment: &Deployment) -> Result<Self> {
        let graph = scenario.graph()?;
        let identities: Vec<Identity> =
            (0..scenario.indexers).map(|n| identity(scenario.load.seed, n)).collect();
        let workload = Arc::new(Workload::new(scenario, &identities));
        let net = Net::start(deployment, &graph, 0).await;
        let net = net.with_context(|| format!("the cluster of {} did not start", scenario.name()))?;
        let mut cluster = Self { net, peers: Vec::new(), graph, workload };
        let filled = cluster.fill(identities).await;
        filled.with_context(|| format!("the cluster of {} did not start", scenario.name()))?;
        Ok(cluster)
    }

    async fn fill(&mut self, identities: Vec<Identity>) -> Result<()> {
        for (n, identity) in identities.into_iter().enumerate() {
            self.peers.push(self.net.client(n, identity).await?);
        }
        for (n, peer) in self.peers.iter().enumerate() {
            peer.register_all(&self.workload.registered_at(n)).await?;
        }
        self.settled().await
    }

    /// Waits until each indexer is linked, and knows of the files of all others what it will know.
    async fn settled(&self) -> Result<()> {
        let (files, peers) = (self.workload.records.len(), self.peers.len());
        for (n, peer) in self.peers.iter().enumerate() {
            let expected = self.expected(n, 1);
            for ask in (1..=peers).map(|end| Ask::File(end * files / peers - 1)) {
                let name = self.workload.name(ask);
                let found = until(LINKED_WITHIN, async || {
                    let reply = peer.calls.query(context::current(), request(name, 1)).await??;
                    // Whoever is not yet trusted is not asked for what is found elsewhere.
                    let is_right = expected.judge(ask, &reply) == Verdict::Right && !reply.guests_unheard;
                    Ok((!is_right).then(|| format!("the last answer: {reply:?}")))
                });
                found.await.with_context(|| format!("indexer {n} does not find what is registered"))?;
            }
        }
        Ok(())
    }

    /// What clients of indexer `n` must find with `ttl_hops`.
    pub fn expected(&self, n: usize, ttl_hops: u8) -> Expected {
        let holders: Vec<Holder> = self.peers.iter().map(|peer| peer.holder).collect();
        Expected::new(Arc::clone(&self.workload), &self.graph, n, ttl_hops, &holders)
    }

    /// What the indexers take while nobody asks anything, measured for `seconds` after a pause as long; nothing for 0.
    pub(crate) async fn idle(&self, seconds: u32) -> Option<Row> {
        let pause = (seconds > 0).then(|| Duration::from_secs(seconds.into()))?;
        let taken_s =
            || self.net.nodes.iter().map(|node| node.of_process(machine::cpu_s)).sum::<Option<f64>>();
        sleep(pause).await;
        let (began, before_s) = (Instant::now(), taken_s()?);
        sleep(pause).await;
        let core = (taken_s()? - before_s) / began.elapsed().as_secs_f64();
        let links = count((0..self.net.nodes.len()).map(|n| self.graph.neighbors(n).len()).sum());
        let row = Row::default().with("idle_links", links).with("idle_percent", core * 100.0);
        Some(row.with("idle_us", core * 1e6 / links))
    }

    /// Resident memory in bytes: of the indexers' processes, or of this one, which they are in.
    pub fn rss_bytes(&self) -> u64 {
        let apart = self.net.nodes.iter().filter_map(|node| node.of_process(machine::rss_bytes));
        match apart.sum() {
            0 => machine::rss_bytes(std::process::id()).unwrap_or(0),
            apart => apart,
        }
    }

    pub async fn stop(self) {
        drop(self.peers);
        self.net.stop().await;
    }
}

pub fn request(name: &FileName, ttl_hops: u8) -> QueryRequest {
    QueryRequest::new(MsgId::random(), name.clone(), ttl_hops)
}

fn identity(seed: u64, n: usize) -> Identity {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&n.to_le_bytes());
    Identity::from_seed(&bytes)
}
