//! Traces: the way that a query, or a route probe, takes, from all indexers concurrently.

use std::time::{Duration, Instant};

use futures::future::join_all;
use nekoproto::{
    FileName, IndexerServiceClient, MsgId, NoAnswer, QueryRequest, Refusal, TraceHop, TraceReply,
    probe::{ProbeReply, ProbeRequest},
    transport::call_within,
};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use tarpc::{client::RpcError, context::Context};

use super::{Indexers, SearchError, session::Session};

impl Indexers {
    /// Follows a query for `name`: one tree for each own indexer, in the order in which they were given. Nothing in
    /// it is signed; see [`TraceReply`].
    pub(crate) async fn trace(&self, name: &FileName, ttl_hops: u8) -> Result<Vec<TraceReply>, SearchError> {
        if self.sessions.is_empty() {
            return Err(SearchError::NoIndexer);
        }
        // The same id for all indexers, as a query has: the network handles it once.
        let request = QueryRequest::new(MsgId::random(), name.clone(), ttl_hops);
        let call = |client: IndexerServiceClient, context| {
            let request = request.clone();
            async move { client.trace(context, request).await }
        };
        let answers = self.ask_each(call).await;
        let trees = answers.map(|(session, answer, waited_us)| tree(session, &request, answer, waited_us));
        let trees: Vec<TraceReply> = trees.collect();
        let is_answered = trees.iter().flat_map(|tree| tree.hops.first()).any(|hop| hop.answer.is_ok());
        self.unless_refused(trees, is_answered)
    }

    /// Sends a route probe with this number of hops through each own indexer, in the order in which they were given.
    /// Nothing in what they answer is signed; see [`ProbeReply`].
    pub(crate) async fn probe(&self, hops: u8) -> Result<Vec<Probed>, SearchError> {
        if self.sessions.is_empty() {
            return Err(SearchError::NoIndexer);
        }
        let call = |client: IndexerServiceClient, context| async move {
            client.probe(context, ProbeRequest::new(MsgId::random(), hops)).await
        };
        let ways = self.ask_each(call).await.map(|(session, answer, waited_us)| Probed {
            addr: session.addr(),
            waited_us,
            way: session.remote().map_or(Err(NoAnswer::Away), |node| ProbeReply::checked(answer, node, hops)),
        });
        let ways: Vec<Probed> = ways.collect();
        let is_answered = ways.iter().any(|probed| probed.way.is_ok());
        self.unless_refused(ways, is_answered)
    }

    /// Calls each own indexer; what it answered, and how many microseconds that took.
    async fn ask_each<T, F: Future<Output = Result<Result<T, Refusal>, RpcError>>>(
        &self,
        call: impl Fn(IndexerServiceClient, Context) -> F,
    ) -> impl Iterator<Item = (&Session, Result<T, NoAnswer>, u32)> {
        let has_others = self.sessions.len() > 1;
        let asked = self.sessions.iter().map(async |session| {
            let (began, asking) = (Instant::now(), ask(session, self.query_deadline, &call));
            let answer = session.while_alive(has_others, asking).await.unwrap_or(Err(NoAnswer::Late));
            let waited_us = u32::try_from(began.elapsed().as_micros()).unwrap_or(u32::MAX);
            (session, answer, waited_us)
        });
        join_all(asked).await.into_iter()
    }

    /// The answers, unless there is none because this node is refused.
    fn unless_refused<T>(&self, answers: Vec<T>, is_answered: bool) -> Result<Vec<T>, SearchError> {
        match self.sessions.iter().find_map(Session::refusal).filter(|_| !is_answered) {
            Some(refusal) => Err(refusal),
            None => Ok(answers),
        }
    }
}

/// Which way a route probe went from one own indexer on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Probed {
    /// The indexer.
    pub addr: SocketAddr,
    /// Microseconds until it answered, or was given up.
    pub waited_us: u32,
    /// What it answered.
    pub way: Result<ProbeReply, NoAnswer>,
}

async fn ask<T, F: Future<Output = Result<Result<T, Refusal>, RpcError>>>(
    session: &Session,
    patience: Duration,
    call: &impl Fn(IndexerServiceClient, Context) -> F,
) -> Result<T, NoAnswer> {
    let began = Instant::now();
    match session.client_within(patience).await {
        None => Err(NoAnswer::Away),
        Some(client) => {
            let left = patience.saturating_sub(began.elapsed());
            match call(client, call_within(left)).await {
                Ok(Ok(reply)) => Ok(reply),
                Ok(Err(refusal)) => Err(NoAnswer::Refused(refusal)),
                Err(RpcError::DeadlineExceeded) => Err(NoAnswer::Late),
                Err(_) => Err(NoAnswer::Failed),
            }
        }
    }
}

/// The tree whose root is the indexer of `session`.
fn tree(
    session: &Session,
    request: &QueryRequest,
    answer: Result<TraceReply, NoAnswer>,
    waited_us: u32,
) -> TraceReply {
    let asked = TraceHop {
        node: session.remote(),
        addr: Some(session.addr()),
        waited_us,
        ..TraceHop::of(Err(NoAnswer::Nonsense))
    };
    TraceReply::checked(answer, request.ttl_hops, asked)
}
