//! Control calls over one connection, both ways: tarpc's services and clients above a driver of our own.
//!
//! Of tarpc this uses what it generates from a service trait: the requests, the clients, the dispatch to
//! handlers. Its channels are not used: they hand each call from task to task several times and set two
//! timers for it, which costs more than all else in a call together (`docs/performance.md`).

use std::{
    future::{Future, poll_fn},
    io,
    panic::AssertUnwindSafe,
};

use futures::{FutureExt, future::BoxFuture};
use serde::{Serialize, de::DeserializeOwned};
use tarpc::{ServerError, server::Serve};
use tracing::error;

use super::{calls::Calls, driver::Connection, io::Io};

/// Runs one connection until it ends; to be spawned.
pub type Driver = BoxFuture<'static, ()>;

/// Serves `service` to the other end of `io`, and makes a client to call it.
///
/// `new_client` is the generated `…Client::from` of the service at the other end. Handlers are
/// polled on the task that runs the returned future, so a handler that computes for long holds
/// up its own connection and no other. When that future ends or is dropped, the connection
/// closes, every call of the client fails with [`RpcError`](tarpc::client::RpcError) and every
/// handler is dropped. It ends as soon as the other end closes the connection.
pub fn open<S, CReq, CResp, C>(
    io: Io,
    service: S,
    new_client: impl FnOnce(Calls<CReq, CResp>) -> C,
) -> (C, impl Future<Output = ()>)
where
    S: Serve + Clone,
    S::Req: DeserializeOwned,
    S::Resp: Serialize,
    CReq: Serialize,
    CResp: DeserializeOwned,
{
    let (calls, table) = Calls::new();
    let serve = move |context, request| {
        // Without this a panic would end the connection, and its other calls with it.
        AssertUnwindSafe(service.clone().serve(context, request)).catch_unwind().map(|served| {
            served.unwrap_or_else(|_| {
                error!("a handler panicked");
                Err(ServerError::new(io::ErrorKind::Other, "the handler panicked".to_owned()))
            })
        })
    };
    let mut connection = Connection::new(io, table, serve);
    (new_client(calls), poll_fn(move |cx| connection.poll_run(cx)))
}
