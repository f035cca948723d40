//! [`Listener`]: accepts connections, each in a task of its own. How many there may be follows from the limit of open
//! files, apart for handshakes, control and data; when all are taken, the least worthy gives way to the newcomer.

use std::{
    future::{Future, poll_fn},
    io,
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    net::{RecvFlags, recv},
};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, warn};

use super::{
    descriptors::{file_limit, shares},
    endpoint::{Connection, Endpoint},
    error::ConnectError,
    pace::Pace,
    places::{Place, Places, Presence, Tenant},
    turned_away::TurnedAway,
};
use crate::{
    limits::HANDSHAKE_TIMEOUT,
    messages::{Purpose, Role},
    tasks::spawn_until,
    turns::Flow,
};

/// Connections the system may queue for `accept`.
const BACKLOG: u32 = 4096;
/// Pause after a failed `accept`: the system lacks a resource, often file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How often a newcomer of this machine looks for a place at least, while all handshakes wait for their turns.
const CROWDED_PAUSE: Duration = Duration::from_millis(5);

/// All handshakes together get the time of one more than this many busy nodes.
const HANDSHAKES_WEIGHT: u64 = 7;

/// A bound socket of an [`Endpoint`].
#[derive(Debug)]
pub struct Listener {
    endpoint: Arc<Endpoint>,
    socket: TcpListener,
    local_addr: SocketAddr,
    arrivals: Arc<Arrivals>,
}

/// The connections of a [`Listener`], in numbers.
#[derive(Debug)]
pub struct Arrivals {
    handshakes: Places,
    control: Places,
    data: Places,
    refused: AtomicU64,
    failed: AtomicU64,
    turned_away: TurnedAway,
}

impl Arrivals {
    fn new(role: Role) -> Self {
        let shares = shares(file_limit(), role == Role::Peer);
        let [handshakes, control, data] = [shares.handshakes, shares.control, shares.data].map(Places::new);
        let (refused, failed) = <_>::default();
        Self { handshakes, control, data, refused, failed, turned_away: TurnedAway::default() }
    }

    const fn all(&self) -> [&Places; 3] {
        [&self.handshakes, &self.data, &self.control]
    }

    /// Connections that are open.
    #[must_use]
    pub fn open(&self) -> usize {
        self.all().iter().map(|places| places.taken()).sum()
    }

    /// As many as there may be.
    #[must_use]
    pub fn max(&self) -> usize {
        self.all().iter().map(|places| places.max()).sum()
    }

    /// Connections that were closed at once, as too many were open.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Connections that were closed for newcomers.
    #[must_use]
    pub fn replaced(&self) -> u64 {
        self.all().iter().map(|places| places.replaced()).sum()
    }

    /// Connections whose handshake failed or took too long.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failed.load(Relaxed)
    }

    fn refuse(&self) {
        self.refused.fetch_add(1, Relaxed);
        debug!("connection closed: too many at once");
    }
}

impl Endpoint {
    /// Listens on `addr`; port 0 picks a free one. From now on hellos name that port
    /// to those who can reach it.
    ///
    /// # Errors
    /// The address is in use or not of this host.
    pub fn bind(self: &Arc<Self>, addr: SocketAddr) -> io::Result<Listener> {
        let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?; // a restarted node gets its port back at once
        socket.bind(addr)?;
        let socket = socket.listen(BACKLOG)?;
        let local_addr = socket.local_addr()?;
        self.announce(local_addr);
        let arrivals = Arc::new(Arrivals::new(self.role()));
        Ok(Listener { endpoint: Arc::clone(self), socket, local_addr, arrivals })
    }
}

impl Listener {
    /// The address it listens on, with the real port.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Its connections, in numbers.
    #[must_use]
    pub fn arrivals(&self) -> Arc<Arrivals> {
        Arc::clone(&self.arrivals)
    }

    /// Accepts until `stop`. Each connection gets a task of its own, which `stop` ends too: it does the handshake
    /// and passes the connection to `serve`, or logs why the handshake failed. A connection that has to give way to a
    /// newcomer ends: a control connection ends its driver, of a data stream `serve` is dropped.
    pub async fn run<F, S>(self, stop: CancellationToken, tasks: TaskTracker, serve: F)
    where
        F: Fn(Connection) -> S + Clone + Send + 'static,
        S: Future<Output = ()> + Send + 'static,
    {
        let (mut pace, flow) = (Pace::default(), Flow::weighted(HANDSHAKES_WEIGHT));
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => return,
                accepted = self.socket.accept() => accepted,
            };
            let (stream, from) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    warn!(%error, "cannot accept a connection");
                    if let Some(Errno::MFILE | Errno::NFILE) = Errno::from_io_error(&error) {
                        self.arrivals.all().into_iter().for_each(Places::thin_out);
                    }
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let tenant = Tenant::at(from.ip(), None);
            let place = match pace.admits(tenant, Instant::now()) {
                true => tokio::select! {
                    () = stop.cancelled() => return,
                    place = self.place(tenant, has_spoken(&stream)) => place,
                },
                false => None,
            };
            let Some(place) = place else {
                self.arrivals.refuse();
                continue;
            };
            let welcome = Welcome {
                endpoint: Arc::clone(&self.endpoint),
                arrivals: Arc::clone(&self.arrivals),
                flow: flow.clone(),
            };
            spawn_until(&tasks, &stop, welcome.and_serve(stream, place, serve.clone()));
        }
    }

    /// A place for a handshake; who has spoken keeps it longer than who is silent. A node of this machine waits for it:
    /// whoever takes all others may be another.
    async fn place(&self, tenant: Tenant, has_spoken: bool) -> Option<Place> {
        loop {
            let presence = Presence::new(CancellationToken::new());
            if has_spoken {
                presence.used();
                presence.set_busy(true);
            }
            let place = self.arrivals.handshakes.enter(tenant, presence);
            if place.is_some() || tenant != Tenant::Local {
                return place;
            }
            let _ = timeout(CROWDED_PAUSE, self.arrivals.handshakes.freed()).await;
        }
    }
}

/// Whether the other end has sent anything yet. Its task may be polled only after many others that are silent have come.
fn has_spoken(stream: &TcpStream) -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    recv(stream, &mut [0_u8; 1], flags).is_ok_and(|(count, _)| count > 0)
}

struct Welcome {
    endpoint: Arc<Endpoint>,
    arrivals: Arc<Arrivals>,
    /// The work of handshakes.
    flow: Flow,
}

impl Welcome {
    async fn and_serve<F, S>(self, stream: TcpStream, place: Place, serve: F)
    where
        F: Fn(Connection) -> S,
        S: Future<Output = ()>,
    {
        let ended = place.presence().ended();
        let from = stream.peer_addr().ok();
        // In a box, so that an open connection does not keep the room that a handshake takes.
        let greeting = Box::pin(timeout(HANDSHAKE_TIMEOUT, self.greet(stream, place.presence())));
        let greeted = ended.run_until_cancelled(greeting).await;
        drop(place);
        let connection = match greeted {
            Some(Ok(Ok(connection))) => connection,
            None => return debug!("connection closed: others came, and its handshake was not over"),
            Some(failed) => {
                match failed {
                    Ok(Err(error)) => self.arrivals.turned_away.log(from, &error),
                    _ => debug!("connection closed: no hello in time"),
                }
                self.arrivals.failed.fetch_add(1, Relaxed);
                return;
            }
        };
        let Connection { remote, purpose, .. } = &connection;
        let (node, places) = match purpose {
            Purpose::Control => (remote.node, &self.arrivals.control),
            Purpose::Data => (remote.node, &self.arrivals.data),
        };
        let tenant = Tenant::at(remote.addr.ip(), Some(remote.node));
        let Some(place) = places.enter(tenant, connection.io.presence.clone()) else {
            return self.arrivals.refuse();
        };
        let allowed = &self.endpoint.access().allowed;
        match purpose {
            Purpose::Control => allowed.while_admitted(node, serve(connection)).await,
            Purpose::Data => {
                let ended = place.presence().ended();
                let serving = allowed.while_admitted(node, serve(connection));
                ended.run_until_cancelled(serving).await.unwrap_or_default();
            }
        }
    }

    /// Waits for the first bytes, which take nothing but a descriptor, then does the handshake, whose steps take turns.
    /// It gives way to others while it waits for the other end, not while it waits for its turn.
    async fn greet(&self, stream: TcpStream, presence: &Presence) -> Result<Connection, ConnectError> {
        stream.readable().await?;
        presence.used();
        let mut worker = self.endpoint.turns().worker(self.flow.clone());
        let mut welcoming = pin!(self.endpoint.welcome(stream));
        poll_fn(|cx| {
            presence.set_busy(true);
            worker.poll(cx, |cx, _| {
                let welcomed = welcoming.as_mut().poll(cx);
                presence.set_busy(welcomed.is_ready());
                welcomed
            })
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test]
    async fn who_has_spoken_is_told_from_who_is_silent() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut dialed = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        assert!(!has_spoken(&accepted));
        dialed.write_all(b"x").await.unwrap();
        accepted.readable().await.unwrap();
        assert!(has_spoken(&accepted) && has_spoken(&accepted), "it is still to be read");
    }
}
