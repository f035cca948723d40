//! What the tests share: nodes that listen, connections, and control frames written by hand.

pub(crate) mod services;
pub(crate) mod wire;

pub(crate) use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

pub(crate) use nekoproto::{
    indexer::{IndexerServiceRequest as Ask, IndexerServiceResponse as Answer},
    limits::*,
    peer::{PeerServiceRequest as AskPeer, PeerServiceResponse as PeerAnswer},
    transport::*,
    *,
};
pub(crate) use testkit::{
    frames::{self, closes, read_body, reads},
    network::{ANY_PORT, kept_port},
    peer::endpoint,
    values::*,
};
pub(crate) use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinHandle,
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

pub(crate) use self::{services::*, wire::*};

pub(crate) type ToIndexer = Envelope<Ask, PeerAnswer>;
pub(crate) type ToPeer = Envelope<AskPeer, Answer>;

/// A listening node that hands out every connection after its handshake.
pub(crate) struct Site {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) addr: SocketAddr,
    pub(crate) accepted: mpsc::UnboundedReceiver<Connection>,
    security: Security,
    _stop: DropGuard,
}

impl Site {
    pub(crate) fn indexer(security: Security) -> Self {
        Self::of(endpoint(2, Role::Indexer, security), security)
    }

    pub(crate) fn of(endpoint: Arc<Endpoint>, security: Security) -> Self {
        let listener = endpoint.bind(ANY_PORT).unwrap();
        let addr = listener.local_addr();
        let (sender, accepted) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let hand_out = move |connection| {
            let sent = sender.send(connection);
            async move { sent.unwrap() }
        };
        tokio::spawn(listener.run(stop.clone(), TaskTracker::new(), hand_out));
        Self { endpoint, addr, accepted, security, _stop: stop.drop_guard() }
    }

    pub(crate) async fn next(&mut self) -> Connection {
        self.accepted.recv().await.unwrap()
    }

    /// Both ends of a connection of the peer `seed`: the one that dialed first.
    pub(crate) async fn connect(&mut self, seed: u16, purpose: Purpose) -> (Connection, Connection) {
        let peer = endpoint(seed, Role::Peer, self.security);
        (peer.dial(self.addr, purpose, None).await.unwrap(), self.next().await)
    }

    /// Connects `welcome`, whose connection must be the first to be handed out: earlier ones were refused and did
    /// not harm the listener.
    pub(crate) async fn admits_first(&mut self, welcome: &Endpoint) {
        welcome.dial(self.addr, Purpose::Control, None).await.unwrap();
        assert_eq!(self.next().await.remote.node, welcome.node());
    }

    /// A connection of the peer `seed` to `service`, written by hand. Nobody calls the peer.
    pub(crate) async fn by_hand(&mut self, seed: u16, service: Indexer) -> Wire {
        self.called_by_hand(seed, service).await.0
    }

    pub(crate) async fn called_by_hand(&mut self, seed: u16, service: Indexer) -> (Wire, PeerServiceClient) {
        let (Connection { io, .. }, accepted) = self.connect(seed, Purpose::Control).await;
        let account = accepted.account.clone();
        let (to_peer, driver) = open_as_indexer(accepted, service);
        (Wire { io, account, driver: tokio::spawn(driver) }, to_peer)
    }

    pub(crate) fn used(&self) -> usize {
        self.endpoint.budget().used()
    }

    pub(crate) async fn until_used(&self, is_enough: impl Fn(usize) -> bool) {
        testkit::eventually(async || is_enough(self.used()).then_some(())).await;
    }
}

/// Both ends of one connection: the one that dialed (node 1, a peer), and the one that accepted (node 2 in `role`).
pub(crate) async fn connected(security: Security, role: Role, purpose: Purpose) -> (Connection, Connection) {
    Site::of(endpoint(2, role, security), security).connect(1, purpose).await
}

pub(crate) struct Wire {
    pub(crate) io: NodeIo,
    /// What the indexer keeps for the peer.
    pub(crate) account: budget::Account,
    pub(crate) driver: JoinHandle<()>,
}

impl Wire {
    pub(crate) async fn write(&mut self, envelopes: impl IntoIterator<Item = ToIndexer>) {
        let frames = envelopes.into_iter().flat_map(|envelope| frames::frame(&envelope).unwrap());
        frames::write(&mut self.io, &frames.collect::<Vec<u8>>()).await;
    }

    /// Asks for `text` with each of these ids, all at once.
    pub(crate) async fn asks(&mut self, ids: impl IntoIterator<Item = u64>, text: &str) {
        self.write(ids.into_iter().map(|id| asking(id, text))).await;
    }

    pub(crate) async fn next(&mut self) -> ToPeer {
        codec::decode(&read_body(&mut self.io).await).unwrap()
    }

    pub(crate) async fn next_call(&mut self) -> u64 {
        let ToPeer::Request { id, .. } = self.next().await else { panic!("no request") };
        id
    }

    /// Reads the answer to a query, which counts `messages`.
    pub(crate) async fn answers(&mut self, id: u64, messages: u32) {
        reads(&mut self.io, &answered(id, messages)).await;
    }

    pub(crate) async fn is_served(&mut self, id: u64) {
        self.asks([id], "abc").await;
        self.answers(id, 3).await;
    }

    /// Reads `count` answers; how many of them are long replies, and how many `Busy`.
    pub(crate) async fn served_and_busy(&mut self, count: u64) -> (usize, usize) {
        let (mut served, mut busy) = (0, 0);
        for _ in 0..count {
            match read_body(&mut self.io).await {
                body if body.len() > 32 << 10 => served += 1,
                body => match codec::decode(&body).unwrap() {
                    ToPeer::Response { answer: Err(Fault::Busy), .. } => busy += 1,
                    other => panic!("{other:?}"),
                },
            }
        }
        (served, busy)
    }
}

pub(crate) fn query(text: &str) -> QueryRequest {
    QueryRequest::new(MsgId::random(), name(text), 0)
}

pub(crate) fn asking(id: u64, text: &str) -> ToIndexer {
    ToIndexer::Request { id, deadline_ms: 60_000, call: Ask::Query { request: query(text) } }
}

pub(crate) fn answered(id: u64, messages: u32) -> ToPeer {
    ToPeer::Response { id, answer: Ok(Answer::Query(Ok(reply(messages)))) }
}

pub(crate) fn acknowledged(id: u64) -> ToIndexer {
    ToIndexer::Response { id, answer: Ok(PeerAnswer::Invalidate(Ok(()))) }
}

pub(crate) async fn calls_work(client: &IndexerServiceClient) {
    assert_eq!(client.query(patient(), query("abc")).await.unwrap(), Ok(reply(3)));
}
