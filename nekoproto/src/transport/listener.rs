//! [`Listener`]: accepts connections, up to [`CONNECTIONS_MAX`] at once, each in a task of its own.

use std::{
    future::Future,
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, warn};

use super::{
    endpoint::{Connection, Endpoint},
    turned_away::TurnedAway,
};
use crate::{
    limits::{CONNECTIONS_MAX, HANDSHAKE_TIMEOUT},
    tasks::spawn_until,
};

/// Connections the system may queue for `accept`.
const BACKLOG: u32 = 1024;
/// Pause after a failed `accept`: the system lacks a resource, often file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Raises this process's limit of open files and sockets to the maximum the system allows; the usual default
/// is far below [`CONNECTIONS_MAX`]. To be called once at the start of a program.
pub fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        warn!(%error, "the limit of open files stays as it is");
    }
}

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
    permits: Arc<Semaphore>,
    refused: AtomicU64,
    failed: AtomicU64,
    turned_away: TurnedAway,
}

impl Arrivals {
    /// Connections that are open, at most [`CONNECTIONS_MAX`].
    #[must_use]
    pub fn open(&self) -> usize {
        CONNECTIONS_MAX - self.permits.available_permits()
    }

    /// Connections that were closed at once, as too many were open.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Connections whose handshake failed or took too long.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failed.load(Relaxed)
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
        let arrivals = Arc::new(Arrivals {
            permits: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            refused: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            turned_away: TurnedAway::default(),
        });
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
    /// and passes the connection to `serve`, or logs why the handshake failed. Beyond [`CONNECTIONS_MAX`] a
    /// new connection is closed at once.
    pub async fn run<F, S>(self, stop: CancellationToken, tasks: TaskTracker, serve: F)
    where
        F: Fn(Connection) -> S + Clone + Send + 'static,
        S: Future<Output = ()> + Send + 'static,
    {
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => return,
                accepted = self.socket.accept() => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Ok(permit) = Arc::clone(&self.arrivals.permits).try_acquire_owned() else {
                self.arrivals.refused.fetch_add(1, Relaxed);
                debug!("connection closed: too many at once");
                continue;
            };
            let welcome =
                Welcome { endpoint: Arc::clone(&self.endpoint), arrivals: Arc::clone(&self.arrivals) };
            let serving = welcome.and_serve(stream, serve.clone(), permit);
            spawn_until(&tasks, &stop, serving);
        }
    }
}

struct Welcome {
    endpoint: Arc<Endpoint>,
    arrivals: Arc<Arrivals>,
}

impl Welcome {
    async fn and_serve<F, S>(self, stream: TcpStream, serve: F, _permit: OwnedSemaphorePermit)
    where
        F: Fn(Connection) -> S,
        S: Future<Output = ()>,
    {
        let from = stream.peer_addr().ok();
        // In a box, so that an open connection does not keep the room that a handshake takes.
        match timeout(HANDSHAKE_TIMEOUT, Box::pin(self.endpoint.welcome(stream))).await {
            Ok(Ok(connection)) => {
                let node = connection.remote.node;
                return self.endpoint.access().allowed.while_admitted(node, serve(connection)).await;
            }
            Ok(Err(error)) => self.arrivals.turned_away.log(from, &error),
            Err(_) => debug!("connection closed: no hello in time"),
        }
        self.arrivals.failed.fetch_add(1, Relaxed);
    }
}
