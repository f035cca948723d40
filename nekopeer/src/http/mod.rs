//! The HTTP door of a running peer: the commands of the local socket, for programs that speak HTTP.
//!
//! It answers on threads of its own and has commands carried out on the runtime of the peer. Each part of it is a
//! router over what they all share, [`Inside`].

mod carried;
mod dashboard;
mod described;
mod feed;
mod figures;
pub(crate) mod files;
mod rest;

use std::{io, net::SocketAddr, num::NonZeroUsize, sync::Arc};

use axum::{Router, middleware::from_extractor};
use nekoindexer::daemon::http::{Authorized, Guard, HttpConfig, HttpDoor, Token, guarded};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use self::feed::Feed;
use crate::{commands::Host, util::places::Places};

/// Threads that serve connections.
const THREADS: NonZeroUsize = NonZeroUsize::new(2).expect("2 is not 0");

/// An open HTTP door. Dropping it closes it; commands that run there are interrupted.
#[derive(Debug)]
pub(crate) struct HttpServer {
    door: HttpDoor,
    inside: Arc<Inside>,
}

/// What the parts of the HTTP door share.
#[derive(Debug)]
pub(crate) struct Inside {
    pub(crate) host: Arc<Host>,
    /// Requests whose commands are carried out.
    commands: Arc<Places>,
    /// The runtime of the peer: connections to other nodes must live there.
    pub(crate) node: Handle,
    /// Events and changes of jobs, ready to be sent.
    pub(crate) feed: Feed,
    /// Cancelled when the door closes.
    pub(crate) closing: CancellationToken,
}

impl HttpServer {
    /// Opens the door at `listen`. Changing routes ask for `token`; so does everything but whether the process lives,
    /// where the network `is_private` and others than this machine reach the door. To be called on the runtime of the peer.
    pub(crate) fn open(
        listen: SocketAddr,
        host: &Arc<Host>,
        token: Token,
        is_private: bool,
    ) -> io::Result<Self> {
        let closing = CancellationToken::new();
        let feed = Feed::start(host, &closing);
        let commands = Places::new(carried::HTTP_COMMANDS_MAX, 0);
        let (host, node) = (Arc::clone(host), Handle::current());
        let inside = Arc::new(Inside { host, commands, node, feed, closing });
        let guard = Guard { hosts: Vec::new(), token: Some(Arc::new(token)) };
        let config = HttpConfig { listen, threads: THREADS };
        let door =
            HttpDoor::open(config, guarded(router(&inside, is_private && !listen.ip().is_loopback()), guard));
        let door = door.inspect_err(|_| inside.closing.cancel())?;
        Ok(Self { door, inside })
    }

    /// Where it listens, with the real port.
    pub(crate) const fn local_addr(&self) -> SocketAddr {
        self.door.local_addr()
    }

    /// Interrupts the commands that run there and closes the door.
    pub(crate) async fn close(self) {
        self.inside.closing.cancel();
        self.door.shutdown().await;
    }
}

fn router(inside: &Arc<Inside>, guards_all: bool) -> Router {
    let files = files::routes(&inside.host.peer);
    let router = rest::router(inside).merge(files).merge(dashboard::router());
    let router = if guards_all { router.route_layer(from_extractor::<Authorized>()) } else { router };
    router.merge(figures::health(inside))
}
