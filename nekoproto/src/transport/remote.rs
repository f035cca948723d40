//! [`Remote`]: the node at the other end of a [`Connection`].

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use tokio::sync::oneshot;

use super::{error::ConnectError, node_io::NodeIo};
use crate::{
    budget::Account,
    messages::{Hello, Purpose, Role},
    values::{NodeAddrs, NodeId},
};

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
    /// The address of this connection's end here.
    pub here: IpAddr,
    /// Where it can reach this node at that address, if this node listens there.
    pub reaches_us_at: Option<SocketAddr>,
    /// Milliseconds for which this node waited for the first packet of it, when it connected there; 0 if it connected here.
    pub round_trip_ms: u16,
}

impl Remote {
    /// It as its hello says, which has come since.
    #[must_use]
    pub fn as_said(self, hello: &Hello) -> Self {
        let us = self.reaches_us_at.unwrap_or_else(|| SocketAddr::new(self.here, 0));
        Self { round_trip_ms: self.round_trip_ms, ..remote(hello, self.addr, us) }
    }

    /// The round trip to it, if this node connected there; else zero.
    #[must_use]
    pub fn round_trip(&self) -> Duration {
        Duration::from_millis(self.round_trip_ms.into())
    }

    /// Whether it runs on this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.addr.ip().is_loopback() || self.addr.ip() == self.here
    }
}

/// A connection after its handshake.
#[derive(Debug)]
pub struct Connection {
    /// The bytes.
    pub io: NodeIo,
    /// The other end.
    pub remote: Remote,
    /// Where it listens, as it was seen and as it says itself; `None` if it does not.
    pub listens_at: Option<NodeAddrs>,
    /// Whether it listens beyond loopback, as it claims.
    pub is_open: bool,
    /// The random number of its process.
    pub instance: u64,
    /// What it was opened for.
    pub purpose: Purpose,
    /// What is kept for the other end.
    pub account: Account,
}

fn remote(hello: &Hello, addr: SocketAddr, us: SocketAddr) -> Remote {
    let listens_at = (hello.listen_port != 0).then(|| SocketAddr::new(addr.ip(), hello.listen_port));
    let reaches_us_at = (us.port() != 0).then_some(us);
    let Hello { node, role, .. } = *hello;
    Remote { node, role, addr, listens_at, here: us.ip(), reaches_us_at, round_trip_ms: 0 }
}

impl Connection {
    /// Sends the other end's hello once it has come, or why it refused; `None` if it came before.
    pub fn greeted(&mut self) -> Option<oneshot::Receiver<Result<Hello, ConnectError>>> {
        let (told, greeted) = oneshot::channel();
        self.io.pending.as_mut()?.told = Some(told);
        Some(greeted)
    }

    /// A connection to the node that said `hello`, at `addr`; `us` is where it reaches this one.
    pub(super) fn new(
        (io, account): (NodeIo, Account),
        (hello, purpose): (&Hello, Purpose),
        (addr, us): (SocketAddr, SocketAddr),
    ) -> Self {
        let remote = remote(hello, addr, us);
        let listens_at = remote.listens_at.map(|seen| {
            let hints = hello.hints.iter().map(|ip| SocketAddr::new(*ip, seen.port()));
            NodeAddrs::new(hello.node, std::iter::once(seen).chain(hints))
        });
        Self { io, remote, listens_at, is_open: hello.is_open, instance: hello.instance, purpose, account }
    }
}
