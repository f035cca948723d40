//! From a name to hits: asks the indexers at once, believes only what is signed.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream::FuturesUnordered};
use nekoproto::{
    Covered, FileName, IndexerServiceClient, MsgId, QueryReply, QueryRequest, Refusal, VerifiedRecord,
};
use tarpc::client::RpcError;

use crate::{
    session::{Session, within},
    shared::Shared,
    state::choice::Candidate,
    watch,
};

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The own indexers alone.
    Own,
    /// Also those within so many hops of them.
    Network {
        /// Hops beyond the own indexers.
        ttl_hops: u8,
    },
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The newest version of each origin, with holders; all signatures hold.
    pub candidates: Vec<Candidate>,
    /// Whether everybody in reach answered, and with nothing but the truth.
    pub complete: bool,
}

/// Why nobody could be asked.
#[derive(Debug, thiserror::Error)]
pub enum LocateError {
    /// No indexer is configured.
    #[error("no indexer is given: name one with --indexer ADDR")]
    NoIndexer,
    /// None of the indexers answered.
    #[error("indexer {indexer} cannot be asked: {why}")]
    Unreachable {
        /// One of them.
        indexer: SocketAddr,
        /// Why.
        why: String,
    },
    /// The indexer refused.
    #[error("the indexer refused the query: {0}")]
    Refused(#[from] Refusal),
}

/// Asks for `name`.
///
/// # Errors
/// No indexer answered. If only some did, the answer is not complete.
pub(crate) async fn ask(shared: &Arc<Shared>, name: &FileName, scope: Scope) -> Result<Answer, LocateError> {
    let deadline = Instant::now() + shared.config.query_deadline;
    let request = QueryRequest {
        msg_id: MsgId::random(),
        name: name.clone(),
        ttl_hops: match scope {
            Scope::Own => 0,
            Scope::Network { ttl_hops } => ttl_hops,
        },
        covered: Covered::new(),
    };
    let mut answers: FuturesUnordered<_> =
        shared.sessions.iter().map(|session| ask_one(session, scope, request.clone(), deadline)).collect();
    let mut merged = Answer { candidates: Vec::new(), complete: true };
    let (mut answered, mut failure) = (false, LocateError::NoIndexer);
    while let Some(answer) = answers.next().await {
        match answer {
            Ok(reply) => {
                answered = true;
                absorb(shared, &mut merged, name, reply);
            }
            Err(error) => {
                merged.complete = false;
                failure = error;
            }
        }
    }
    if !answered {
        return Err(failure);
    }
    let records = merged.candidates.iter().map(|candidate| candidate.record.clone()).collect();
    watch::learn(shared, records).await;
    Ok(merged)
}

async fn ask_one(
    session: &Session,
    scope: Scope,
    request: QueryRequest,
    deadline: Instant,
) -> Result<QueryReply, LocateError> {
    let left = || deadline.saturating_duration_since(Instant::now());
    let unreachable = |why: String| LocateError::Unreachable { indexer: session.link.addr(), why };
    let Some(client) = session.client_within(left()).await else {
        return Err(unreachable(session.why_away()));
    };
    let answer = call(&client, scope, request, left()).await;
    Ok(answer.map_err(|error| unreachable(error.to_string()))??)
}

async fn call(
    client: &IndexerServiceClient,
    scope: Scope,
    request: QueryRequest,
    left: Duration,
) -> Result<Result<QueryReply, Refusal>, RpcError> {
    match scope {
        Scope::Own => client.search(within(left), request.name).await,
        Scope::Network { .. } => client.query(within(left), request).await,
    }
}

/// Takes in one reply: unsigned, misnamed or unusable parts are left out and make it incomplete.
fn absorb(shared: &Shared, merged: &mut Answer, name: &FileName, reply: QueryReply) {
    merged.complete &= reply.complete;
    for hit in reply.hits {
        let verified = shared.verifier.verify(hit.record).ok().filter(|record| record.name == *name);
        let Some(record) = verified else {
            merged.complete = false;
            continue;
        };
        let usable =
            |addr: &SocketAddr| addr.port() != 0 && !addr.ip().is_unspecified() && !addr.ip().is_multicast();
        let holders = hit.holders.into_iter().filter(|holder| usable(&holder.addr)).collect();
        add(&mut merged.candidates, Candidate { record, holders });
    }
}

fn add(candidates: &mut Vec<Candidate>, fresh: Candidate) {
    let same_file = |known: &&mut Candidate| known.record.same_file(&fresh.record);
    let newer = |a: &VerifiedRecord, b: &VerifiedRecord| a.version > b.version;
    match candidates.iter_mut().find(same_file) {
        None => candidates.push(fresh),
        Some(known) if newer(&fresh.record, &known.record) => *known = fresh,
        Some(known) if fresh.record == known.record => {
            for holder in fresh.holders {
                if !known.holders.contains(&holder) {
                    known.holders.push(holder);
                }
            }
        }
        Some(_) => {}
    }
}
