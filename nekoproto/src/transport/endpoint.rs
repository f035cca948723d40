//! [`Endpoint`]: how one node connects and is connected to.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::{Arc, OnceLock},
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
    hints::{Hints, Way, race},
    interfaces,
    io::{Io, prepare},
    node_io::NodeIo,
    relay::Relay,
    rendezvous::{Rendezvous, Token, present},
    tls::{Tls, proven_node},
    unproven::Unproven,
};
use crate::{
    budget::{Account, BUDGET_DEFAULT, Budget},
    identity::Identity,
    limits::{HANDSHAKE_TIMEOUT, HINTS_MAX},
    messages::{Hello, HelloRefusal, NetworkName, Purpose, Role},
    turns::Turns,
    values::{IndexerAddr, List, NodeAddrs, NodeId},
};

/// Pauses before a connection that was reset in its handshake is tried again.
const RESET_PAUSE: Duration = Duration::from_millis(50);
const RESET_PAUSE_MAX: Duration = Duration::from_millis(500);

/// Time for a connection to whoever waits for it.
const DIAL_BACK_WITHIN: Duration = Duration::from_secs(2);

/// Has nodes connect here that cannot be connected to.
pub trait CallsBack: Send + Sync {
    /// The connection that `node` opened because `indexer` told it to, before its handshake.
    fn call_back(
        &self,
        indexer: IndexerAddr,
        node: NodeId,
    ) -> Pin<Box<dyn Future<Output = Option<TcpStream>> + Send + '_>>;
}

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
    /// Their further addresses.
    hints: Hints,
    /// Connections that are waited for.
    rendezvous: Rendezvous,
    relay: Relay,
    /// Has nodes connect here that cannot be connected to.
    callers: OnceLock<Box<dyn CallsBack>>,
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
    /// Whether it listens beyond loopback, as it claims.
    pub is_open: bool,
    /// Further addresses of its machine, as it claims.
    pub hints: [Option<IpAddr>; HINTS_MAX],
    /// The address of this connection's end here.
    pub here: IpAddr,
    /// Where it can reach this node at that address, if this node listens there.
    pub reaches_us_at: Option<SocketAddr>,
}

impl Remote {
    /// Whether it runs on this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.addr.ip().is_loopback() || self.addr.ip() == self.here
    }

    /// Where it listens, as it was seen and as it says itself; `None` if it does not.
    #[must_use]
    pub fn node_addrs(&self) -> Option<NodeAddrs> {
        let seen = self.listens_at?;
        let hints = self.hints.iter().flatten().map(|ip| SocketAddr::new(*ip, seen.port()));
        Some(NodeAddrs::new(self.node, std::iter::once(seen).chain(hints)))
    }
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
        let (listens_on, unproven, hints) = <_>::default();
        let (rendezvous, relay, callers) = <_>::default();
        let turns = Turns::new();
        Ok(Arc::new(Self {
            config,
            budget,
            turns,
            tls,
            listens_on,
            unproven,
            hints,
            rendezvous,
            relay,
            callers,
        }))
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

    /// The port on which other machines can connect, if this node listens beyond loopback.
    #[must_use]
    pub fn open_port(&self) -> Option<u16> {
        self.listens_on.lock().filter(|bound| !bound.ip().is_loopback()).map(|bound| bound.port())
    }

    /// Whether another way is known to `node` than to dial `addr`.
    #[must_use]
    pub fn knows_another_way(&self, node: NodeId, addr: SocketAddr) -> bool {
        self.hints.of(node, addr).len() > 1
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

    /// From now on [`dial_node`](Self::dial_node) tries all of these addresses where the first of them is dialled, and has
    /// `via` make the node connect here: at last, unless `via_first`.
    pub fn learn(&self, at: &NodeAddrs, via: Option<IndexerAddr>, via_first: bool) {
        self.hints.learn(at, via, via_first);
    }

    /// Connections that are waited for here.
    #[must_use]
    pub const fn rendezvous(&self) -> &Rendezvous {
        &self.rendezvous
    }

    /// What it relays for others.
    #[must_use]
    pub const fn relay(&self) -> &Relay {
        &self.relay
    }

    /// From now on `callers` has nodes connect here that cannot be connected to.
    pub fn call_back_by(&self, callers: Box<dyn CallsBack>) {
        drop(self.callers.set(callers)); // once for each node
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
        let mut ways = self.hints.of(node, addr);
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
        let callers = self.callers.get().ok_or(ConnectError::NoAddress)?;
        let stream =
            callers.call_back(indexer, node).await.ok_or(ConnectError::NotCalledBack(indexer.addr))?;
        let addr = canonical(stream.peer_addr()?);
        let greeting = self.greet(stream, addr, purpose);
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
            let mut stream = TcpStream::connect(to).await.map_err(unreachable)?;
            present(&mut stream, token).await?;
            Ok(stream)
        };
        timeout(DIAL_BACK_WITHIN, dialing).await.unwrap_or(Err(ConnectError::Timeout(to)))
    }

    async fn dial_node_at(
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
        self.greet(stream, addr, purpose).await
    }

    /// Does the handshake of a connection that is used as one opened here.
    async fn greet(
        &self,
        stream: TcpStream,
        addr: SocketAddr,
        purpose: Purpose,
    ) -> Result<Connection, ConnectError> {
        prepare(&stream)?;
        let here = stream.local_addr()?.ip().to_canonical();
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

    /// Does the handshake of an accepted TCP connection, or of one that was [dialled back](Self::dial_back).
    ///
    /// # Errors
    /// See [`ConnectError`]; the connection is closed.
    pub async fn welcome(&self, stream: TcpStream) -> Result<Connection, ConnectError> {
        let addr = canonical(stream.peer_addr()?);
        let here = stream.local_addr()?.ip().to_canonical();
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
        let bound = *self.listens_on.lock();
        let listens_on = bound.filter(|bound| is_reached_at(bound.ip(), here));
        // Only who registers is asked for there.
        let says_more = self.config.role == Role::Peer && purpose == Purpose::Control;
        let open = bound.filter(|bound| says_more && !bound.ip().is_loopback());
        let hints = open.map_or_else(List::new, |bound| further_addresses(bound, here));
        Hello {
            node: self.node(),
            role: self.config.role,
            purpose,
            network: self.config.network.clone(),
            private: self.is_private(),
            listen_port: listens_on.map_or(0, |bound| bound.port()),
            is_open: bound.is_some_and(|bound| !bound.ip().is_loopback()),
            hints,
            nonce: rand::random(),
        }
    }
}

/// Further addresses of this machine at which a peer that listens on `bound` is reached.
fn further_addresses(bound: SocketAddr, here: IpAddr) -> List<IpAddr, HINTS_MAX> {
    let is_served = |ip: &IpAddr| *ip != here && (bound.is_ipv6() || ip.is_ipv4());
    let found = if bound.ip().is_unspecified() { interfaces::addresses() } else { vec![bound.ip()] };
    List::first_of(found.into_iter().filter(is_served))
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

/// An IPv4 address that a socket for both kinds shows as IPv6, as itself.
fn canonical(addr: SocketAddr) -> SocketAddr {
    SocketAddr::new(addr.ip().to_canonical(), addr.port())
}

/// Whether a socket bound to `bound` accepts connections to `here`: a node that listens on a loopback address
/// must not be listed under its address in the network.
fn is_reached_at(bound: IpAddr, here: IpAddr) -> bool {
    bound.is_unspecified() || bound == here
}

fn remote(hello: &Hello, addr: SocketAddr, us: SocketAddr) -> Remote {
    let mut hints = [None; HINTS_MAX];
    hints.iter_mut().zip(hello.hints.iter()).for_each(|(place, ip)| *place = Some(*ip));
    let listens_at = (hello.listen_port != 0).then(|| SocketAddr::new(addr.ip(), hello.listen_port));
    let reaches_us_at = (us.port() != 0).then_some(us);
    let (node, role, is_open) = (hello.node, hello.role, hello.is_open);
    Remote { node, role, addr, listens_at, is_open, hints, here: us.ip(), reaches_us_at }
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
