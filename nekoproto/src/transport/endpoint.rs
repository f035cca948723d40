//! [`Endpoint`]: how one node connects and is connected to.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

use super::{
    access::Access,
    error::{ConnectError, EndpointError},
    handshake::{self, Proofs},
    hints::Hints,
    interfaces,
    io::{Io, prepare},
    node_io::NodeIo,
    pending::PendingHello,
    relay::Relay,
    remote::Connection,
    rendezvous::{CallsBack, Rendezvous},
    tls::{Tls, proven_node},
    unproven::Unproven,
};
use crate::{
    budget::{BUDGET_DEFAULT, Budget},
    identity::Identity,
    limits::HINTS_MAX,
    messages::{Hello, HelloRefusal, NetworkName, Purpose, Role},
    values::{IndexerAddr, List, NodeAddrs, NodeId},
};

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
    /// Tells this process from others with its key.
    instance: u64,
    budget: Arc<Budget>,
    tls: Option<Tls>,
    /// Where it listens, if it does.
    listens_on: Mutex<Option<SocketAddr>>,
    /// Addresses where nodes are said to be.
    pub(super) unproven: Unproven,
    /// Shared with [unlisted](Self::unlisted) endpoints.
    pub(super) addresses: Arc<AddressBook>,
    /// Connections that are waited for.
    rendezvous: Rendezvous,
    relay: Relay,
}

/// How nodes are reached that are not where they are said to be.
#[derive(Default)]
pub(super) struct AddressBook {
    /// Their further addresses.
    pub(super) hints: Hints,
    /// Has those connect here that cannot be connected to.
    pub(super) callers: OnceLock<Box<dyn CallsBack>>,
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
        Self::reaching(config, budget, Arc::default())
    }

    fn reaching(
        config: EndpointConfig,
        budget: Arc<Budget>,
        addresses: Arc<AddressBook>,
    ) -> Result<Arc<Self>, EndpointError> {
        let tls = match config.security {
            Security::Tls => Some(Tls::new(&config.identity)?),
            Security::Insecure => None,
        };
        config.access.allowed.admit_own(config.identity.id());
        let (listens_on, unproven, rendezvous, relay) = <_>::default();
        Ok(Arc::new(Self {
            config,
            instance: rand::random(),
            budget,
            tls,
            listens_on,
            unproven,
            addresses,
            rendezvous,
            relay,
        }))
    }

    /// Another endpoint of this node that does not say where it listens: nobody takes it for a holder. It reaches the nodes that
    /// this one does.
    ///
    /// # Errors
    /// The TLS library refuses the key.
    pub fn unlisted(&self) -> Result<Arc<Self>, EndpointError> {
        Self::reaching(self.config.clone(), Arc::clone(&self.budget), Arc::clone(&self.addresses))
    }

    /// The bytes kept for other nodes.
    #[must_use]
    pub const fn budget(&self) -> &Arc<Budget> {
        &self.budget
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

    /// Whether this node listens: hellos say where, to those that can connect there.
    #[must_use]
    pub fn listens(&self) -> bool {
        self.listens_on.lock().is_some()
    }

    /// Whether another way is known to `node` than to dial `addr`.
    #[must_use]
    pub fn knows_another_way(&self, node: NodeId, addr: SocketAddr) -> bool {
        self.addresses.hints.of(node, addr).len() > 1
    }

    /// From now on hellos name this port, where it can be reached.
    pub(super) fn announce(&self, listens_on: SocketAddr) {
        *self.listens_on.lock() = Some(listens_on);
    }

    /// From now on [`dial_node`](Self::dial_node) tries all of these addresses where the first of them is dialled, and has
    /// `via` make the node connect here: at last, unless `via_first`.
    pub fn learn(&self, at: &NodeAddrs, via: Option<IndexerAddr>, via_first: bool) {
        self.addresses.hints.learn(at, via, via_first);
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

    /// Does the handshake of a TCP connection to `addr` that is used as one opened here.
    ///
    /// # Errors
    /// See [`ConnectError`]; the connection is closed.
    pub async fn greet(
        &self,
        stream: TcpStream,
        addr: SocketAddr,
        purpose: Purpose,
    ) -> Result<Connection, ConnectError> {
        prepare(&stream)?;
        let here = stream.local_addr()?.ip().to_canonical();
        let (mut io, proven) = self.secure(stream, addr).await?;
        let hello = self.hello(purpose, here);
        let theirs = handshake::connect(&mut io, &hello, &self.proofs(proven)).await?;
        if theirs.node == self.node() {
            return Err(ConnectError::Refused(HelloRefusal::Yourself));
        }
        let us = SocketAddr::new(here, hello.listen_port);
        let account = self.budget.account(addr.ip(), theirs.node);
        let io = NodeIo::new(io, account.clone());
        Ok(Connection::new((io, account), (&theirs, purpose), (addr, us)))
    }

    /// As [`greet`](Self::greet), but where TLS alone proves who the other end is, its hello is not waited for: requests may
    /// be sent at once, a round trip earlier, and the hello is read before their answers. A refusal shows then. Until it
    /// has come the other end is taken for a `role` that does not listen.
    pub(super) async fn greet_early(
        &self,
        stream: TcpStream,
        addr: SocketAddr,
        (purpose, role): (Purpose, Role),
    ) -> Result<Connection, ConnectError> {
        if self.tls.is_none() || self.is_private() {
            return self.greet(stream, addr, purpose).await;
        }
        prepare(&stream)?;
        let here = stream.local_addr()?.ip().to_canonical();
        let (mut io, proven) = self.secure(stream, addr).await?;
        let node = proven.ok_or(ConnectError::Unproven)?;
        if node == self.node() {
            return Err(ConnectError::Refused(HelloRefusal::Yourself));
        }
        let hello = self.hello(purpose, here);
        let reader = handshake::connect_early(&mut io, &hello, node).await?;
        let us = SocketAddr::new(here, hello.listen_port);
        let account = self.budget.account(addr.ip(), node);
        let mut io = NodeIo::new(io, account.clone());
        io.pending = Some(Box::new(PendingHello { hello: reader, told: None }));
        let (listen_port, is_open, hints) = (0, false, List::new());
        let theirs = Hello { node, role, listen_port, is_open, hints, instance: 0, ..hello };
        Ok(Connection::new((io, account), (&theirs, purpose), (addr, us)))
    }

    /// `stream` under TLS, and the node that it proves; or as it is.
    async fn secure(
        &self,
        stream: TcpStream,
        addr: SocketAddr,
    ) -> Result<(Io, Option<NodeId>), ConnectError> {
        let Some(tls) = &self.tls else { return Ok((Io::Plain(stream), None)) };
        let name = ServerName::IpAddress(addr.ip().into());
        let stream = tls.connector.connect(name, stream).await.map_err(explain_tls)?;
        let stream = TlsStream::from(stream);
        let node = proven_node(&stream).ok_or(ConnectError::Unproven)?;
        Ok((Io::Tls(Box::new(stream)), Some(node)))
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
        let io = NodeIo::new(io, account.clone());
        Ok(Connection::new((io, account), (&theirs, theirs.purpose), (addr, us)))
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
        let hints = open.map_or_else(List::new, |bound| own_addresses(bound, here));
        Hello {
            node: self.node(),
            role: self.config.role,
            purpose,
            network: self.config.network.clone(),
            private: self.is_private(),
            listen_port: listens_on.map_or(0, |bound| bound.port()),
            is_open: bound.is_some_and(|bound| !bound.ip().is_loopback()),
            hints,
            instance: self.instance,
            nonce: rand::random(),
        }
    }
}

/// The addresses of this machine at which a peer that listens on `bound` is reached. That of the connection comes first:
/// where a forwarder takes connections for the other end, that sees the forwarder's address instead.
fn own_addresses(bound: SocketAddr, here: IpAddr) -> List<IpAddr, HINTS_MAX> {
    let mut found = if bound.ip().is_unspecified() { interfaces::addresses() } else { vec![bound.ip()] };
    found.retain(|ip| bound.is_ipv6() || ip.is_ipv4());
    found.sort_by_key(|ip| *ip != here);
    List::first_of(found)
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
pub(super) fn canonical(addr: SocketAddr) -> SocketAddr {
    SocketAddr::new(addr.ip().to_canonical(), addr.port())
}

/// Whether a socket bound to `bound` accepts connections to `here`: a node that listens on a loopback address
/// must not be listed under its address in the network.
fn is_reached_at(bound: IpAddr, here: IpAddr) -> bool {
    bound.is_unspecified() || bound == here
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
    fn a_peer_behind_a_forwarder_says_where_it_is_itself() {
        let (bound, here) = ("192.0.2.1:7".parse().unwrap(), "192.0.2.1".parse().unwrap());
        assert_eq!(*own_addresses(bound, here), [here]);
        let seen =
            NodeAddrs::new(Identity::from_seed(&[1; 32]).id(), ["127.0.0.1:7".parse().unwrap(), bound]);
        assert_eq!(
            seen.named_by(true).named_by(false).addrs(),
            [bound],
            "to whom the forwarder is another machine"
        );
    }

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
