//! Traces: the way that a query takes, from all indexers concurrently.

use std::time::{Duration, Instant};

use futures::future::join_all;
use nekoproto::{
    FileName, MsgId, NoAnswer, QueryReply, QueryRequest, TraceHop, TraceReply,
    transport::{call_within, is_found},
};
use tarpc::client::RpcError;
use tokio_util::sync::CancellationToken;

use super::{
    Indexers,
    search::{Asked, no_indexer},
    session::Session,
};
use crate::failure::Failure;

impl Indexers {
    /// Follows a query for `name`: one tree for each own indexer, in the order in which they were given. Nothing in
    /// it is signed; see [`TraceReply`].
    pub(crate) async fn trace(&self, name: &FileName, ttl_hops: u8) -> Result<Vec<TraceReply>, Failure> {
        if self.sessions.is_empty() {
            return Err(no_indexer());
        }
        // The same id for all indexers, as every query has: the network handles it once.
        let request =
            QueryRequest { trace: true, ..QueryRequest::new(MsgId::random(), name.clone(), ttl_hops) };
        let first = CancellationToken::new();
        let asked = self.sessions().map(async |session| {
            let (began, asking) = (Instant::now(), ask(session, self.query_deadline, request.clone()));
            let reply = session.while_alive(&first, asking).await.unwrap_or(Err(NoAnswer::Late));
            let asked = TraceHop {
                node: session.remote(),
                addr: Some(session.addr()).filter(|addr| is_found(*addr)),
                waited_us: u32::try_from(began.elapsed().as_micros()).unwrap_or(u32::MAX),
                ..TraceHop::of(Err(NoAnswer::Nonsense))
            };
            TraceReply::checked(reply.map(|reply| reply.trace), ttl_hops, asked)
        });
        let trees = join_all(asked).await;
        let is_answered = trees.iter().flat_map(|tree| tree.hops.first()).any(|hop| hop.answer.is_ok());
        if is_answered {
            return Ok(trees);
        }
        join_all(self.sessions().map(Session::refused)).await; // by then it is noted
        self.sessions().find_map(Session::refusal).map_or(Ok(trees), Err)
    }
}

async fn ask(session: &Session, limit: Duration, request: QueryRequest) -> Result<QueryReply, NoAnswer> {
    match Asked::Session(session).client(limit).await {
        Err(_) => Err(NoAnswer::Away),
        Ok((client, _, limit)) => match client.query(call_within(limit), request).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(refusal)) => Err(NoAnswer::Refused(refusal)),
            Err(RpcError::DeadlineExceeded) => Err(NoAnswer::Late),
            Err(_) => Err(NoAnswer::Failed),
        },
    }
}
