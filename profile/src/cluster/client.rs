//! A peer as far as indexers see it: an identity, a port, a control connection.

use nekoproto::transport::{Endpoint, EndpointConfig, Listener, control};
use nekoproto::{IndexerServiceClient, Purpose, Role};
use testkit::rogue::Silent;

use crate::prelude::*;

/// How long it takes to ask again whether the lease is renewed.
const RENEW_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// A connection to one indexer; dropping it closes it.
#[derive(Debug)]
pub struct Client {
    pub calls: IndexerServiceClient,
    pub holder: Holder,
    /// The names of whose newer versions the indexer told it, each once.
    pub told: Arc<Mutex<HashSet<FileName>>>,
    /// Holds the port that the indexer lists.
    listener: Option<Listener>,
    driver: AbortOnDropHandle<()>,
}

impl Client {
    /// Connects to the indexer at `addr` as a peer that is listed `at`.
    pub async fn connect(
        at: SocketAddr,
        addr: SocketAddr,
        identity: Identity,
        security: Security,
    ) -> Result<Self> {
        let (network, access) = Default::default();
        let endpoint =
            Endpoint::new(EndpointConfig { identity, role: Role::Peer, network, security, access })?;
        let listener = endpoint.bind(at)?;
        let holder = Holder::new(endpoint.node(), listener.local_addr());
        let connection = endpoint.dial(addr, Purpose::Control, None).await?;
        let silent = Silent::default();
        let (calls, driver) =
            control::open(connection.io, silent.clone().serve(), IndexerServiceClient::from);
        let renewals = stay_listed(calls.clone());
        let driver = AbortOnDropHandle::new(tokio::spawn(async move {
            tokio::select! {
                () = driver => {}
                () = renewals => {}
            }
        }));
        Ok(Self { calls, holder, told: silent.told, listener: Some(listener), driver })
    }

    pub fn at(&self) -> NodeAddrs {
        NodeAddrs::new(self.holder.node, [self.holder.addr])
    }

    /// The same without the port, for thousands of them: it is listed, and nobody is to connect there.
    pub fn without_port(mut self) -> Self {
        self.listener = None;
        self
    }

    pub(crate) async fn ended(&mut self) {
        let _ = (&mut self.driver).await; // a task that panicked has ended too
    }

    /// Registers at most a batch of records; all must be listed.
    pub async fn register(&self, records: Vec<SignedRecord>) -> Result<()> {
        let request =
            RegisterRequest { records: Records::try_from(records)?, announce: false, partial: false };
        let reply = self.calls.register(context::current(), request).await??;
        ensure!(reply.unlisted.is_empty() && reply.newer.is_empty(), "not all records were listed");
        Ok(())
    }

    pub(crate) async fn register_all(&self, records: &[SignedRecord]) -> Result<()> {
        for batch in records.chunks(BATCH_MAX) {
            self.register(batch.to_vec()).await?;
        }
        Ok(())
    }
}

async fn stay_listed(calls: IndexerServiceClient) {
    loop {
        // Whoever calls next hears of a broken connection.
        let renewed = calls.renew(context::current()).await;
        let lease =
            renewed.ok().and_then(Result::ok).map(|lease| Duration::from_millis(lease.lease_ms.into()));
        sleep(lease.map_or(RENEW_AGAIN_AFTER, |lease| lease / 3)).await;
    }
}
