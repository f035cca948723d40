//! What the transport tests share: nodes on free ports, both securities, raw frames.

use std::{fmt::Debug, net::SocketAddr, sync::Arc};

use nekoproto::{
    Hello, NetworkName, Purpose, Role,
    transport::{Access, Connection, Endpoint, EndpointConfig, NodeIo, Security},
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::mpsc,
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

pub(crate) mod services;
pub(crate) mod wire;

pub(crate) use testkit::{
    network::{ANY_PORT, kept_port},
    values::{identity, name},
};

/// Runs `case` once over TLS and once in the clear.
pub(crate) async fn over_both(case: impl AsyncFn(Security)) {
    for security in [Security::Tls, Security::Insecure] {
        case(security).await;
    }
}

/// A hello of the node with this seed.
pub(crate) fn hello(seed: u16) -> Hello {
    Hello {
        node: identity(seed).id(),
        role: Role::Peer,
        purpose: Purpose::Control,
        network: NetworkName::default(),
        private: false,
        listen_port: 0,
        nonce: [7; 32],
    }
}

/// The endpoint of the node with this seed, in the default network.
pub(crate) fn endpoint(seed: u16, role: Role, security: Security) -> Arc<Endpoint> {
    endpoint_in(NetworkName::default(), seed, role, security)
}

/// The endpoint of the node with this seed.
pub(crate) fn endpoint_in(network: NetworkName, seed: u16, role: Role, security: Security) -> Arc<Endpoint> {
    let access = Access::default();
    Endpoint::new(EndpointConfig { identity: identity(seed), role, network, security, access }).unwrap()
}

/// A listening node that hands out every connection after its handshake.
pub(crate) struct Listening {
    pub(crate) addr: SocketAddr,
    pub(crate) accepted: mpsc::UnboundedReceiver<Connection>,
    _stop: DropGuard,
}

impl Listening {
    /// Begins to listen on a free port.
    pub(crate) fn begin(endpoint: &Arc<Endpoint>) -> Self {
        let listener = endpoint.bind(ANY_PORT).unwrap();
        let addr = listener.local_addr();
        let (sender, accepted) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let hand_out = move |connection| {
            let sent = sender.send(connection);
            async move { sent.unwrap() }
        };
        tokio::spawn(listener.run(stop.clone(), TaskTracker::new(), hand_out));
        Self { addr, accepted, _stop: stop.drop_guard() }
    }

    /// The next connection whose handshake succeeded.
    pub(crate) async fn next(&mut self) -> Connection {
        self.accepted.recv().await.unwrap()
    }

    /// Connects `welcome`, whose connection must be the first to be handed out: earlier ones were refused and did
    /// not harm the listener.
    pub(crate) async fn admits_first(&mut self, welcome: &Endpoint) {
        welcome.dial(self.addr, Purpose::Control, None).await.unwrap();
        assert_eq!(self.next().await.remote.node, welcome.node());
    }
}

/// Both ends of one connection: the one that dialed (node 1, a peer), and the one that accepted
/// (node 2 in `role`).
pub(crate) async fn connected(security: Security, role: Role, purpose: Purpose) -> (Connection, Connection) {
    let mut listening = Listening::begin(&endpoint(2, role, security));
    let dialed = endpoint(1, Role::Peer, security).dial(listening.addr, purpose, None).await.unwrap();
    (dialed, listening.next().await)
}

/// Writes one control frame by hand.
pub(crate) async fn write_frame(io: &mut NodeIo, envelope: &impl Serialize) {
    write_frames(io, [envelope]).await;
}

/// Writes control frames by hand, all at once.
pub(crate) async fn write_frames<T: Serialize>(io: &mut NodeIo, envelopes: impl IntoIterator<Item = T>) {
    let mut bytes = Vec::new();
    for envelope in envelopes {
        let body = nekoproto::codec::encode(&envelope).unwrap();
        bytes.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
        bytes.extend(body);
    }
    io.write_all(&bytes).await.unwrap();
    io.flush().await.unwrap();
}

/// Reads the body of one control frame by hand.
pub(crate) async fn read_body(io: &mut NodeIo) -> Vec<u8> {
    let mut body = vec![0; io.read_u32().await.unwrap() as usize];
    io.read_exact(&mut body).await.unwrap();
    body
}

/// Reads one control frame by hand, which must be `expected`.
pub(crate) async fn reads<T: Serialize + DeserializeOwned + Debug>(io: &mut NodeIo, expected: &T) {
    let body = read_body(io).await;
    let same = body == nekoproto::codec::encode(expected).unwrap();
    assert!(same, "expected {expected:?}, came {:?}", nekoproto::codec::decode::<T>(&body));
}

/// Waits until the other end closes the connection without sending another byte.
pub(crate) async fn closes(io: &mut (impl AsyncReadExt + Unpin)) {
    assert_eq!(io.read(&mut [0; 64]).await.unwrap_or(0), 0, "bytes came instead of the end");
}
