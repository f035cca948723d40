//! A peer as the indexer sees one: it listens, registers, and takes note of invalidations.

use crate::prelude::*;

use nekoproto::peer::{PeerServiceRequest as AskPeer, PeerServiceResponse as Answer};
use tokio::task::AbortHandle;

use crate::{
    network::ANY_PORT,
    rogue::{
        Habit, Pretender,
        raw::{ATTACKER, dial},
    },
    service,
    values::{identity, name, patient, registration},
};

/// A connected peer. Dropping it closes its connection.
pub struct Peer {
    pub client: IndexerServiceClient,
    pub invalidations: mpsc::UnboundedReceiver<Records>,
    /// Where others would reach it; nobody accepts there.
    pub holder: Option<Holder>,
    driver: AbortHandle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manners {
    Acknowledges,
    NeverAnswers,
}

pub fn endpoint(seed: u16, role: Role, security: Security) -> Arc<Endpoint> {
    let identity = identity(seed);
    let (network, access) = (NetworkName::default(), Access::default());
    Endpoint::new(EndpointConfig { identity, role, network, security, access }).unwrap()
}

impl Peer {
    /// The peer with this seed, connected to the indexer at `addr`. It listens, so it may register.
    pub async fn join(seed: u16, addr: SocketAddr, security: Security) -> Self {
        Self::join_with(seed, addr, security, Manners::Acknowledges).await
    }

    pub async fn join_with(seed: u16, addr: SocketAddr, security: Security, manners: Manners) -> Self {
        let endpoint = endpoint(seed, Role::Peer, security);
        let listener = endpoint.bind(ANY_PORT).unwrap();
        let holder = Holder::new(endpoint.node(), listener.local_addr());
        let connection = endpoint.dial(addr, Purpose::Control, None).await.unwrap();
        Self::connect(connection, Role::Peer, Some(holder), manners)
    }

    /// One that listens at another address of this machine, and connects from there.
    pub async fn join_elsewhere(seed: u16, addr: SocketAddr, security: Security) -> Self {
        let endpoint = endpoint(seed, Role::Peer, security);
        let listener = endpoint.bind(ATTACKER).unwrap();
        let holder = Holder::new(endpoint.node(), listener.local_addr());
        let connection = dial(&endpoint, addr, Purpose::Control).await.unwrap();
        Self::connect(connection, Role::Peer, Some(holder), Manners::Acknowledges)
    }

    pub async fn join_unheard(seed: u16, addr: SocketAddr, role: Role, security: Security) -> Self {
        let connection = endpoint(seed, role, security).dial(addr, Purpose::Control, None).await.unwrap();
        Self::connect(connection, role, None, Manners::Acknowledges)
    }

    fn connect(connection: Connection, role: Role, holder: Option<Holder>, manners: Manners) -> Self {
        let io = connection.io;
        let (told, invalidations) = mpsc::unbounded_channel();
        let (client, driver) = match role {
            Role::Indexer => Pretender::new(Habit::NeverAnswers).0.open(io),
            Role::Peer => {
                let service = service::peer(move |_, call| async move {
                    let AskPeer::Invalidate { records } = call else { return Err(Refusal::WrongRole) };
                    let _ = told.send(records); // few tests listen
                    match manners {
                        Manners::Acknowledges => Ok(Answer::Invalidate(Ok(()))),
                        Manners::NeverAnswers => std::future::pending().await,
                    }
                });
                let (client, driver) = control::open(io, service, IndexerServiceClient::from);
                (client, Box::pin(driver) as control::Driver)
            }
        };
        let driver = tokio::spawn(driver).abort_handle();
        Self { client, invalidations, holder, driver }
    }

    pub async fn register(&self, records: impl IntoIterator<Item = SignedRecord>) -> RegisterReply {
        self.client.register(patient(), registration(records)).await.unwrap().unwrap()
    }

    pub async fn query(&self, text: &str, ttl_hops: u8) -> QueryReply {
        self.query_for(name(text), ttl_hops).await
    }

    pub async fn query_for(&self, name: FileName, ttl_hops: u8) -> QueryReply {
        let request = QueryRequest::new(MsgId::random(), name, ttl_hops);
        self.client.query(patient(), request).await.unwrap().unwrap()
    }

    pub async fn is_told(&mut self) -> Vec<(String, u64)> {
        let records = self.invalidations.recv().await.unwrap();
        records
            .into_iter()
            .map(|record| {
                let record = record.verify().unwrap();
                (record.name.to_string(), record.version.get())
            })
            .collect()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
