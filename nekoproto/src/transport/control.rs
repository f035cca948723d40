//! Control calls over one connection, both ways: tarpc above `duplex`.

use std::{
    io,
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
};

use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, pending, poll_fn},
    pin_mut,
};
use serde::{Serialize, de::DeserializeOwned};
use tarpc::{
    RequestName, ServerError,
    client::{self, NewClient, RequestDispatch},
    context::Context,
    server::{BaseChannel, Channel, Config, Serve},
};
use tracing::{debug, error};

use super::{
    duplex::{ClientHalf, split},
    io::Io,
};
use crate::limits::{CALLS_IN_FLIGHT_MAX, REQUESTS_IN_FLIGHT_MAX};

/// Runs one connection until it ends; to be spawned.
pub type Driver = BoxFuture<'static, ()>;

/// Serves `service` to the other end of `io`, and makes a client to call it.
///
/// `new_client` is the generated `…Client::new` of the service at the other end. Handlers are
/// polled on the task that runs the returned future, so a handler that computes for long holds
/// up its own connection and no other. When that future ends or is dropped, the connection
/// closes, every call of the client fails with [`RpcError`](tarpc::client::RpcError) and every
/// handler is dropped. It ends as soon as the other end closes the connection.
pub fn open<S, CReq, CResp, C>(
    io: Io,
    service: S,
    new_client: impl FnOnce(
        client::Config,
        ClientHalf<S::Req, S::Resp, CReq, CResp>,
    ) -> NewClient<
        C,
        RequestDispatch<CReq, CResp, ClientHalf<S::Req, S::Resp, CReq, CResp>>,
    >,
) -> (C, impl Future<Output = ()>)
where
    S: Serve + Clone,
    S::Req: DeserializeOwned,
    S::Resp: Serialize,
    CReq: Serialize + RequestName,
    CResp: DeserializeOwned,
{
    let ended = Arc::new(AtomicBool::new(false));
    let (server_half, client_half) = split(io, Arc::clone(&ended));
    let NewClient { client, dispatch } = new_client(client_config(), client_half);
    let channel = BaseChannel::new(Config::default(), server_half);
    let requests = channel.max_concurrent_requests(REQUESTS_IN_FLIGHT_MAX).requests();
    let driver = async move {
        let serving = requests.execute(CatchPanic(service)).for_each_concurrent(None, |handler| handler);
        let calling = async {
            match dispatch.await {
                Ok(()) => pending().await, // no caller is left, or the connection ended, which `over` sees
                Err(error) => debug!(%error, "control connection broke"),
            }
        };
        // Needs no waker: only polling the two others sets it, and it is polled after them. Without
        // it the handlers would go on, up to their deadlines, for a caller that is gone.
        let over = poll_fn(|_| if ended.load(Ordering::Relaxed) { Poll::Ready(()) } else { Poll::Pending });
        pin_mut!(serving, calling);
        tokio::select! {
            biased;
            () = serving => {}
            () = calling => {}
            () = over => {}
        }
    };
    (client, driver)
}

fn client_config() -> client::Config {
    let mut config = client::Config::default();
    config.max_in_flight_requests = CALLS_IN_FLIGHT_MAX;
    config
}

/// Answers an error when the handler panics; without it the caller would wait in vain.
#[derive(Clone)]
struct CatchPanic<S>(S);

impl<S: Serve> Serve for CatchPanic<S> {
    type Req = S::Req;
    type Resp = S::Resp;

    async fn serve(self, context: Context, request: S::Req) -> Result<S::Resp, ServerError> {
        let handling = AssertUnwindSafe(self.0.serve(context, request));
        handling.catch_unwind().await.unwrap_or_else(|_| {
            error!("a handler panicked");
            Err(ServerError::new(io::ErrorKind::Other, "the handler panicked".to_owned()))
        })
    }
}
