//! The HTTP door of a running peer: its commands, for programs and for browsers.
//!
//! It answers on threads of its own and has commands carried out on the runtime of the peer. Each part of it is a
//! router over what they all share, [`Inside`].

mod dashboard;
mod figures;
pub(crate) mod files;

use std::{io, net::SocketAddr, num::NonZeroUsize, sync::Arc};

use axum::{Router, middleware::from_extractor};
use nekoindexer::daemon::http::{Authorized, Guard, HttpConfig, HttpDoor, guarded};

use crate::api::{
    Host,
    rest::{self, Inside},
};

const THREADS: NonZeroUsize = NonZeroUsize::new(2).expect("2 is not 0");

/// Opens the door of `host` at `listen`; dropping it closes it. Changing routes ask for the token of `guard`; so does
/// everything but whether the process lives, where the network `is_private` and others than this machine reach the door. To be
/// called on the runtime of the peer.
pub(crate) fn open(
    listen: SocketAddr,
    host: &Arc<Host>,
    guard: Guard,
    is_private: bool,
) -> io::Result<HttpDoor> {
    let router = router(&Inside::of(host), is_private && !listen.ip().is_loopback());
    HttpDoor::open(HttpConfig { listen, threads: THREADS }, guarded(router, guard))
}

fn router(inside: &Arc<Inside>, guards_all: bool) -> Router {
    let files = files::routes(&inside.host.peer);
    let router = rest::router(inside, figures::routes(), figures::health_routes())
        .merge(files)
        .merge(dashboard::router());
    let router = if guards_all { router.route_layer(from_extractor::<Authorized>()) } else { router };
    router.merge(Router::from(figures::health_routes()).with_state(Arc::clone(inside)))
}
