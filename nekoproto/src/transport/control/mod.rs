//! Control calls over one connection, both ways: tarpc's services and clients on a driver of this crate.
//!
//! Of tarpc this uses what it generates from a service trait: requests, clients, dispatch to handlers. Its
//! channels are not used: they pass each call between tasks several times and set two timers for it, which
//! costs more than the rest of the call (`docs/performance.md`).

pub(super) mod calls;
pub(super) mod deadline;
mod driver;
pub(super) mod frame;
mod outgoing;
mod serving;
mod slice;

use std::{
    future::{Future, poll_fn},
    io,
    panic::AssertUnwindSafe,
    task::Poll,
};

use futures::{FutureExt, future::BoxFuture};
use serde::{Serialize, de::DeserializeOwned};
use tarpc::{ServerError, server::Serve};
use tracing::error;

use self::{calls::Calls, driver::ConnectionDriver, slice::Slice};
use super::node_io::NodeIo;
use crate::tasks::Stop;

/// A future that runs one connection until it ends; to be spawned.
pub type Driver = BoxFuture<'static, ()>;

/// Serves `service` to the other end of `io`, and makes a client to call it.
///
/// `new_client` is the generated `…Client::from` of the service at the other end. Handlers are polled on the
/// task that runs the returned future, which works in slices: between two of its requests other connections go on,
/// but a handler that computes for long delays them all. The future ends when the other end closes the connection, takes
/// more than its share of the budget, or has to give way. When it ends or is dropped, the connection closes, every call
/// of the client fails with [`RpcError`](tarpc::client::RpcError) and every handler is dropped.
pub fn open<S, CReq, CResp, C>(
    io: NodeIo,
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
        // Uncaught, a panic would end the connection and its other calls.
        AssertUnwindSafe(service.clone().serve(context, request)).catch_unwind().map(|served| {
            served.unwrap_or_else(|_| {
                error!("a handler panicked");
                Err(ServerError::new(io::ErrorKind::Other, "the handler panicked".to_owned()))
            })
        })
    };
    let mut ended = Stop::new(io.activity.ended().clone());
    let mut driver = ConnectionDriver::new(io, table, serve);
    let run = poll_fn(move |cx| {
        if ended.is_cancelled(cx) {
            return Poll::Ready(());
        }
        let mut slice = Slice::default();
        let polled = driver.poll_run(cx, &mut slice);
        slice.end(cx);
        polled
    });
    (new_client(calls), run)
}
