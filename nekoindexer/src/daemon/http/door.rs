//! [`HttpDoor`]: listens on threads of its own, so that HTTP never delays the node's work.

use std::{
    io,
    net::{SocketAddr, TcpListener as StdListener},
    num::NonZeroUsize,
    thread,
    time::Duration,
};

use axum::Router;
use nekoproto::transport::stop_listening;
use tokio::{net::TcpListener, sync::oneshot, time::sleep};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, warn};

use super::{connection, slots::HttpSlots};

/// How long open answers may go on after [`HttpDoor::shutdown`]; streams of events never end by themselves.
const GRACE: Duration = Duration::from_secs(1);
/// Pause after a failed `accept`: the system lacks a resource, often file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What an [`HttpDoor`] is made of.
#[derive(Clone, Copy, Debug)]
pub struct HttpConfig {
    /// Address to listen on. Port 0 picks a free one.
    pub listen: SocketAddr,
    /// Threads that serve connections.
    pub threads: NonZeroUsize,
}

/// The HTTP door of a daemon: its own OS threads with their own runtime. Handlers run there too.
/// Dropping it ends it, after at most a second for answers that are being sent.
#[derive(Debug)]
pub struct HttpDoor {
    local_addr: SocketAddr,
    stop: CancellationToken,
    /// Closed when the last thread has ended.
    ended: oneshot::Receiver<()>,
}

impl HttpDoor {
    /// Listens, and answers by `router`, which should have been [guarded](super::guarded).
    ///
    /// # Errors
    /// The address is in use or not of this host, or the system gives no thread. Nothing is left open.
    pub fn open(config: HttpConfig, router: Router) -> io::Result<Self> {
        let socket = StdListener::bind(config.listen)?;
        socket.set_nonblocking(true)?;
        let local_addr = socket.local_addr()?;
        let mut runtime = match config.threads.get() {
            1 => tokio::runtime::Builder::new_current_thread(),
            several => {
                let mut runtime = tokio::runtime::Builder::new_multi_thread();
                runtime.worker_threads(several);
                runtime
            }
        };
        let runtime = runtime.enable_all().thread_name("http").build()?;
        let socket = {
            let _entered = runtime.enter();
            TcpListener::from_std(socket)?
        };
        let stop = CancellationToken::new();
        let (end, ended) = oneshot::channel();
        let stopped = stop.clone();
        thread::Builder::new().name("http".to_owned()).spawn(move || {
            let _end = end; // dropped last
            runtime.block_on(accept(socket, router, stopped));
            runtime.shutdown_timeout(GRACE);
        })?;
        Ok(Self { local_addr, stop, ended })
    }

    /// Where it listens, with the real port.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Stops listening, lets answers that are being sent go on for at most a second, and waits until all
    /// threads have ended.
    ///
    /// # Cancel safety
    /// Dropping the future ends the door too; only nobody waits.
    pub async fn shutdown(mut self) {
        self.stop.cancel();
        // It is closed without a word when the thread ends.
        let _ = (&mut self.ended).await;
    }
}

impl Drop for HttpDoor {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Accepts until `stop`, then waits for the connections, for [`GRACE`] at most.
async fn accept(socket: TcpListener, router: Router, stop: CancellationToken) {
    let (slots, tasks) = (HttpSlots::new(), TaskTracker::new());
    let cut = CancellationToken::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = socket.accept() => accepted,
        };
        match accepted {
            Ok((stream, from)) => match slots.enter(from.ip()) {
                Some(slot) => {
                    let serving = connection::serve(stream, router.clone(), stop.clone(), slot);
                    tasks.spawn(cut.clone().run_until_cancelled_owned(serving));
                }
                None => debug!(%from, "HTTP connection closed: too many at once"),
            },
            Err(error) => {
                warn!(%error, "cannot accept an HTTP connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    stop_listening(&socket);
    drop(socket);
    tasks.close();
    if tokio::time::timeout(GRACE, tasks.wait()).await.is_err() {
        cut.cancel();
        tasks.wait().await;
    }
}
