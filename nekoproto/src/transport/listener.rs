//! [`Listener`]: accepts connections, each in a task of its own, at most so many at once.

use std::{future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, warn};

use super::{Connection, Endpoint};
use crate::{
    limits::{CONNECTIONS_MAX, HANDSHAKE_TIMEOUT},
    tasks::spawn_until,
};

/// Pause after a failed `accept`: the system is out of something, often file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Lets this process open as many files and connections as the system allows; the usual default is
/// far below [`CONNECTIONS_MAX`]. For programs to call once at their start.
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
}

impl Listener {
    pub(super) fn new(endpoint: Arc<Endpoint>, socket: TcpListener) -> io::Result<Self> {
        let local_addr = socket.local_addr()?;
        Ok(Self { endpoint, socket, local_addr })
    }

    /// Where it listens, with the real port.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Accepts until `stop`. Each connection is taken through its handshake and then given to
    /// `serve`, in a task of its own that `stop` ends too; a failed handshake is logged and ends
    /// there. Past [`CONNECTIONS_MAX`] a new connection is closed at once.
    pub async fn run<F, S>(self, stop: CancellationToken, tasks: TaskTracker, serve: F)
    where
        F: Fn(Connection) -> S + Clone + Send + 'static,
        S: Future<Output = ()> + Send + 'static,
    {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
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
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                debug!("connection closed: too many at once");
                continue;
            };
            let serving = welcome_and_serve(Arc::clone(&self.endpoint), stream, serve.clone(), place);
            spawn_until(&tasks, &stop, serving);
        }
    }
}

async fn welcome_and_serve<F, S>(
    endpoint: Arc<Endpoint>,
    stream: TcpStream,
    serve: F,
    _place: OwnedSemaphorePermit,
) where
    F: Fn(Connection) -> S,
    S: Future<Output = ()>,
{
    match timeout(HANDSHAKE_TIMEOUT, endpoint.welcome(stream)).await {
        Ok(Ok(connection)) => serve(connection).await,
        Ok(Err(error)) => debug!(%error, "connection refused"),
        Err(_) => debug!("connection closed: no hello in time"),
    }
}
