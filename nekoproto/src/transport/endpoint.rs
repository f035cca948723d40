//! [`Endpoint`]: how one node connects and is connected to.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use tokio::{
    net::TcpStream,
    time::{sleep, timeout},
};
use tokio_rustls::TlsStream;

use super::{
    access::Access,
    backoff::Backoff,
    error::{ConnectError, EndpointError},
    handshake::{self, Proofs},
    io::{Io, prepare},
    node_io::NodeIo,
    tls::{Tls, proven_node},
    unproven::Unproven,
};
use crate::{
    budget::{Account, BUDGET_DEFAULT, Budget},
    identity::Identity,
    limits::HANDSHAKE_TIMEOUT,
    messages::{Hello, HelloRefusal, NetworkName, Purpose, Role},
    turns::Turns,
    values::NodeId,
};

/// Pauses before a connection that was reset in its handshake is tried again.
const RESET_PAUSE: Duration = Duration::from_millis(50);
const RESET_PAUSE_MAX: Duration = Duration::from_millis(500);

/// Whether connections are TLS or plain TCP. Both ends must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Security {
    /// TLS 1.3, both ends prove their keys.
    #[default]
    Tls,
    /// Plain TCP, for trusted links and comparison.
    Insecure,
}

/// What an [`Endpoint`] is made of.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// The node's key pair.
    pub identity: Identity,
    /// Its role.
    pub role: Role,
    /// Its network.
    pub network: NetworkName,
    /// TLS or plain TCP.
    pub security: Security,
    /// Whom it connects with.
    pub access: Access,
}

/// One node's side of all its connections.
pub struct Endpoint {
    config: EndpointConfig,
    budget: Arc<Budget>,
    turns: Turns,
    tls: Option<Tls>,
    /// Where it listens, if it does.
    listens_on: Mutex<Option<SocketAddr>>,
    /// Addresses where nodes are said to be.
    unproven: Unproven,
}

/// The node at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Its id, which it proved.
    pub node: NodeId,
    /// Its role, as it claims.
    pub role: Role,
    /// The address it connected from, or was reached at.
    pub addr: SocketAddr,
    /// Where it listens: its observed address with the port it claims; `None` if it does not listen.
    pub listens_at: Option<SocketAddr>,
    /// Where it can reach this node over the address of this connection's end here, if this node listens there.
    pub reaches_us_at: Option<SocketAddr>,
}

/// A connection after its handshake.
#[derive(Debug)]
pub struct Connection {
    /// The bytes.
    pub io: NodeIo,
    /// The other end.
    pub remote: Remote,
    /// What it was opened for.
    pub purpose: Purpose,
    /// What is kept for the other end.
    pub account: Account,
}

impl Endpoint {
    /// An endpoint that does not listen yet, with a budget of [`BUDGET_DEFAULT`] of its own.
    ///
    /// # Errors
    /// The TLS library refuses the key.
    pub fn new(config: EndpointConfig) -> Result<Arc<Self>, EndpointError> {
        Self::with_budget(config, Budget::new(BUDGET_DEFAULT))
    }

    /// An endpoint that does not listen yet; what it keeps for others is taken from `budget`.
    ///
    /// # Errors
    /// The TLS library refuses the key.
    pub fn with_budget(config: EndpointConfig, budget: Arc<Budget>) -> Result<Arc<Self>, EndpointError> {
        let tls = match config.security {
            Security::Tls => Some(Tls::new(&config.identity)?),
            Security::Insecure => None,
        };
        config.access.allowed.admit_own(config.identity.id());
        let (listens_on, unproven) = <_>::default();
        Ok(Arc::new(Self { config, budget, turns: Turns::new(), tls, listens_on, unproven }))
    }

    /// The bytes kept for other nodes.
    #[must_use]
    pub const fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// The order in which its connections work.
    pub(super) const fn turns(&self) -> &Turns {
        &self.turns
    }

    /// This node's id.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.config.identity.id()
    }

    /// This node's key pair.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.config.identity
    }

    /// What it is to others.
    pub(super) const fn role(&self) -> Role {
        self.config.role
    }

    /// Whom it connects with.
    #[must_use]
    pub const fn access(&self) -> &Access {
        &self.config.access
    }

    /// From now on hellos name this port, where it can be reached.
    pub(super) fn announce(&self, listens_on: SocketAddr) {
        *self.listens_on.lock() = Some(listens_on);
    }

    /// Connects to `addr` and does the handshake. With `expected`, any other node is refused. After a reset it tries again
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
        self.dial_checked(addr, purpose, expected, true).await
    }

    /// Connects to `node`, which is said to be at `addr`: see [`dial`](Self::dial). At most two connections are made to
    /// an address where the key of `node` is not proven; then it is left alone for half a minute.
    ///
    /// # Errors
    /// See [`ConnectError`]; no connection is left open.
    ///
    /// # Cancel safety
    /// Safe: dropping the future closes the connection, which counts as one that failed.
    pub async fn dial_node(
        &self,
        addr: SocketAddr,
        purpose: Purpose,
        node: NodeId,
    ) -> Result<Connection, ConnectError> {
        self.unproven.guard(addr, node, |again| self.dial_checked(addr, purpose, Some(node), again)).await
    }

    async fn dial_checked(
        &self,
        addr: SocketAddr,
        purpose: Purpose,
        expected: Option<NodeId>,
        again: bool,
    ) -> Result<Connection, ConnectError> {
        let dialing = self.dial_again(addr, purpose, again);
        let connection =
            timeout(HANDSHAKE_TIMEOUT, dialing).await.map_err(|_| ConnectError::Timeout(addr))??;
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
        purpose: Purpose,
        again: bool,
    ) -> Result<Connection, ConnectError> {
        let mut backoff = Backoff::new(RESET_PAUSE, RESET_PAUSE_MAX);
        loop {
            match self.dial_unbounded(addr, purpose).await {
                Err(error) if again && error.is_reset() => sleep(backoff.pause(rand::random())).await,
                dialed => return dialed,
            }
        }
    }

    async fn dial_unbounded(&self, addr: SocketAddr, purpose: Purpose) -> Result<Connection, ConnectError> {
        let stream =
            TcpStream::connect(addr).await.map_err(|source| ConnectError::Unreachable { addr, source })?;
        prepare(&stream)?;
        let here = stream.local_addr()?.ip();
        let (mut io, proven) = match &self.tls {
            Some(tls) => {
                let stream = tls
                    .connector
                    .connect(ServerName::IpAddress(addr.ip().into()), stream)
                    .await
                    .map_err(explain_tls)?;
                let stream = TlsStream::from(stream);
                let node = proven_node(&stream).ok_or(ConnectError::Unproven)?;
                (Io::Tls(Box::new(stream)), Some(node))
            }
            None => (Io::Plain(stream), None),
        };
        let hello = self.hello(purpose, here);
        let theirs = handshake::connect(&mut io, &hello, &self.proofs(proven)).await?;
        if theirs.node == self.node() {
            return Err(ConnectError::Refused(HelloRefusal::Yourself));
        }
        let us = SocketAddr::new(here, hello.listen_port);
        let account = self.budget.account(addr.ip(), theirs.node);
        let io = NodeIo::new(io, account.clone(), &self.turns);
        Ok(Connection { io, remote: remote(&theirs, addr, us), purpose, account })
    }

    /// Does the handshake of an accepted TCP connection.
    pub(super) async fn welcome(&self, stream: TcpStream) -> Result<Connection, ConnectError> {
        let (addr, here) = (stream.peer_addr()?, stream.local_addr()?.ip());
        prepare(&stream)?;
        let (mut io, proven) = match &self.tls {
            Some(tls) => {
                let stream = TlsStream::from(tls.acceptor.accept(stream).await.map_err(explain_tls)?);
                let node = proven_node(&stream).ok_or(ConnectError::Unproven)?;
                (Io::Tls(Box::new(stream)), Some(node))
            }
            None => (Io::Plain(stream), None),
        };
        let answer = |theirs: &Hello| self.answer(theirs, here);
        let theirs = handshake::accept(&mut io, &self.proofs(proven), answer).await?;
        let us = SocketAddr::new(here, self.hello(theirs.purpose, here).listen_port);
        let account = self.budget.account(addr.ip(), theirs.node);
        let io = NodeIo::new(io, account.clone(), &self.turns);
        Ok(Connection { io, remote: remote(&theirs, addr, us), purpose: theirs.purpose, account })
    }

    /// Whether every node that a connection is made with has proved the network's secret.
    #[must_use]
    pub const fn is_private(&self) -> bool {
        self.config.access.secret.is_some()
    }

    const fn proofs(&self, proven: Option<NodeId>) -> Proofs<'_> {
        Proofs { identity: &self.config.identity, secret: self.config.access.secret.as_ref(), proven }
    }

    fn answer(&self, theirs: &Hello, here: IpAddr) -> Result<Hello, HelloRefusal> {
        if theirs.network != self.config.network {
            return Err(HelloRefusal::OtherNetwork);
        }
        if theirs.node == self.node() {
            return Err(HelloRefusal::Yourself);
        }
        match (theirs.private, self.is_private()) {
            (false, true) => return Err(HelloRefusal::SecretMissing),
            (true, false) => return Err(HelloRefusal::SecretUnasked),
            _ => {}
        }
        if !self.access().allowed.admits(theirs.node) {
            return Err(HelloRefusal::NotAllowed);
        }
        if theirs.purpose == Purpose::Data && self.config.role != Role::Peer {
            return Err(HelloRefusal::WrongPurpose);
        }
        Ok(self.hello(theirs.purpose, here))
    }

    /// The hello of a connection whose end here has the address `here`, which the other end observes.
    fn hello(&self, purpose: Purpose, here: IpAddr) -> Hello {
        let listens_on = self.listens_on.lock().filter(|bound| is_reached_at(bound.ip(), here));
        Hello {
            node: self.node(),
            role: self.config.role,
            purpose,
            network: self.config.network.clone(),
            private: self.is_private(),
            listen_port: listens_on.map_or(0, |bound| bound.port()),
            nonce: rand::random(),
        }
    }
}

/// Tells apart a TLS failure whose cause is that the other end does not use TLS. The TLS library has sent an
/// alert then, by which a node without TLS knows too (see [`handshake`]).
fn explain_tls(error: io::Error) -> ConnectError {
    let of_tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match of_tls {
        Some(rustls::Error::InvalidMessage(_)) => ConnectError::SecurityDiffers,
        _ => ConnectError::Handshake(error),
    }
}

/// Whether a socket bound to `bound` accepts connections to `here`: a node that listens on a loopback address
/// must not be listed under its address in the network.
fn is_reached_at(bound: IpAddr, here: IpAddr) -> bool {
    bound.is_unspecified() || bound == here
}

fn remote(hello: &Hello, addr: SocketAddr, us: SocketAddr) -> Remote {
    let listens_at = (hello.listen_port != 0).then(|| SocketAddr::new(addr.ip(), hello.listen_port));
    let reaches_us_at = (us.port() != 0).then_some(us);
    Remote { node: hello.node, role: hello.role, addr, listens_at, reaches_us_at }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("config", &self.config).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_is_named_only_where_it_can_be_reached() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let cases = [
            ("0.0.0.0", "192.0.2.1", true),
            ("::", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.1", true),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "192.0.2.1", false),
            ("127.0.0.2", "127.0.0.1", false),
            ("::1", "2001:db8::1", false),
            ("192.0.2.1", "127.0.0.1", false),
        ];
        for (bound, here, reached) in cases {
            assert_eq!(is_reached_at(ip(bound), ip(here)), reached, "{bound} at {here}");
        }
    }
}
