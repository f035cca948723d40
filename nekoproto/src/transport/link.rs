//! [`Link`]: a control connection that reconnects whenever it breaks.

use std::{
    future::pending,
    net::{IpAddr, SocketAddr},
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use futures::FutureExt;
use tokio::{
    sync::{Notify, oneshot, watch},
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, info};

use super::{
    addr::{Addresses, HostAddr},
    backoff::Backoff,
    control::Driver,
    endpoint::Endpoint,
    error::ConnectError,
    interfaces,
    remote::{Connection, Remote},
};
use crate::{
    messages::{Hello, Purpose, Role},
    tasks::spawn_until,
    values::NodeId,
};

const BACKOFF_BASE: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(3);
/// A connection that lasted this long resets the back-off.
const GOOD_AFTER: Duration = Duration::from_secs(5);
/// How often the addresses of this machine are looked at, while a connection to another machine is open.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The state of a link.
#[derive(Clone, Debug)]
pub enum LinkState<C> {
    /// The first attempt is in progress.
    Connecting,
    /// Connected, and its hello has not come yet. What is asked now is answered if it does not refuse.
    Greeting {
        /// Calls the other end.
        client: C,
        /// The other end, as far as that is known.
        remote: Remote,
    },
    /// Connected.
    Up {
        /// Calls the other end; clones share the connection.
        client: C,
        /// The other end.
        remote: Remote,
    },
    /// Not connected; the next attempt follows after a pause.
    Down(
        /// Why.
        Arc<ConnectError>,
    ),
}

/// A persistent, multiplexed control connection to one address, or to where a host is found, that reconnects with jittered
/// back-off. Clones share it; it ends when the token it was spawned with is cancelled.
#[derive(Clone, Debug)]
pub struct Link<C> {
    first: SocketAddr,
    /// Of a host that was not found at first: where it was found then.
    found: Arc<OnceLock<SocketAddr>>,
    state: watch::Receiver<LinkState<C>>,
    /// Notified when another connection is to take the place of the open one.
    again: Arc<Notify>,
}

impl<C: Clone + Send + Sync + 'static> Link<C> {
    /// Starts to connect to `at`, unless that is `dialed` already; with `expected`, any other node there is refused. `open`
    /// turns each new connection into a client and the future that runs it (see [`control::open`](super::control::open)).
    pub fn spawn(
        endpoint: Arc<Endpoint>,
        (at, expected): (HostAddr, Option<NodeId>),
        dialed: Option<Connection>,
        stop: CancellationToken,
        tasks: &TaskTracker,
        open: impl Fn(Connection) -> (C, Driver) + Send + 'static,
    ) -> Self {
        let (sender, state) = watch::channel(LinkState::Connecting);
        let (first, found, again) = (at.addr, Arc::default(), Arc::<Notify>::default());
        let (finding, dialing) = (Arc::clone(&found), Arc::clone(&again));
        spawn_until(tasks, &stop, async move {
            let report = Report { state: &sender, found: &finding };
            keep_connected(endpoint, (at, expected), dialed, open, (report, &dialing)).await
        });
        Self { first, found, state, again }
    }

    /// The address it connects to; of a host, the one that was found first.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        *self.found.get().unwrap_or(&self.first)
    }

    /// The client, while connected.
    #[must_use]
    pub fn client(&self) -> Option<C> {
        match &*self.state.borrow() {
            LinkState::Up { client, .. } => Some(client.clone()),
            LinkState::Connecting | LinkState::Greeting { .. } | LinkState::Down(_) => None,
        }
    }

    /// The same, and as soon as questions may be asked, although the other end may still refuse.
    #[must_use]
    pub fn early_client(&self) -> Option<(C, Remote)> {
        match &*self.state.borrow() {
            LinkState::Up { client, remote } | LinkState::Greeting { client, remote } => {
                Some((client.clone(), *remote))
            }
            LinkState::Connecting | LinkState::Down(_) => None,
        }
    }

    /// The state, to be watched for changes.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<LinkState<C>> {
        self.state.clone()
    }

    /// Dials once more, as this node has something else to say of itself; the open connection stays until that is done.
    pub fn dial_again(&self) {
        self.again.notify_one();
    }

    /// Waits until the first attempt has succeeded or failed.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn tried(&self) -> LinkState<C> {
        self.reached(|state| !matches!(state, LinkState::Connecting | LinkState::Greeting { .. })).await
    }

    /// Waits until [`early_client`](Self::early_client) has one, or the first attempt has failed.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn tried_early(&self) -> LinkState<C> {
        self.reached(|state| !matches!(state, LinkState::Connecting)).await
    }

    async fn reached(&self, is_it: impl FnMut(&LinkState<C>) -> bool) -> LinkState<C> {
        let mut state = self.state.clone();
        let reached = state.wait_for(is_it).await;
        reached.map_or(LinkState::Connecting, |state| state.clone())
    }
}

/// Completes when this machine has other addresses than before: what the other end was told of them is not true any more,
/// and a connection from `here` may hang. At loopback only a peer that others can connect to has told any.
async fn moved(endpoint: &Endpoint, here: IpAddr) {
    let has_told = endpoint.role() == Role::Peer && endpoint.open_port().is_some();
    if here.is_loopback() && !has_told {
        return pending().await;
    }
    let before = interfaces::addresses();
    loop {
        sleep(LOOK_EVERY).await;
        let now = interfaces::addresses();
        if !now.is_empty() && now != before {
            return;
        }
    }
}

async fn dial(
    endpoint: &Arc<Endpoint>,
    addresses: &mut Addresses,
    expected: Option<NodeId>,
) -> Result<Connection, ConnectError> {
    let addr = addresses.current().await?;
    match endpoint.role() {
        Role::Peer => endpoint.dial_early(addr, expected).await, // peers have links to indexers alone
        Role::Indexer => endpoint.dial(addr, Purpose::Control, expected).await,
    }
}

/// Where a link tells how it is.
struct Report<'a, C> {
    state: &'a watch::Sender<LinkState<C>>,
    found: &'a OnceLock<SocketAddr>,
}

impl<C: Clone> Report<'_, C> {
    fn up(&self, client: C, remote: Remote) {
        info!(addr = %remote.addr, node = %remote.node.short(), "connected");
        self.state.send_replace(LinkState::Up { client, remote });
    }

    fn down(&self, addr: SocketAddr, why: ConnectError) {
        let is_known = |before: &ConnectError| before.to_string() == why.to_string();
        match matches!(&*self.state.borrow(), LinkState::Down(before) if is_known(before)) {
            true => debug!(%addr, error = %why, "still not connected"),
            false => info!(%addr, error = %why, "not connected"),
        }
        self.state.send_replace(LinkState::Down(Arc::new(why)));
    }

    /// Says that it is up, once the other end's hello has come; completes if that refuses.
    async fn until_refused(
        &self,
        client: C,
        remote: Remote,
        greeted: Option<oneshot::Receiver<Result<Hello, ConnectError>>>,
    ) -> ConnectError {
        match greeted {
            None => self.up(client, remote),
            Some(greeted) => {
                self.state.send_replace(LinkState::Greeting { client: client.clone(), remote });
                match greeted.await {
                    Ok(Ok(hello)) => self.up(client, remote.as_said(&hello)),
                    Ok(Err(why)) => return why,
                    Err(_) => {} // it broke before
                }
            }
        }
        pending().await
    }
}

/// How a connection ended.
enum LinkEnd {
    /// Another one has taken its place.
    Replaced(Box<Connection>),
    /// It broke, or this machine has moved.
    Broken,
    Refused,
}

/// Runs a connection to `remote` to its end; one that is dialled `again` takes its place.
async fn run(
    endpoint: &Endpoint,
    remote: Remote,
    driver: Driver,
    refused: impl Future<Output = ConnectError>,
    again: impl Future<Output = Connection>,
    down: impl FnOnce(ConnectError),
) -> LinkEnd {
    let driver = endpoint.access().allowed.while_admitted(remote.node, driver);
    tokio::pin!(refused, driver);
    let refused = tokio::select! {
        why = &mut refused => Some(why),
        () = &mut driver => refused.as_mut().now_or_never(),
        () = moved(endpoint, remote.here) => {
            info!(addr = %remote.addr, "the addresses of this machine have changed");
            None
        }
        connection = again => return LinkEnd::Replaced(Box::new(connection)),
    };
    let is_refused = refused.is_some();
    let closed = || std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    let why = refused.unwrap_or_else(|| ConnectError::Unreachable { addr: remote.addr, source: closed() });
    down(why); // before its calls fail, so that they can say why
    if is_refused { LinkEnd::Refused } else { LinkEnd::Broken }
}

async fn keep_connected<C: Clone>(
    endpoint: Arc<Endpoint>,
    (at, expected): (HostAddr, Option<NodeId>),
    mut dialed: Option<Connection>,
    open: impl Fn(Connection) -> (C, Driver),
    (report, again): (Report<'_, C>, &Notify),
) {
    let mut backoff = Backoff::new(BACKOFF_BASE, BACKOFF_MAX);
    let mut addresses = Addresses::of(at);
    loop {
        let connected = match dialed.take() {
            Some(connection) => Ok(connection),
            // In a box, so that an open connection does not keep the room that a handshake takes.
            None => Box::pin(dial(&endpoint, &mut addresses, expected)).await,
        };
        let addr = addresses.last();
        if !matches!(connected, Err(ConnectError::UnknownHost { .. })) {
            report.found.get_or_init(|| addr);
        }
        let has_failed = match connected {
            Ok(mut connection) => {
                let (since, remote, greeted) = (Instant::now(), connection.remote, connection.greeted());
                let (client, driver) = open(connection);
                let refused = report.until_refused(client, remote, greeted);
                let dialed_again = async {
                    again.notified().await;
                    match Box::pin(dial(&endpoint, &mut addresses, expected)).await {
                        Ok(connection) => connection,
                        Err(error) => {
                            debug!(%addr, %error, "the open connection stays");
                            pending().await
                        }
                    }
                };
                let down = |why| report.down(addr, why);
                let ended = run(&endpoint, remote, driver, refused, dialed_again, down).await;
                if since.elapsed() >= GOOD_AFTER {
                    backoff.reset();
                }
                if let LinkEnd::Replaced(connection) = ended {
                    dialed = Some(*connection);
                    continue;
                }
                matches!(ended, LinkEnd::Refused)
            }
            Err(error) => {
                report.down(addr, error);
                true
            }
        };
        tokio::join!(sleep(backoff.pause(rand::random())), addresses.look_up_again(has_failed));
    }
}
