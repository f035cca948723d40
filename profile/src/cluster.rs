//! Running indexers and the clients that ask them, all in this process.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use anyhow::Context;
use nekoindexer::{Indexer, IndexerHandle};
use nekoproto::{
    ContentHash, FileName, Identity, IndexerServiceClient, ManifestHash, NodeId, PeerService, Policy,
    Purpose, Record, Records, Refusal, RegisterRequest, Role, Verdict, Version,
    transport::{Endpoint, EndpointConfig, Listener, Security, control},
};
use tarpc::context;
use tokio::{task::JoinHandle, time::timeout};

use crate::scenario::Scenario;

/// Files registered with each indexer.
pub const FILES_PER_INDEXER: usize = 16;
const STARTED_WITHIN: Duration = Duration::from_secs(30);
const LOCALHOST: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A running cluster; dropping it ends it.
#[derive(Debug)]
pub struct Cluster {
    /// The indexers, in the order of the scenario.
    pub indexers: Vec<IndexerHandle>,
    /// One holder for each indexer, with files registered there.
    pub holders: Vec<Client>,
    security: Security,
}

/// A connection to one indexer.
#[derive(Debug)]
pub struct Client {
    /// Calls the indexer.
    pub calls: IndexerServiceClient,
    /// The client's own id.
    pub node: NodeId,
    identity: Identity,
    /// Holds the port that the indexer lists.
    _listener: Listener,
    driver: JoinHandle<()>,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// A client that nobody needs to call.
#[derive(Clone)]
struct Silent;

impl PeerService for Silent {
    async fn invalidate(self, _: context::Context, _: Records) -> Result<(), Refusal> {
        Ok(())
    }

    async fn confirm(
        self,
        _: context::Context,
        _: nekoproto::List<nekoproto::Held, { nekoproto::limits::BATCH_MAX }>,
    ) -> Result<nekoproto::List<Verdict, { nekoproto::limits::BATCH_MAX }>, Refusal> {
        Ok(nekoproto::List::new())
    }
}

/// The name of the n-th file of an indexer.
///
/// # Panics
/// Never: the text is an allowed name.
#[must_use]
#[expect(clippy::expect_used, reason = "letters, digits and one slash are an allowed name")]
pub fn file_name(indexer: usize, file: usize) -> FileName {
    FileName::new(&format!("indexer-{indexer}/file-{file}.bin")).expect("an allowed name")
}

impl Cluster {
    /// Starts the indexers of `scenario`, waits for their links, and registers the files.
    ///
    /// # Errors
    /// Something did not start; nothing is left running.
    pub async fn start(scenario: &Scenario, security: Security) -> anyhow::Result<Self> {
        let mut indexers: Vec<IndexerHandle> = Vec::new();
        for place in 0..scenario.indexers {
            let neighbors = scenario.names_as_neighbors(place);
            let config = nekoindexer::Config {
                listen: LOCALHOST,
                neighbors: neighbors.iter().map(|neighbor| indexers[*neighbor].local_addr()).collect(),
                security,
                lease: Duration::from_secs(3600), // the holders here do not renew
                ..nekoindexer::Config::default()
            };
            indexers.push(Indexer::spawn(config).await?);
        }
        for (indexer, degree) in indexers.iter().zip(scenario.degrees()) {
            timeout(STARTED_WITHIN, indexer.neighbors_reach(degree))
                .await
                .context("the indexers did not find each other")?;
        }
        let mut cluster = Self { indexers, holders: Vec::new(), security };
        for place in 0..scenario.indexers {
            let holder = cluster.client(place).await?;
            holder.register_files(place).await?;
            cluster.holders.push(holder);
        }
        Ok(cluster)
    }

    /// A further client of indexer `place`.
    ///
    /// # Errors
    /// The indexer cannot be connected to.
    pub async fn client(&self, place: usize) -> anyhow::Result<Client> {
        let identity = Identity::generate();
        let endpoint = Endpoint::new(EndpointConfig {
            identity: identity.clone(),
            role: Role::Peer,
            network: nekoproto::NetworkName::default(),
            security: self.security,
        })?;
        let listener = endpoint.bind(LOCALHOST)?;
        let connection = endpoint.dial(self.indexers[place].local_addr(), Purpose::Control, None).await?;
        let (calls, driver) = control::open(connection.io, Silent.serve(), IndexerServiceClient::new);
        let driver = tokio::spawn(driver);
        Ok(Client { calls, node: identity.id(), identity, _listener: listener, driver })
    }

    /// Stops all of it.
    pub async fn stop(self) {
        drop(self.holders);
        for indexer in self.indexers {
            indexer.shutdown().await;
        }
    }
}

impl Client {
    async fn register_files(&self, place: usize) -> anyhow::Result<()> {
        let mut records = Vec::new();
        for file in 0..FILES_PER_INDEXER {
            let record = Record {
                origin: self.node,
                name: file_name(place, file),
                version: Version::FIRST,
                size: 1,
                content: ContentHash::from_bytes([1; 32]),
                manifest: ManifestHash::from_bytes([2; 32]),
                policy: Policy::default(),
            };
            records.push(record.sign(&self.identity)?.to_signed());
        }
        let request = RegisterRequest { records: Records::try_from(records)?, announce: false };
        self.calls.register(context::current(), request).await??;
        Ok(())
    }
}
