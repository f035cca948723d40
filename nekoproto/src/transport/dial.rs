//! How a node connects: to an address, to a node at any of its addresses, or by having that node connect here.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{
    net::TcpStream,
    time::{sleep, timeout},
};

use super::{
    backoff::Backoff,
    endpoint::{Endpoint, canonical},
    error::ConnectError,
    hints::{Way, race},
    interfaces::connect,
    remote::Connection,
    rendezvous::{CallsBack, Token, present},
};
use crate::{
    limits::HANDSHAKE_TIMEOUT,
    messages::{Purpose, Role},
    values::{IndexerAddr, NodeId},
};

/// Pauses before a connection that was reset in its handshake is tried again.
const RESET_PAUSE: Duration = Duration::from_millis(50);
const RESET_PAUSE_MAX: Duration = Duration::from_millis(500);

/// Time for a connection to whoever waits for it.
const DIAL_BACK_WITHIN: Duration = Duration::from_secs(2);

/// What a connection is opened for, and of which role the other end has to be for requests to be sent before its hello has
/// come; `None`: they wait for it.
type EarlyFor = (Purpose, Option<Role>);

/// That of a connection to any node: only peers take data connections.
fn of_node(purpose: Purpose) -> EarlyFor {
    (purpose, (purpose == Purpose::Data).then_some(Role::Peer))
}

impl Endpoint {
    /// Connects to `addr` and does the handshake; that of a data connection ends with the first answer, see
    /// [`dial_early`](Self::dial_early). With `expected`, any other node is refused. After a reset it tries again
    /// until [`HANDSHAKE_TIMEOUT`]: that is how a node that many connect to sends some of them away.
    ///
    /// # Errors
    /// See [`ConnectError`]; no connection is left open.
    ///
    /// # Cancel safety
    /// Safe: dropping the future closes the connection.
    pub async fn dial(
        &self,
        addr: SocketAddr,
        purpose: Purpose,
        expected: Option<NodeId>,
    ) -> Result<Connection, ConnectError> {
        self.dial_checked(addr, of_node(purpose), expected, true).await
    }

    /// As [`dial`](Self::dial), for calls to an indexer; its hello is not waited for where TLS alone proves who it is. Whoever
    /// wants to know it [waits](super::Connection::greeted) for it; a refusal shows there, and ends the connection.
    ///
    /// # Errors
    /// See [`ConnectError`]; no connection is left open.
    ///
    /// # Cancel safety
    /// Safe: dropping the future closes the connection.
    pub async fn dial_early(
        &self,
        addr: SocketAddr,
        expected: Option<NodeId>,
    ) -> Result<Connection, ConnectError> {
        self.dial_checked(addr, (Purpose::Control, Some(Role::Indexer)), expected, true).await
    }

    /// From now on `callers` has nodes connect here that cannot be connected to.
    pub fn call_back_by(&self, callers: Box<dyn CallsBack>) {
        drop(self.addresses.callers.set(callers)); // once for each node
    }

    /// Connects to `node`, which is said to be at `addr`, there or at another address that was [learnt](Self::learn) with
    /// it: see [`dial`](Self::dial). At most two connections are made to an address where the key of `node` is not proven;
    /// then it is left alone for half a minute.
    ///
    /// # Errors
    /// See [`ConnectError`]; no connection is left open.
    ///
    /// # Cancel safety
    /// Safe: dropping the future closes the connection, which counts as one that failed.
    pub async fn dial_node(
        self: &Arc<Self>,
        addr: SocketAddr,
        purpose: Purpose,
        node: NodeId,
    ) -> Result<Connection, ConnectError> {
        let mut ways = self.addresses.hints.of(node, addr);
        if let [Way::To(addr)] = ways[..] {
            return self.dial_node_at(addr, purpose, node).await;
        }
        ways.sort_by_key(|way| !matches!(way, Way::To(addr) if self.unproven.has_proven(*addr, node)));
        race(ways, |way| {
            let endpoint = Arc::clone(self);
            async move {
                match way {
                    Way::To(addr) => endpoint.dial_node_at(addr, purpose, node).await,
                    Way::Via(indexer) => endpoint.called_back(indexer, purpose, node).await,
                }
            }
        })
        .await
    }

    /// A connection that `node` opens because `indexer` tells it to; it is used as one that was opened here.
    async fn called_back(
        &self,
        indexer: IndexerAddr,
        purpose: Purpose,
        node: NodeId,
    ) -> Result<Connection, ConnectError> {
        let callers = self.addresses.callers.get().ok_or(ConnectError::NoAddress)?;
        let stream =
            callers.call_back(indexer, node).await.ok_or(ConnectError::NotCalledBack(indexer.addr))?;
        let addr = canonical(stream.peer_addr()?);
        let greeting = self.greet_as(stream, addr, of_node(purpose));
        let connection =
            timeout(HANDSHAKE_TIMEOUT, greeting).await.map_err(|_| ConnectError::Timeout(addr))??;
        self.check(connection, Some(node))
    }

    /// Connects `to` an address where somebody waits for the connection with `token`, who then uses it as one that was
    /// opened there: the handshake of an accepted one follows.
    ///
    /// # Errors
    /// See [`ConnectError`]; no connection is left open.
    pub async fn dial_back(&self, to: SocketAddr, token: Token) -> Result<TcpStream, ConnectError> {
        let dialing = async {
            let unreachable = |source| ConnectError::Unreachable { addr: to, source };
            let mut stream = connect(to).await.map_err(unreachable)?;
            present(&mut stream, token).await?;
            Ok(stream)
        };
        timeout(DIAL_BACK_WITHIN, dialing).await.unwrap_or(Err(ConnectError::Timeout(to)))
    }

    /// The same at this address alone.
    ///
    /// # Errors
    /// See [`ConnectError`]; no connection is left open.
    ///
    /// # Cancel safety
    /// As [`dial_node`](Self::dial_node).
    pub async fn dial_node_at(
        &self,
        addr: SocketAddr,
        purpose: Purpose,
        node: NodeId,
    ) -> Result<Connection, ConnectError> {
        let dialing = |again| self.dial_checked(addr, of_node(purpose), Some(node), again);
        self.unproven.guard(addr, node, dialing).await
    }

    async fn dial_checked(
        &self,
        addr: SocketAddr,
        purpose: EarlyFor,
        expected: Option<NodeId>,
        again: bool,
    ) -> Result<Connection, ConnectError> {
        let is_there = AtomicBool::new(false);
        let dialing = self.dial_again(addr, purpose, again, &is_there);
        let connection = timeout(HANDSHAKE_TIMEOUT, dialing).await.map_err(|_| {
            let is_there = is_there.load(Ordering::Relaxed);
            if is_there { ConnectError::Silent(addr) } else { ConnectError::Timeout(addr) }
        })??;
        self.check(connection, expected)
    }

    fn check(&self, connection: Connection, expected: Option<NodeId>) -> Result<Connection, ConnectError> {
        let found = connection.remote.node;
        match expected {
            Some(expected) if expected != found => Err(ConnectError::OtherNode { expected, found }),
            _ if !self.access().allowed.admits(found) => Err(ConnectError::NotAllowed(found)),
            _ => Ok(connection),
        }
    }

    async fn dial_again(
        &self,
        addr: SocketAddr,
        purpose: EarlyFor,
        again: bool,
        is_there: &AtomicBool,
    ) -> Result<Connection, ConnectError> {
        let (began, mut backoff) = (Instant::now(), Backoff::new(RESET_PAUSE, RESET_PAUSE_MAX));
        loop {
            let pause = backoff.pause(rand::random());
            let is_last = !again || began.elapsed() + pause >= HANDSHAKE_TIMEOUT - RESET_PAUSE_MAX;
            match self.dial_unbounded(addr, purpose, is_there).await {
                Err(error) if error.is_reset() && !is_last => sleep(pause).await,
                dialed => return dialed,
            }
        }
    }

    async fn dial_unbounded(
        &self,
        addr: SocketAddr,
        purpose: EarlyFor,
        is_there: &AtomicBool,
    ) -> Result<Connection, ConnectError> {
        let began = Instant::now();
        let stream = connect(addr).await.map_err(|source| ConnectError::Unreachable { addr, source })?;
        is_there.store(true, Ordering::Relaxed);
        let round_trip_ms = u16::try_from(began.elapsed().as_millis()).unwrap_or(u16::MAX);
        let mut connection = self.greet_as(stream, addr, purpose).await?;
        connection.remote.round_trip_ms = round_trip_ms;
        Ok(connection)
    }

    async fn greet_as(
        &self,
        stream: TcpStream,
        addr: SocketAddr,
        (purpose, role): EarlyFor,
    ) -> Result<Connection, ConnectError> {
        match role {
            Some(role) => self.greet_early(stream, addr, (purpose, role)).await,
            None => self.greet(stream, addr, purpose).await,
        }
    }
}
