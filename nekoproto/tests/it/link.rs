//! Links: connections that notice their loss and reconnect.

use tokio::sync::watch;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use crate::common::*;

/// The other end of a link, until it is stopped.
struct Server {
    events: Events,
    clients: mpsc::UnboundedReceiver<PeerServiceClient>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Server {
    /// Node `seed` listens on exactly `addr`, a reserved port.
    fn begin(seed: u16, addr: SocketAddr, security: Security) -> Self {
        let listener = endpoint(seed, Role::Indexer, security).bind(addr).unwrap();
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let (service, events) = Indexer::new();
        let (sender, clients) = mpsc::unbounded_channel();
        let serve = move |connection| {
            let (client, driver) = open_as_indexer(connection, service.clone());
            sender.send(client).unwrap();
            driver
        };
        tasks.spawn(listener.run(stop.clone(), tasks.clone(), serve));
        Self { events, clients, stop, tasks }
    }

    /// Stops it; returns when its socket and its connections are closed.
    async fn end(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// A link of node 1, and what its handlers do.
struct Linked {
    link: Link<IndexerServiceClient>,
    events: Events,
    state: watch::Receiver<LinkState<IndexerServiceClient>>,
    tasks: TaskTracker,
    stop: DropGuard,
}

impl Linked {
    fn begin(at: impl Into<HostAddr>, security: Security) -> Self {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let endpoint = endpoint(1, Role::Peer, security);
        let (service, events) = Peer::new();
        let open = move |connection| open_as_peer(connection, service.clone());
        let link = Link::spawn(endpoint, (at.into(), None), None, stop.clone(), &tasks, open);
        Self { state: link.watch(), link, events, tasks, stop: stop.drop_guard() }
    }

    /// Waits until it is connected to the node `seed`; returns the client.
    async fn up(&mut self, seed: u16) -> IndexerServiceClient {
        match self.state.wait_for(|state| matches!(state, LinkState::Up { .. })).await.unwrap().clone() {
            LinkState::Up { client, remote } => {
                assert_eq!(remote.node, identity(seed).id());
                client
            }
            _ => unreachable!("it was waited for"),
        }
    }

    async fn down(&mut self) {
        self.state.wait_for(|state| matches!(state, LinkState::Down(_))).await.unwrap();
        assert!(self.link.client().is_none());
    }
}

#[testkit::test]
async fn server_that_is_not_there_at_start_is_found_and_after_its_loss_its_successor(security: Security) {
    let (_kept, addr) = kept_port();
    let mut linked = Linked::begin(addr, security);
    assert_eq!(linked.link.addr(), addr);
    let LinkState::Down(why) = linked.link.tried().await else { panic!("nobody listens there") };
    assert!(matches!(*why, ConnectError::Unreachable { .. }), "{why}");
    linked.down().await;

    let server = Server::begin(2, addr, security);
    let client = linked.up(2).await;
    calls_work(&client).await;

    server.end().await;
    linked.down().await;
    client.query(patient(), query("abc")).await.unwrap_err();

    let _server = Server::begin(3, addr, security); // not the same node: the address counts
    calls_work(&linked.up(3).await).await;
    calls_work(&linked.link.client().unwrap()).await;
}

/// Goal: what is asked before the other end has said hello is answered; where that refuses, the call fails, and the link says why.
#[testkit::test]
async fn question_goes_with_the_hello_and_a_refusal_is_told() {
    let (_kept, addr) = kept_port();
    let _server = Server::begin(2, addr, Security::Tls);
    let linked = Linked::begin(addr, Security::Tls);
    linked.link.tried_early().await;
    let (client, remote) = linked.link.early_client().unwrap();
    assert_eq!(remote.node, identity(2).id());
    calls_work(&client).await;

    let (stop, tasks, (service, _events)) = (CancellationToken::new(), TaskTracker::new(), Peer::new());
    let network = NetworkName::try_from("elsewhere".to_owned()).unwrap();
    let (identity, role, security, access) = (identity(3), Role::Peer, Security::Tls, Access::default());
    let stranger = Endpoint::new(EndpointConfig { identity, role, network, security, access }).unwrap();
    let open = move |connection| open_as_peer(connection, service.clone());
    let link = Link::spawn(stranger, (addr.into(), None), None, stop.clone(), &tasks, open);
    let mut state = link.watch();
    link.tried_early().await;
    if let Some((client, _)) = link.early_client() {
        client.query(patient(), query("abc")).await.unwrap_err();
    }
    let refused = state.wait_for(|state| matches!(state, LinkState::Down(_))).await.unwrap().clone();
    let LinkState::Down(why) = refused else { unreachable!("it was waited for") };
    assert!(matches!(*why, ConnectError::Refused(HelloRefusal::OtherNetwork)), "{why}");
    stop.cancel();
}

#[testkit::test]
async fn link_that_dials_again_has_a_client_all_the_time(security: Security) {
    let (_kept, addr) = kept_port();
    let mut server = Server::begin(2, addr, security);
    let mut linked = Linked::begin(addr, security);
    let before = linked.up(2).await;
    server.clients.recv().await.unwrap();
    linked.link.dial_again();
    server.clients.recv().await.unwrap();
    while before.query(patient(), query("abc")).await.is_ok() {} // until the old one is closed
    calls_work(&linked.up(2).await).await;
}

/// Goal: a host that moved is found where it is now. Method: it was at an address where nobody listens, as far as is known.
#[testkit::test]
async fn host_is_looked_up_again_when_nobody_is_where_it_was(security: Security) {
    let (_kept, addr) = kept_port();
    let _server = Server::begin(2, addr, security);
    let before = SocketAddr::from(([127, 0, 0, 9], addr.port()));
    let mut linked = Linked::begin(HostAddr::found(&format!("localhost:{}", addr.port()), before), security);
    calls_work(&linked.up(2).await).await;
    let LinkState::Up { remote, .. } = &*linked.state.borrow() else { panic!("it was up") };
    assert_eq!((linked.link.addr(), remote.addr), (before, addr));
}

#[testkit::test]
async fn host_that_cannot_be_looked_up_is_tried_again(security: Security) {
    let mut linked = Linked::begin("nowhere.invalid:7707".parse::<HostAddr>().unwrap(), security);
    for _ in 0..2 {
        linked.state.changed().await.unwrap();
        let LinkState::Down(why) = &*linked.state.borrow() else { panic!("nobody is there") };
        assert!(why.to_string().contains("cannot look up nowhere.invalid:7707"), "{why}");
    }
}

#[testkit::test]
async fn link_comes_back_although_calls_were_in_flight_both_ways(security: Security) {
    let (_kept, addr) = kept_port();
    let mut server = Server::begin(2, addr, security);
    let mut linked = Linked::begin(addr, security);
    let client = linked.up(2).await;
    let up = tokio::spawn(async move { client.query(patient(), query("wait")).await });
    assert_eq!(server.events.recv().await, Some(Event::Waiting));
    let client = server.clients.recv().await.unwrap();
    let asked = List::first_of([held(name("wait"), 1)]);
    let down = tokio::spawn(async move { client.confirm(patient(), asked).await });
    assert_eq!(linked.events.recv().await, Some(Event::Waiting));

    server.end().await;
    up.await.unwrap().unwrap_err();
    down.await.unwrap().unwrap_err();
    assert_eq!(linked.events.recv().await, Some(Event::Dropped));
    linked.down().await;
    let _server = Server::begin(2, addr, security);
    calls_work(&linked.up(2).await).await;
}

#[testkit::test]
async fn link_that_is_stopped_ends_its_connection(security: Security) {
    let (_kept, addr) = kept_port();
    let mut server = Server::begin(2, addr, security);
    let mut linked = Linked::begin(addr, security);
    let client = linked.up(2).await;
    let waiting = tokio::spawn(async move { client.query(patient(), query("wait")).await });
    assert_eq!(server.events.recv().await, Some(Event::Waiting));

    drop(linked.stop);
    linked.tasks.close();
    linked.tasks.wait().await;
    waiting.await.unwrap().unwrap_err();
    assert_eq!(server.events.recv().await, Some(Event::Dropped));
}
