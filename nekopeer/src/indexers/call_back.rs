//! Has holders connect to this peer that it cannot connect to, through an indexer that they are connected to.

use std::{
    pin::Pin,
    sync::{Arc, Weak},
    time::Duration,
};

use nekoproto::{
    CallBack, IndexerAddr, IndexerServiceClient, NodeId,
    transport::{CallsBack, call_within, rendezvous::Token},
};
use tokio::{net::TcpStream, time::timeout};
use tracing::debug;

use super::{Indexers, via::Connected};

/// Time limit for a call, in which the holder connects.
const CALLED_WITHIN: Duration = Duration::from_secs(5);
/// Time that a holder has to connect here before it is had to connect to the indexer too.
const RELAY_AFTER: Duration = Duration::from_millis(500);

pub(super) struct Callers(Weak<Indexers>);

impl Callers {
    pub(super) fn new(indexers: &Arc<Indexers>) -> Self {
        Self(Arc::downgrade(indexers))
    }
}

impl CallsBack for Callers {
    fn call_back(
        &self,
        indexer: IndexerAddr,
        node: NodeId,
    ) -> Pin<Box<dyn Future<Output = Option<TcpStream>> + Send + '_>> {
        Box::pin(async move { self.0.upgrade()?.call_back(indexer, node).await })
    }
}

impl Indexers {
    async fn call_back(&self, at: IndexerAddr, holder: NodeId) -> Option<TcpStream> {
        let (client, _kept) = self.client_of(at).await?;
        let direct = self.direct(&client, holder);
        let relayed = self.relayed(&client, at, holder);
        tokio::pin!(direct, relayed);
        match timeout(RELAY_AFTER, &mut direct).await {
            Ok(Some(stream)) => return Some(stream),
            Ok(None) => return relayed.await,
            Err(_) => {}
        }
        tokio::select! {
            stream = &mut direct => match stream {
                Some(stream) => Some(stream),
                None => relayed.await,
            },
            stream = &mut relayed => match stream {
                Some(stream) => Some(stream),
                None => direct.await,
            },
        }
    }

    /// A client of the indexer, and the connection if it was opened for this.
    async fn client_of(&self, at: IndexerAddr) -> Option<(IndexerServiceClient, Option<Connected>)> {
        let mut own = self.sessions().filter(|session| session.remote() == Some(at.node));
        if let Some(client) = own.find_map(|session| session.link.client()) {
            return Some((client, None));
        }
        let connected = self.connect_to(at).await?;
        Some((connected.client.clone(), Some(connected)))
    }

    /// The holder connects to this peer.
    async fn direct(&self, client: &IndexerServiceClient, holder: NodeId) -> Option<TcpStream> {
        let rendezvous = self.endpoint.rendezvous();
        let expected = rendezvous.expect(Token::random())?;
        let (port, accepting) = match self.endpoint.open_port() {
            Some(port) => (port, None),
            None => rendezvous.listen().await.ok().map(|(port, accepting)| (port, Some(accepting)))?,
        };
        let request = CallBack { holder, port: Some(port), token: expected.token() };
        let calling = async {
            let called = client.call_back(call_within(CALLED_WITHIN), request).await;
            if !matches!(called, Ok(Ok(()))) {
                debug!(holder = %holder.short(), ?called, "a holder cannot connect here");
                return None;
            }
            timeout(CALLED_WITHIN, expected.stream()).await.ok()?
        };
        match accepting {
            None => calling.await,
            Some(accepting) => tokio::select! {
                stream = calling => stream,
                () = accepting => None,
            },
        }
    }

    /// The holder and this peer connect to the indexer, which joins the two connections.
    async fn relayed(
        &self,
        client: &IndexerServiceClient,
        at: IndexerAddr,
        holder: NodeId,
    ) -> Option<TcpStream> {
        let token = Token::random();
        let called =
            client.call_back(call_within(CALLED_WITHIN), CallBack { holder, port: None, token }).await;
        if !matches!(called, Ok(Ok(()))) {
            debug!(holder = %holder.short(), ?called, "nothing is relayed");
            return None;
        }
        self.endpoint.dial_back(at.addr, token).await.ok()
    }
}
