//! Services made of a function: it answers the calls that a test is about, and refuses the others.

use crate::prelude::*;
use futures::future::BoxFuture;
use nekoproto::{
    indexer::IndexerServiceResponse,
    peer::{PeerServiceRequest, PeerServiceResponse},
};
use tarpc::{ServerError, server::serve};

pub(crate) type Served<T> = BoxFuture<'static, Result<T, ServerError>>;

/// A service whose calls `answer` answers. An error is sent as the refusal of that kind of call.
macro_rules! service {
    ($name:ident, $request:ident, $response:ident: $($call:ident)*) => {
        pub fn $name<A>(
            answer: impl FnOnce(Context, $request) -> A + Clone,
        ) -> ServeFn<$request, $response, impl FnOnce(Context, $request) -> Served<$response> + Clone>
        where
            A: Future<Output = Result<$response, Refusal>> + Send + 'static,
        {
            serve(move |context, call| {
                let refused: fn(Refusal) -> $response = match &call {
                    $($request::$call { .. } => |why| $response::$call(Err(why)),)*
                };
                answer(context, call).map(move |answer| Ok(answer.unwrap_or_else(refused))).boxed()
            })
        }
    };
}

service! {
    indexer, IndexerServiceRequest, IndexerServiceResponse:
    Register Deregister Renew Query Invalidate Summarize QueryAll DeregisterAll Find CallBack Probe
}

service! {
    peer, PeerServiceRequest, PeerServiceResponse: Invalidate Confirm DialBack Reached Lend Introduce
}
